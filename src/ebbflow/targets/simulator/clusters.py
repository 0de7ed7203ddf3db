"""Clusters beside the main one, and what lies between them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from ebbflow.errors import InputError
from ebbflow.targets.simulator.nodes import NodeKind


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A cluster of its own kind of nodes."""

    nodes: NodeKind = field(default_factory=NodeKind)
    initial_nodes: int = 1

    def __post_init__(self) -> None:
        if self.initial_nodes < 0:
            raise InputError(f"{self.initial_nodes} nodes at the start of a cluster; the fewest is 0")


@dataclass(frozen=True, kw_only=True)
class Link:
    """The way from any cluster to any other. Each stream over it has the bandwidth for itself.

    >>> Link(mb_per_s=12.5, latency_s=0.3).rows_per_s(row_kb=0.5)
    25000.0
    """

    mb_per_s: float = 12.5
    """For rows, and for state that moves; 100 Mb/s, as between DoDo's nodes (§6.4)."""
    latency_s: float = 0.0
    """How long a row is under way; the continuous engine counts it in whole steps, rounded up."""

    def __post_init__(self) -> None:
        if not self.mb_per_s > 0 or not 0 <= self.latency_s < math.inf:
            raise InputError(
                f"a link of {self.mb_per_s:g} MB/s and {self.latency_s:g} s; "
                "the bandwidth must be above 0, the latency 0s or more"
            )

    def rows_per_s(self, row_kb: float) -> float:
        """Rows of a size that a stream can carry."""
        return self.mb_per_s * 1000.0 / row_kb

    @property
    def steps(self) -> int:
        """Whole steps of 1 s that a row is under way."""
        return math.ceil(self.latency_s - 1e-9)
