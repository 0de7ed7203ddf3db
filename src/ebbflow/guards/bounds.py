"""Keep every cluster within the limits."""

from __future__ import annotations

from ebbflow.core.decision import Decision
from ebbflow.core.ports import Guard
from ebbflow.core.snapshot import Snapshot


class Bounds(Guard):
    """Clamp the number of nodes of every cluster to the limits."""

    name = "bounds"

    def restrain(self, snapshot: Snapshot, decision: Decision) -> Decision:
        """Use the nearest allowed size."""
        for cluster, nodes in decision.wanted.nodes.items():
            allowed = snapshot.limits.clamp(nodes)
            if allowed != nodes:
                side = "at most" if nodes > allowed else "at least"
                decision = decision.bound(
                    decision.wanted.with_nodes(allowed, cluster),
                    self.name,
                    f"{nodes} nodes wanted, {side} {allowed} allowed",
                )
        return decision
