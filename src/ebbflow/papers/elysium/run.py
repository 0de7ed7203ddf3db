"""Run the rows of Figure 9 in the simulator, every row with every seed, and measure them with the metrics of §5.1.

``throughput_degradation`` and ``nodes_saved`` come from ``runs.score``. The paper defines them in the same way, with
two differences. Its Σc/(N·C) counts the nodes chosen at each assessment; ours counts the node-seconds held. And the
value of |in − out|/in depends on the window: a pause of 7 s that is made up for within a minute nearly vanishes in
windows of a minute, which the monitor of the paper (§4) and ``runs.score`` use. The values of Figure 9 cannot come from
such windows: one rebalance per minute scores 0.64 there (§5.2). So there are two figures: ``throughput_degradation`` as
everywhere in Ebbflow, and ``throughput_degradation_unsmoothed`` second by second, where both the pause and the catching
up count.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ebbflow.control.loop import CycleReport
from ebbflow.core.ports import Strategy
from ebbflow.core.run import Run
from ebbflow.papers import SIMULATOR
from ebbflow.papers.elysium.calibration import SAMPLED_EVERY_S
from ebbflow.papers.elysium.cases import Case
from ebbflow.papers.elysium.foresight import Foresight
from ebbflow.papers.elysium.models import Models
from ebbflow.papers.elysium.published import PROACTIVE
from ebbflow.papers.rows import run_rows
from ebbflow.papers.studies import Points
from ebbflow.runs.score import by_rows, score, waits_of
from ebbflow.runs.simulation import run_simulation

GENERATED = "no Twitter trace was given; a generated day of a web service is used"


# -- metrics ---------------------------------------------------------------------------------------------------


def unsmoothed_degradation(run: Run) -> float | None:
    """Mean of |in − out| / in over samples that do not overlap, without those that have no input.

    A sample is one second, or two typical gaps between commits if that is longer (micro-batches).

    100 rows/s, a pause of 2 s, then all of it at once: 1 in the second and third second, 2 in the fourth.

    >>> from ebbflow.core.curve import Curve
    >>> from ebbflow.core.limits import Limits
    >>> from ebbflow.core.slo import Slo
    >>> run = Run(
    ...     strategy="static", pipeline="p", slo=Slo(freshness_s=4.0), limits=Limits.parse("1:4"), started_s=0.0,
    ...     ended_s=8.0, arrived=Curve.of([(0, 0), (8, 800)]),
    ...     processed=Curve.of([(0, 0), (1, 100), (2, 100), (3, 100), *((t, 100 * t) for t in range(4, 9))]),
    ...     nodes=Curve.of([(0, 2)]), nodes_working=Curve.of([(0, 2)]),
    ... )
    >>> unsmoothed_degradation(run)
    0.5
    """
    if not len(run.arrived) or len(run.processed) < 2:
        return None
    commits_s = run.processed.times_s[np.concatenate(([True], np.diff(run.processed.values) > 0))]
    gap_s = float(np.median(np.diff(commits_s))) if len(commits_s) > 1 else 0.0
    every_s = 1.0 if gap_s <= 1.0 else 2.0 * gap_s
    edges_s = np.arange(run.started_s, run.ended_s + 1e-9, every_s)
    rows_in, rows_out = np.diff(run.arrived.interpolated(edges_s)), np.diff(run.processed.stepped(edges_s))
    if not rows_in.any():
        return None
    fed = rows_in > 0.01 * np.mean(rows_in)
    return float(np.mean(np.abs(rows_in - rows_out)[fed] / rows_in[fed]))


@dataclass(frozen=True, kw_only=True)
class RowMetrics:
    """The metrics of one run, or their means over several runs. None is unknown."""

    throughput_degradation: float | None
    throughput_degradation_unsmoothed: float | None
    nodes_saved: float | None
    latency_mean_s: float | None
    reconfigurations: float | None
    foresight: Foresight | None = None
    """Only for proactive runs."""

    @classmethod
    def of(cls, runs: Sequence[Run]) -> RowMetrics:
        """From the pipelines of one run, which share its nodes. Means are weighted by rows."""
        scores = [score(run, oracle_node_seconds=None) for run in runs]
        rows = [each.rows_in for each in scores]

        def weighted(values: Sequence[float | None]) -> float | None:
            return by_rows(list(zip(values, rows, strict=True)))

        return cls(
            throughput_degradation=weighted([each.throughput_degradation for each in scores]),
            throughput_degradation_unsmoothed=weighted([unsmoothed_degradation(run) for run in runs]),
            nodes_saved=scores[0].nodes_saved,
            latency_mean_s=weighted([waits_of(run).mean_s for run in runs]),
            reconfigurations=scores[0].reconfigurations,
            foresight=Foresight.of(runs) if runs[0].strategy == PROACTIVE else None,
        )

    @classmethod
    def mean(cls, each: Sequence[RowMetrics]) -> RowMetrics:
        """The mean of each metric over the runs for which it is known."""

        def over(of: Callable[[RowMetrics], float | None]) -> float | None:
            known = [value for value in map(of, each) if value is not None]
            return statistics.fmean(known) if known else None

        return cls(
            throughput_degradation=over(lambda m: m.throughput_degradation),
            throughput_degradation_unsmoothed=over(lambda m: m.throughput_degradation_unsmoothed),
            nodes_saved=over(lambda m: m.nodes_saved),
            latency_mean_s=over(lambda m: m.latency_mean_s),
            reconfigurations=over(lambda m: m.reconfigurations),
            foresight=Foresight.mean([m.foresight for m in each if m.foresight is not None]),
        )


# -- curves ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class RunCurves:
    """A run for charts: a point every 10 s, and steps for nodes and parallelism."""

    load: Mapping[str, Points]
    """Rows per second that arrived, by application."""
    throughput: Mapping[str, Points]
    latency: Mapping[str, Points]
    """Mean time from arrival to completion of the rows completed in the 10 s up to each point; no point if there were
    none. Weighted by rows, the mean of these is ``RowMetrics.latency_mean_s``."""
    nodes: Points
    parallelism: Mapping[str, Points]
    """Planned instances of each operator."""

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "load": dict(self.load),
            "throughput": dict(self.throughput),
            "latency_s": dict(self.latency),
            "nodes": self.nodes,
            "parallelism": dict(self.parallelism),
        }

    @classmethod
    def from_json(cls, curves: Mapping[str, Any]) -> RunCurves:
        """From the output of ``to_json``."""

        def by_name(name: str) -> dict[str, Points]:
            return {key: [(x, y) for x, y in points] for key, points in curves[name].items()}

        return cls(
            load=by_name("load"),
            throughput=by_name("throughput"),
            latency=by_name("latency_s"),
            nodes=[(x, y) for x, y in curves["nodes"]],
            parallelism=by_name("parallelism"),
        )

    @classmethod
    def of(cls, runs: Mapping[str, Run], parallelism: Mapping[str, Points]) -> RunCurves:
        """From the pipelines of one run, by application."""
        first = next(iter(runs.values()))
        times_s = np.arange(first.started_s, first.ended_s + 1e-9, SAMPLED_EVERY_S)
        since_s = times_s - first.started_s
        load, throughput, latency = {}, {}, {}
        for name, run in runs.items():
            arrived, done = run.arrived.interpolated(times_s), run.processed.stepped(times_s)
            load[name] = _points(since_s[1:], np.diff(arrived) / SAMPLED_EVERY_S)
            throughput[name] = _points(since_s[1:], np.diff(done) / SAMPLED_EVERY_S)
            waits_s = [
                waits_of(replace(run, started_s=begin_s, ended_s=end_s)).mean_s
                for begin_s, end_s in itertools.pairwise(times_s.tolist())
            ]
            known = [
                (t, wait_s) for t, wait_s in zip(since_s[1:], waits_s, strict=True) if wait_s is not None
            ]
            latency[name] = _points(*zip(*known, strict=True)) if known else []
        steps = [
            (float(t) - first.started_s, float(n))
            for t, n in zip(first.nodes.times_s, first.nodes.values, strict=True)
        ]
        end_s = first.ended_s - first.started_s
        nodes = [(max(t, 0.0), n) for t, n in steps if t <= end_s]
        nodes.append((end_s, nodes[-1][1]))
        return cls(load=load, throughput=throughput, latency=latency, nodes=nodes, parallelism=parallelism)


def _points(times_s: Any, values: Any) -> Points:
    return [(round(float(t), 1), round(float(v), 2)) for t, v in zip(times_s, values, strict=True)]


@dataclass
class ParallelismRecorder:
    """Records when the planned number of instances of an operator changes."""

    started_s: float = 0.0
    parallelism: dict[str, Points] = field(default_factory=dict)

    def record(self, report: CycleReport) -> None:
        """Record the plan of one cycle."""
        if report.planned is None or report.observation is None:
            return
        time_s = max(0.0, report.observation.time_s - self.started_s)
        for operator, instances in report.planned.parallelism.items():
            steps = self.parallelism.setdefault(operator, [])
            if not steps or steps[-1][1] != instances:
                steps.append((round(time_s, 1), float(instances)))

    def until(self, end_s: float) -> dict[str, Points]:
        """The steps, with the last value extended to the end."""
        return {name: [*steps, (end_s, steps[-1][1])] for name, steps in self.parallelism.items()}


# -- runs ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Result:
    """A row of the table: metrics as means over its runs, and the curves of the first run."""

    case: Case
    target: str
    metrics: RowMetrics
    runs: int
    curves: RunCurves | None = field(default=None, compare=False)

    def to_json(self) -> dict[str, Any]:
        """A row of ``ebbflow bench elysium --json``."""
        key, metrics, published = self.case.key, self.metrics, self.case.published
        row: dict[str, Any] = {
            "application": key.application,
            "load": key.load,
            "strategy": key.strategy,
            "setting": key.setting,
            "target": self.target,
            "throughput_degradation": _rounded(metrics.throughput_degradation),
            "throughput_degradation_unsmoothed": _rounded(metrics.throughput_degradation_unsmoothed),
            "nodes_saved": _rounded(metrics.nodes_saved),
            "latency_mean_s": _rounded(metrics.latency_mean_s),
            "reconfigurations": _rounded(metrics.reconfigurations),
            "runs": self.runs,
            "published": None if published is None else published.to_json(),
        }
        if metrics.foresight is not None:
            row["foresight"] = metrics.foresight.to_json()
        if not self.case.traced:
            row["note"] = GENERATED
        return row


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def run_case(
    case: Case, strategy: Strategy, seed: int = 1, *, with_curves: bool = False
) -> tuple[RowMetrics, RunCurves | None]:
    """Run a case once under a strategy."""
    recorder = ParallelismRecorder()
    simulation = run_simulation(case.scenario(seed), strategy, on_cycle=recorder.record)
    metrics = RowMetrics.of(simulation.runs)
    if not with_curves:
        return metrics, None
    applications = [application for application, _ in case.loads]
    runs = dict(zip(applications, simulation.runs, strict=True))
    return metrics, RunCurves.of(runs, recorder.until(case.seconds))


def _run_case(models: Models, case: Case, seed: int) -> tuple[RowMetrics, RunCurves | None]:
    return run_case(case, models.strategy(case), seed, with_curves=seed == 1)


def run_cases(
    cases: Sequence[Case],
    models: Models,
    *,
    seeds: int = 3,
    workers: int | None = None,
    on_done: Callable[[], None] = lambda: None,
) -> list[Result]:
    """Run every case with every seed, on all cores by default. Calls ``on_done`` after each run."""
    found = run_rows(
        _run_case,
        models,
        cases,
        name=lambda case: str(case.key),
        seeds=seeds,
        workers=workers,
        on_done=on_done,
    )
    return [
        Result(case=case, target=SIMULATOR, metrics=RowMetrics.mean(metrics), runs=seeds, curves=curves)
        for case, (metrics, curves) in zip(cases, found, strict=True)
    ]
