"""Nobody leaves while there is a queue."""

from __future__ import annotations

from ebbflow.core.decision import Decision
from ebbflow.core.metrics import Metric
from ebbflow.core.snapshot import Snapshot


class FreezeScaleInOnBacklog:
    """No shrinking while rows wait that no batch has taken, or while freshness uses up the objective.

    Rows that merely arrived since the last trigger are no backlog: a micro-batch engine always has some.
    And where no row waits at all, how late the last ones were keeps nobody.
    ``share`` is the part of the objective that freshness may use before shrinking is frozen.
    """

    def __init__(self, *, share: float = 0.8) -> None:
        self._share = share

    def restrain(self, snapshot: Snapshot, decision: Decision) -> Decision:
        """The decision, with shrinking clusters held as they are."""
        shrinking = [c for c, n in decision.wanted.nodes.items() if n < snapshot.planned.nodes.get(c, 0)]
        why = self._backlog(snapshot) if shrinking else ""
        if why:
            wanted = decision.wanted
            for cluster in shrinking:
                wanted = wanted.with_nodes(snapshot.planned.nodes[cluster], cluster)
            decision = decision.bound(wanted, "backlog", why)
        return decision

    def _backlog(self, snapshot: Snapshot) -> str:
        name = snapshot.pipeline.name
        waiting = snapshot.windows.of(name, Metric.BACKLOG).last or 0.0
        per_batch = snapshot.windows.of(name, Metric.BATCH_ROWS).last or 0.0
        if waiting > max(1.0, per_batch):
            return f"{waiting:.0f} rows left behind, more than a batch of {per_batch:.0f}"
        if snapshot.windows.of(name, Metric.QUEUE_LENGTH).last == 0.0:
            return ""
        freshness_s = snapshot.windows.of(name, Metric.FRESHNESS).last or 0.0
        if freshness_s > self._share * snapshot.slo.freshness_s:
            return f"freshness {freshness_s:.1f} s uses up the objective of {snapshot.slo.freshness_s:g} s"
        return ""
