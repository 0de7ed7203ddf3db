"""``operator()``: names a step of a pipeline, counts its rows, and optionally makes it a stage of its own.

::

    words = tweets.transform(operator("split")(lambda df: df.select(explode(split("text", " ")))))
    found = words.transform(operator("lookup", parallelism=8).map_in_arrow(look_up, "word string, id long"))

Without a parallelism nothing else changes: no shuffle, the step stays fused with the one before it, and Spark counts
rows in the loop that it compiles anyway (``row_counts``). With a parallelism, rows are repartitioned first, and the
step becomes a stage that can be sized. Rows and CPU seconds of a Python step are counted by ``observe``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from pyspark import cloudpickle

from ebbflow.errors import PipelineError
from ebbflow.targets.spark.driver import Driver
from ebbflow.targets.spark.observe.progress import MEASURES, OBSERVED, operator_runs
from ebbflow.targets.spark.operators import measured_step
from ebbflow.targets.spark.operators.row_counts import marked

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    Step = Callable[[DataFrame], DataFrame]
    ArrowFunction = Callable[[Iterator[pa.RecordBatch]], Iterable[pa.RecordBatch]]
    PandasFunction = Callable[[Iterator[pd.DataFrame]], Iterable[pd.DataFrame]]
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from ebbflow.core.batches import OperatorRun


class OperatorCounts:
    """Rows in and out of each named operator, batch by batch, for a job of your own; poll it about once a second.

    ::

        counts = ebbflow.OperatorCounts(spark, query)
        while not query.awaitTermination(1):
            for batch_id, run in counts.new():
                print(batch_id, run.name, run.rows_in, run.rows_out, run.cpu_s)
    """

    def __init__(self, spark: SparkSession, query: StreamingQuery) -> None:
        self._driver = Driver(spark)
        self._query = query
        self._rows = self._driver.row_counts()
        self._last_batch_id = -1

    def new(self) -> list[tuple[int, OperatorRun]]:
        """(batch id, run of an operator) of the batches that finished since the last call."""
        found = []
        for progress, rows in self._driver.progress_after(self._query, self._last_batch_id, self._rows):
            self._last_batch_id = progress.batch_id
            found += [
                (progress.batch_id, run) for run in operator_runs(progress, rows, self._driver.stage_cpu_s)
            ]
        return found


# Executors get this module as code, not by name: they need pyarrow, but not Ebbflow.
cloudpickle.register_pickle_by_value(measured_step)  # type: ignore[no-untyped-call]


class NamedOperator:
    """A name and an optional parallelism, to wrap around a step."""

    def __init__(self, name: str, parallelism: int | None, key: str | None) -> None:
        if not isinstance(name, str) or not name or ":" in name:
            raise PipelineError(f"{name!r} is not a name for an operator; use a word without ':'")
        if parallelism is not None and (type(parallelism) is not int or parallelism < 1):
            raise PipelineError(
                f"operator '{name}': parallelism {parallelism!r} is invalid; use a whole number, 1 or more"
            )
        self.name = name
        self.parallelism = parallelism
        self.key = key

    def __call__(self, step: Step) -> Step:
        """Wrap a step from DataFrame to DataFrame."""

        def named(df: DataFrame) -> DataFrame:
            rows_in = marked(self._repartitioned(df), self._mark("in"))
            return marked(step(rows_in), self._mark("out"))

        return named

    def map_in_arrow(self, function: ArrowFunction, schema: StructType | str) -> Step:
        """Wrap a Python function over Arrow batches; its CPU seconds are measured too."""

        def named(df: DataFrame) -> DataFrame:
            declared = _arrow_schema(df, schema)

            def measured(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
                return measured_step.over_arrow(function, batches, declared)

            return self._observed(self._repartitioned(df).mapInArrow(measured, _with_measures(schema)))

        return named

    def map_in_pandas(self, function: PandasFunction, schema: StructType | str) -> Step:
        """Wrap a Python function over pandas frames, as for Spark's ``mapInPandas``; its CPU seconds are measured too,
        conversions included."""

        def named(df: DataFrame) -> DataFrame:
            columns = len(_parsed(schema).fields)

            def measured(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
                return measured_step.over_pandas(function, frames, columns)

            return self._observed(self._repartitioned(df).mapInPandas(measured, _with_measures(schema)))

        return named

    def _observed(self, output: DataFrame) -> DataFrame:
        """The result of a Python step, without the rows of measures, which are observed.

        They are collected, not summed: each sum would check every row, and five of them took a tenth of a lean step's
        throughput (``benchmarks operator_cost``).
        """
        from pyspark.sql import functions as F  # noqa: N812

        measure = F.col(measured_step.MEASURE)
        observed = output.observe(self._mark("both"), F.collect_list(measure).alias(MEASURES))
        return observed.where(measure.isNull()).drop(measured_step.MEASURE)

    def _repartitioned(self, df: DataFrame) -> DataFrame:
        if self.parallelism is None:
            return df
        return df.repartition(self.parallelism, self.key) if self.key else df.repartition(self.parallelism)

    def _mark(self, side: str) -> str:
        return f"{OBSERVED}{self.name}:{side}"


def operator(name: str, *, parallelism: int | None = None, key: str | None = None) -> NamedOperator:
    """Name a step; with ``parallelism`` it becomes a stage of its own, with rows spread evenly or by ``key``."""
    return NamedOperator(name, parallelism, key)


def _arrow_schema(df: DataFrame, schema: StructType | str) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    timezone = df.sparkSession.conf.get("spark.sql.session.timeZone")
    return to_arrow_schema(_parsed(schema), timezone=timezone)


def _with_measures(schema: StructType | str) -> StructType:
    """The schema with the measure before its columns, all nullable: the rows of measures have no other values."""
    from pyspark.sql.types import DoubleType, StructField, StructType

    measure = StructField(measured_step.MEASURE, DoubleType(), True)
    fields = _parsed(schema).fields
    return StructType([measure, *(StructField(f.name, f.dataType, True, f.metadata) for f in fields)])


def _parsed(schema: StructType | str) -> StructType:
    from pyspark.sql.types import StructType, _parse_datatype_string

    parsed = _parse_datatype_string(schema) if isinstance(schema, str) else schema
    if not isinstance(parsed, StructType):
        raise PipelineError(f"'{schema}' names no columns; write them like 'word string, id long'")
    return parsed
