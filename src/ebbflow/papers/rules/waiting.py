"""The pipeline of the Rules seed's tests (§5.2) on Spark: a source of λ rows/s, and operators of μ rows/s.

A micro-batch query has no queue between its operators, so each operator is a query of its own, named like it, and
its queue is what its source has and it has not. Each gets the whole load: an operator that keeps up passes on
as many rows as come in. Batches are kept as short as ``batch_s`` by a read limit that grows with the
parallelism, so that the queue is seen where it is, at the source.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import TaskContext, cloudpickle

from ebbflow.core.clock import Clock, wait_until
from ebbflow.errors import TargetError
from ebbflow.papers.rules import paced
from ebbflow.targets.spark.act.restart import ManagedQuery
from ebbflow.targets.spark.operators.operator import operator
from ebbflow.targets.spark.source import register

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


WARM_BATCHES, WARM_S, WARM_WITHIN_S = 8, 2.5, 120.0
"""An operator is warm once so many batches are done and the last took no longer than this."""


@dataclass(frozen=True, kw_only=True)
class WaitingOperator:
    """One operator and its source."""

    name: str
    load: str
    rate_per_s: float
    """Rows a second that one instance takes."""
    start_ms: int
    """When the load begins, in milliseconds since the epoch: the same for all operators."""
    batch_s: float = 1.0

    def managed(self, spark: SparkSession, folder: Path, instances: int = 1) -> ManagedQuery:
        """Start it with so many instances; Ebbflow may restart it with another number."""
        register(spark)
        checkpoint = folder / f"checkpoint-{self.name}"
        return ManagedQuery(
            spark,
            name=self.name,
            checkpoint=checkpoint,
            parallelism={self.name: instances},
            start=lambda sizes: self._start(spark, checkpoint, sizes),
        )

    def _start(self, spark: SparkSession, checkpoint: Path, sizes: Mapping[str, int]) -> StreamingQuery:
        instances = sizes[self.name]
        rate_per_s = self.rate_per_s
        # Beside the checkpoint: executors and driver share this machine. Anew for other sizes: nobody makes up
        # for the time in which the query was stopped.
        marks = checkpoint.with_name(f"{checkpoint.name}-{instances}-instances")
        marks.mkdir(parents=True, exist_ok=True)

        def step(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            context = TaskContext.get()
            assert context is not None
            instance = paced.Instance(marks / str(context.partitionId()), rate_per_s)
            for batch in batches:
                arrived_us = batch.column("timestamp").cast("int64").to_pylist()
                time.sleep(instance.take([us / 1e6 for us in arrived_us], time.time()))
                yield batch

        rows = (
            spark.readStream.format("ebbflow")
            .option("load", self.load)
            .option("partitions", 1)
            .option("startMs", self.start_ms)
            .option("maxRowsPerTrigger", max(1, round(self.rate_per_s * self.batch_s)) * instances)
            .load()
        )
        named = operator(self.name, parallelism=instances)
        worked = rows.transform(named.map_in_arrow(step, "row long, timestamp timestamp"))
        return (
            worked.writeStream.queryName(self.name)
            .format("noop")
            .option("checkpointLocation", str(checkpoint))
            .trigger(processingTime="100 milliseconds")
            .start()
        )


def warm_up(spark: SparkSession, name: str, folder: Path, *, instances: int, clock: Clock) -> None:
    """Let every executor start Python and load its classes: a first batch may take ten seconds."""
    began_s = clock.now_s()
    warming = WaitingOperator(
        name=name, load="constant(40)", rate_per_s=40.0, start_ms=round(began_s * 1000), batch_s=0.2
    ).managed(spark, folder, instances)
    warm = wait_until(lambda: _is_warm(warming.query), clock, began_s + WARM_WITHIN_S, every_s=0.2)
    warming.stop()
    if not warm:
        raise TargetError(f"operator {name!r} was not warm after {WARM_WITHIN_S:g} s; is the machine busy?")


def _is_warm(query: StreamingQuery) -> bool:
    done = [progress for progress in query.recentProgress if progress["numInputRows"]]
    return len(done) >= WARM_BATCHES and done[-1]["durationMs"]["triggerExecution"] <= 1000 * WARM_S


# Sent to executors as code, not as a name: they need pyarrow, but not Ebbflow.
cloudpickle.register_pickle_by_value(paced)  # type: ignore[no-untyped-call]
