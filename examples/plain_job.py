"""A job that knows nothing about Ebbflow: a windowed count over Spark's rate source.

Let Ebbflow scale it on a local cluster:

    ebbflow submit --executors 1:4 examples/plain_job.py
    ebbflow submit --executors 1:4 examples/plain_job.py 60    # stops after 60 s
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf


def main(seconds: int | None) -> None:
    spark = SparkSession.builder.appName("plain-job").getOrCreate()
    rows = spark.readStream.format("rate").option("rowsPerSecond", 200).option("numPartitions", 8).load()
    counts = (
        rows.withWatermark("timestamp", "30 seconds")
        .groupBy(sf.window("timestamp", "10 seconds"), (sf.col("value") % 10).alias("key"))
        .count()
    )
    query = (
        counts.writeStream.queryName("counts")
        .outputMode("update")
        .format("noop")
        .trigger(processingTime="2 seconds")
        .start()
    )
    query.awaitTermination(seconds)
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else None)
