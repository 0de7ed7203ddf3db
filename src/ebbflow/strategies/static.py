"""Hold the maximum throughout: what a pipeline sized for its peak costs."""

from __future__ import annotations

from ebbflow.core.decision import Decision
from ebbflow.core.snapshot import Snapshot


class Static:
    """Always the most nodes allowed: the baseline that is never late and never cheap."""

    name = "static"
    own_restraint = True

    def decide(self, snapshot: Snapshot) -> Decision:
        """The maximum."""
        wanted = snapshot.planned.with_nodes(snapshot.limits.max_nodes)
        return Decision(wanted=wanted, reason="static: the maximum, whatever the load", formula="n = max")
