"""What the studies of several papers share: recorded readings, accuracy of the estimator, cost of a rebalance."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ebbflow.control.loop import CycleReport
from ebbflow.core.decision import Decision
from ebbflow.core.metrics import Metric
from ebbflow.core.placement import even
from ebbflow.core.ports import Strategy
from ebbflow.core.snapshot import Snapshot
from ebbflow.profiling.profile import Profile

Points = list[tuple[float, float]]


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

    @classmethod
    def of(
        cls,
        profile: Profile,
        recorded: ReadingsRecorder,
        parallelism: Mapping[str, int],
        *,
        nodes: int,
        drawn: Sequence[str],
        from_estimates: bool,
    ) -> EstimatorAccuracy:
        """Compare a run without scaling with the profile.

        ``from_estimates``: whether the CPU of a node is estimated from the estimated CPU of its instances, or from the
        measured one. ``drawn``: operators whose curves are kept.
        """
        order = list(parallelism)
        placement = even([parallelism[name] for name in order], nodes)
        measured: dict[str, Points] = {name: [] for name in order}
        estimated: dict[str, Points] = {name: [] for name in order}
        nodes_measured: Points = []
        nodes_estimated: Points = []
        times_s = recorded.times_s
        for before_s, time_s, readings in zip(times_s, times_s[1:], recorded.readings[1:], strict=False):
            cpu = [readings[name, Metric.INSTANCE_CPU] for name in order]
            guesses = []
            for name, own in zip(order, cpu, strict=True):
                rate_per_s = readings[name, Metric.ROWS_IN] / (time_s - before_s) / parallelism[name]
                guesses.append(profile.cpu[name].estimate(rate_per_s).value)
                measured[name].append((time_s, own * parallelism[name]))
                estimated[name].append((time_s, guesses[-1] * parallelism[name]))
            instances = guesses if from_estimates else cpu
            for node in range(nodes):
                total = sum(row[node] * each for row, each in zip(placement, instances, strict=True))
                nodes_measured.append((total, readings[f"node-{node}", Metric.NODE_CPU]))
                nodes_estimated.append((total, profile.node.estimate(total).value))
        return cls(
            operators={name: mean_error(estimated[name], measured[name]) for name in order},
            node=mean_error(nodes_estimated, nodes_measured),
            measured={name: _rounded(measured[name]) for name in drawn},
            estimated={name: _rounded(estimated[name]) for name in drawn},
            nodes_measured=_rounded(nodes_measured),
            nodes_estimated=_rounded(sorted(nodes_estimated)[:: max(1, len(nodes_estimated) // 60)]),
        )

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

    def __init__(self, period_s: float | None) -> None:
        """``period_s``: None for no rebalance at all."""
        self._period_s = float("inf") if period_s is None else period_s
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
    """What one rebalance per period costs; no rebalance if the period is None."""

    period_s: float | None
    throughput_degradation: float
    """In windows of a minute, in which a pause of a few seconds nearly vanishes."""
    throughput_degradation_unsmoothed: float
    """Second by second."""
    latency_mean_s: float
    published: float | None = None

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "period_s": self.period_s,
            "throughput_degradation": round(self.throughput_degradation, 4),
            "throughput_degradation_unsmoothed": round(self.throughput_degradation_unsmoothed, 4),
            "latency_mean_s": round(self.latency_mean_s, 3),
            "published": self.published,
        }
