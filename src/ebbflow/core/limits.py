"""Bounds on the number of nodes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ebbflow.errors import LimitsError

_MOST_DIGITS = 6


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Minimum and maximum number of nodes; every size in between is allowed.

    >>> Limits.parse("1:20")
    Limits(min_nodes=1, max_nodes=20)
    >>> Limits.parse("5:2")
    Traceback (most recent call last):
    ...
    ebbflow.errors.LimitsError: 5:2 has its minimum above its maximum; did you mean 2:5?
    """

    min_nodes: int
    max_nodes: int

    def __post_init__(self) -> None:
        if self.min_nodes < 1:
            raise LimitsError(f"{self.min_nodes}:{self.max_nodes} allows no nodes at all; the minimum is 1")
        if self.max_nodes >= 10**_MOST_DIGITS:
            raise LimitsError(
                f"{self.min_nodes:.6g}:{self.max_nodes:.6g} is too large; the most is {10**_MOST_DIGITS - 1:,} nodes"
            )
        if self.min_nodes > self.max_nodes:
            raise LimitsError(
                f"{self.min_nodes}:{self.max_nodes} has its minimum above its maximum; "
                f"did you mean {self.max_nodes}:{self.min_nodes}?"
            )

    @classmethod
    def parse(cls, text: str) -> Limits:
        """Read ``MIN:MAX``."""
        match = re.fullmatch(r"\s*(\d+)\s*:\s*(\d+)\s*", text)
        if match is None:
            raise LimitsError(f"'{text}' is not a range; write it like 1:20 (fewest:most)")
        if max(len(match[1]), len(match[2])) > _MOST_DIGITS:
            raise LimitsError(f"'{text}' is too large; the most is {10**_MOST_DIGITS - 1:,} nodes")
        return cls(min_nodes=int(match[1]), max_nodes=int(match[2]))

    def clamp(self, nodes: int) -> int:
        """The nearest allowed size."""
        return min(max(nodes, self.min_nodes), self.max_nodes)

    def __str__(self) -> str:
        return f"{self.min_nodes}:{self.max_nodes}"
