"""When rows arrived at a query: its arrival rate, its backlog and its oldest unprocessed row.

Spark does not report arrivals. A batch reports the rows that it took and, for most sources, the latest offset when
it started. So the rows that had arrived by the start of batch k are known::

    arrived(k) = rows of all batches up to k + rows that batch k left behind
    rate(k)    = (arrived(k) - arrived(k-1)) / (start(k) - start(k-1))

Between these points arrivals are taken to be even. That dates the oldest unprocessed row even where a read limit
keeps batches small and hides the lag.
"""

from __future__ import annotations

from collections import deque

from ebbflow.targets.spark.observe.progress import Progress, rows_left_behind

_CURVE_POINTS = 2000


class ArrivalTracker:
    """Arrivals at one run of a query, updated with the progress of each finished batch."""

    def __init__(self, trigger_interval_s: float, waiting_since_s: float | None = None) -> None:
        """``waiting_since_s``: when the previous run of the query began to leave rows unprocessed."""
        self.trigger_interval_s = trigger_interval_s
        self.last_progress: Progress | None = None
        self.running_since_s: float | None = None
        """Start of the current batch; None between batches."""
        self.rate_per_s = 0.0
        """Rows that arrived per second between the starts of the last two batches; 0 while the query is idle."""
        self.backlog_rows: float | None = 0.0
        """Rows that the last batch left at the source; None if the source does not report its latest offset."""
        self.is_idle = False
        self._empty_until_s = float("-inf")
        """The latest time at which no row was waiting: every waiting row arrived later."""
        self._arrived = 0.0
        self._processed = 0.0
        self._curve: deque[tuple[float, float]] = deque(maxlen=_CURVE_POINTS)
        """(batch start, rows arrived by then)."""
        if waiting_since_s is not None:
            self._curve.append((waiting_since_s, 0.0))

    @property
    def last_batch_id(self) -> int:
        """Id of the newest finished batch, -1 before the first."""
        return -1 if self.last_progress is None else self.last_progress.batch_id

    def can_time(self, progress: Progress) -> bool:
        """Whether the interval in which the rows of a batch arrived is known: from an earlier batch of the same run."""
        return (
            self.last_progress is not None and bool(self._curve) and progress.started_s > self._curve[-1][0]
        )

    def add(self, progress: Progress) -> float:
        """Add a finished batch; returns when the oldest of its rows arrived.

        The rows of a first batch count as arrived when it started, or since the previous run left rows.
        """
        timed = self.can_time(progress)
        started_s, rows, left = progress.started_s, progress.num_input_rows, rows_left_behind(progress)
        oldest_s = self.oldest_unprocessed_s() if rows else None
        arrived = self._processed + rows + (left or 0.0)
        if timed:
            self.rate_per_s = max(0.0, arrived - self._arrived) / (started_s - self._curve[-1][0])
        self._processed += rows
        self._arrived = arrived
        self._curve.append((started_s, arrived))
        self.backlog_rows = left
        self.last_progress = progress
        self.running_since_s = None
        self.is_idle = False
        return started_s if oldest_s is None else min(oldest_s, started_s)

    def mark_idle(self, now_s: float) -> None:
        """No batch runs, and the last trigger found no data. Unknown until the first batch of the run finishes.

        This is the only sign of an empty backlog from a source that does not report its latest offset.
        """
        self.running_since_s = None
        self.rate_per_s = 0.0
        if self.backlog_rows is None:
            self.backlog_rows = 0.0
        self.is_idle = self.last_progress is not None and self.backlog_rows == 0.0
        if self.is_idle:
            self._empty_until_s = now_s - self.trigger_interval_s

    def oldest_unprocessed_s(self) -> float | None:
        """When the oldest row arrived that no finished batch has processed.

        While a first batch runs, no later than its start. Before it, unknown (None) unless the previous run left rows.
        """
        if not self._curve:
            return self.running_since_s
        return max(self._arrival_of(self._processed), self._empty_until_s)

    def queue_rows(self, now_s: float) -> float | None:
        """Unprocessed rows: the backlog, plus what the arrival rate has brought since the last batch started.

        None before the first batch, and if the source does not report its latest offset.
        """
        if self.last_progress is None or self.backlog_rows is None:
            return None
        return self.backlog_rows + self.rate_per_s * max(0.0, now_s - self._curve[-1][0])

    def _arrival_of(self, row: float) -> float:
        """When a row arrived, interpolated on the arrival curve."""
        later_s, later_rows = self._curve[-1]
        if row >= later_rows:
            return later_s
        for index in range(len(self._curve) - 2, -1, -1):
            time_s, rows = self._curve[index]
            if rows <= row:
                span = later_rows - rows
                return time_s + (later_s - time_s) * ((row - rows) / span if span > 0 else 1.0)
            later_s, later_rows = time_s, rows
        return later_s
