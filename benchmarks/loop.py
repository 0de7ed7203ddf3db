"""The cost of the loop for the driver: CPU of its Python thread and of the JVM thread that serves it.

On a real cluster with eight executors and a query of ten named operators, with one cycle per second. The limits
allow several sizes, so that each decision searches among them; it is a dry run, so that the eight executors stay.
"""

from __future__ import annotations

import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure
from ebbflow.control.loop import ControlLoop
from ebbflow.core.clock import SystemClock
from ebbflow.core.limits import Limits
from ebbflow.core.slo import Slo
from ebbflow.guards import default_guards
from ebbflow.monitoring.store import Store
from ebbflow.strategies.capacity import Capacity
from ebbflow.targets.spark.act.restart import stop_between_batches
from ebbflow.targets.spark.launch.local_cluster import LocalCluster, local_settings
from ebbflow.targets.spark.launch.session import local_session
from ebbflow.targets.spark.launch.settings import scaling_settings
from ebbflow.targets.spark.operators.operator import operator
from ebbflow.targets.spark.source import register
from ebbflow.targets.spark.target import SparkTarget

EXECUTORS, OPERATORS, WARM_UP, CYCLES = 8, 10, 20, 60
LIMITS = Limits(min_nodes=1, max_nodes=2 * EXECUTORS)


def measure() -> list[Figure]:
    clock, never = SystemClock(), threading.Event()
    with tempfile.TemporaryDirectory() as folder, LocalCluster(cores=EXECUTORS, memory_mb=12_000) as cluster:
        settings = {
            **cluster.settings,
            **local_settings(),
            **scaling_settings(initial_executors=EXECUTORS, master=cluster.master_url),
            "spark.sql.shuffle.partitions": "4",
        }
        with local_session(cluster.master_url, settings, name="loop cost") as spark:
            register(spark)
            query = _ten_operators(spark, f"{folder}/checkpoint")
            loop = ControlLoop(
                target=SparkTarget(spark, clock),
                strategy=Capacity(),
                guards=default_guards(),
                store=Store(Path(folder) / "bench.sqlite", clock),
                clock=clock,
                limits=LIMITS,
                slo=Slo(freshness_s=30.0),
                dry_run=True,
            )
            for _ in range(WARM_UP):
                loop.cycle()
                clock.wait(1.0, never)
            batches, from_s = query.lastProgress["batchId"], clock.now_s()
            began_s, python_s, jvm_s = time.monotonic(), time.thread_time(), _jvm_thread_s(spark)
            for _ in range(CYCLES):
                due_s = clock.now_s() + 1.0
                loop.cycle()
                clock.wait(due_s - clock.now_s(), never)
            elapsed_s = time.monotonic() - began_s
            python = (time.thread_time() - python_s) / elapsed_s
            jvm = (_jvm_thread_s(spark) - jvm_s) / elapsed_s
            batches = query.lastProgress["batchId"] - batches
            made = [entry for entry in loop.ledger.entries if entry.time_s >= from_s]
            sized = sum("predicted_freshness_s" in entry.decision.inputs for entry in made)
            stop_between_batches(query)
    return [
        Figure(what="loop, share of a core (Python and JVM)", value=100 * (python + jvm), unit="%", bar=2.0),
        Figure(what="  of it the Python thread", value=100 * python, unit="%"),
        Figure(what="  of it the JVM thread that answers", value=100 * jvm, unit="%"),
        Figure(what="  batches finished meanwhile", value=batches, unit=f"in {CYCLES} cycles"),
        Figure(what="  decisions that searched 1:16", value=sized, unit="", bar=1, at_least=True),
    ]


def _ten_operators(spark: Any, checkpoint: str) -> Any:
    rows = spark.readStream.format("ebbflow").option("load", "constant(200)").option("partitions", 8).load()
    for number in range(OPERATORS):
        rows = rows.transform(operator(f"op-{number}")(lambda df: df.where("row >= 0")))
    counts = rows.groupBy("row").count()
    stream = counts.writeStream.format("noop").outputMode("update").option("checkpointLocation", checkpoint)
    return stream.trigger(processingTime="5 seconds").start()


def _jvm_thread_s(spark: Any) -> float:
    """CPU seconds of the JVM thread that serves this Python thread; py4j pairs them one to one."""
    jvm = spark.sparkContext._jvm
    return float(jvm.java.lang.management.ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime()) / 1e9
