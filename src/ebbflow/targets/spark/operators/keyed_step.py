"""Counts and CPU of a step with keyed state, which ``operator()`` cannot be put around.

Such a step is called once for each key. It ends the rows of a key with one that says what the call took; these
rows are observed under the operator's name and dropped right behind it, as ``operator().map_in_arrow`` does.

Rows are brought to the step by key, sorted, and its state is read and committed, all for it alone: the stage is the
step. So its CPU is that of the Python workers and that of the JVM's threads in the stage, which the rows name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ebbflow.targets.spark.observe.progress import OBSERVED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MEASURES = "rows_in long, rows_out long, cpu_s double, instance int, stage int"
"""Columns to add to the schema of the step; in rows of its result they are ``IS_RESULT``."""
IS_RESULT = (0, 0, 0.0, -1, -1)


def measures(*, rows_in: int, rows_out: int, cpu_s: float) -> tuple[int, int, float, int, int]:
    """The measures of one call, from inside the task that makes it."""
    from pyspark import TaskContext

    task = TaskContext.get()
    if task is None:  # outside of Spark
        return rows_in, rows_out, cpu_s, 0, 0
    return rows_in, rows_out, cpu_s, task.partitionId(), task.stageId()


def measured(df: DataFrame, name: str, *, instances: int) -> DataFrame:
    """The rows of the step's result; the rows of an instance's measures are observed and dropped."""
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
