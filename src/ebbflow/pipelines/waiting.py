"""The pipeline of the Rules seed's tests (§5.2) on Spark: a source of λ rows/s, and operators of μ rows/s.

A micro-batch query has no queue between its operators, so each operator is a query of its own, named like it, and
its queue is what its source has and it has not. Each gets the whole load: an operator that keeps up passes on
as many rows as come in. Batches are kept as short as ``batch_s`` by a read limit that grows with the
parallelism, so that the queue is seen where it is, at the source.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import cloudpickle

from ebbflow.pipelines import paced
from ebbflow.targets.spark.operator import operator
from ebbflow.targets.spark.restart import ManagedQuery
from ebbflow.targets.spark.source import register

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass(frozen=True, kw_only=True)
class WaitingOperator:
    """One operator and its source."""

    name: str
    load: str
    rate_per_s: float
    """Rows a second that one instance takes."""
    start_ms: int
    """When the load begins, in milliseconds since the epoch: the same for all operators."""
    batch_s: float = 1.5

    def managed(self, spark: SparkSession, folder: Path) -> ManagedQuery:
        """Start it with one instance; Ebbflow may restart it with another number."""
        register(spark)
        checkpoint = folder / f"checkpoint-{self.name}"
        return ManagedQuery(
            spark,
            name=self.name,
            checkpoint=checkpoint,
            parallelism={self.name: 1},
            start=lambda sizes: self._start(spark, checkpoint, sizes),
        )

    def _start(self, spark: SparkSession, checkpoint: Path, sizes: Mapping[str, int]) -> StreamingQuery:
        instances = sizes[self.name]
        name, rate_per_s = self.name, self.rate_per_s

        def step(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            # Kept in the interpreter: the function and its modules come anew with every task.
            ended_s = sys.__dict__.setdefault("_ebbflow_paced_ended_s", {})
            return paced.paced(
                batches, name, rate_per_s, wait=time.sleep, clock_s=time.monotonic, ended_s=ended_s
            )

        rows = (
            spark.readStream.format("ebbflow")
            .option("load", self.load)
            .option("partitions", 1)
            .option("startMs", self.start_ms)
            .option("maxRowsPerTrigger", max(1, round(self.rate_per_s * instances * self.batch_s)))
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


# Sent to executors as code, not as a name: they need pyarrow, but not Ebbflow.
cloudpickle.register_pickle_by_value(paced)  # type: ignore[no-untyped-call]
