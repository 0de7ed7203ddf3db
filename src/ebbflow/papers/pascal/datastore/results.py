"""What a run of the datastore benchmark yields, on any target: actions, demand points, nodes saved, and curves.

The demand is that of the bounded throughput, as in the paper: n nodes are overloaded while the load exceeds X_B(n) and
more than ten seconds of work pile up above it (``runs.scaling_points``). A *demand point* is the start of such an
overload. It is *missed* if n nodes or fewer serve at that time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any, Protocol

import numpy as np

from ebbflow.core.metrics import Metric
from ebbflow.core.readings import Reading
from ebbflow.core.run import Run
from ebbflow.core.slo import Slo
from ebbflow.papers.pascal.datastore.published import MEAN_DELTA_S
from ebbflow.profiling.datastore import DatastoreProfile
from ebbflow.runs.scaling_points import Demand, ScalingPoints, scaling_points

COSTS, ALGORITHM_2, REACTIVE, STATIC_MOST, STATIC_FEW = (
    "costs",
    "algorithm 2",
    "reactive",
    "six nodes",
    "three nodes",
)
STRATEGIES = (COSTS, ALGORITHM_2, REACTIVE, STATIC_MOST, STATIC_FEW)
"""Ours, the paper's, the same without a forecast, and the two static sizes of Figures 22 and 23."""
SLO = Slo(freshness_s=10.0, quantile=0.95)
"""Seconds of work above the bound that are no demand yet."""

Points = Sequence[tuple[float, float]]


class ReadingsRecorder:
    """Keeps the readings of a run that are drawn."""

    KEPT = (Metric.THROUGHPUT, Metric.RESPONSE_TIME, Metric.ARRIVAL_RATE)

    def __init__(self) -> None:
        self.points: dict[Metric, list[tuple[float, float]]] = {metric: [] for metric in self.KEPT}

    def record(self, readings: Sequence[Reading]) -> None:
        """Keep those of one observation."""
        for reading in readings:
            if reading.metric in self.points:
                self.points[reading.metric].append((reading.time_s, reading.value))


@dataclass(frozen=True, kw_only=True)
class StoreRun:
    """A run of one strategy on one target."""

    strategy: str
    target: str
    run: Run
    """Its capacity is not used: the demand follows from the profile."""
    profile: DatastoreProfile
    points: Mapping[Metric, Points] = field(repr=False, default_factory=dict)
    most_nodes: int = 6
    notes: tuple[str, ...] = ()

    @property
    def bounded(self) -> Run:
        """The run with X_B as its capacity."""
        sizes = range(self.most_nodes + 1)
        rates = [self.profile.bounded_per_s(n) if n >= self.profile.replication else 0.0 for n in sizes]
        return replace(self.run, capacity_rows_per_s=np.asarray(rates), slo=SLO)

    def result(self) -> StoreResult:
        """Its actions and scores."""
        bounded = self.bounded
        demand = Demand.of([bounded])
        assert demand is not None, "the capacity is known"
        missed, demanded = 0, 0
        for nodes in range(self.profile.replication, self.most_nodes):
            for start_s, _ in demand.overloads(nodes):
                if start_s > self.run.started_s:  # an overload from the start was nobody's to foresee
                    demanded += 1
                    missed += float(self.run.nodes_working.stepped(start_s)) <= nodes
        seconds = self.run.ended_s - self.run.started_s
        held = self.run.nodes.integral(self.run.started_s, self.run.ended_s)
        responses = [value for _, value in self.points.get(Metric.RESPONSE_TIME, ())]
        offered = float(self.run.arrived.values[-1] - self.run.arrived.values[0])
        return StoreResult(
            strategy=self.strategy,
            target=self.target,
            actions=tuple(Action.of(each, self.run.started_s) for each in scaling_points([bounded])),
            demand_points=demanded,
            missed_demand_points=missed,
            nodes_saved=1.0 - held / (self.most_nodes * seconds),
            answered=float(self.run.processed.values[-1] - self.run.processed.values[0]) / offered
            if offered
            else 1.0,
            response_mean_s=fmean(responses) if responses else None,
            response_p95_s=float(np.quantile(responses, 0.95)) if responses else None,
            seconds=seconds,
            notes=self.notes,
        )


@dataclass(frozen=True, kw_only=True)
class Action:
    """A row of Table 5. Times are seconds since the start of the run; None where there is no such point."""

    change: int
    tp_s: float
    rp_s: float | None
    dp_s: float | None
    demanded: bool | None
    note: str = ""

    @classmethod
    def of(cls, points: ScalingPoints, started_s: float) -> Action:
        """From the points of an act."""
        return cls(
            change=points.after - points.before,
            tp_s=points.trigger_s - started_s,
            rp_s=None if points.ready_s is None else points.ready_s - started_s,
            dp_s=None if points.demand_s is None else points.demand_s - started_s,
            demanded=points.demanded,
            note=points.note,
        )

    @property
    def duration_s(self) -> float | None:
        """RP − TP."""
        return None if self.rp_s is None else self.rp_s - self.tp_s

    @property
    def delta_s(self) -> float | None:
        """DP − RP: how long before its demand point it was complete."""
        return None if self.rp_s is None or self.dp_s is None else self.dp_s - self.rp_s

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "action": f"{self.change:+d}",
            "tp_s": round(self.tp_s, 1),
            "rp_s": _rounded(self.rp_s),
            "dp_s": _rounded(self.dp_s),
            "duration_s": _rounded(self.duration_s),
            "delta_s": _rounded(self.delta_s),
            "note": self.note,
        }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)


@dataclass(frozen=True, kw_only=True)
class StoreResult:
    """The scores of one run."""

    strategy: str
    target: str
    actions: tuple[Action, ...]
    demand_points: int
    missed_demand_points: int
    nodes_saved: float
    """1 − node-seconds ÷ (most nodes × duration)."""
    answered: float
    """Share of the offered requests that were answered by the end."""
    response_mean_s: float | None
    response_p95_s: float | None
    """Over the means of each observation."""
    seconds: float
    notes: tuple[str, ...] = ()

    @property
    def deltas_s(self) -> list[float]:
        """DP − RP of the actions that have both."""
        return [each.delta_s for each in self.actions if each.delta_s is not None]

    @property
    def mean_delta_s(self) -> float | None:
        """Mean |DP − RP|."""
        return fmean(map(abs, self.deltas_s)) if self.deltas_s else None

    @property
    def unneeded(self) -> int:
        """Actions that the load did not demand."""
        return sum(each.demanded is False for each in self.actions)

    @property
    def ok(self) -> bool:
        """No demand point missed, and nearer to them than the paper on average."""
        mean_s = self.mean_delta_s
        return self.missed_demand_points == 0 and mean_s is not None and mean_s < MEAN_DELTA_S

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "strategy": self.strategy,
            "target": self.target,
            "actions": [each.to_json() for each in self.actions],
            "demand_points": self.demand_points,
            "missed_demand_points": self.missed_demand_points,
            "actions_without_demand": self.unneeded,
            "mean_delta_s": _rounded(self.mean_delta_s),
            "largest_delta_s": _rounded(max(map(abs, self.deltas_s), default=None)),
            "nodes_saved": round(self.nodes_saved, 4),
            "answered": round(self.answered, 6),
            "response_mean_s": self.response_mean_s,
            "response_p95_s": self.response_p95_s,
            "seconds": self.seconds,
            "notes": list(self.notes),
        }


@dataclass(frozen=True, kw_only=True)
class Impact:
    """A change by one node under a constant load: Figures 18 and 19. Times are since the start of the load."""

    before: int
    after: int
    rate_per_s: float
    began_s: float
    ended_s: float
    cleaned_s: float | None
    """When the cleanup ended; None without one."""
    throughput: Points = field(repr=False)
    per_node: Points = field(repr=False)
    """Requests per second of one node."""
    response: Points = field(repr=False)

    @property
    def throughput_change(self) -> float:
        """Throughput during the change ÷ before it, minus 1."""
        return _ratio(self.throughput, self.began_s, self.ended_s) - 1.0

    @property
    def response_factor(self) -> float:
        """Response time during the change ÷ before it."""
        return _ratio(self.response, self.began_s, self.ended_s)

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "before": self.before,
            "after": self.after,
            "rate_per_s": self.rate_per_s,
            "began_s": self.began_s,
            "ended_s": round(self.ended_s, 1),
            "cleaned_s": _rounded(self.cleaned_s),
            "throughput_change": round(self.throughput_change, 4),
            "response_factor": round(self.response_factor, 3),
        }


def _ratio(points: Points, began_s: float, ended_s: float) -> float:
    before = [value for time_s, value in points if time_s <= began_s]
    during = [value for time_s, value in points if began_s < time_s <= ended_s]
    return fmean(during) / fmean(before) if before and during and fmean(before) else 1.0


class StoreBench(Protocol):
    """A target of the benchmark. The simulator is one; a real cluster is another."""

    @property
    def target(self) -> str:
        """Its name."""

    def profile(self) -> DatastoreProfile:
        """Learn the profile: Tables 3 and 4, Figure 21."""

    def impacts(self) -> list[Impact]:
        """A join and a leave under a constant load: Figures 18 and 19."""

    def runs(self, profile: DatastoreProfile, strategies: Sequence[str]) -> list[StoreRun]:
        """Run strategies on the load: Table 5, Figures 22 and 23."""

    @property
    def facts(self) -> Sequence[str]:
        """What was run, in short phrases."""


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """The whole result on one target."""

    target: str
    profile: DatastoreProfile
    impacts: Sequence[Impact]
    runs: Sequence[StoreRun]
    facts: Sequence[str]

    @property
    def results(self) -> list[StoreResult]:
        """One for each strategy."""
        return [each.result() for each in self.runs]


def run_benchmark(
    bench: StoreBench, strategies: Sequence[str] = STRATEGIES, *, say: Any = lambda _text: None
) -> Benchmark:
    """Run everything on one target. ``say`` is called with what comes next."""
    say("profiling")
    profile = bench.profile()
    say("a node joins and leaves under a constant load")
    impacts = bench.impacts()
    say("running the strategies")
    runs = bench.runs(profile, strategies)
    return Benchmark(target=bench.target, profile=profile, impacts=impacts, runs=runs, facts=bench.facts)
