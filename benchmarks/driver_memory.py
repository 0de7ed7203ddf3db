"""Memory of the driver's Python process, without and with the loop, in a new process."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

CYCLES = 3600


def resident_mb() -> float:
    """Memory of this process."""
    import psutil

    return psutil.Process().memory_info().rss / 1e6


def with_the_loop_mb() -> tuple[float, float, float]:
    """Memory (before, after 20 minutes of cycles, after an hour) of one process, including imports."""
    result = subprocess.run(
        [sys.executable, "-m", "benchmarks.driver_memory"], stdout=subprocess.PIPE, check=True
    )
    bare, middle, end = json.loads(result.stdout)
    return bare, middle, end


def _loop_mb() -> list[float]:
    """An hour of cycles without waiting, with everything ``attach`` imports, on a fake target."""
    from benchmarks.synthetic import SteadyTarget
    from ebbflow.control import attach  # noqa: F401  # everything a job imports
    from ebbflow.control.loop import ControlLoop
    from ebbflow.core.clock import ManualClock
    from ebbflow.core.limits import Limits
    from ebbflow.core.slo import Slo
    from ebbflow.guards import guards_for
    from ebbflow.monitoring.store import Store
    from ebbflow.strategies import make_strategy
    from ebbflow.targets.spark import target  # noqa: F401

    clock, strategy = ManualClock(1_000_000.0), make_strategy("capacity")
    found = []
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "bench.sqlite", clock)
        loop = ControlLoop(
            target=SteadyTarget(clock),
            strategy=strategy,
            guards=guards_for(strategy),
            store=store,
            clock=clock,
            limits=Limits(min_nodes=1, max_nodes=8),
            slo=Slo(freshness_s=30.0),
        )
        for cycle in range(CYCLES):
            loop.cycle()
            clock.advance(1.0)
            if cycle in (CYCLES // 3, CYCLES - 1):
                found.append(resident_mb())
        store.close()
    return found


def main() -> None:
    import pyspark.sql  # noqa: F401

    bare_mb = resident_mb()
    print(json.dumps([bare_mb, *_loop_mb()]))


if __name__ == "__main__":
    main()
