"""Finished micro-batches, as an engine reports them. Strategies learn the cost of work from them."""

from __future__ import annotations

import msgspec


class StageRun(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One stage of one batch. Times are sums over its tasks unless they say otherwise.

    A struct without garbage collection, like ``OperatorRun`` and ``Batch``: a simulated day makes 200,000 of them.
    """

    index: int
    """Position within the batch; the same step of the query has the same index in every batch."""
    tasks: int
    task_time_s: float
    """Σ over tasks of the time they held a slot."""
    cpu_time_s: float
    wall_s: float
    """From the launch of the first task to the end of the last."""
    longest_task_s: float


class OperatorRun(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Counts of one named operator in one batch; CPU only where it is a Python step.

    Unknown fields are left out of the JSON, because a store may hold millions of them.
    """

    name: str
    rows_in: int
    rows_out: int
    cpu_s: float | None = None
    busiest_instance_cpu_s: float | None = None
    instances: int | None = None
    stage: int | None = None
    """Index of the stage in which it ended; None if unknown."""


class Batch(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A finished micro-batch of one query."""

    query: str
    batch_id: int
    started_s: float
    """When its offsets were taken."""
    duration_s: float
    rows: int
    slots: int
    """Slots available when it ended."""
    steady: bool = True
    """False if nodes came or left during the batch, or a new node did its first work in it. A new node's first tasks
    load classes and start Python, so their times do not predict later ones."""
    trigger_interval_s: float
    arrival_rate_per_s: float
    """Rows that arrived at the source per second, between this batch's start and the one before."""
    backlog_rows: float | None
    """Rows that were at the source when it started and that it left behind because of a read limit. None if the
    source does not report its latest offset."""
    oldest_arrival_s: float
    """When the oldest of its rows arrived."""
    stages: tuple[StageRun, ...] = ()
    operators: tuple[OperatorRun, ...] = ()

    @property
    def ended_s(self) -> float:
        """When its results were committed."""
        return self.started_s + self.duration_s
