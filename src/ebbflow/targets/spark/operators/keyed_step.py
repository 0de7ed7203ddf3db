"""Row counts and CPU of a step with keyed state, which ``operator()`` cannot wrap.

Such a step is called once for each key. It ends the rows of a key with a row of measures of the call; these rows are
observed under the operator's name and then dropped, as in ``operator().map_in_arrow``.

The whole stage serves the step: it sorts rows by key, and reads and commits state. So the CPU of the step is that of
its Python workers plus that of the JVM in the stage, whose id is in the rows. Executors import this module, so it
imports little.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ebbflow.targets.spark.observe.progress import OBSERVED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MEASURES = "rows_in long, rows_out long, cpu_s double, instance int, stage int"
"""Columns to add to the schema of the step; in the rows of its result they have the values ``IS_RESULT``."""
IS_RESULT = (0, 0, 0.0, -1, -1)


def measures(*, rows_in: int, rows_out: int, cpu_s: float) -> tuple[int, int, float, int, int]:
    """The measures of one call, made within its task."""
    from pyspark import TaskContext

    task = TaskContext.get()
    if task is None:  # not in a Spark task
        return rows_in, rows_out, cpu_s, 0, 0
    return rows_in, rows_out, cpu_s, task.partitionId(), task.stageId()


def measured(df: DataFrame, name: str, *, instances: int) -> DataFrame:
    """Observe the rows of measures, and drop them from the result."""
    from pyspark.sql import functions as F  # noqa: N812

    is_result = F.col("instance") < 0
    of_instances = [
        F.sum(F.when(F.col("instance") == instance, F.col("cpu_s")).otherwise(0.0))
        for instance in range(instances)
    ]
    busiest = F.greatest(*of_instances) if instances > 1 else of_instances[0]
    return (
        df.observe(
            f"{OBSERVED}{name}:both",
            F.sum("rows_in").alias("rows_in"),
            F.sum("rows_out").alias("rows_out"),
            F.sum("cpu_s").alias("cpu_s"),
            busiest.alias("busiest_cpu_s"),
            F.max(F.lit(instances)).alias("instances"),
            F.max("stage").alias("stage"),
        )
        .where(is_result)
        .drop(*(field.split()[0] for field in MEASURES.split(", ")))
    )
