"""Whole runs are repeatable, never cheaper than the oracle, stable without metrics, and fast."""

from __future__ import annotations

import time

import numpy as np
import pytest
from sim_worlds import Keep, ScheduledNodes

from ebbflow.core.clock import ManualClock
from ebbflow.core.limits import Limits
from ebbflow.core.slo import Slo
from ebbflow.errors import InputError, UnknownNameError
from ebbflow.runs.oracle import cheapest_schedule
from ebbflow.runs.score import score
from ebbflow.runs.simulation import oracle_of, run_simulation, simulate
from ebbflow.strategies import make_strategy
from ebbflow.targets.simulator import LateMetrics, MissingMetrics, NodeKind, Scenario, built_in_engine
from ebbflow.workloads import parse_load

LOADS = ("constant(400)", "sine(base=100, peak=1500, period=10m)", "square(base=100, peak=900, period=10m)")
ENGINES = ("micro-batch", "continuous")
DAY_S = 86_400.0


def scenario(load: str = LOADS[1], engine: str = "micro-batch", seconds: float = 1800.0, **more) -> Scenario:
    noise = more.pop("noise", 0.0)
    made = built_in_engine(more.pop("pipeline", "top-words"), engine, noise=noise)
    return Scenario(engine=made, load=parse_load(load), seconds=seconds, **more)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_same_seed_gives_the_same_run(engine: str) -> None:
    def run(seed: int):
        kind = NodeKind(lead_noise=0.3)
        return simulate(
            scenario(engine=engine, noise=0.2, nodes=kind, seed=seed, seconds=900.0), make_strategy("static")
        )

    one, same, other = run(1), run(1), run(2)
    assert [e.to_json() for e in one.decisions] == [e.to_json() for e in same.decisions]
    assert one.batches == same.batches
    for name in ("arrived", "processed", "nodes", "nodes_working"):
        a, b = getattr(one, name), getattr(same, name)
        assert a.times_s.tolist() == b.times_s.tolist()
        assert a.values.tolist() == b.values.tolist()
    assert one.nodes_working.times_s.tolist() != other.nodes_working.times_s.tolist()


PLAN = ((200.0, 9), (700.0, 5), (1100.0, 12))
ON_TIME = [
    *[(load, engine, "static") for load in LOADS for engine in ENGINES],
    ("constant(400)", "micro-batch", "capacity"),
    ("sine(base=100, peak=1500, period=10m)", "micro-batch", "capacity"),
    ("square(base=100, peak=900, period=10m)", "continuous", "plan"),
]


def strategy_called(name: str):
    return ScheduledNodes(*PLAN) if name == "plan" else make_strategy(name)


@pytest.mark.parametrize(("load", "engine", "strategy"), ON_TIME)
def test_a_run_that_meets_the_objective_is_never_cheaper_than_the_oracle(
    load: str, engine: str, strategy: str
) -> None:
    world = scenario(load, engine)
    run = simulate(world, strategy_called(strategy))
    assert score(run, oracle_node_seconds=None).violation <= 1 - world.slo.quantile
    assert run.nodes.integral(0.0, run.ended_s) >= oracle_of(world, run).node_seconds - 1e-6


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("rate", "nodes"), [(150, 1), (310, 2), (480, 3), (650, 4)])
def test_the_minimum_of_constant_nodes_is_close_to_the_oracle_and_above_it(
    rate: int, nodes: int, engine: str
) -> None:
    limits = Limits(min_nodes=1, max_nodes=16)
    world = scenario(
        f"constant({rate})", engine, initial_nodes=nodes, limits=limits, slo=Slo(freshness_s=60.0)
    )
    run = simulate(world, Keep())
    scores = score(run, oracle_node_seconds=oracle_of(world, run).node_seconds)
    assert scores.violation == pytest.approx(0.0, abs=1e-9)
    assert 1.0 <= scores.cost_ratio < 1.2


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("strategy", ["capacity", "static", "plan", "keep"])
@pytest.mark.parametrize("engine", ENGINES)
def test_rows_are_never_processed_faster_than_the_nodes_can(load: str, strategy: str, engine: str) -> None:
    """The oracle relies on it: rows processed by t ≤ ∫ c(joined nodes) up to t."""
    world = scenario(load, engine)
    run = simulate(world, Keep() if strategy == "keep" else strategy_called(strategy))
    seconds = np.arange(run.ended_s)
    could = np.cumsum(np.interp(run.nodes_working.stepped(seconds), np.arange(17), world.capacity_rows_per_s))
    done = run.processed.stepped(seconds + 1.0)
    slack = world.capacity_rows_per_s[-1]  # nodes that join within a second count from the next
    assert (done <= could + slack).all()


def test_no_batch_outruns_the_capacity_that_the_oracle_is_given() -> None:
    world = scenario()
    run = simulate(world, make_strategy("capacity"))
    best = world.capacity_rows_per_s
    for batch in run.batches:
        if batch.steady:
            assert batch.rows / batch.duration_s <= best[batch.slots] + 1e-9


def test_capacity_meets_the_objective_at_lower_cost_than_static() -> None:
    world = scenario(seconds=3600.0)
    runs = {name: simulate(world, make_strategy(name)) for name in ("capacity", "static")}
    cost = {name: run.nodes.integral(0.0, 3600.0) for name, run in runs.items()}
    assert cost["capacity"] < 0.8 * cost["static"]
    assert score(runs["capacity"], oracle_node_seconds=None).violation < 0.05


def test_nodes_are_paid_from_request_to_release() -> None:
    world = scenario("constant(100)", nodes=NodeKind(lead_time_s=40.0), seconds=600.0, cycle_s=1.0)
    run = simulate(world, ScheduledNodes((100.0, 3), (300.0, 1)))
    assert run.nodes.stepped(101.0) == 3
    assert run.nodes_working.stepped(135.0) == 1
    assert run.nodes_working.stepped(145.0) == 3
    assert run.nodes.stepped(320.0) == 1
    assert (run.nodes.values >= run.nodes_working.stepped(run.nodes.times_s)).all()


@pytest.mark.parametrize(
    "fault",
    [MissingMetrics(from_s=300.0, until_s=600.0), LateMetrics(from_s=300.0, until_s=600.0, delay_s=120.0)],
)
def test_nothing_changes_while_metrics_are_missing_or_late(fault) -> None:
    world = scenario("step(base=150, peak=1200, at=320s)", faults=(fault,), seconds=1500.0)
    run = simulate(world, make_strategy("capacity"))
    acts_s = [entry.time_s for entry in run.decisions if entry.verdict == "act"]
    assert not [t for t in acts_s if 330.0 <= t < 600.0]
    assert [t for t in acts_s if t >= 600.0], "it acts again once metrics are back"
    ids = [batch.batch_id for batch in run.batches]
    assert ids == sorted(set(ids)), "every batch is reported once, in order"
    assert len(ids) == ids[-1] - ids[0] + 1, "none is missing"


def test_every_row_of_the_load_is_recorded() -> None:
    result = run_simulation(scenario("constant(333)", seconds=100.0), Keep())
    assert result.run.arrived.values[-1] == 33_300
    assert result.work.processed + result.work.waiting == 33_300
    assert score(result.run, oracle_node_seconds=None).rows_out == result.work.processed


def test_capacity_of_the_built_in_pipelines() -> None:
    for pipeline, least, most in (("top-words", 150, 200), ("sentiment", 130, 150)):
        for engine in ENGINES:
            assert least < scenario(pipeline=pipeline, engine=engine).capacity_rows_per_s[1] < most


def test_invalid_scenarios_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'top-words'"):
        built_in_engine("top-word")
    with pytest.raises(InputError, match="length must be above 0 s"):
        scenario(seconds=0.0)
    with pytest.raises(InputError, match=r"a scenario of 1e\+12 s is too long; the maximum is 5 years"):
        scenario(seconds=1e12)
    with pytest.raises(InputError, match="lead time"):
        NodeKind(lead_time_s=-1.0)


# -- speed: limits with a wide margin, because machines differ --------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_a_day_of_six_operators_is_simulated_in_seconds(engine: str) -> None:
    world = scenario("sine(base=100, peak=2000, period=1h)", engine, DAY_S, initial_nodes=16)
    clock = ManualClock()
    target = world.target(clock)
    clock.advance(DAY_S)
    started_s = time.process_time()
    target.advance()
    assert time.process_time() - started_s < 3.0
    assert target.work().processed > 80_000_000


def test_a_day_under_the_capacity_strategy_is_simulated_in_seconds() -> None:
    world = scenario("sine(base=100, peak=2000, period=1h)", seconds=DAY_S)
    started_s = time.process_time()
    run = simulate(world, make_strategy("capacity"))
    assert time.process_time() - started_s < 9.0
    assert len(run.decisions) > 8000


def test_the_oracle_uses_the_whole_arrival_curve() -> None:
    run = simulate(scenario("constant(400)", seconds=300.0), Keep())
    oracle = cheapest_schedule(
        run.arrived,
        np.arange(17) * 169.0,
        limits=Limits(min_nodes=1, max_nodes=16),
        slo=Slo(freshness_s=30.0),
    )
    assert oracle.node_seconds > 300 * 400 / 169 * 0.85
