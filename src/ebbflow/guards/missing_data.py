"""Missing data means no change, with a reason."""

from __future__ import annotations

from typing import Annotated

from ebbflow.core.decision import Decision
from ebbflow.core.duration import format_duration
from ebbflow.core.parameters import PYTHON_ONLY
from ebbflow.core.ports import Guard
from ebbflow.core.snapshot import STALE_AFTER_S, Snapshot

MISSING_DATA = "missing data"


def too_old(age_s: float, stale_after_s: float = STALE_AFTER_S) -> str:
    """Why a look of that age is nothing to decide on; empty where it may be one.

    >>> too_old(15.0), too_old(60.0)
    ('', 'nothing was measured for 1m')
    """
    return f"nothing was measured for {format_duration(age_s)}" if age_s > stale_after_s else ""


class HoldOnMissingData(Guard):
    """Hold while the target has not answered for ``stale_after_s``, or no node is there yet.

    The loop goes further: after a look that failed, or one that old, it does not even ask the strategy.
    """

    name = MISSING_DATA

    def __init__(self, *, stale_after_s: Annotated[float, PYTHON_ONLY] = STALE_AFTER_S) -> None:
        self._stale_after_s = stale_after_s

    def restrain(self, snapshot: Snapshot, decision: Decision) -> Decision:
        """The decision, or the layout there was (before the first node: within the limits)."""
        held = snapshot.planned
        why = too_old(snapshot.data_age_s, self._stale_after_s)
        if not why:
            if snapshot.observed.main_nodes:
                return decision
            why = "no node is there yet, so nothing measured says how many are needed"
            for cluster, nodes in snapshot.planned.nodes.items():
                held = held.with_nodes(snapshot.limits.clamp(nodes), cluster)
        return decision.bound(held, self.name, why) if decision.wanted.difference(held) else decision
