"""Block scale-in while there is a backlog."""

from __future__ import annotations

from typing import Annotated

from ebbflow.core.decision import Decision
from ebbflow.core.metrics import Metric
from ebbflow.core.parameters import Number
from ebbflow.core.ports import Guard
from ebbflow.core.readings import Window
from ebbflow.core.snapshot import Snapshot

PAUSE_S, PAUSE_SHARE = 0.2, 0.1
"""Batches run back to back if the pause between two is shorter than this, or than this share of the second."""


class FreezeScaleInOnBacklog(Guard):
    """Block scale-in while a batch leaves rows behind, or while freshness is close to the SLO.

    Rows that arrived since the last trigger are not a backlog: a micro-batch engine always has some, and a source that
    reports its offsets late counts them as left behind. There is a backlog if a batch left more rows than arrived since
    the batch before, or more than it took itself:

        left > max(1, min(taken, taken + left − left before))

    If no row waits at all, freshness does not block scale-in. If the source of a query does not report its latest
    offset, its batches running back to back block scale-in: it may be far behind.
    """

    name = "backlog"

    def __init__(
        self,
        *,
        share: Annotated[
            float,
            Number(
                "Block scale-in while freshness uses more than this share of the SLO.", unit="share", above=0
            ),
        ] = 0.8,
    ) -> None:
        self._share = share

    def restrain(self, snapshot: Snapshot, decision: Decision) -> Decision:
        """Keep the size of clusters that would shrink."""
        if decision.wanted is snapshot.planned:
            return decision  # fast path for holds
        shrinking = [c for c, n in decision.wanted.nodes.items() if n < snapshot.planned.nodes.get(c, 0)]
        why = self._backlog(snapshot) if shrinking else ""
        if why:
            wanted = decision.wanted
            for cluster in shrinking:
                wanted = wanted.with_nodes(snapshot.planned.nodes[cluster], cluster)
            decision = decision.bound(wanted, self.name, why)
        return decision

    def _backlog(self, snapshot: Snapshot) -> str:
        name, windows = snapshot.pipeline.name, snapshot.windows
        freshness = windows.of(name, Metric.FRESHNESS)
        for subject in dict.fromkeys((*snapshot.queries, name)):
            if why := _left_behind(
                windows.of(subject, Metric.BACKLOG), windows.of(subject, Metric.BATCH_ROWS)
            ):
                return why
        unpaused = next((query for query in snapshot.queries if _may_be_behind(snapshot, query)), None)
        if unpaused is not None:
            return f"batches of {unpaused} run back to back, and its source does not report its backlog"
        if _as_of(windows.of(name, Metric.QUEUE_LENGTH), freshness) == 0.0:
            return ""
        freshness_s = freshness.last or 0.0
        if freshness_s > self._share * snapshot.slo.freshness_s:
            return f"freshness of {freshness_s:.1f} s is close to the SLO of {snapshot.slo.freshness_s:g} s"
        return ""


def _left_behind(backlog: Window, taken: Window) -> str:
    """Why the rows that the last batch left are a backlog; empty if they are not."""
    left, rows, ended_s = _as_of(backlog, taken) or 0.0, taken.last or 0.0, taken.last_time_s
    if left <= 1.0:
        return ""
    if left > rows:
        return f"{left:.0f} rows left behind, more than a batch of {rows:.0f}"
    before = next((behind for at_s, behind in reversed(backlog.points) if at_s < (ended_s or 0.0)), 0.0)
    came = max(0.0, rows + left - before)
    if left > came:
        return f"{left:.0f} rows left behind, more than the {came:.0f} that arrived since the batch before"
    return ""


def _as_of(window: Window, other: Window) -> float | None:
    """The newest value; None if the other series has a newer one, because then this one is no longer reported."""
    if window.last_time_s is None or (
        other.last_time_s is not None and window.last_time_s < other.last_time_s
    ):
        return None
    return window.last


def _may_be_behind(snapshot: Snapshot, query: str) -> bool:
    """Whether the backlog of a query is unknown and its batches run back to back."""
    took = snapshot.windows.of(query, Metric.BATCH_TIME)
    if took.last is None or _as_of(snapshot.windows.of(query, Metric.BACKLOG), took) is not None:
        return False
    ended_s, duration_s = took.points[-1]
    pause_s = max(PAUSE_S, PAUSE_SHARE * duration_s)
    if snapshot.queries[query] is None and snapshot.now_s - ended_s > pause_s:
        return False  # it is idle now
    before_s = next((time_s for time_s, _ in reversed(took.points) if time_s < ended_s), None)
    return before_s is not None and ended_s - duration_s - before_s < pause_s
