"""What the agent sees: mean total latency and incoming messages over the last ``windowSize`` seconds.

    total latency of a batch = scheduling latency + processing latency

as Spark reports both. The mean is over the batches that ended in the window; of several queries the slowest counts. A
query without rows runs no batches; its latency and messages are 0. Two things are ours:

- **A fresh window after a change.** Batches that started before the number of executors last changed say nothing about
  the present number, so they do not count. Until a batch that started since then has ended, nothing is known.
- **The running batch.** Once its age exceeds the mean, that is the latency; once it exceeds the target, even if nothing
  else is known. When it ends, it would be too late.

The waiting batches of the queue-aware executor strategy are the triggers that passed during the newest batch, and the
batches' worth of rows that it left behind. Structured Streaming has no queue of batches: it merges them into the next.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from ebbflow.core.batches import Batch
from ebbflow.core.metrics import Metric
from ebbflow.core.readings import Window
from ebbflow.core.signals import is_idle
from ebbflow.core.snapshot import Snapshot

_SAME_S = 1e-3
"""A reading this close to the end of a batch is of that batch."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WindowMeans:
    """Means over the window."""

    latency_s: float
    messages_per_s: float
    freshness_s: float
    """Age of the oldest row in the window when it was committed."""
    waiting_batches: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class _Ended:
    """A batch that ended, with its total latency."""

    batch: Batch
    latency_s: float


class LatencyWindow:
    """The batches of each query in the window."""

    def __init__(self, span_s: float, target_latency_s: float) -> None:
        self._span_s, self._target_s = span_s, target_latency_s
        self._nodes: int | None = None
        self._changed_s = float("-inf")
        self._ended: dict[str, deque[_Ended]] = {}

    def add(self, snapshot: Snapshot) -> None:
        """Take the batches of a snapshot. The last one of a query stays, however old it is."""
        if snapshot.observed.main_nodes != self._nodes:
            self._changed_s = float("-inf") if self._nodes is None else snapshot.observed_s
            self._nodes = snapshot.observed.main_nodes
        for batch in snapshot.batches:
            readings = snapshot.windows.of(batch.query, Metric.SCHEDULING_LATENCY)
            latency_s = batch.duration_s + _scheduling_s(readings, batch.ended_s)
            self._ended.setdefault(batch.query, deque()).append(_Ended(batch=batch, latency_s=latency_s))
        for query in [name for name in self._ended if name not in snapshot.queries]:
            del self._ended[query]
        for ended in self._ended.values():
            while len(ended) > 1 and ended[0].batch.ended_s <= snapshot.now_s - self._span_s:
                ended.popleft()

    def measure(self, snapshot: Snapshot) -> WindowMeans | None:
        """The means now; None if no query runs, or none has ended a batch since the last change."""
        parts = [self._query(snapshot, query, ended) for query, ended in self._ended.items()]
        known = [part for part in parts if part is not None]
        if not known:
            return None
        return WindowMeans(
            latency_s=max(part.latency_s for part in known),
            messages_per_s=sum(part.messages_per_s for part in known),
            freshness_s=max(part.freshness_s for part in known),
            waiting_batches=max(part.waiting_batches for part in known),
        )

    def _query(self, snapshot: Snapshot, query: str, ended: deque[_Ended]) -> WindowMeans | None:
        running_since_s, last = snapshot.queries[query], ended[-1]
        recent = [
            each
            for each in ended
            if each.batch.ended_s > snapshot.now_s - self._span_s and each.batch.started_s >= self._changed_s
        ]
        if is_idle(last.batch, running_since_s, snapshot.observed_s):
            return WindowMeans(latency_s=0.0, messages_per_s=0.0, freshness_s=0.0)
        running_s = 0.0 if running_since_s is None else snapshot.observed_s - running_since_s
        if recent:
            latency_s = max(sum(each.latency_s for each in recent) / len(recent), running_s)
        elif running_s > self._target_s:
            latency_s = running_s
        else:
            return None
        newest_s = max(last.latency_s, running_s)
        used = recent or [last]
        return WindowMeans(
            latency_s=latency_s,
            messages_per_s=sum(each.batch.arrival_rate_per_s for each in used) / len(used),
            freshness_s=max(each.batch.ended_s - each.batch.oldest_arrival_s for each in used),
            waiting_batches=_waiting(last.batch, newest_s),
        )


def _scheduling_s(readings: Window, ended_s: float) -> float:
    """The scheduling latency that was read with a batch; 0 if there is none."""
    for at_s, value in reversed(readings.points):
        if at_s < ended_s - _SAME_S:
            break
        if at_s <= ended_s + _SAME_S:
            return value
    return 0.0


def _waiting(batch: Batch, latency_s: float) -> int:
    triggers = int(latency_s / batch.trigger_interval_s) if batch.trigger_interval_s > 0 else 0
    left_behind = math.ceil((batch.backlog_rows or 0.0) / batch.rows) if batch.rows else 0
    return triggers + left_behind
