"""Layouts: nodes of each cluster, parallelism and cluster of each operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MAIN = "main"
"""Name of the main cluster, and of the only one in most setups."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Nodes of each cluster; parallelism and cluster of each operator.

    An operator that is not in ``parallelism`` is fused with its upstream. One that is not in ``placement`` runs on
    the main cluster.

    >>> Layout.of(3).main_nodes
    3
    """

    nodes: Mapping[str, int]
    parallelism: Mapping[str, int] = field(default_factory=dict)
    placement: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, nodes: int, **parallelism: int) -> Layout:
        """A layout with one cluster."""
        return cls(nodes={MAIN: nodes}, parallelism=parallelism)

    @property
    def main_nodes(self) -> int:
        """Nodes of the main cluster."""
        return self.nodes.get(MAIN, 0)

    def with_nodes(self, nodes: int, cluster: str = MAIN) -> Layout:
        """The same layout with another number of nodes in a cluster."""
        if self.nodes.get(cluster) == nodes:
            return self
        return Layout(
            nodes={**self.nodes, cluster: nodes}, parallelism=self.parallelism, placement=self.placement
        )

    def difference(self, other: Layout) -> LayoutDifference:
        """What must change to get from ``other`` to this one.

        >>> str(Layout.of(4, split=8).difference(Layout.of(2, split=4)))
        'main +2 nodes, split ×4→8'
        """
        if self is other or self == other:  # fast path: most decisions are holds
            return _NOTHING
        nodes = {
            cluster: self.nodes.get(cluster, 0) - other.nodes.get(cluster, 0)
            for cluster in sorted({*self.nodes, *other.nodes})
        }
        parallelism = {
            name: (other.parallelism.get(name, 1), self.parallelism.get(name, 1))
            for name in sorted({*self.parallelism, *other.parallelism})
            if other.parallelism.get(name, 1) != self.parallelism.get(name, 1)
        }
        moved = {
            name: (other.placement.get(name, MAIN), self.placement.get(name, MAIN))
            for name in sorted({*self.placement, *other.placement})
            if other.placement.get(name, MAIN) != self.placement.get(name, MAIN)
        }
        return LayoutDifference(
            nodes={cluster: change for cluster, change in nodes.items() if change},
            parallelism=parallelism,
            moved=moved,
        )

    def to_json(self) -> dict[str, Any]:
        """The layout as JSON values, for the ledger and ``--json``."""
        return {
            "nodes": dict(self.nodes),
            "parallelism": dict(self.parallelism),
            "placement": dict(self.placement),
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Layout:
        """Read a layout from JSON values."""
        return cls(nodes=body["nodes"], parallelism=body["parallelism"], placement=body["placement"])


@dataclass(frozen=True, kw_only=True)
class LayoutDifference:
    """Node changes by cluster; (from, to) parallelism and cluster by operator. Empty is falsy."""

    nodes: Mapping[str, int] = field(default_factory=dict)
    parallelism: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    moved: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.nodes or self.parallelism or self.moved)

    @property
    def restarts(self) -> bool:
        """Whether the change needs a restart of a query."""
        return bool(self.parallelism or self.moved)

    def __str__(self) -> str:
        parts = [
            f"{cluster} {change:+d} {'node' if abs(change) == 1 else 'nodes'}"
            for cluster, change in self.nodes.items()
        ]
        parts += [f"{name} ×{old}→{new}" for name, (old, new) in self.parallelism.items()]
        parts += [f"{name}: {old} → {new}" for name, (old, new) in self.moved.items()]
        return ", ".join(parts) or "nothing"


_NOTHING = LayoutDifference()
