"""Missing data means no change, with a reason."""

from __future__ import annotations

from ebbflow.core.decision import Decision
from ebbflow.core.duration import format_duration
from ebbflow.core.snapshot import STALE_AFTER_S, Snapshot


class HoldOnMissingData:
    """Hold while the target has not answered for ``stale_after_s``, or nothing was ever measured."""

    def __init__(self, *, stale_after_s: float = STALE_AFTER_S) -> None:
        self._stale_after_s = stale_after_s

    def restrain(self, snapshot: Snapshot, decision: Decision) -> Decision:
        """The decision, or the layout there was (before the first node: within the limits)."""
        held = snapshot.planned
        if snapshot.data_age_s > self._stale_after_s:
            why = f"nothing was measured for {format_duration(snapshot.data_age_s)}"
        elif snapshot.observed.main_nodes == 0:
            why = "no node is there yet, so nothing measured says how many are needed"
            for cluster, nodes in snapshot.planned.nodes.items():
                held = held.with_nodes(snapshot.limits.clamp(nodes), cluster)
        else:
            return decision
        return decision.bound(held, "missing data", why) if decision.wanted.difference(held) else decision
