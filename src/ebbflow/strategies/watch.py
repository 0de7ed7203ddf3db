"""Watch and never act: to see what a pipeline does on its own, or under another autoscaler."""

from __future__ import annotations

from ebbflow.core.decision import Decision
from ebbflow.core.snapshot import Snapshot


class Watch:
    """Holds whatever there is."""

    name = "watch"

    def decide(self, snapshot: Snapshot) -> Decision:
        """What is planned, as it is."""
        return Decision(wanted=snapshot.planned, reason="watching only", formula="n = n")
