"""What ``operator()`` costs where it makes no boundary: the same query with and without, in turns.

The fastest batch of all turns counts: whatever else the machine does makes batches slower, never faster.
"""

from __future__ import annotations

import tempfile
from typing import Any

from benchmarks.figures import Figure
from ebbflow.targets.spark.operator import operator
from ebbflow.targets.spark.settings import use_loopback, use_this_python

ROWS_PER_BATCH, BATCHES, TURNS = 2_000_000, 8, 6


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
        _rows_per_s(spark, named=False)  # warm up
        turns = [(_rows_per_s(spark, named=False), _rows_per_s(spark, named=True)) for _ in range(TURNS)]
    finally:
        spark.stop()
    plain, named = (max(rates) for rates in zip(*turns, strict=True))
    lost = 1 - named / plain
    return [
        Figure(what="operator() without a boundary, throughput lost", value=100 * lost, unit="%", bar=5.0),
        Figure(what="  rows/s of the plain query", value=plain, unit="rows/s"),
    ]


def _rows_per_s(spark: Any, *, named: bool) -> float:
    from pyspark.sql import functions as F  # noqa: N812

    def name(word: str, step: Any) -> Any:
        return operator(word)(step) if named else step

    rows = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", ROWS_PER_BATCH)
        .option("numPartitions", 2)
        .load()
    )
    words = rows.transform(
        name("hash", lambda df: df.select(F.sha2(F.col("value").cast("string"), 256).alias("word"), "value"))
    )
    kept = words.transform(name("keep", lambda df: df.where(~F.col("word").startswith("0"))))
    counts = kept.groupBy(F.substring("word", 1, 2).alias("key")).count()
    with tempfile.TemporaryDirectory() as checkpoint:
        stream = (
            counts.writeStream.format("noop").outputMode("update").option("checkpointLocation", checkpoint)
        )
        query = stream.start()
        while len([p for p in query.recentProgress if p["numInputRows"]]) < BATCHES:
            query.awaitTermination(1)
        seconds = [p["durationMs"]["addBatch"] / 1000 for p in query.recentProgress if p["numInputRows"]]
        query.stop()
    return float(ROWS_PER_BATCH / min(seconds))
