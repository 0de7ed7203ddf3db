"""Busy time includes the wait for a core, which CPU time does not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sim_worlds import named_operator, shared_world, world

from ebbflow.core.layout import Layout
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Pipeline
from ebbflow.targets.simulator import Continuous, NodeKind, SimulatorTarget


def chain(a_ms: float, b_ms: float, instances: int = 1, **more: Any) -> Continuous:
    return Continuous(
        pipeline=Pipeline.chain("p", "a", "b"),
        row_cost_s={"a": a_ms / 1000, "b": b_ms / 1000},
        parallelism={"a": instances, "b": instances},
        **more,
    )


def shares(target: SimulatorTarget, metric: Metric) -> dict[str, float]:
    return {r.subject: r.value for r in target.observe().readings if r.metric is metric}


def busy_after(seconds: float, target: SimulatorTarget, clock) -> dict[str, float]:
    clock.advance(seconds)
    return shares(target, Metric.INSTANCE_BUSY)


def test_below_saturation_instances_share_the_core() -> None:
    target, clock = world(chain(2.0, 6.0), "constant(50)")
    # a has 50 · 2 ms = 0.1 of the core, b 0.3: 0.1 / (1 − 0.3) and 0.3 / (1 − 0.1)
    assert busy_after(60.0, target, clock) == pytest.approx({"a": 1 / 7, "b": 1 / 3})


def test_an_instance_with_its_own_core_is_busy_for_its_cpu_time() -> None:
    target, clock = world(chain(2.0, 6.0), "constant(50)", kind=NodeKind(slots=2))
    assert busy_after(60.0, target, clock) == pytest.approx({"a": 0.1, "b": 0.3})


@pytest.mark.parametrize(("nodes", "instances"), [(1, 16), (5, 16), (1, 1)])
def test_every_instance_on_a_saturated_node_is_busy(nodes: int, instances: int) -> None:
    target, clock = world(chain(2.0, 6.0, instances, max_pending_rows=5000.0), "constant(2000)", nodes)
    busy_after(60.0, target, clock)
    clock.advance(60.0)
    readings = target.observe().readings
    busy = {r.subject: r.value for r in readings if r.metric is Metric.INSTANCE_BUSY}
    cpu = [r.value for r in readings if r.metric is Metric.INSTANCE_CPU]
    assert busy == pytest.approx({"a": 1.0, "b": 1.0})
    assert sum(cpu) == pytest.approx(nodes / instances)


def test_seconds_on_a_saturated_node_are_counted_one_by_one() -> None:
    # no rows for 60 s, then twice the capacity for 20 s: b uses 15 s of CPU and has rows in hand for 20 s
    target, clock = world(chain(2.0, 6.0, max_pending_rows=1000.0), "step(base=0, peak=250, at=60s)")
    assert busy_after(80.0, target, clock)["b"] == pytest.approx(0.25)


def test_slow_nodes_are_busy_longer_for_the_same_work() -> None:
    target, clock = world(named_operator("p", 0.005), "constant(50)", kind=NodeKind(speeds=(0.5,)))
    assert busy_after(60.0, target, clock) == pytest.approx({"work": 0.5})


def test_instances_also_wait_for_other_pipelines_on_the_node() -> None:
    target, clock = shared_world(
        (named_operator("p", 0.01), "constant(20)"), (named_operator("q", 0.01), "constant(60)")
    )
    # 0.2 / (1 − 0.6) and 0.6 / (1 − 0.2)
    assert busy_after(60.0, target, clock) == pytest.approx({"p/work": 0.5, "q/work": 0.75})


def test_a_stopped_pipeline_is_not_busy() -> None:
    target, clock = world(chain(2.0, 6.0, pause_s=(30.0, 30.0)), "constant(50)", kind=NodeKind(slots=4))
    busy_after(20.0, target, clock)
    target.apply(Layout.of(1, a=2, b=2))
    busy_after(5.0, target, clock)
    assert busy_after(10.0, target, clock) == pytest.approx({"a": 0.0, "b": 0.0})


@given(
    cost_ms=st.tuples(st.floats(1.0, 40.0), st.floats(1.0, 40.0)),
    instances=st.integers(1, 6),
    nodes=st.integers(1, 3),
    slots=st.integers(1, 3),
    noise=st.sampled_from([0.0, 0.2]),
)
@settings(max_examples=25, deadline=None)
def test_busy_share_is_at_least_the_cpu_share_and_at_most_1(cost_ms, instances, nodes, slots, noise) -> None:
    engine = chain(*cost_ms, instances, max_pending_rows=300.0, noise=noise)
    target, clock = world(engine, "sine(base=5, peak=150, period=1m)", nodes, kind=NodeKind(slots=slots))
    for _ in range(12):
        clock.advance(10.0)
        readings = target.observe().readings
        cpu = {r.subject: r.value for r in readings if r.metric is Metric.INSTANCE_CPU}
        for reading in readings:
            if reading.metric is Metric.INSTANCE_BUSY:
                assert min(1.0, cpu[reading.subject]) - 1e-9 <= reading.value <= 1.0
