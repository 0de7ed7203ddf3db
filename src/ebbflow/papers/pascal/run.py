"""Run the loads of §7.1.5 under each strategy in the simulator, every load with every seed.

As in the paper, the strategies know what was learned before the run: the profile of the topology, from half an hour of
a stair (§7), and the workload model, from the past of the load. Metrics, as means over the seeds:

    nodes_saved        1 − node-seconds ÷ (4 nodes × duration)
    latency_mean_s     from the arrival of a tuple to its completion
    failed             share of the tuples that took longer than the time-out
    throughput_per_s   tuples completed ÷ duration
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ebbflow.control.loop import CycleReport
from ebbflow.core.ports import Strategy
from ebbflow.core.run import Run
from ebbflow.forecasting.load_forecast import STEP_S
from ebbflow.forecasting.port import Forecaster
from ebbflow.forecasting.registry import make_forecaster
from ebbflow.papers import SIMULATOR
from ebbflow.papers.elysium.calibration import LIMITS
from ebbflow.papers.elysium.run import RunCurves
from ebbflow.papers.pascal.calibration import PIPELINE, scenario
from ebbflow.papers.pascal.loads import PastAndPresent
from ebbflow.papers.pascal.published import PROACTIVE, REACTIVE, SECTION_7_1_5, STATIC, STRATEGIES, Published
from ebbflow.papers.rows import run_rows
from ebbflow.profiling.estimator import Estimator
from ebbflow.profiling.fitting import ALL
from ebbflow.profiling.profile import Profile
from ebbflow.profiling.profile_learner import ProfileLearner
from ebbflow.runs.score import score, waits_of
from ebbflow.runs.simulation import run_simulation
from ebbflow.strategies.proactive import Proactive
from ebbflow.strategies.static import Static
from ebbflow.workloads import parse_load

PROFILED_WITH = "stair(base=100, peak=1800, steps=8, hold=105s)"
PROFILED_S = 1785.0
"""The profiling phase: "a stair-shaped curve" for 30 minutes (§7)."""
FORECASTERS = {PROACTIVE: "mixture", REACTIVE: "last-value"}
ASSESSED_EVERY_S = 300.0
"""The assessment period of the paper (§7.1.4), for both."""


# -- models ----------------------------------------------------------------------------------------------------


def learn_profile(seed: int = 99) -> Profile:
    """The profile of the topology, learned on four nodes."""
    learner = ProfileLearner(PIPELINE, kinds=ALL, target="simulator")

    def learn(report: CycleReport) -> None:
        if report.observation is not None:
            learner.learn(report.observation.readings, report.observation.batches)

    stair = scenario(parse_load(PROFILED_WITH), PROFILED_S, nodes=LIMITS.max_nodes, seed=seed)
    run_simulation(stair, Static(), guards=(), on_cycle=learn)
    return learner.profile()


def learn_workload(load: PastAndPresent, forecaster: str) -> Forecaster:
    """A forecaster that has seen the past of a load."""
    made = make_forecaster(forecaster, STEP_S)
    for end_s, rate_per_s in load.history(STEP_S):
        made.learn(end_s, rate_per_s)
    return made


def strategy_for(
    name: str, load: PastAndPresent, profile: Profile, *, assess_s: float = ASSESSED_EVERY_S
) -> Strategy:
    """A new strategy for one run of a load. Reactive scaling differs from proactive only in its forecaster."""
    if name == STATIC:
        return Static()
    kind = FORECASTERS[name]
    known = Estimator(PIPELINE, profile, forecaster=learn_workload(load, kind))
    return Proactive({PIPELINE.name: known}, forecaster=kind, assess_s=assess_s)


# -- metrics ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """The metrics of one run, or their means over several."""

    nodes_saved: float
    latency_mean_s: float
    failed: float
    throughput_per_s: float
    throughput_degradation: float
    reconfigurations: float

    @classmethod
    def of(cls, run: Run) -> Metrics:
        """Of one run; its SLO is the time-out."""
        scores = score(run, oracle_node_seconds=None)
        return cls(
            nodes_saved=scores.nodes_saved or 0.0,
            latency_mean_s=waits_of(run).mean_s or 0.0,
            failed=scores.violation or 0.0,
            throughput_per_s=scores.rows_out / (run.ended_s - run.started_s),
            throughput_degradation=scores.throughput_degradation or 0.0,
            reconfigurations=float(scores.reconfigurations or 0),
        )

    @classmethod
    def mean(cls, each: Sequence[Metrics]) -> Metrics:
        """The mean of each metric."""
        rows = [asdict(metrics) for metrics in each]
        return cls(**{name: statistics.fmean(row[name] for row in rows) for name in rows[0]})

    def to_json(self) -> dict[str, float]:
        """As JSON values."""
        return {name: round(value, 4) for name, value in asdict(self).items()}


@dataclass(frozen=True, kw_only=True)
class Result:
    """A load under a strategy: means over the runs, and the curves of the first."""

    load: str
    strategy: str
    metrics: Metrics
    runs: int
    target: str = SIMULATOR
    note: str = ""
    curves: RunCurves | None = field(default=None, compare=False)

    @property
    def published(self) -> Published | None:
        """What the paper reports."""
        return SECTION_7_1_5.get((self.load, self.strategy))

    def to_json(self) -> dict[str, Any]:
        """A row of ``ebbflow bench pascal --json``."""
        row: dict[str, Any] = {"load": self.load, "strategy": self.strategy, "target": self.target}
        row.update(self.metrics.to_json())
        row["runs"] = self.runs
        row["published"] = None if self.published is None else self.published.to_json()
        if self.note:
            row["note"] = self.note
        return row


# -- runs ------------------------------------------------------------------------------------------------------


def run_load(
    load: PastAndPresent, strategy: Strategy, *, seed: int = 1, with_curves: bool = False
) -> tuple[Metrics, RunCurves | None]:
    """Run a load once: one node at the start, all of them under ``static``."""
    nodes = LIMITS.max_nodes if isinstance(strategy, Static) else LIMITS.min_nodes
    run = run_simulation(scenario(load.load, load.seconds, nodes=nodes, seed=seed), strategy).run
    return Metrics.of(run), RunCurves.of({load.name: run}, {}) if with_curves else None


def _run_row(
    profile: Profile, row: tuple[PastAndPresent, str], seed: int
) -> tuple[Metrics, RunCurves | None]:
    load, name = row
    return run_load(load, strategy_for(name, load, profile), seed=seed, with_curves=seed == 1)


def run_loads(
    loads: Sequence[PastAndPresent],
    profile: Profile,
    *,
    strategies: Sequence[str] = STRATEGIES,
    seeds: int = 3,
    workers: int | None = None,
    on_done: Callable[[], None] = lambda: None,
) -> list[Result]:
    """Run every load under every strategy with every seed, on all cores by default."""
    rows = [(load, name) for load in loads for name in strategies]
    found = run_rows(
        _run_row,
        profile,
        rows,
        name=lambda row: f"{row[1]} on {row[0].name}",
        seeds=seeds,
        workers=workers,
        on_done=on_done,
    )
    return [
        Result(
            load=load.name,
            strategy=name,
            metrics=Metrics.mean(metrics),
            runs=seeds,
            note=load.note,
            curves=curves,
        )
        for (load, name), (metrics, curves) in zip(rows, found, strict=True)
    ]
