"""An hour of the real loop on a real cluster: memory and CPU of the driver stay flat (``make soak``).

The job is the pipeline of the demo without its audit, which keeps the number of every row. The memory of the loop
is the memory of the process minus that just before ``attach`` was imported, with the job running.

Sampled twice a minute in the thread of the loop: memory of the driver's Python process, CPU of that thread and of
the JVM thread that serves it, and the heap of the driver's JVM after a garbage collection. The heap has no bar:
Spark itself keeps its last 1,000 jobs, stages and SQL executions there.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import SparkContext

from benchmarks.driver_memory import resident_mb
from benchmarks.figures import Figure, show
from ebbflow.core.clock import SystemClock, wait_until
from ebbflow.papers.elysium.pipelines.top_words import TopWords
from ebbflow.targets.spark.act.restart import stop_between_batches
from ebbflow.targets.spark.launch.local_cluster import LocalCluster, local_settings
from ebbflow.targets.spark.launch.session import local_session
from ebbflow.targets.spark.launch.settings import scaling_settings

if TYPE_CHECKING:
    from ebbflow.control.loop import CycleReport

EVERY_S = 30.0
EXECUTORS = (1, 6)
FIRST_BATCHES = 4


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One sample."""

    time_s: float
    rss_mb: float
    heap_mb: float
    python_s: float
    jvm_s: float


class Soak:
    """Called after every cycle in the loop's thread, where its CPU time can be read."""

    def __init__(self) -> None:
        self.samples: list[Sample] = []

    def __call__(self, report: CycleReport) -> None:
        if report.observation is None:
            return
        now_s = report.observation.time_s
        if self.samples and now_s - self.samples[-1].time_s < EVERY_S:
            return
        heap_mb, jvm_s = _jvm()
        sample = Sample(
            time_s=now_s,
            rss_mb=resident_mb(),
            heap_mb=heap_mb,
            python_s=time.thread_time(),
            jvm_s=jvm_s,
        )
        share = cpu_share(self.samples[-1], sample) if self.samples else 0.0
        self.samples.append(sample)
        print(
            f"  {(now_s - self.samples[0].time_s) / 60:5.1f} min  {sample.rss_mb:.1f} MB  "
            f"loop {100 * share:.2f} %  heap {heap_mb:.1f} MB",
            file=sys.stderr,
            flush=True,
        )


def cpu_share(before: Sample, after: Sample) -> float:
    """Share of a core that the loop used between two samples, in Python and in the JVM."""
    used_s = after.python_s - before.python_s + after.jvm_s - before.jvm_s
    return used_s / (after.time_s - before.time_s)


def figures_of(samples: list[Sample], job_mb: float) -> list[Figure]:
    """Compare the last third with the second; the first is the warm-up."""
    first, middle, late, last = (samples[round(k * (len(samples) - 1) / 3)] for k in range(4))
    early, end = cpu_share(first, middle), cpu_share(late, last)
    return [
        Figure(what="driver's Python process", value=last.rss_mb, unit="MB"),
        Figure(what="  more than the job alone", value=last.rss_mb - job_mb, unit="MB", bar=100.0),
        Figure(
            what="  growth over the last two thirds", value=last.rss_mb - middle.rss_mb, unit="MB", bar=10.0
        ),
        Figure(what="loop, share of a core in the last third", value=100 * end, unit="%", bar=2.0),
        Figure(what="  more than in the first third", value=100 * (end - early), unit="%", bar=0.5),
        Figure(what="driver's Java heap after a collection", value=last.heap_mb, unit="MB"),
        Figure(what="  growth over the last two thirds", value=last.heap_mb - middle.heap_mb, unit="MB"),
    ]


def _jvm() -> tuple[float, float]:
    """(heap in MB after a garbage collection, CPU seconds of the JVM thread that serves this one)."""
    jvm: Any = SparkContext._active_spark_context._jvm  # type: ignore[union-attr]
    jvm.java.lang.System.gc()
    management = jvm.java.lang.management.ManagementFactory
    heap = management.getMemoryMXBean().getHeapMemoryUsage().getUsed()
    return float(heap) / 1e6, float(management.getThreadMXBean().getCurrentThreadCpuTime()) / 1e9


def soak(seconds: float) -> tuple[list[Sample], float]:
    """(samples, memory of the driver just before the loop was imported)."""
    clock, taken = SystemClock(), Soak()
    app = TopWords(
        load=f"day(base=20, peak=80, period={seconds:g}s)",
        source_partitions=8,
        lookup_wait_s=0.008,
        trigger_s=5.0,
    )
    with (
        tempfile.TemporaryDirectory(prefix="ebbflow-soak-") as folder,
        LocalCluster(cores=EXECUTORS[1]) as cluster,
    ):
        settings = {
            **cluster.settings,
            **local_settings(),
            **scaling_settings(initial_executors=EXECUTORS[0], master=cluster.master_url),
            "spark.sql.shuffle.partitions": "2",
            "spark.log.level": "OFF",
        }
        with local_session(cluster.master_url, settings, name="soak") as spark:
            query = app.start(spark, f"{folder}/checkpoint", None)
            wait_until(
                lambda: len(query.recentProgress) >= FIRST_BATCHES, clock, clock.now_s() + 120, every_s=0.5
            )
            job_mb = resident_mb()
            from ebbflow.control.attach import attach  # imported here, so that its memory counts
            from ebbflow.options import Configuration

            attached = attach(
                spark,
                config=Configuration(),
                executors=EXECUTORS, slo="freshness p95 <= 30s", store=Path(folder) / "run.sqlite",
                on_cycle=taken, master_web_url=cluster.web_url, agents=(cluster.agent_address,),
            )  # fmt: skip
            clock.wait(seconds, threading.Event())
            attached.stop()
            stop_between_batches(query)
    return taken.samples, job_mb


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument(
        "--seconds",
        type=float,
        default=float(os.environ.get("EBBFLOW_SOAK_SECONDS", "3600")),
        help="duration; default from EBBFLOW_SOAK_SECONDS, else an hour",
    )
    seconds = parser.parse_args().seconds
    if seconds < 6 * EVERY_S:
        parser.error(f"{seconds:g} s are too few for a sample every {EVERY_S:g} s; {6 * EVERY_S:g} or more")
    samples, job_mb = soak(seconds)
    figures = figures_of(samples, job_mb)
    show(figures)
    return 0 if all(figure.ok for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
