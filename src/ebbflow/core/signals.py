"""The signals that most strategies use, from the batches of a micro-batch target or the operators of a continuous one.

The unit is ``Work``. On a micro-batch target it is a finished batch of a query. Its span is max(duration, trigger
interval), its busy time Σ task_time, its slots those it ran on:

    busy fraction = Σ task_time / (slots × max(duration, trigger))

On a continuous target it is what an operator did between two snapshots: the sums of its ``rows-in`` and
``operator-cpu`` readings, with ``instances`` as its slots. If only the mean share of an instance is read
(``instance-cpu``), busy time = Σ share × instances × time since the previous reading. ``instance-busy`` gives the time
with rows in hand in the same way. It is longer than the CPU time if instances wait for a core, and it is what Flink and
DS2 call busy.

The lag is the pipeline's ``queue-length``. Without that metric it is the rows that the last batches left behind plus
those that arrived while they ran; None if a source does not report what is left.

A batch that outlasts both the previous one and its trigger is assumed to keep as large a share of the present slots
busy as that one did. A CPU meter would show it long before it ends. A query that runs no batch and is well past its
trigger is idle, which is a measured zero. Everything else that is missing stays ``None``.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from ebbflow.core.batches import Batch
from ebbflow.core.metrics import Metric
from ebbflow.core.readings import Window
from ebbflow.core.snapshot import Snapshot

IDLE_AFTER_S = 2.0
"""How long past its trigger a query without a batch counts as idle."""


def flows(snapshot: Snapshot) -> bool:
    """Whether rows flow through operators without batches: only then the CPU of instances is reported."""
    return not snapshot.in_batches and any(
        snapshot.windows.of(name, Metric.INSTANCE_CPU).last is not None for name in snapshot.pipeline.order
    )


def is_idle(last: Batch, running_since_s: float | None, seen_s: float) -> bool:
    """Whether a query has no rows to process: it runs no batch although the next one is overdue by ``IDLE_AFTER_S``.

    ``last`` is its last finished batch.
    """
    due_s = max(last.ended_s, last.started_s + last.trigger_interval_s)
    return running_since_s is None and seen_s > due_s + IDLE_AFTER_S


@dataclass(frozen=True, kw_only=True)
class Work:
    """What one query or operator did in a span of time."""

    vertex: str
    """The query or operator."""
    ended_s: float
    span_s: float
    rows: float
    rows_out: float | None = None
    busy_s: float | None
    """Slot-seconds of work; None if not measured."""
    in_hand_s: float | None = None
    """Instance-seconds with rows in hand, including waits for a core; None if not measured."""
    slots: float

    @property
    def busy_slots(self) -> float | None:
        """Slots that the work kept busy on average."""
        return None if self.busy_s is None else self.busy_s / self.span_s


class Signals:
    """Lag, rates and busy slots, updated from each snapshot."""

    def __init__(self) -> None:
        self.batches: dict[str, Batch] = {}
        """The last batch of each running query."""
        self.last: dict[str, Work] = {}
        """The last work of each query, or of each operator."""
        self.new: list[Work] = []
        """Work that is new in the last snapshot."""
        self.lag_rows: float | None = None
        self.rate_per_s: float | None = None
        """Rows that arrive per second."""
        self.micro_batch = False
        """Whether the target works in batches."""
        self._sources: tuple[str, ...] = ()
        self._overdue: dict[str, float] = {}
        """Slots that batches keep busy which have outlasted the previous ones."""

    @property
    def busy_slots(self) -> float | None:
        """Slots that the whole pipeline keeps busy; None if any part is unknown."""
        return self._sum(self._overdue)

    @property
    def done_slots(self) -> float | None:
        """The same for finished work only, to go with ``processed_per_s``."""
        return self._sum({})

    def _sum(self, instead: dict[str, float]) -> float | None:
        parts = [instead.get(name, work.busy_slots) for name, work in self.last.items()]
        known = [part for part in parts if part is not None]
        return sum(known) if parts and len(known) == len(parts) else None

    @property
    def processed_per_s(self) -> float | None:
        """Source rows processed per second, by the last work of the queries or of the source operators."""
        sources = [w for w in self.last.values() if self.micro_batch or w.vertex in self._sources]
        return sum(work.rows / work.span_s for work in sources) if sources else None

    @property
    def most_tasks(self) -> int | None:
        """Most tasks of a stage in the last batches: the number of partitions."""
        return max((s.tasks for b in self.batches.values() for s in b.stages), default=None)

    def update(self, snapshot: Snapshot) -> str:
        """Add a snapshot. Returns what is missing, for the ledger; empty if nothing is."""
        self.new, self._sources = [], snapshot.pipeline.sources
        for ended in [name for name in self.batches if name not in snapshot.queries]:
            del self.batches[ended]
            self.last.pop(ended, None)
        self.micro_batch = self.micro_batch or (bool(snapshot.queries) and not flows(snapshot))
        if self.micro_batch:
            self._update_queries(snapshot)
        else:
            self._update_operators(snapshot)
        self.last.update({work.vertex: work for work in self.new})
        self._update_source(snapshot)
        return "" if self.last else "no data: no batch has finished and no operator has two readings"

    def _update_queries(self, snapshot: Snapshot) -> None:
        for batch in snapshot.batches:
            if batch.query in snapshot.queries:
                self.batches[batch.query] = batch
                self.new.append(_work(batch))
        fresh = {work.vertex for work in self.new}
        for name, batch in self.batches.items():
            if name not in fresh and is_idle(batch, snapshot.queries[name], snapshot.observed_s):
                since_s = max(self.last[name].ended_s, batch.started_s + batch.trigger_interval_s)
                if snapshot.observed_s > since_s:
                    span_s = snapshot.observed_s - since_s
                    self.new.append(
                        Work(
                            vertex=name,
                            ended_s=snapshot.observed_s,
                            span_s=span_s,
                            rows=0,
                            busy_s=0.0,
                            slots=snapshot.slots,
                        )
                    )
        self._overdue = {
            name: _busy_slots(batch, snapshot.slots)
            for name, batch in self.batches.items()
            if (running_s := snapshot.queries[name]) is not None
            and snapshot.observed_s - running_s > max(batch.duration_s, batch.trigger_interval_s)
            and batch.stages
        }

    def _update_operators(self, snapshot: Snapshot) -> None:
        windows = snapshot.windows
        for name in snapshot.pipeline.order:
            last = self.last.get(name)
            since_s = float("-inf") if last is None else last.ended_s
            points = windows.of(name, Metric.ROWS_IN).since(since_s)
            if len(points) < 2 or points[-1][0] <= points[0][0]:
                continue
            slots = (
                windows.of(name, Metric.INSTANCES).last
                or snapshot.planned.parallelism.get(name)
                or snapshot.slots
            )
            busy_s = _sum_of(points, windows.of(name, Metric.OPERATOR_CPU))
            if busy_s is None:
                busy_s = _seconds(points, windows.of(name, Metric.INSTANCE_CPU), slots)
            self.new.append(
                Work(
                    vertex=name,
                    ended_s=points[-1][0],
                    span_s=points[-1][0] - points[0][0],
                    rows=sum(rows for _, rows in points[1:]),
                    rows_out=_sum_of(points, windows.of(name, Metric.ROWS_OUT)),
                    busy_s=busy_s,
                    in_hand_s=_seconds(points, windows.of(name, Metric.INSTANCE_BUSY), slots),
                    slots=slots,
                )
            )

    def _update_source(self, snapshot: Snapshot) -> None:
        name = snapshot.pipeline.name
        self.rate_per_s = snapshot.windows.of(name, Metric.ARRIVAL_RATE).last
        self.lag_rows = snapshot.windows.of(name, Metric.QUEUE_LENGTH).last
        if not self.micro_batch:
            return
        working = [
            batch
            for query, batch in self.batches.items()
            if not is_idle(batch, snapshot.queries[query], snapshot.observed_s)
        ]
        self.rate_per_s = sum(batch.arrival_rate_per_s for batch in working)
        left = [b.backlog_rows for b in working if b.backlog_rows is not None]
        if self.lag_rows is None and len(left) == len(working):
            self.lag_rows = sum(left) + sum(b.arrival_rate_per_s * b.duration_s for b in working)


def _work(batch: Batch) -> Work:
    counted = bool(batch.stages) or batch.rows == 0
    return Work(
        vertex=batch.query,
        ended_s=batch.ended_s,
        span_s=max(batch.duration_s, batch.trigger_interval_s, 1e-3),
        rows=batch.rows,
        busy_s=sum(stage.task_time_s for stage in batch.stages) if counted else None,
        slots=max(1, batch.slots),
    )


def _busy_slots(batch: Batch, slots: int) -> float:
    """How many of these slots a batch like this keeps busy while it runs."""
    available_s = max(1, batch.slots) * max(batch.duration_s, 1e-3)
    share = min(1.0, sum(stage.task_time_s for stage in batch.stages) / available_s)
    return share * min(slots, max(stage.tasks for stage in batch.stages))


def _sum_of(points: list[tuple[float, float]], window: Window) -> float | None:
    """The sum of another metric over the same readings; None unless it was read every time."""
    others = window.since(points[0][0])
    return sum(value for _, value in others[1:]) if len(others) == len(points) else None


def _seconds(points: list[tuple[float, float]], window: Window, instances: float) -> float | None:
    """Seconds of all instances from the mean share of one, over the same readings."""
    shares = window.since(points[0][0])
    if len(shares) != len(points):
        return None
    return instances * sum(share * (at_s - from_s) for (from_s, _), (at_s, share) in pairwise(shares))
