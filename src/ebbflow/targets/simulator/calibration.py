"""From batches that were seen on Spark to an engine that behaves like them."""

from __future__ import annotations

from ebbflow.core.pipeline import Pipeline
from ebbflow.profiling.batch.model import BatchModel
from ebbflow.targets.simulator.micro_batch.engine import MicroBatch, Stage


def calibrated(model: BatchModel, pipeline: Pipeline, *, trigger_interval_s: float) -> MicroBatch:
    """The query of a learned model: the same d, and for each stage the same p, o, c and skew.

    >>> from ebbflow.core.batches import Batch, StageRun
    >>> model = BatchModel()
    >>> for rows in (100, 200, 400):  # 4 tasks of 0.1 s + 10 ms a row, on 2 slots, 0.5 s driver
    ...     task_s = 4 * 0.1 + 0.01 * rows
    ...     stage = StageRun(index=0, tasks=4, task_time_s=task_s, cpu_time_s=0.0,
    ...                      wall_s=task_s / 2, longest_task_s=task_s / 4)
    ...     model.learn(Batch(query="q", batch_id=rows, started_s=0.0, duration_s=0.5 + task_s / 2, rows=rows,
    ...         slots=2, trigger_interval_s=1.0, arrival_rate_per_s=100.0, backlog_rows=0.0,
    ...         oldest_arrival_s=0.0, stages=(stage,)))
    >>> engine = calibrated(model, Pipeline.chain("q", "read"), trigger_interval_s=1.0)
    >>> [round(engine.batch_s(400, slots), 3) for slots in (1, 2, 4)]
    [4.9, 2.7, 1.6]
    """
    stages = []
    for stage in model.stages:
        per_task_s, per_row_s = stage.costs
        stages.append(
            Stage(
                tasks=stage.tasks,
                per_task_s=per_task_s,
                per_row_s=per_row_s,
                skew=min(stage.skew, float(stage.tasks)),
            )
        )
    return MicroBatch(
        pipeline=pipeline,
        stages=tuple(stages),
        driver_s=model.driver_s,
        trigger_interval_s=trigger_interval_s,
    )
