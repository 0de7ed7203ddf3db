"""Named operators: counts on both sides of each step, and the CPU seconds of a Python step.

    ebbflow submit --executors 1:4 examples/operators_example.py        # until Ctrl-C
    ebbflow submit --executors 1:4 examples/operators_example.py 30     # stops after 30 s
    python examples/operators_example.py 30                             # without scaling, in local mode

It prints the counts of each operator per batch. The names add nothing to the plan, except for "shout", whose
parallelism makes it a stage of its own.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from ebbflow import OperatorCounts, operator
from ebbflow.targets.spark.source import register


def split(df: DataFrame) -> DataFrame:
    return df.select(sf.explode(sf.split("text", " ")).alias("word"))


def shout(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_arrays([pc.utf8_upper(batch.column("word"))], ["word"])


def main(seconds: int | None) -> None:
    spark = SparkSession.builder.appName("operators-example").getOrCreate()
    register(spark)
    tweets = (
        spark.readStream.format("ebbflow").option("load", "constant(100)").option("rows", "tweets").load()
    )
    words = tweets.transform(operator("split")(split))
    loud = words.transform(operator("shout", parallelism=4).map_in_arrow(shout, "word string"))
    query = loud.writeStream.format("noop").trigger(processingTime="2 seconds").start()

    counts = OperatorCounts(spark, query)
    ends_s = time.monotonic() + seconds if seconds else float("inf")
    while time.monotonic() < ends_s and not query.awaitTermination(1):
        for batch_id, run in counts.new():
            cpu = "" if run.cpu_s is None else f", {run.cpu_s:.2f} CPU s in {run.instances} instances"
            print(f"batch {batch_id}  {run.name:<6} {run.rows_in} rows in, {run.rows_out} out{cpu}")
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else None)
