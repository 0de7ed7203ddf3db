"""What the symbiotic strategy asks of what it knows, whatever the engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ebbflow.core.layout import Layout, LayoutDifference

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
