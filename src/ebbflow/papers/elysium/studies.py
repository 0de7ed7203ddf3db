"""The studies besides the table (Figures 6 to 8): thresholds, the cost of reconfiguring, the accuracy of the estimator.

Thresholds are in ``threshold_learning``. The other two are here:

- *Accuracy* (§5.2). Figure 7: 25 minutes of a sine on T1, with the CPU of all instances of an operator measured and
  estimated from its input rate. Figure 8: the CPU of a node against the sum of its instances, measured and estimated.
  The profile was learned on another load.
- *Cost of reconfiguring* (Figure 6c): T1 over-provisioned on a sine of nine minutes, rebalanced needlessly at every
  assessment, for several assessment periods.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ebbflow.control.loop import CycleReport
from ebbflow.core.decision import Decision
from ebbflow.core.metrics import Metric
from ebbflow.core.placement import even
from ebbflow.core.ports import Strategy
from ebbflow.core.snapshot import Snapshot
from ebbflow.papers.elysium.calibration import STOP_WORDS, storm
from ebbflow.papers.elysium.cases import Case
from ebbflow.papers.elysium.models import Models, learn_profile
from ebbflow.papers.elysium.published import FIGURE_6C, T1, Key
from ebbflow.papers.elysium.run import Points, run_case
from ebbflow.papers.elysium.threshold_learning import ThresholdStudy, study_thresholds
from ebbflow.profiling.profile import Profile
from ebbflow.runs.simulation import run_simulation
from ebbflow.strategies.static import Static
from ebbflow.workloads import parse_load

DRAWN = ("counter", STOP_WORDS)
"""The operators of Figure 7."""
SINE = Case(
    key=Key(T1, "sine", "static", "4 nodes, parallelism 3"),
    loads=((T1, parse_load("sine(base=100, peak=800, period=25m)")),),
    seconds=1500.0,
    initial_nodes=4,
    initial_parallelism=3,
)
PERIODS_S: tuple[float, ...] = (60.0, 120.0, 180.0, 240.0)
OVER_PROVISIONED = Case(
    key=Key(T1, "sine", "restless", "4 nodes, parallelism 4"),
    loads=((T1, parse_load("sine(base=100, peak=600, period=9m)")),),
    seconds=540.0,
    initial_nodes=4,
    initial_parallelism=4,
)
"""No node and no operator is ever overloaded."""


# -- accuracy of the estimator -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class EstimatorAccuracy:
    """Estimates compared with measurements."""

    operators: Mapping[str, float]
    """Mean |estimated − measured| / measured of the CPU of each operator."""
    node: float
    """The same for the CPU of nodes."""
    measured: Mapping[str, Points]
    """Cores of all instances over time, by operator."""
    estimated: Mapping[str, Points]
    nodes_measured: Points
    """(cores of the instances on a node, used share of the node)."""
    nodes_estimated: Points

    @property
    def mean(self) -> float:
        """Mean error over the operators."""
        return statistics.fmean(self.operators.values())

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "mean_error_of_operators": {name: round(error, 4) for name, error in self.operators.items()},
            "mean_error_of_nodes": round(self.node, 4),
        }


@dataclass
class ReadingsRecorder:
    """The readings of a run, one entry per observation."""

    readings: list[dict[tuple[str, Metric], float]] = field(default_factory=list)
    times_s: list[float] = field(default_factory=list)

    def record(self, report: CycleReport) -> None:
        """Keep the readings of a new observation."""
        observation = report.observation
        if observation is not None and (not self.times_s or observation.time_s > self.times_s[-1]):
            self.times_s.append(observation.time_s)
            self.readings.append({(r.subject, r.metric): r.value for r in observation.readings})


def estimator_accuracy(profile: Profile, case: Case = SINE, seed: int = 7) -> EstimatorAccuracy:
    """Run a load that the profile was not learned from, without scaling, and compare estimates with measurements."""
    recorder = ReadingsRecorder()
    run_simulation(case.scenario(seed), Static(), on_cycle=recorder.record)
    parallelism = storm(T1, case.initial_parallelism).parallelism
    order = list(parallelism)
    placement = even([parallelism[name] for name in order], case.initial_nodes)
    measured: dict[str, Points] = {name: [] for name in order}
    estimated: dict[str, Points] = {name: [] for name in order}
    nodes_measured: Points = []
    nodes_estimated: Points = []
    times_s = recorder.times_s
    for before_s, time_s, readings in zip(times_s, times_s[1:], recorder.readings[1:], strict=False):
        cpu = [readings[name, Metric.INSTANCE_CPU] for name in order]
        for name, own in zip(order, cpu, strict=True):
            rate_per_s = readings[name, Metric.ROWS_IN] / (time_s - before_s) / parallelism[name]
            measured[name].append((time_s, own * parallelism[name]))
            value = profile.cpu[name].estimate(rate_per_s).value
            estimated[name].append((time_s, value * parallelism[name]))
        for node in range(case.initial_nodes):
            total = sum(row[node] * own for row, own in zip(placement, cpu, strict=True))
            nodes_measured.append((total, readings[f"node-{node}", Metric.NODE_CPU]))
            nodes_estimated.append((total, profile.node.estimate(total).value))
    return EstimatorAccuracy(
        operators={name: mean_error(estimated[name], measured[name]) for name in order},
        node=mean_error(nodes_estimated, nodes_measured),
        measured={name: _rounded(measured[name]) for name in DRAWN},
        estimated={name: _rounded(estimated[name]) for name in DRAWN},
        nodes_measured=_rounded(nodes_measured),
        nodes_estimated=_rounded(sorted(nodes_estimated)[:: max(1, len(nodes_estimated) // 60)]),
    )


def mean_error(estimated: Sequence[tuple[float, float]], measured: Sequence[tuple[float, float]]) -> float:
    """Mean of |estimated − measured| / measured.

    >>> mean_error([(0.0, 1.1), (1.0, 1.9)], [(0.0, 1.0), (1.0, 2.0)])
    0.075
    """
    pairs = [(guess, value) for (_, guess), (_, value) in zip(estimated, measured, strict=True) if value > 0]
    return round(statistics.fmean(abs(guess - value) / value for guess, value in pairs), 6) if pairs else 0.0


def _rounded(points: Sequence[tuple[float, float]]) -> Points:
    return [(round(x, 3), round(y, 4)) for x, y in points]


# -- cost of reconfiguring ---------------------------------------------------------------------------------------


class Restless(Strategy):
    """Removes an instance of the reader at one assessment and adds it back at the next."""

    name = "restless"
    brings_own_guards = True

    def __init__(self, period_s: float) -> None:
        self._period_s = period_s
        self._moved_s = 0.0

    def decide(self, snapshot: Snapshot) -> Decision:
        """Switch between two equivalent layouts once per period."""
        planned = snapshot.planned
        if snapshot.now_s - self._moved_s < self._period_s:
            return Decision(wanted=planned, reason="waiting for the next assessment")
        self._moved_s = snapshot.now_s
        reader = snapshot.pipeline.sources[0]
        instances = 7 - planned.parallelism[reader]  # 4 and 3
        wanted = type(planned)(
            nodes=planned.nodes,
            parallelism={**planned.parallelism, reader: instances},
            placement=planned.placement,
        )
        return Decision(wanted=wanted, reason="measuring the cost of a rebalance")


@dataclass(frozen=True, kw_only=True)
class ReconfigurationCost:
    """Degradation with one rebalance per period; without any rebalance if the period is None."""

    period_s: float | None
    throughput_degradation: float
    throughput_degradation_unsmoothed: float
    published: float | None

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "period_s": self.period_s,
            "throughput_degradation": round(self.throughput_degradation, 4),
            "throughput_degradation_unsmoothed": round(self.throughput_degradation_unsmoothed, 4),
            "published": self.published,
        }


def reconfiguration_costs(periods_s: Sequence[float] = PERIODS_S) -> list[ReconfigurationCost]:
    """The cost without a rebalance, and for each period."""
    costs = []
    for period_s in (None, *periods_s):
        metrics, _ = run_case(OVER_PROVISIONED, Restless(float("inf") if period_s is None else period_s))
        costs.append(
            ReconfigurationCost(
                period_s=period_s,
                throughput_degradation=metrics.throughput_degradation or 0.0,
                throughput_degradation_unsmoothed=metrics.throughput_degradation_unsmoothed or 0.0,
                published=0.05 if period_s is None else FIGURE_6C.get(period_s),
            )
        )
    return costs


# -- all studies -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Studies:
    """The results of all studies."""

    accuracy: EstimatorAccuracy
    overheads: Sequence[ReconfigurationCost]
    thresholds: Sequence[ThresholdStudy]
    """cpu_max, core_max and core_min."""

    @classmethod
    def run(
        cls, models: Models, *, workers: int | None = None, on_trial: Callable[[], None] = lambda: None
    ) -> Studies:
        """Run the studies with the profile of T1, which is learned if it is missing.

        Calls ``on_trial`` after each of the ``threshold_runs()`` runs for a threshold; the rest takes a second or two.
        """
        profile = models.profiles.get(T1) or learn_profile(T1)
        with_profile = Models(profiles={**models.profiles, T1: profile}, forecasts=models.forecasts)
        return cls(
            accuracy=estimator_accuracy(profile),
            overheads=reconfiguration_costs(),
            thresholds=study_thresholds(with_profile, workers=workers, on_done=on_trial),
        )

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "accuracy": self.accuracy.to_json(),
            "overheads": [each.to_json() for each in self.overheads],
            "thresholds": {each.name: each.to_json() for each in self.thresholds},
        }
