"""Nobody leaves while there is a queue."""

from __future__ import annotations

from typing import Annotated

from ebbflow.core.decision import Decision
from ebbflow.core.metrics import Metric
from ebbflow.core.parameters import Number
from ebbflow.core.ports import Guard
from ebbflow.core.readings import Window
from ebbflow.core.snapshot import Snapshot

PAUSE_S, PAUSE_SHARE = 0.2, 0.1
"""Batches run back to back when the pause between two is shorter than this, or than this share of the second."""


class FreezeScaleInOnBacklog(Guard):
    """No shrinking while rows wait that no batch has taken, or while freshness uses up the objective.

    Rows that merely arrived since the last trigger are no backlog: a micro-batch engine always has some, and a source
    that says late what it has counts them as left behind. So it is a backlog once a batch has left more than came since
    the one before it, or than it took itself (after a burst nearly all there is has just come):

        left > max(1, min(taken, taken + left − left before))

    And where no row waits at all, how late the last ones were keeps nobody. Where the source of a query does not
    tell what waits, it may be hours behind while its batches run back to back: then nobody leaves either.
    ``share`` is the part of the objective that freshness may use before shrinking is frozen.
    """

    name = "backlog"

    def __init__(
        self,
        *,
        share: Annotated[
            float, Number("Block scale-in while freshness uses more than this share of the SLO.", above=0)
        ] = 0.8,
    ) -> None:
        self._share = share

    def restrain(self, snapshot: Snapshot, decision: Decision) -> Decision:
        """The decision, with shrinking clusters held as they are."""
        if decision.wanted is snapshot.planned:
            return decision  # a hold, as most are
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
        restless = next((query for query in snapshot.queries if _may_be_behind(snapshot, query)), None)
        if restless is not None:
            return f"batches of {restless} run back to back, and its source does not tell what waits there"
        if _as_of(windows.of(name, Metric.QUEUE_LENGTH), freshness) == 0.0:
            return ""
        freshness_s = freshness.last or 0.0
        if freshness_s > self._share * snapshot.slo.freshness_s:
            return f"freshness {freshness_s:.1f} s uses up the objective of {snapshot.slo.freshness_s:g} s"
        return ""


def _left_behind(backlog: Window, taken: Window) -> str:
    """Why what the last batch left is a backlog; empty where it is none."""
    left, rows, ended_s = _as_of(backlog, taken) or 0.0, taken.last or 0.0, taken.last_time_s
    if left <= 1.0:
        return ""
    if left > rows:
        return f"{left:.0f} rows left behind, more than a batch of {rows:.0f}"
    before = next((behind for at_s, behind in reversed(backlog.points) if at_s < (ended_s or 0.0)), 0.0)
    came = max(0.0, rows + left - before)
    if left > came:
        return f"{left:.0f} rows left behind, more than the {came:.0f} that came since the batch before"
    return ""


def _as_of(window: Window, other: Window) -> float | None:
    """The newest value, unless the other series was read since: what is no longer told is not known."""
    if window.last_time_s is None or (
        other.last_time_s is not None and window.last_time_s < other.last_time_s
    ):
        return None
    return window.last


def _may_be_behind(snapshot: Snapshot, query: str) -> bool:
    """Whether nobody tells what a query left behind, and it takes one batch right after the other."""
    took = snapshot.windows.of(query, Metric.BATCH_TIME)
    if took.last is None or _as_of(snapshot.windows.of(query, Metric.BACKLOG), took) is not None:
        return False
    ended_s, duration_s = took.points[-1]
    pause_s = max(PAUSE_S, PAUSE_SHARE * duration_s)
    if snapshot.queries[query] is None and snapshot.now_s - ended_s > pause_s:
        return False  # it rests now
    before_s = next((time_s for time_s, _ in reversed(took.points) if time_s < ended_s), None)
    return before_s is not None and ended_s - duration_s - before_s < pause_s
