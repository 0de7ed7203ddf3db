"""The time of a decision of ``capacity``, and of an assessment of ``symbiotic`` and of ``balance``."""

from __future__ import annotations

import random
import statistics
import time
from typing import Any

from benchmarks.figures import Figure
from benchmarks.synthetic import snapshot
from ebbflow.core.layout import MAIN, Layout
from ebbflow.core.limits import Limits
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Operator, Pipeline, Stream
from ebbflow.core.readings import Reading, Windows
from ebbflow.core.slo import Slo
from ebbflow.core.snapshot import Snapshot
from ebbflow.profiling.estimator import Estimator
from ebbflow.profiling.models import Proportional
from ebbflow.profiling.profile import CpuProfile, NodeProfile, Profile
from ebbflow.strategies.balance import Balance
from ebbflow.strategies.capacity import Capacity
from ebbflow.strategies.symbiotic import Symbiotic


def measure() -> list[Figure]:
    return [
        Figure(what="decision, 10 operators, 8 nodes", value=_median_ms(10, 8, 20), unit="ms", bar=5.0),
        Figure(
            what="decision, 200 operators, 1,000 nodes",
            value=_median_ms(200, 1000, 1000),
            unit="ms",
            bar=50.0,
        ),
        Figure(
            what="Algorithm 1, 100 operators, 1,000 nodes",
            value=_assessment_ms(100, 1000),
            unit="ms",
            bar=200.0,
        ),
        Figure(
            what="balance, 200 operators, 50 clusters", value=_balancing_ms(200, 50), unit="ms", bar=100.0
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


def _assessment_ms(operators: int, max_nodes: int) -> float:
    """Median time of a whole decision, including its profile; it needs about 650 of the nodes."""
    names = [f"o{k}" for k in range(operators)]
    pipeline = Pipeline(
        name="wide",
        operators=tuple(Operator(name=name) for name in names),
        streams=tuple(Stream(source=names[0], target=name) for name in names[1:]),
    )
    cpu = {name: CpuProfile(**_line(0.001 * (1 + 13 * k % 60))) for k, name in enumerate(names)}
    profile = Profile(pipeline="wide", cpu=cpu, node=NodeProfile(**_line(1.15 / 4), cores=4))
    layout, took = Layout(nodes={MAIN: 500}, parallelism=dict.fromkeys(names, 1)), []
    for number in range(9):
        strategy, windows = Symbiotic({"wide": Estimator(pipeline, profile)}), Windows()
        for now_s in (0.0, 30.0, 60.0):
            windows.add([Reading(now_s, "wide", Metric.ARRIVAL_RATE, 600.0 + number)])
            windows.add(Reading(now_s, name, Metric.INSTANCE_CPU, 0.5) for name in names)
            seen = Snapshot(
                now_s=now_s, pipeline=pipeline, planned=layout, requested=layout, observed=layout, windows=windows,
                batches=(), under_way=(), limits=Limits(min_nodes=1, max_nodes=max_nodes), slo=Slo(freshness_s=30.0),
                slots_per_node=4, lead_time_s=0.0, data_age_s=0.0,
            )  # fmt: skip
            began = time.perf_counter()
            decision = strategy.decide(seen)
            passed_ms = (time.perf_counter() - began) * 1000
        assert 500 < decision.wanted.main_nodes < max_nodes
        took.append(passed_ms)
    return statistics.median(took)


def _balancing_ms(operators: int, clusters: int) -> float:
    """Median time of an assessment with moves, its load series included."""
    rng, names = random.Random(1), [f"o{k}" for k in range(operators)]
    pipeline = Pipeline(name="fleet", operators=tuple(Operator(name=name, query=name) for name in names))
    took = []
    for _ in range(9):
        layout = Layout(
            nodes={f"c{k}": rng.randint(1, 20) for k in range(clusters)},
            placement={name: f"c{rng.randrange(clusters)}" for name in names},
        )
        strategy, windows = Balance(), Windows()
        for period in range(11):
            now_s = 30.0 * period
            for name in names:
                windows.add([Reading(now_s, name, Metric.EVENT_RATE, rng.uniform(50, 150))])
                windows.add([Reading(now_s, name, Metric.TIME_PER_EVENT, rng.uniform(0.0, 0.03))])
            seen = Snapshot(
                now_s=now_s, pipeline=pipeline, planned=layout, requested=layout, observed=layout, windows=windows,
                batches=(), under_way=(), limits=Limits(min_nodes=1, max_nodes=20), slo=Slo(freshness_s=30.0),
                slots_per_node=1, lead_time_s=0.0, data_age_s=0.0,
            )  # fmt: skip
            began = time.perf_counter()
            decision = strategy.decide(seen)
            passed_ms = (time.perf_counter() - began) * 1000
        assert decision.wanted.difference(layout).moved
        took.append(passed_ms)
    return statistics.median(took)


def _line(slope: float) -> dict[str, Any]:
    model = Proportional(per_unit=slope)
    return {"model": model, "low": 0.0, "high": 1e9, "slope": slope, "error": 0.0, "samples": 9}
