"""The cost of ``operator()`` without a boundary: the same query with and without it, alternating.

Three queries: steps that Spark compiles, a Python step over Arrow batches, and one over pandas frames. All are
cheap, so that the overhead is visible. The fastest batch counts, because other load on the machine only makes
batches slower.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.figures import Figure
from ebbflow.targets.spark.launch.session import use_loopback, use_this_python
from ebbflow.targets.spark.operators.operator import operator

BATCHES, TURNS = 8, 6
SCHEMA = "word string, value long"


@dataclass(frozen=True, kw_only=True)
class Case:
    """A query that ``build`` makes from the rows of the source, with or without named operators."""

    what: str
    rows_per_batch: int
    build: Callable[[Any, bool], Any]


def compiled(rows: Any, named: bool) -> Any:
    """Two steps that Spark compiles into one loop."""
    from pyspark.sql import functions as F  # noqa: N812

    def name(word: str, step: Any) -> Any:
        return operator(word)(step) if named else step

    hashed = F.sha2(F.col("value").cast("string"), 256).alias("word")
    words = rows.transform(name("hash", lambda df: df.select(hashed, "value")))
    return words.transform(name("keep", lambda df: df.where(~F.col("word").startswith("0"))))


def over_arrow(rows: Any, named: bool) -> Any:
    """A filter over Arrow batches."""

    def keep(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow.compute as pc

        for batch in batches:
            yield batch.filter(pc.invert(pc.starts_with(batch.column("word"), "1")))

    words = _as_words(rows)
    if named:
        return words.transform(operator("keep").map_in_arrow(keep, SCHEMA))
    return words.mapInArrow(keep, SCHEMA)


def over_pandas(rows: Any, named: bool) -> Any:
    """A filter over pandas frames."""

    def keep(frames: Iterator[Any]) -> Iterator[Any]:
        for frame in frames:
            yield frame[frame["value"] % 10 != 1]

    words = _as_words(rows)
    if named:
        return words.transform(operator("keep").map_in_pandas(keep, SCHEMA))
    return words.mapInPandas(keep, SCHEMA)


def _as_words(rows: Any) -> Any:
    from pyspark.sql import functions as F  # noqa: N812

    return rows.select(F.col("value").cast("string").alias("word"), "value")


CASES = (
    Case(what="operator() without a boundary", rows_per_batch=2_000_000, build=compiled),
    Case(what="operator() around mapInArrow", rows_per_batch=1_000_000, build=over_arrow),
    Case(what="operator() around mapInPandas", rows_per_batch=500_000, build=over_pandas),
)


def measure() -> list[Figure]:
    use_this_python()
    use_loopback()
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder
    spark = (
        builder.master("local[2]")
        .appName("operator cost")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    try:
        return [figure for case in CASES for figure in _compare(spark, case)]
    finally:
        spark.stop()


def _compare(spark: Any, case: Case) -> list[Figure]:
    _rows_per_s(spark, case, named=False)  # warm up
    turns = [
        (_rows_per_s(spark, case, named=False), _rows_per_s(spark, case, named=True)) for _ in range(TURNS)
    ]
    plain, named = (max(rates) for rates in zip(*turns, strict=True))
    lost = 1 - named / plain
    return [
        Figure(what=f"{case.what}, throughput lost", value=100 * lost, unit="%", bar=5.0),
        Figure(what="  rows/s of the plain query", value=plain, unit="rows/s"),
    ]


def _rows_per_s(spark: Any, case: Case, *, named: bool) -> float:
    from pyspark.sql import functions as F  # noqa: N812

    rows = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", case.rows_per_batch)
        .option("numPartitions", 2)
        .load()
    )
    counts = case.build(rows, named).groupBy(F.substring("word", 1, 2).alias("key")).count()
    with tempfile.TemporaryDirectory() as checkpoint:
        stream = (
            counts.writeStream.format("noop").outputMode("update").option("checkpointLocation", checkpoint)
        )
        query = stream.start()
        while len([p for p in query.recentProgress if p["numInputRows"]]) < BATCHES:
            query.awaitTermination(1)
        seconds = [p["durationMs"]["addBatch"] / 1000 for p in query.recentProgress if p["numInputRows"]]
        query.stop()
    return float(case.rows_per_batch / min(seconds))
