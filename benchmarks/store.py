"""How many readings a second the store takes in batches."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from benchmarks.figures import Figure
from ebbflow.core.clock import SystemClock
from ebbflow.core.metrics import Metric
from ebbflow.core.readings import Reading
from ebbflow.monitoring.store import Store

BATCH, SERIES, ROUNDS = 5_000, 200, 60


def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "bench.sqlite", SystemClock())
        metrics = list(Metric)
        began = time.perf_counter()
        for number in range(ROUNDS):
            store.add(
                [
                    Reading(
                        number * 25.0 + i // SERIES, f"s{i % SERIES}", metrics[i % len(metrics)], float(i)
                    )
                    for i in range(BATCH)
                ]
            )
            store.flush()
        rate = ROUNDS * BATCH / (time.perf_counter() - began)
        store.close()
    return [
        Figure(what="store, readings in batches", value=rate, unit="readings/s", bar=100_000, at_least=True)
    ]
