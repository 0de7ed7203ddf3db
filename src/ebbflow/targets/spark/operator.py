"""``operator()``: gives a step of a pipeline a name, counts on both sides, and, if asked, its own stage.

::

    words = tweets.transform(operator("split")(lambda df: df.select(explode(split("text", " ")))))
    found = words.transform(operator("lookup", parallelism=8).map_in_arrow(look_up, "word string, id long"))

Without a parallelism nothing else changes: no shuffle, the step stays fused with the one before it, and
Spark counts in the loop it compiles anyway (``row_counts``). With one, the rows are dealt out first, and the
step becomes a stage that can be sized. A Python step is counted by ``observe``, beside its CPU seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle

from ebbflow.errors import PipelineError
from ebbflow.targets.spark import measured_step
from ebbflow.targets.spark.progress import OBSERVED
from ebbflow.targets.spark.row_counts import marked

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    Step = Callable[[DataFrame], DataFrame]
    ArrowFunction = Callable[[Iterator[pa.RecordBatch]], Iterable[pa.RecordBatch]]
    PandasFunction = Callable[[Iterator[pd.DataFrame]], Iterable[pd.DataFrame]]

# Sent to executors as code, not as a name: they need pyarrow, but not Ebbflow.
cloudpickle.register_pickle_by_value(measured_step)  # type: ignore[no-untyped-call]


class NamedOperator:
    """A name and perhaps a parallelism, to be put around a step."""

    def __init__(self, name: str, parallelism: int | None, key: str | None) -> None:
        if not name or ":" in name:
            raise PipelineError(f"'{name}' cannot name an operator; use a word without ':'")
        if parallelism is not None and parallelism < 1:
            raise PipelineError(
                f"operator '{name}': a parallelism of {parallelism} makes no sense; 1 or more"
            )
        self.name = name
        self.parallelism = parallelism
        self.key = key

    def __call__(self, step: Step) -> Step:
        """Around a step from DataFrame to DataFrame."""

        def named(df: DataFrame) -> DataFrame:
            came = marked(self._dealt_out(df), self._mark("in"))
            return marked(step(came), self._mark("out"))

        return named

    def map_in_arrow(self, function: ArrowFunction, schema: StructType | str) -> Step:
        """Around a Python function over Arrow batches; its CPU seconds are measured too.

        Each instance ends its output with one row that carries the CPU seconds it used. The row is
        counted by ``observe`` and dropped right behind it, so the figure is exact for each batch.
        """

        def named(df: DataFrame) -> DataFrame:
            from pyspark.sql import functions as F  # noqa: N812

            fields = _nullable(schema)
            arrow_schema = _arrow_schema(df, schema)

            def measured(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
                return measured_step.with_cpu_row(function, batches, arrow_schema)

            came = self._dealt_out(df).observe(self._mark("in"), F.count(F.lit(1)).alias("rows"))
            went = came.mapInArrow(measured, fields.add(measured_step.CPU_COLUMN, "double"))
            cpu = F.col(measured_step.CPU_COLUMN)
            went = went.observe(
                self._mark("out"),
                F.sum(F.when(cpu.isNull(), 1).otherwise(0)).alias("rows"),
                F.sum(cpu).alias("cpu_s"),
                F.max(cpu).alias("busiest_cpu_s"),
                F.count(cpu).alias("instances"),
            )
            return went.where(cpu.isNull()).drop(measured_step.CPU_COLUMN)

        return named

    def map_in_pandas(self, function: PandasFunction, schema: StructType | str) -> Step:
        """Around a Python function over pandas frames; its CPU seconds are measured too."""

        def named(df: DataFrame) -> DataFrame:
            declared = _arrow_schema(df, schema)

            def over_arrow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
                import pyarrow as pa

                for frame in function(batch.to_pandas() for batch in batches):
                    yield from pa.Table.from_pandas(frame, schema=declared, preserve_index=False).to_batches()

            return self.map_in_arrow(over_arrow, schema)(df)

        return named

    def _dealt_out(self, df: DataFrame) -> DataFrame:
        if self.parallelism is None:
            return df
        return df.repartition(self.parallelism, self.key) if self.key else df.repartition(self.parallelism)

    def _mark(self, side: str) -> str:
        return f"{OBSERVED}{self.name}:{side}"


def operator(name: str, *, parallelism: int | None = None, key: str | None = None) -> NamedOperator:
    """Name a step; with ``parallelism`` it becomes a stage of its own, rows dealt out evenly or by ``key``."""
    return NamedOperator(name, parallelism, key)


def _arrow_schema(df: DataFrame, schema: StructType | str) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    timezone = df.sparkSession.conf.get("spark.sql.session.timeZone")
    return to_arrow_schema(_nullable(schema), timezone=timezone)


def _nullable(schema: StructType | str) -> StructType:
    """The schema with every column nullable at the top: the row that carries the CPU has no values."""
    from pyspark.sql.types import StructField, StructType, _parse_datatype_string

    parsed: Any = _parse_datatype_string(schema) if isinstance(schema, str) else schema
    return StructType([StructField(f.name, f.dataType, True, f.metadata) for f in parsed.fields])
