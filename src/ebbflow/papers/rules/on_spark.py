"""Run a case on a real Spark cluster of this machine: a source of λ rows/s, and operators of μ rows/s that wait.

A micro-batch query has no queue between its operators, so each operator is a query of its own with the operator's
name. Its queue is what its source has and the query has not yet read. Each query gets the whole load, because an
operator that keeps up passes on as many rows as it receives. A read limit that grows with the parallelism keeps
batches as short as ``batch_s``, so rows queue at the source, where they can be counted.

All executors that the largest size needs run from the start, with one slot each. The test therefore measures the rule
and the change of parallelism, not how long an executor takes to start. The policy is that of the thesis: since the
source has a read limit, the ``queue-length`` of an operator is what the batches of its query leave behind.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import TaskContext, cloudpickle

from ebbflow.control.attach import attach
from ebbflow.core.clock import Clock, SystemClock, wait_until
from ebbflow.errors import TargetError
from ebbflow.options import Configuration
from ebbflow.papers.rows import run_in_process
from ebbflow.papers.rules import paced
from ebbflow.papers.rules.cases import CASES, QUICK, Case
from ebbflow.papers.rules.record import CaseRecorder, CaseRun
from ebbflow.targets.spark.act.restart import ManagedQuery
from ebbflow.targets.spark.launch.local_cluster import LocalCluster, local_settings
from ebbflow.targets.spark.launch.session import local_session
from ebbflow.targets.spark.launch.settings import scaling_settings
from ebbflow.targets.spark.operators.operator import operator
from ebbflow.targets.spark.source import register

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

HEAD_START_S = 6.0
"""The load begins this long after the queries start."""
LATE_S = 5.0
"""A run lasts this much longer than its case, so that a late change is still recorded."""
WARM_BATCHES, WARM_S, WARM_WITHIN_S = 8, 2.5, 120.0
"""An operator is warm after this many batches, once the last one took at most ``WARM_S``."""

# Executors get this module as code, not by name: they need pyarrow, but not Ebbflow.
cloudpickle.register_pickle_by_value(paced)  # type: ignore[no-untyped-call]


@dataclass(frozen=True, kw_only=True)
class WaitingOperator:
    """An operator that waits for its service time, and its source."""

    name: str
    load: str
    rate_per_s: float
    """Rows per second of one instance."""
    start_ms: int
    """When the load begins, in milliseconds since the epoch; the same for all operators."""
    batch_s: float = 1.0

    def managed(self, spark: SparkSession, folder: Path, instances: int = 1) -> ManagedQuery:
        """Start the operator as a query whose parallelism Ebbflow can change."""
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
        # Beside the checkpoint: executors and driver share this machine. A new folder for each size: an instance
        # does not make up for the time in which the query was stopped.
        marks = checkpoint.with_name(f"{checkpoint.name}-{instances}-instances")
        marks.mkdir(parents=True, exist_ok=True)

        def step(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            context = TaskContext.get()
            assert context is not None
            instance = paced.PacedInstance(marks / str(context.partitionId()), rate_per_s)
            for batch in batches:
                arrived_us = batch.column("timestamp").cast("int64").to_pylist()
                time.sleep(instance.wait_s([us / 1e6 for us in arrived_us], time.time()))
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
        processed = rows.transform(named.map_in_arrow(step, "row long, timestamp timestamp"))
        return (
            processed.writeStream.queryName(self.name)
            .format("noop")
            .option("checkpointLocation", str(checkpoint))
            .trigger(processingTime="100 milliseconds")
            .start()
        )


def warm_up(spark: SparkSession, name: str, folder: Path, *, instances: int, clock: Clock) -> None:
    """Let every executor start Python and load its classes: a first batch can take ten seconds."""
    began_s = clock.now_s()
    warming = WaitingOperator(
        name=name, load="constant(40)", rate_per_s=40.0, start_ms=round(began_s * 1000), batch_s=0.2
    ).managed(spark, folder, instances)
    warm = wait_until(lambda: _is_warm(warming.query), clock, within_s=WARM_WITHIN_S, every_s=0.2)
    warming.stop()
    if not warm:
        raise TargetError(f"operator {name!r} was not warm after {WARM_WITHIN_S:g} s; is the machine busy?")


def _is_warm(query: StreamingQuery) -> bool:
    done = [progress for progress in query.recentProgress if progress["numInputRows"]]
    return len(done) >= WARM_BATCHES and done[-1]["durationMs"]["triggerExecution"] <= 1000 * WARM_S


def run_on_spark(case: Case, clock: Clock | None = None) -> CaseRun:
    """Run the case in real time."""
    clock, never = clock or SystemClock(), threading.Event()
    largest = max([change.after for change in case.changes], default=3)
    slots = len(case.rates_per_s) - 1 + max(3, largest)
    with (
        tempfile.TemporaryDirectory(prefix="ebbflow-rules-") as folder,
        LocalCluster(cores=slots, memory_mb=1024 * slots) as cluster,
    ):
        settings = {
            **cluster.settings,
            **local_settings(),
            **scaling_settings(initial_executors=slots, master=cluster.master_url),
            "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        }
        with local_session(cluster.master_url, settings, name=case.name) as spark:
            for name in case.rates_per_s:
                warm_up(spark, name, Path(folder) / "warm-up", instances=slots, clock=clock)
            started_s = clock.now_s() + HEAD_START_S
            queries = [
                WaitingOperator(
                    name=name, load=str(case.load), rate_per_s=rate, start_ms=round(started_s * 1000)
                ).managed(spark, Path(folder))
                for name, rate in case.rates_per_s.items()
            ]
            clock.wait(started_s - clock.now_s(), never)
            recorder = CaseRecorder(case.policy, started_s=started_s)
            attached = attach(
                spark,
                config=Configuration(),
                executors=(slots, slots),
                policy=case.policy,
                queries=queries,
                store=Path(folder) / "run.sqlite",
                cycle_s=1.0,
                master_web_url=cluster.web_url,
                on_cycle=recorder.record,
            )
            clock.wait(started_s + case.lasts_s + LATE_S - clock.now_s(), never)
            attached.stop()
            for query in queries:
                query.stop()
    return recorder.run()


def run_in_a_process(case: Case) -> CaseRun:
    """Run the case in a process of its own."""
    return CaseRun.from_json(run_in_process(__name__, case.name, name=f"case {case.name}"))


def main() -> None:
    """Run the case named on the command line and print the run as one line of JSON."""
    name = sys.argv[1]
    case = next(case for case in (*CASES, QUICK) if case.name == name)
    sys.stdout.write(json.dumps(run_on_spark(case).to_json()) + "\n")


if __name__ == "__main__":
    main()
