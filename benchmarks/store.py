"""Readings and finished batches per second that the store takes, and the size of a batch on disk."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from benchmarks.figures import Figure
from ebbflow.core.batches import Batch, OperatorRun, StageRun
from ebbflow.core.clock import SystemClock
from ebbflow.core.metrics import Metric
from ebbflow.core.readings import Reading
from ebbflow.monitoring.store import Store

BATCH, SERIES, ROUNDS = 5_000, 200, 60
FINISHED, AT_ONCE = 5_000, 50


def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        return [_readings(Path(folder) / "readings.sqlite"), *_batches(Path(folder) / "batches.sqlite")]


def _readings(path: Path) -> Figure:
    store = Store(path, SystemClock())
    metrics = list(Metric)
    began = time.perf_counter()
    for number in range(ROUNDS):
        store.add(
            [
                Reading(number * 25.0 + i // SERIES, f"s{i % SERIES}", metrics[i % len(metrics)], float(i))
                for i in range(BATCH)
            ]
        )
        store.flush()
    rate = ROUNDS * BATCH / (time.perf_counter() - began)
    store.close()
    return Figure(
        what="store, readings in batches", value=rate, unit="readings/s", bar=100_000, at_least=True
    )


def _batches(path: Path) -> list[Figure]:
    finished = [_a_batch(number) for number in range(FINISHED)]
    store = Store(path, SystemClock())
    began = time.perf_counter()
    for first in range(0, FINISHED, AT_ONCE):
        store.add((), finished[first : first + AT_ONCE])
        store.flush()
    rate = FINISHED / (time.perf_counter() - began)
    store.close()
    return [
        Figure(what="store, finished batches", value=rate, unit="batches/s"),
        Figure(
            what="  of two stages and five operators each", value=path.stat().st_size / FINISHED, unit="bytes"
        ),
    ]


def _a_batch(number: int) -> Batch:
    """A batch as Spark reports it: times in milliseconds, CPU in nanoseconds."""
    started_s, part = 1.8e9 + 5 * number + 0.417, 0.001 * (number % 997)
    return Batch(
        query="top-words", batch_id=number, started_s=started_s, duration_s=1.234 + part, rows=1500, slots=8,
        trigger_interval_s=5.0, arrival_rate_per_s=299.93 + part / 3, backlog_rows=0.0,
        oldest_arrival_s=started_s - 4.9 - part / 3,
        stages=tuple(
            StageRun(
                index=index, tasks=8, task_time_s=4.321 + part, cpu_time_s=3.123456789 + part, wall_s=0.612 + part,
                longest_task_s=0.587 + part,
            )
            for index in range(2)
        ),
        operators=tuple(
            OperatorRun(
                name=f"operator-{index}", rows_in=1500, rows_out=26_790, cpu_s=1.234567891 + part,
                busiest_instance_cpu_s=0.234567891 + part, instances=8,
            )
            for index in range(5)
        ),
    )  # fmt: skip
