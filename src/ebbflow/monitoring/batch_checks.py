"""Whether a batch that a store has can be meant: what an edited or damaged file may hold, and no run ever wrote."""

from __future__ import annotations

from ebbflow.core.batches import Batch, OperatorRun, StageRun

LONGEST_S = 1e9
"""32 years: no batch and no task took longer."""
MOST = 10**15
"""Rows, tasks and slots; the squares of more are beyond what models count with."""
FARTHEST_S = 250e9
"""From 1970, either way: as far as dates go. Simulated time begins at 0, so a start may lie a little before it."""


def can_be_meant(batch: Batch) -> bool:
    """Whether times, rows and tasks are such as a batch can have, and its stages are numbered from 0.

    >>> stage = StageRun(index=0, tasks=4, task_time_s=0.4, cpu_time_s=0.3, wall_s=0.1, longest_task_s=0.1)
    >>> def batch(rows: int, *stages: StageRun) -> Batch:
    ...     return Batch(query="q", batch_id=1, started_s=10.0, duration_s=0.5, rows=rows, slots=4,
    ...                  trigger_interval_s=1.0, arrival_rate_per_s=9.0, backlog_rows=None, oldest_arrival_s=9.0,
    ...                  stages=stages)
    >>> can_be_meant(batch(100, stage)), can_be_meant(batch(-100, stage)), can_be_meant(batch(100, stage, stage))
    (True, False, False)
    """
    return (
        _times(batch.duration_s, batch.trigger_interval_s)
        and all(-FARTHEST_S <= time_s <= FARTHEST_S for time_s in (batch.started_s, batch.oldest_arrival_s))
        and _counts(batch.rows, batch.slots, batch.arrival_rate_per_s, batch.backlog_rows or 0.0)
        and all(_stage(run, index) for index, run in enumerate(batch.stages))
        and all(map(_operator, batch.operators))
    )


def _stage(run: StageRun, index: int) -> bool:
    return (
        run.index == index
        and 1 <= run.tasks <= MOST
        and _times(run.task_time_s, run.cpu_time_s, run.wall_s, run.longest_task_s)
    )


def _operator(run: OperatorRun) -> bool:
    return _counts(run.rows_in, run.rows_out, run.instances or 0) and _times(
        run.cpu_s or 0.0, run.busiest_instance_cpu_s or 0.0
    )


def _times(*values_s: float) -> bool:
    """Comparisons with what is not a number are false, too."""
    return all(0.0 <= value_s <= LONGEST_S for value_s in values_s)


def _counts(*values: float) -> bool:
    return all(0 <= value <= MOST for value in values)
