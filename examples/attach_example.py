"""A small job that attaches Ebbflow to itself.

    python examples/attach_example.py --master spark://HOST:7077        # until Ctrl-C
    python examples/attach_example.py --master spark://HOST:7077 60     # stops after 60 s
    MASTER=yarn python examples/attach_example.py

Any master with executors works. Executors need Ebbflow too, because this job reads its load source. Each row waits
5 ms, as for a call to another service, so that more executors help.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import time
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

import ebbflow
from ebbflow.targets.spark.launch.session import use_this_python
from ebbflow.targets.spark.launch.settings import scaling_settings
from ebbflow.targets.spark.source import register


def wait_for_each(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        time.sleep(0.005 * batch.num_rows)
        yield batch


def main(master: str, seconds: int | None) -> None:
    use_this_python()  # on executors too, unless PYSPARK_PYTHON is set
    builder = SparkSession.builder.master(master).appName("attach-example")
    # Start with one executor; executors that leave finish their tasks first.
    for key, value in scaling_settings(initial_executors=1, master=master).items():
        builder = builder.config(key, value)
    spark = builder.config("spark.executor.cores", 1).getOrCreate()

    register(spark)  # the load source; any other source works
    rows = (
        spark.readStream.format("ebbflow")
        .option("load", "sine(base=20, peak=400, period=2m)")
        .option("partitions", 8)
        .load()
    )
    query = (
        rows.mapInArrow(wait_for_each, rows.schema)
        .writeStream.queryName("waiting")
        .format("noop")
        .trigger(processingTime="5 seconds")
        .start()
    )

    attached = ebbflow.attach(spark, executors=(1, 4), slo="freshness p95 <= 30s")
    with contextlib.suppress(KeyboardInterrupt):
        query.awaitTermination(seconds)
    for entry in attached.decisions:
        if entry.verdict == "act":
            print(entry.decision.reason)
    attached.stop()
    query.stop()
    spark.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A small job that attaches Ebbflow to itself.")
    parser.add_argument("seconds", nargs="?", type=int, help="stop after this many seconds")
    parser.add_argument(
        "--master", default=os.environ.get("MASTER"), help="Spark master; default: the variable MASTER"
    )
    chosen = parser.parse_args()
    if not chosen.master:
        parser.error("name a master: --master spark://HOST:7077, or set MASTER")
    main(chosen.master, chosen.seconds)
