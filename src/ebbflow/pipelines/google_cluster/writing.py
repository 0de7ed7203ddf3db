"""A generated trace, written by as many tasks as Spark has slots."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from ebbflow.workloads.google_cluster.generator import CSV, ClusterTrace
from ebbflow.workloads.google_cluster.trace_spec import TraceSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def write_trace(spark: SparkSession, spec: TraceSpec, folder: Path, ending: str = CSV) -> int:
    """Write all parts; returns the events in them. What all parts share is made once in each Python worker."""
    parts = ClusterTrace(spec).parts
    target = str(folder.resolve())
    numbers = spark.sparkContext.parallelize(range(parts), parts)
    return int(numbers.map(lambda number: _trace(spec).write(number, Path(target), ending)).sum())


@lru_cache(maxsize=1)
def _trace(spec: TraceSpec) -> ClusterTrace:
    return ClusterTrace(spec)
