"""Hold while data is missing."""

from __future__ import annotations

from typing import Annotated

from ebbflow.core.decision import Decision
from ebbflow.core.duration import format_duration
from ebbflow.core.parameters import PYTHON_ONLY
from ebbflow.core.ports import Guard
from ebbflow.core.snapshot import STALE_AFTER_S, Snapshot

MISSING_DATA = "missing data"


def too_old(age_s: float, stale_after_s: float = STALE_AFTER_S) -> str:
    """Why an observation of that age is too old to decide on; empty if it is not.

    >>> too_old(15.0), too_old(60.0)
    ('', 'no measurement for 1m')
    """
    return f"no measurement for {format_duration(age_s)}" if age_s > stale_after_s else ""


class HoldOnMissingData(Guard):
    """Hold while the last observation is older than ``stale_after_s``, or no node runs yet.

    The loop goes further: after a failed or stale observation it does not call the strategy at all.
    """

    name = MISSING_DATA

    def __init__(self, *, stale_after_s: Annotated[float, PYTHON_ONLY] = STALE_AFTER_S) -> None:
        self._stale_after_s = stale_after_s

    def restrain(self, snapshot: Snapshot, decision: Decision) -> Decision:
        """Keep the planned layout; before the first node runs, within the limits."""
        held = snapshot.planned
        why = too_old(snapshot.data_age_s, self._stale_after_s)
        if not why:
            if any(snapshot.observed.nodes.values()):
                return decision
            why = "no node runs yet, so there are no measurements to size by"
            for cluster, nodes in snapshot.planned.nodes.items():
                held = held.with_nodes(snapshot.limits_of(cluster).clamp(nodes), cluster)
        return decision.bound(held, self.name, why) if decision.wanted.difference(held) else decision
