"""The query of §5.3.3 as named operators on Spark::

    source ─► machine (state, keyed by bucket of machines) ─► cluster (one instance) ─► sink

Results depend only on the files: not on parallelism, batches, speed, restarts or lost executors.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ebbflow.papers.rules.google_cluster import sink, source, steps
from ebbflow.targets.spark.act.restart import ManagedQuery
from ebbflow.targets.spark.driver import as_ebbflow_error
from ebbflow.targets.spark.launch.session import held_interrupts
from ebbflow.targets.spark.operators.keyed_step import measured
from ebbflow.targets.spark.operators.operator import operator

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

NAME = "google-cluster"
SOURCE, MACHINE, CLUSTER, SINK = "source", "machine", "cluster", "sink"
_POLL_S = 0.1
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def settings(machine_instances: int, *, packed: bool = True) -> dict[str, str]:
    """Return the Spark settings of this query. Packed rows are large: each has the events of a bucket."""
    return {
        "spark.sql.shuffle.partitions": str(machine_instances),
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB,  # can be repartitioned
        "spark.sql.execution.arrow.maxRecordsPerBatch": "64" if packed else "10000",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


@dataclass(frozen=True, kw_only=True)
class GoogleClusterQuery:
    """The query and its options, as the source and the sink take them."""

    input: Path
    output: Path
    speed: str = "max"
    max_parts: int | None = 4
    max_trace: str | None = "1d"
    """Bounds a batch of a trace with few events: a day is 96 reports of every machine."""
    trigger_s: float = 0.0
    packed: bool = True
    """Send events as columns; otherwise each event is a row, like a tuple in the thesis. Results are the same."""

    def results(self, spark: SparkSession, machine_instances: int) -> DataFrame:
        """Return the streaming DataFrame for the sink."""
        source.register(spark)
        sink.register(spark)
        reader = (
            spark.readStream.format(source.FORMAT)
            .option("path", str(self.input.resolve()))
            .option("speed", self.speed)
            .option("packed", str(self.packed).lower())
        )
        if self.max_parts is not None:
            reader = reader.option("maxPartsPerTrigger", self.max_parts)
        if self.max_trace is not None:
            reader = reader.option("maxTracePerTrigger", self.max_trace)
        events = reader.load().transform(operator(SOURCE)(lambda df: df))
        reports = events.groupBy("bucket").applyInPandasWithState(
            steps.machine_step, steps.MACHINE_OUT, steps.MACHINE_STATE, "append", "NoTimeout"
        )
        machines = measured(reports, MACHINE, instances=machine_instances)
        over_cluster = operator(CLUSTER, parallelism=1).map_in_arrow(steps.cluster_step, steps.CLUSTER_OUT)
        return machines.transform(over_cluster).transform(operator(SINK)(lambda df: df))

    def start(
        self, spark: SparkSession, checkpoint: Path, machine_instances: int, *, to_the_end: bool = False
    ) -> StreamingQuery:
        """Start the query; with ``to_the_end`` it stops when the folder has been read."""
        spark.conf.set("spark.sql.shuffle.partitions", str(machine_instances))
        writer = (
            self.results(spark, machine_instances)
            .writeStream.queryName(NAME)
            .format(sink.FORMAT)
            .outputMode("append")
            .option("path", str(self.output.resolve()))
            .option("checkpointLocation", str(checkpoint))
        )
        if to_the_end:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{round(self.trigger_s * 1000)} milliseconds").start()

    def managed(self, spark: SparkSession, checkpoint: Path, machine_instances: int) -> ManagedQuery:
        """Start the query so that Ebbflow can resize the machine operator with its state."""

        def start(sizes: Mapping[str, int]) -> StreamingQuery:
            return self.start(spark, checkpoint, sizes[MACHINE])

        return ManagedQuery(
            spark,
            name=NAME,
            checkpoint=checkpoint,
            parallelism={MACHINE: machine_instances},
            start=start,
            stateful=(MACHINE,),
        )


def run_to_the_end(query: StreamingQuery) -> list[Any]:
    """Wait until the folder has been read and return the progress of each batch with events. Ctrl-C stops the query."""
    pause = threading.Event()
    with held_interrupts() as interrupted:
        while query.isActive:
            if interrupted():
                with suppress(Exception):  # the interrupt matters more than an error of the query
                    query.stop()
                raise KeyboardInterrupt
            pause.wait(_POLL_S)
        try:
            query.awaitTermination()
        except Exception as error:
            raise as_ebbflow_error(error) from error
    return [each for each in query.recentProgress if each["numInputRows"]]
