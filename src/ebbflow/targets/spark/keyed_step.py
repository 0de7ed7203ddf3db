"""Counts and CPU of a step with keyed state, which ``operator()`` cannot be put around.

Such a step is called once for each key. It ends the rows of a key with one that says what the call took; these
rows are observed under the operator's name and dropped right behind it, as ``operator().map_in_arrow`` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ebbflow.targets.spark.progress import OBSERVED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MEASURES = "rows_in long, rows_out long, cpu_s double, instance int"
"""Columns to add to the schema of the step: 0, 0, 0 and -1 in rows of its result."""


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
        df.observe(f"{OBSERVED}{name}:in", F.sum("rows_in").alias("rows"))
        .observe(
            f"{OBSERVED}{name}:out",
            F.sum("rows_out").alias("rows"),
            F.sum("cpu_s").alias("cpu_s"),
            busiest.alias("busiest_cpu_s"),
            F.max(F.lit(instances)).alias("instances"),
        )
        .where(is_result)
        .drop("rows_in", "rows_out", "cpu_s", "instance")
    )
