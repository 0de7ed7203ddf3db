"""Batches made from known costs, for a model that has to find them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ebbflow.core.batches import Batch, StageRun


@dataclass(frozen=True, kw_only=True)
class TrueStage:
    """What a stage really costs."""

    tasks: int
    per_task_s: float
    per_row_s: float
    skew: float = 1.0


def stage_run(index: int, stage: TrueStage, rows: int, slots: int, noise: float = 1.0) -> StageRun:
    """One run of a stage: p·o + c·n task seconds, the longest task ``skew`` times the mean."""
    task_time_s = (stage.tasks * stage.per_task_s + stage.per_row_s * rows) * noise
    mean_s = task_time_s / stage.tasks
    return StageRun(
        index=index,
        tasks=stage.tasks,
        task_time_s=task_time_s,
        cpu_time_s=task_time_s,
        wall_s=max(math.ceil(stage.tasks / slots), stage.skew) * mean_s,
        longest_task_s=stage.skew * mean_s,
    )


def made_batch(
    rows: int,
    stages: Sequence[TrueStage],
    *,
    slots: int = 2,
    driver_s: float = 0.5,
    noise: Callable[[], float] = lambda: 1.0,
    steady: bool = True,
    batch_id: int = 0,
) -> Batch:
    """A batch as the engine would report it."""
    runs = tuple(stage_run(i, stage, rows, slots, noise()) for i, stage in enumerate(stages))
    return Batch(
        query="q",
        batch_id=batch_id,
        started_s=5.0 * batch_id,
        duration_s=driver_s * noise() + sum(run.wall_s for run in runs),
        rows=rows,
        slots=slots,
        steady=steady,
        trigger_interval_s=5.0,
        arrival_rate_per_s=rows / 5.0,
        backlog_rows=0.0,
        oldest_arrival_s=0.0,
        stages=runs,
    )
