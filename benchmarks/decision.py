"""How long a decision of the capacity strategy takes."""

from __future__ import annotations

import statistics
import time

from benchmarks.figures import Figure
from benchmarks.scenes import snapshot
from ebbflow.core.readings import Windows
from ebbflow.strategies import Capacity


def measure() -> list[Figure]:
    return [
        Figure(what="decision, 10 operators, 8 nodes", value=_median_ms(10, 8, 20), unit="ms", bar=5.0),
        Figure(
            what="decision, 200 operators, 1,000 nodes",
            value=_median_ms(200, 1000, 1000),
            unit="ms",
            bar=50.0,
        ),
    ]


def _median_ms(stages: int, nodes: int, max_nodes: int) -> float:
    strategy, windows, took = Capacity(), Windows(), []
    for number in range(1, 60):
        seen = snapshot(number, stages=stages, nodes=nodes, windows=windows, max_nodes=max_nodes)
        began = time.perf_counter()
        strategy.decide(seen)
        took.append((time.perf_counter() - began) * 1000)
    return statistics.median(took[5:])
