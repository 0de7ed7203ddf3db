"""The engine's own CPU counts as CPU of the node and is not available to instances."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbflow.core.clock import ManualClock
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Pipeline
from ebbflow.errors import InputError
from ebbflow.targets.simulator import Continuous, EngineOverhead, NodeKind, SimulatorTarget
from ebbflow.workloads import Arrivals, parse_load

STORM = NodeKind(slots=4, lead_time_s=0.0, overhead=EngineOverhead(idle_cores=0.4, per_core=0.5))


def world(load: str, nodes: NodeKind, *, noise: float = 0.0) -> tuple[SimulatorTarget, ManualClock]:
    """Four instances of 10 ms per row on one node: 100 rows/s per core."""
    clock = ManualClock()
    engine = Continuous(
        pipeline=Pipeline.chain("p", "work"), row_cost_s={"work": 0.01}, parallelism={"work": 4}, noise=noise
    )
    return SimulatorTarget(engine, nodes, Arrivals(parse_load(load)), clock, seed=1), clock


def reading(target: SimulatorTarget, metric: Metric) -> float:
    return next(r.value for r in target.observe().readings if r.metric is metric)


def test_cpu_of_a_node_is_that_of_its_instances_plus_the_engine() -> None:
    target, clock = world("constant(100)", STORM)
    clock.advance(60.0)
    assert reading(target, Metric.NODE_CPU) == pytest.approx((0.4 + 1.5 * 1.0) / 4)


def test_without_overhead_cpu_of_a_node_is_that_of_its_instances() -> None:
    target, clock = world("constant(100)", NodeKind(slots=4))
    clock.advance(60.0)
    assert reading(target, Metric.NODE_CPU) == pytest.approx(0.25)


def test_a_saturated_node_gives_its_instances_what_the_engine_leaves() -> None:
    target, clock = world("constant(1000)", STORM)
    clock.advance(100.0)
    assert target.work().processed == pytest.approx(100 * (4 - 0.4) / 1.5 * 100)
    assert reading(target, Metric.NODE_CPU) == pytest.approx(1.0)


def test_noise_that_slows_a_row_takes_more_cpu() -> None:
    target, clock = world("constant(100)", STORM, noise=0.2)
    clock.advance(600.0)
    mean = reading(target, Metric.INSTANCE_CPU)
    assert mean != pytest.approx(0.25, rel=1e-6)
    assert mean == pytest.approx(0.25 * 1.04, rel=0.03)  # E[1/f] = exp(σ²) of a lognormal factor of mean 1


@given(
    idle=st.floats(0.0, 3.9),
    per_core=st.floats(0.0, 5.0),
    cores=st.integers(4, 64),
    used=st.floats(0.0, 64.0),
)
def test_instance_cores_are_what_saturates_the_node(
    idle: float, per_core: float, cores: int, used: float
) -> None:
    overhead = EngineOverhead(idle_cores=idle, per_core=per_core)
    assert overhead.used_cores(overhead.instance_cores(cores)) == pytest.approx(cores)
    assert 0.0 <= NodeKind(slots=cores, overhead=overhead).cpu_share(used) <= 1.0


@pytest.mark.parametrize(("idle", "per_core"), [(-1.0, 0.0), (0.0, -0.1), (float("nan"), 0.0)])
def test_a_negative_overhead_is_refused(idle: float, per_core: float) -> None:
    with pytest.raises(InputError, match="must be 0 or more"):
        EngineOverhead(idle_cores=idle, per_core=per_core)


def test_an_overhead_of_all_cores_is_refused() -> None:
    with pytest.raises(InputError, match="leaves nothing of 4"):
        NodeKind(slots=4, overhead=EngineOverhead(idle_cores=4.0))
