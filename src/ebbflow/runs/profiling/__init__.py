"""What a profiling phase is made of, wherever it runs: who changes the layout when, and what comes of it."""

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
from ebbflow.profiling.estimator import Accuracy
from ebbflow.profiling.profile import Fitted, Profile

Progress = Callable[[float, str], None]
"""Told the share of the phase that is over, and what goes on."""
MOST_INSTANCE_CPU = 0.8
"""Of a core: at the highest load of the second stair no instance should have more to do."""


class LayoutSchedule(Strategy):
    """A strategy that asks for given layouts at given times, whatever it sees."""

    name = "profiling"
    brings_own_guards = True

    def __init__(self, changes: Sequence[tuple[float, Mapping[str, int], int]]) -> None:
        """``changes``: (seconds since its first decision, parallelism, nodes), in their order."""
        self._changes = tuple(changes)
        self._began_s: float | None = None

    @property
    def needed_series(self) -> Sequence[Series]:
        """CPU of every node."""
        return (Series("*", Metric.NODE_CPU),)

    def decide(self, snapshot: Snapshot) -> Decision:
        """The layout whose time it is."""
        if self._began_s is None:
            self._began_s = snapshot.now_s
        passed_s = snapshot.now_s - self._began_s
        due = [change for change in self._changes if change[0] <= passed_s]
        if not due:
            return Decision(wanted=snapshot.planned, reason="profiling: as it is")
        _, parallelism, nodes = due[-1]
        wanted = Layout(
            nodes={**snapshot.planned.nodes, MAIN: nodes},
            parallelism={**snapshot.planned.parallelism, **parallelism},
            placement=snapshot.planned.placement,
        )
        return Decision(wanted=wanted, reason="profiling: the next layout of the plan")


@dataclass(frozen=True, kw_only=True)
class Stair:
    """The loads of a phase: up in equal steps and down again, from a tenth of the peak."""

    peak_per_s: float
    steps: int
    hold_s: float

    @property
    def load(self) -> str:
        """As a load expression."""
        base = self.peak_per_s / 10
        return f"stair(base={base:g}, peak={self.peak_per_s:g}, steps={self.steps}, hold={self.hold_s:g}s)"

    @property
    def seconds(self) -> float:
        """How long it takes, up and down."""
        return (2 * self.steps + 1) * self.hold_s

    def sine(self, period_s: float) -> str:
        """A load that it does not hold, between nearly the same bounds, as an expression."""
        low, high = 0.12 * self.peak_per_s, 0.98 * self.peak_per_s
        return f"sine(base={low:g}, peak={high:g}, period={period_s:g}s)"

    @property
    def top_s(self) -> float:
        """When the highest step is over."""
        return (self.steps + 1) * self.hold_s


@dataclass(frozen=True, kw_only=True)
class ProfilingResult:
    """What came of a phase."""

    profile: Profile
    accuracy: Accuracy | None
    """On a sine that it was not learned from; None where none was run."""
    seconds: float
    """How long the stairs took, in the time of the target."""
    training_s: float
    """CPU seconds that finding the models took."""
    notes: tuple[str, ...] = ()
    """What could not be learned from what there was, and why."""

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
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
