"""What the loop adds to memory, and whether it stays flat over an hour (in fast motion, no Spark)."""

from __future__ import annotations

import tempfile
from pathlib import Path

import psutil

from benchmarks.figures import Figure
from benchmarks.scenes import SteadyTarget
from ebbflow.control.loop import ControlLoop
from ebbflow.core.clock import ManualClock
from ebbflow.core.limits import Limits
from ebbflow.core.slo import Slo
from ebbflow.guards import default_guards
from ebbflow.monitoring.store import Store
from ebbflow.strategies import Capacity

CYCLES = 3600


def measure() -> list[Figure]:
    process = psutil.Process()
    before_mb = process.memory_info().rss / 1e6
    clock = ManualClock(1_000_000.0)
    at_mb = []
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "bench.sqlite", clock)
        loop = ControlLoop(
            target=SteadyTarget(clock),
            strategy=Capacity(),
            guards=default_guards(),
            store=store,
            clock=clock,
            limits=Limits(min_nodes=1, max_nodes=8),
            slo=Slo(freshness_s=30.0),
        )
        for cycle in range(CYCLES):
            loop.cycle()
            clock.advance(1.0)
            if cycle in (CYCLES // 3, CYCLES - 1):
                at_mb.append(process.memory_info().rss / 1e6)
        store.close()
    return [
        Figure(
            what="loop, memory it adds in an hour of cycles", value=at_mb[1] - before_mb, unit="MB", bar=100.0
        ),
        Figure(
            what="loop, growth from minute 20 to minute 60", value=at_mb[1] - at_mb[0], unit="MB", bar=10.0
        ),
    ]
