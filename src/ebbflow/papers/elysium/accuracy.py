"""How well the estimator knows what it is asked (§5.2, Figures 7 and 8), on loads that it was not profiled with.

Figure 7: 25 minutes of a sine on T1; CPU of all instances of an operator, measured and estimated from its input rate
(OCUP). Figure 8: CPU of a node against the sum of its instances' CPU, measured and as the overhead profile (OP) has it.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ebbflow.control.loop import CycleReport
from ebbflow.core.metrics import Metric
from ebbflow.core.placement import even
from ebbflow.papers.elysium.calibration import STOP_WORDS, storm
from ebbflow.papers.elysium.cases import Case
from ebbflow.papers.elysium.published import T1, Key
from ebbflow.papers.elysium.result import Points
from ebbflow.profiling.profile import Profile
from ebbflow.runs.simulation import play
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


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """Estimated against measured."""

    operators: Mapping[str, float]
    """Mean |estimated − measured| / measured of the CPU of each operator."""
    node: float
    """The same of the CPU of nodes."""
    measured: Mapping[str, Points]
    """Cores of all instances over time."""
    estimated: Mapping[str, Points]
    nodes_measured: Points
    """(cores of its instances, share of the node in use)."""
    nodes_estimated: Points

    @property
    def mean(self) -> float:
        """Over the operators."""
        return statistics.fmean(self.operators.values())

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "mean_error_of_operators": {name: round(error, 4) for name, error in self.operators.items()},
            "mean_error_of_nodes": round(self.node, 4),
        }


@dataclass
class _Seen:
    """The readings of a run, one look after the other."""

    looks: list[dict[tuple[str, Metric], float]] = field(default_factory=list)
    times_s: list[float] = field(default_factory=list)

    def take(self, report: CycleReport) -> None:
        seen = report.observation
        if seen is not None and (not self.times_s or seen.time_s > self.times_s[-1]):
            self.times_s.append(seen.time_s)
            self.looks.append({(r.subject, r.metric): r.value for r in seen.readings})


def estimator_accuracy(profile: Profile, case: Case = SINE, seed: int = 7) -> Accuracy:
    """Play a load that the profile was not learned from, with nothing decided, and compare."""
    seen = _Seen()
    play(case.scenario(seed), Static(), on_cycle=seen.take)
    parallelism = storm(T1, case.initial_parallelism).parallelism
    order = list(parallelism)
    placement = even([parallelism[name] for name in order], case.initial_nodes)
    measured: dict[str, Points] = {name: [] for name in order}
    estimated: dict[str, Points] = {name: [] for name in order}
    on_nodes: Points = []
    guessed: Points = []
    for before_s, time_s, look in zip(seen.times_s, seen.times_s[1:], seen.looks[1:], strict=False):
        cpu = [look[name, Metric.INSTANCE_CPU] for name in order]
        for name, own in zip(order, cpu, strict=True):
            rate_per_s = look[name, Metric.ROWS_IN] / (time_s - before_s) / parallelism[name]
            measured[name].append((time_s, own * parallelism[name]))
            value = profile.cpu[name].estimate(rate_per_s).value
            estimated[name].append((time_s, value * parallelism[name]))
        for node in range(case.initial_nodes):
            total = sum(row[node] * own for row, own in zip(placement, cpu, strict=True))
            on_nodes.append((total, look[f"node-{node}", Metric.NODE_CPU]))
            guessed.append((total, profile.node.estimate(total).value))
    return Accuracy(
        operators={name: mean_error(estimated[name], measured[name]) for name in order},
        node=mean_error(guessed, on_nodes),
        measured={name: _rounded(measured[name]) for name in DRAWN},
        estimated={name: _rounded(estimated[name]) for name in DRAWN},
        nodes_measured=_rounded(on_nodes),
        nodes_estimated=_rounded(sorted(guessed)[:: max(1, len(guessed) // 60)]),
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
