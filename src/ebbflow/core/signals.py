"""What the peers measure: the same few signals from batches of a micro-batch target or from operators.

The unit is a stretch of work. On a micro-batch target it is a finished batch of a query: its span is
max(duration, trigger interval), its busy time Σ task_time, its slots those it ran on, so that

    busy fraction = Σ task_time / (slots × max(duration, trigger))

On a continuous target it is what an operator did between two looks: the sums of its readings of ``rows-in``
and ``operator-cpu``, each of which counts since the reading before, with ``instances`` as its slots. Where only the
mean share of an instance is read (``instance-cpu``), busy time = Σ share × instances × time since the reading before.
``instance-busy`` gives the time with rows in hand in the same way: longer than the CPU's where instances wait for a
core, and what Flink and DS2 call busy.
The lag is the pipeline's ``queue-length``; where that is not read, the rows a batch left behind plus those
that came while it ran; missing where a source does not tell what was left.

A batch that has run for longer than the one before (and than its trigger) is taken to keep as large a share
of the present slots busy as that one did while it ran: a CPU meter would see it long before it ends.
A query that is known, runs no batch and is well past its trigger has nothing to do: that is a measured
zero. Everything else that is not there is missing, and stays ``None``.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from ebbflow.core.batches import Batch
from ebbflow.core.metrics import Metric
from ebbflow.core.readings import Window
from ebbflow.core.snapshot import Snapshot

IDLE_AFTER_S = 2.0
"""How far past its trigger a query without a batch counts as having nothing to do."""


def flows(snapshot: Snapshot) -> bool:
    """Whether rows flow through operators without batches: only then the CPU of instances is reported."""
    return not snapshot.in_batches and any(
        snapshot.windows.of(name, Metric.INSTANCE_CPU).last is not None for name in snapshot.pipeline.order
    )


def is_idle(last: Batch, running_since_s: float | None, seen_s: float) -> bool:
    """Whether a query has no rows to process: it runs no batch although the next one is overdue by
    ``IDLE_AFTER_S``. ``last`` is its last finished batch."""
    due_s = max(last.ended_s, last.started_s + last.trigger_interval_s)
    return running_since_s is None and seen_s > due_s + IDLE_AFTER_S


@dataclass(frozen=True, kw_only=True)
class Work:
    """One stretch of work of one query or operator."""

    vertex: str
    to_s: float
    span_s: float
    rows: float
    rows_out: float | None = None
    busy_s: float | None
    """Slot-seconds of work; None where nobody counted them."""
    in_hand_s: float | None = None
    """Instance-seconds with rows in hand, waiting for a core included; None where nobody counted them."""
    slots: float

    @property
    def busy_slots(self) -> float | None:
        """How many slots the work kept busy on the mean."""
        return None if self.busy_s is None else self.busy_s / self.span_s


class Signals:
    """Follows a snapshot's batches or operator readings from look to look."""

    def __init__(self) -> None:
        self.batches: dict[str, Batch] = {}
        """The last batch of each query that runs."""
        self.last: dict[str, Work] = {}
        """The last stretch of each query, or of each operator."""
        self.new: list[Work] = []
        """Those that came with the last look."""
        self.lag_rows: float | None = None
        self.rate_per_s: float | None = None
        self._sources: tuple[str, ...] = ()
        self._in_batches = False
        self._overdue: dict[str, float] = {}
        """Slots that batches keep busy which have run for longer than the ones before."""

    @property
    def micro_batch(self) -> bool:
        """Whether what was seen came in batches."""
        return self._in_batches

    @property
    def busy_slots(self) -> float | None:
        """Slots' worth of work going on in the whole pipeline; None if any part of it is unknown."""
        return self._sum(self._overdue)

    @property
    def done_slots(self) -> float | None:
        """The same of finished work only: what goes with ``processed_per_s``."""
        return self._sum({})

    def _sum(self, instead: dict[str, float]) -> float | None:
        parts = [instead.get(name, work.busy_slots) for name, work in self.last.items()]
        known = [part for part in parts if part is not None]
        return sum(known) if parts and len(known) == len(parts) else None

    @property
    def processed_per_s(self) -> float | None:
        """Source rows taken in per second, in the last stretches of the queries or of the source operators."""
        sources = [w for w in self.last.values() if self.micro_batch or w.vertex in self._sources]
        return sum(work.rows / work.span_s for work in sources) if sources else None

    @property
    def most_tasks(self) -> int | None:
        """Most tasks of a stage in the last batches: how many partitions there are to work on."""
        return max((s.tasks for b in self.batches.values() for s in b.stages), default=None)

    def look(self, snapshot: Snapshot) -> str:
        """Take in a snapshot; the answer says what is missing, and is empty where nothing is."""
        self.new, self._sources = [], snapshot.pipeline.sources
        for gone in [name for name in self.batches if name not in snapshot.queries]:
            del self.batches[gone]
            self.last.pop(gone, None)
        self._in_batches = self._in_batches or (bool(snapshot.queries) and not flows(snapshot))
        if self._in_batches:
            self._look_at_batches(snapshot)
        else:
            self._look_at_operators(snapshot)
        self.last.update({work.vertex: work for work in self.new})
        self._look_at_source(snapshot)
        return "" if self.last else "no data: no batch has finished and no operator was read twice"

    # -- micro-batch ---------------------------------------------------------------------------

    def _look_at_batches(self, snapshot: Snapshot) -> None:
        for batch in snapshot.batches:
            if batch.query in snapshot.queries:
                self.batches[batch.query] = batch
                self.new.append(_work(batch))
        fresh = {work.vertex for work in self.new}
        for name, batch in self.batches.items():
            if name not in fresh and is_idle(batch, snapshot.queries[name], snapshot.seen_s):
                since_s = max(self.last[name].to_s, batch.started_s + batch.trigger_interval_s)
                if snapshot.seen_s > since_s:
                    slots = max(1, snapshot.observed.main_nodes * snapshot.slots_per_node)
                    span_s = snapshot.seen_s - since_s
                    self.new.append(
                        Work(
                            vertex=name, to_s=snapshot.seen_s, span_s=span_s, rows=0, busy_s=0.0, slots=slots
                        )
                    )

        self._overdue = {
            name: _slots_of(batch, _slots(snapshot))
            for name, batch in self.batches.items()
            if (begun_s := snapshot.queries[name]) is not None
            and snapshot.seen_s - begun_s > max(batch.duration_s, batch.trigger_interval_s)
            and batch.stages
        }

    # -- continuous ----------------------------------------------------------------------------

    def _look_at_operators(self, snapshot: Snapshot) -> None:
        for name in snapshot.pipeline.order:
            seen = self.last.get(name)
            since_s = float("-inf") if seen is None else seen.to_s
            points = snapshot.windows.of(name, Metric.ROWS_IN).since(since_s)
            if len(points) < 2 or points[-1][0] <= points[0][0]:
                continue
            read = snapshot.windows.of(name, Metric.INSTANCES).last
            slots = read or snapshot.planned.parallelism.get(name) or _slots(snapshot)
            busy_s = _same(points, snapshot.windows.of(name, Metric.OPERATOR_CPU))
            if busy_s is None:
                busy_s = _shared(points, snapshot.windows.of(name, Metric.INSTANCE_CPU), slots)
            self.new.append(
                Work(
                    vertex=name,
                    to_s=points[-1][0],
                    span_s=points[-1][0] - points[0][0],
                    rows=sum(rows for _, rows in points[1:]),
                    rows_out=_same(points, snapshot.windows.of(name, Metric.ROWS_OUT)),
                    busy_s=busy_s,
                    in_hand_s=_shared(points, snapshot.windows.of(name, Metric.INSTANCE_BUSY), slots),
                    slots=slots,
                )
            )

    # -- the source ----------------------------------------------------------------------------

    def _look_at_source(self, snapshot: Snapshot) -> None:
        name = snapshot.pipeline.name
        self.rate_per_s = snapshot.windows.of(name, Metric.ARRIVAL_RATE).last
        self.lag_rows = snapshot.windows.of(name, Metric.QUEUE_LENGTH).last
        if not self._in_batches:
            return
        idle = {
            name
            for name, batch in self.batches.items()
            if is_idle(batch, snapshot.queries[name], snapshot.seen_s)
        }
        working = [batch for name, batch in self.batches.items() if name not in idle]
        self.rate_per_s = sum(batch.arrival_rate_per_s for batch in working)
        left = [b.backlog_rows for b in working if b.backlog_rows is not None]
        if self.lag_rows is None and len(left) == len(working):
            self.lag_rows = sum(left) + sum(b.arrival_rate_per_s * b.duration_s for b in working)


def _work(batch: Batch) -> Work:
    counted = bool(batch.stages) or batch.rows == 0
    return Work(
        vertex=batch.query,
        to_s=batch.ended_s,
        span_s=max(batch.duration_s, batch.trigger_interval_s, 1e-3),
        rows=batch.rows,
        busy_s=sum(stage.task_time_s for stage in batch.stages) if counted else None,
        slots=max(1, batch.slots),
    )


def _slots_of(batch: Batch, slots: int) -> float:
    """How many of these slots a batch like this keeps busy while it runs."""
    room_s = max(1, batch.slots) * max(batch.duration_s, 1e-3)
    share = min(1.0, sum(stage.task_time_s for stage in batch.stages) / room_s)
    return share * min(slots, max(stage.tasks for stage in batch.stages))


def _same(points: list[tuple[float, float]], window: Window) -> float | None:
    """The sum of another metric over the same readings, None unless it was read every time."""
    others = window.since(points[0][0])
    return sum(value for _, value in others[1:]) if len(others) == len(points) else None


def _shared(points: list[tuple[float, float]], window: Window, instances: float) -> float | None:
    """Seconds of all instances from the mean share of one, over the same readings."""
    shares = window.since(points[0][0])
    if len(shares) != len(points):
        return None
    return instances * sum(share * (at_s - from_s) for (from_s, _), (at_s, share) in pairwise(shares))


def _slots(snapshot: Snapshot) -> int:
    return max(1, snapshot.observed.main_nodes * snapshot.slots_per_node)
