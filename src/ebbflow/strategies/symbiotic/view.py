"""What the symbiotic strategy asks of what it knows, whatever the engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ebbflow.core.layout import Layout, LayoutDifference
from ebbflow.core.snapshot import Snapshot

AS_GOOD = 0.05
"""Where no layout is enough, one that is this part worse than the best is as good."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """What a layout would be like at the load that is sized for."""

    busy: float
    """Of what limits it first: a node's cores, an instance's core, a batch's interval."""
    over: float
    """How far the worst of them is past its threshold: 1 is just at it."""
    where: str
    """The worst of them, in words."""
    freshness_s: float = 0.0
    """Of rows once nothing waits that has no need to: without batches, next to nothing."""


class View(Protocol):
    """Applications at one moment and one load."""

    def judge(self, layout: Layout) -> Judged:
        """What a layout would be like."""
        ...

    def layouts(self) -> Sequence[Layout]:
        """Layouts to choose from: the fewest nodes for some parallelism, the best of the kind first."""
        ...

    def stops(self, change: LayoutDifference) -> bool:
        """Whether processing stands still for a change."""
        ...

    def guessed(self, layout: Layout) -> str:
        """What of a judgement lies outside of all that was seen, in words; empty where nothing does."""
        ...

    def inputs(self) -> Mapping[str, float | str]:
        """Numbers behind a decision that only this engine has."""
        ...


@dataclass(frozen=True, kw_only=True)
class Dimensions:
    """Which of the two may be scaled, and how many instances an operator may have at most."""

    operators: bool = True
    nodes: bool = True
    most_instances: Mapping[str, int] | int | None = None
    """Of every operator, or by name; where not told, as many as there are slots on the most nodes."""

    def most(self, operator: str, snapshot: Snapshot) -> int:
        """Instances that an operator may have."""
        told = self.most_instances
        if isinstance(told, Mapping):
            told = told.get(operator, told.get(operator.rpartition("/")[2]))
        if told is None:
            told = snapshot.limits.max_nodes * max(1, snapshot.slots_per_node)
        return max(1, told)
