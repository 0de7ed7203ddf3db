"""Profiling runs: what those in the simulator and on Spark have in common, and their result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from ebbflow.core.decision import Decision
from ebbflow.core.layout import MAIN, Layout
from ebbflow.core.metrics import Metric
from ebbflow.core.ports import Strategy
from ebbflow.core.readings import Series
from ebbflow.core.snapshot import Snapshot
from ebbflow.profiling.estimator import ProfileAccuracy
from ebbflow.profiling.profile import Fitted, Profile

Progress = Callable[[float, str], None]
"""Called with the finished share of a profiling run and its current step."""
MOST_INSTANCE_CPU = 0.8
"""Share of a core that an instance should use at most at the highest load of the second stair."""


class LayoutSchedule(Strategy):
    """A strategy that requests given layouts at given times."""

    name = "profiling"
    brings_own_guards = True

    def __init__(self, changes: Sequence[tuple[float, Mapping[str, int], int]]) -> None:
        """``changes``: (seconds since the first decision, parallelism, nodes), in order."""
        self._changes = tuple(changes)
        self._started_s: float | None = None

    @property
    def needed_series(self) -> Sequence[Series]:
        """The CPU of every node."""
        return (Series("*", Metric.NODE_CPU),)

    def decide(self, snapshot: Snapshot) -> Decision:
        """The layout for the current time."""
        if self._started_s is None:
            self._started_s = snapshot.now_s
        passed_s = snapshot.now_s - self._started_s
        due = [change for change in self._changes if change[0] <= passed_s]
        if not due:
            return Decision(wanted=snapshot.planned, reason="profiling: no change yet")
        _, parallelism, nodes = due[-1]
        wanted = Layout(
            nodes={**snapshot.planned.nodes, MAIN: nodes},
            parallelism={**snapshot.planned.parallelism, **parallelism},
            placement=snapshot.planned.placement,
        )
        return Decision(wanted=wanted, reason="profiling: next layout of the plan")


@dataclass(frozen=True, kw_only=True)
class ProfilingStair:
    """The load of a profiling run: up in equal steps and down again, from a tenth of the peak."""

    peak_per_s: float
    steps: int
    hold_s: float

    @property
    def load(self) -> str:
        """The load expression."""
        base = self.peak_per_s / 10
        return f"stair(base={base:g}, peak={self.peak_per_s:g}, steps={self.steps}, hold={self.hold_s:g}s)"

    @property
    def seconds(self) -> float:
        """Duration, up and down."""
        return (2 * self.steps + 1) * self.hold_s

    def sine(self, period_s: float) -> str:
        """A different load between nearly the same bounds, to check the profile, as an expression."""
        low, high = 0.12 * self.peak_per_s, 0.98 * self.peak_per_s
        return f"sine(base={low:g}, peak={high:g}, period={period_s:g}s)"

    @property
    def top_s(self) -> float:
        """When the highest step ends."""
        return (self.steps + 1) * self.hold_s


@dataclass(frozen=True, kw_only=True)
class ProfilingResult:
    """The result of a profiling run."""

    profile: Profile
    accuracy: ProfileAccuracy | None
    """Accuracy on a sine that it was not learned from; None if none was run."""
    seconds: float
    """Duration of the stairs, in the time of the target."""
    training_s: float
    """CPU seconds of fitting the models."""
    notes: tuple[str, ...] = ()
    """What could not be learned, and why."""

    def to_json(self) -> dict[str, Any]:
        """Convert to plain values."""
        profile = self.profile
        return {
            "pipeline": profile.pipeline,
            "target": profile.target,
            "version": profile.version,
            "learned_at": profile.learned_at.isoformat(),
            "seconds": self.seconds,
            "training_s": self.training_s,
            "selectivity": [
                {"from": a, "to": b, "mean": s.mean, "deviation": s.deviation, "samples": s.samples}
                for (a, b), s in profile.selectivity.items()
            ],
            "cpu": {name: _curve(cpu) for name, cpu in profile.cpu.items()},
            "node": {**_curve(profile.node), "cores": profile.node.cores},
            "costs": _costs(profile),
            "held_out": None if self.accuracy is None else self.accuracy.to_json(),
            "notes": list(self.notes),
        }


def _curve(curve: Fitted) -> dict[str, Any]:
    return {
        "model": msgspec.to_builtins(curve.model),
        "low": curve.low, "high": curve.high, "error": curve.error, "samples": curve.samples,
        "tried": dict(curve.tried),
    }  # fmt: skip


def _costs(profile: Profile) -> dict[str, Any] | None:
    if profile.costs is None:
        return None
    costs = msgspec.to_builtins(profile.costs)
    return {**costs, "per_row_s": profile.costs.per_row_s, "restart_s": profile.costs.restart_s}
