"""The capacity strategy in closed loop with an engine without batches."""

from __future__ import annotations

from typing import Any

import pytest

from ebbflow.core.decision import LedgerEntry
from ebbflow.core.limits import Limits
from ebbflow.core.pipeline import Operator, Pipeline
from ebbflow.core.run import Run
from ebbflow.core.slo import Slo
from ebbflow.runs.score import Scores, score
from ebbflow.runs.simulation import simulate
from ebbflow.strategies.capacity import Capacity
from ebbflow.targets.simulator import Continuous, MissingMetrics, NodeDies, NodeKind, Scenario
from ebbflow.workloads import parse_load

# 10 ms a row in all: a node of one core does 100 rows/s.
COSTS = {"read": 0.002, "work": 0.007, "rank": 0.001}
PIPELINE = Pipeline.chain("p", "read", "work", Operator(name="rank", stateful=True))


def play(load: str, *, seconds: float = 900.0, nodes: int = 1, **more: Any) -> Run:
    instances = {"read": 16, "work": 16, "rank": 4, **more.pop("instances", {})}
    engine = Continuous(
        pipeline=PIPELINE,
        row_cost_s=more.pop("costs", COSTS),
        parallelism=instances,
        max_pending_rows=5_000.0,
        noise=more.pop("noise", 0.0),
    )
    scenario = Scenario(
        nodes=more.pop("kind", NodeKind()),
        engine=engine,
        load=parse_load(load),
        seconds=seconds,
        initial_nodes=nodes,
        limits=Limits(min_nodes=1, max_nodes=16),
        slo=Slo(freshness_s=30.0),
        **more,
    )
    return simulate(scenario, Capacity())


def scores(run: Run) -> Scores:
    return score(run, oracle_node_seconds=None)


def acts(run: Run, start_s: float = 0.0) -> list[LedgerEntry]:
    return [entry for entry in run.decisions if entry.verdict == "act" and entry.time_s >= start_s]


def nodes_at(run: Run, time_s: float) -> float:
    return float(run.nodes.stepped(time_s))


# -- the right size ------------------------------------------------------------------------------


@pytest.mark.parametrize(("rate", "fewest", "most"), [(60, 1, 1), (240, 3, 3), (560, 6, 7), (1130, 12, 13)])
@pytest.mark.parametrize("start", [1, 14])
def test_under_a_constant_load_it_settles_at_the_size_that_is_enough(
    rate: int, fewest: int, most: int, start: int
) -> None:
    run = play(f"constant({rate})", nodes=start)
    assert fewest <= nodes_at(run, 900.0) <= most
    assert len(acts(run, 400.0)) == 0


def test_a_load_that_rises_and_falls_is_followed_for_less_than_the_peak_costs() -> None:
    run = play("sine(base=100, peak=1300, period=20m)", seconds=3600.0, nodes=2)
    assert scores(run).violation == 0.0
    assert scores(run).node_seconds < 0.75 * 16 * 3600.0
    assert len(acts(run)) < 3600 / 40


def test_changes_are_few_where_the_load_is_noisy() -> None:
    run = play("constant(500)", seconds=1800.0, nodes=6, noise=0.1)
    assert len(acts(run, 100.0)) <= 2
    assert scores(run).violation == 0.0


def test_when_nothing_arrives_any_more_the_minimum_is_enough() -> None:
    run = play("square(base=0, peak=800, period=15m, duty=0.5)", seconds=1250.0, nodes=9)
    assert nodes_at(run, 850.0) >= 8
    assert nodes_at(run, 1250.0) == 1


def test_it_recovers_from_an_unforeseeable_step() -> None:
    run = play("step(base=150, peak=900, at=300s)", nodes=2)
    late = scores(run).latency_max_s
    assert late is not None
    assert late < 60.0
    assert nodes_at(run, 900.0) <= 11


def test_it_works_off_a_large_lag_and_then_releases_nodes() -> None:
    run = play("square(base=100, peak=1500, period=10m)", seconds=890.0, nodes=1)
    assert run.nodes.values.max() >= 14
    assert nodes_at(run, 880.0) <= 2
    assert float(run.arrived.values[-1] - run.processed.values[-1]) < 1000


# -- what more nodes cannot help -----------------------------------------------------------------


def test_if_one_instance_is_the_limit_it_says_so_and_does_not_grow() -> None:
    costs = {"read": 0.002, "work": 0.004, "rank": 0.004}  # one instance of rank takes in 250 rows/s
    run = play("constant(400)", costs=costs, instances={"rank": 1}, nodes=2)
    assert run.nodes.values.max() <= 3
    found = [c for entry in run.decisions for c in entry.decision.bound_by if c.name == "instances"]
    assert found
    assert "one instance of rank is the limit" in found[-1].why
    assert "more nodes cannot help" in found[-1].why


def test_an_operator_with_too_few_instances_gets_more_with_the_nodes_in_one_decision() -> None:
    run = play("constant(600)", instances={"work": 2}, nodes=2)  # two instances of work take in 286 rows/s
    raised = [entry for entry in acts(run) if entry.decision.wanted.parallelism["work"] > 2]
    assert raised
    first = raised[0]
    assert first.decision.wanted.main_nodes > first.before.main_nodes
    assert "work ×" in first.decision.reason
    assert len(raised) <= 4
    assert scores(run).violation is not None
    assert float(run.arrived.values[-1] - run.processed.values[-1]) < 600


def test_at_the_maximum_it_says_so() -> None:
    run = play("constant(2500)", nodes=16, seconds=300.0)
    assert "limit" in {c.name for entry in run.decisions for c in entry.decision.bound_by}


# -- trouble -------------------------------------------------------------------------------------


def test_it_recovers_from_the_loss_of_a_node() -> None:
    run = play("constant(450)", nodes=5, faults=(NodeDies(at_s=400.0),))
    assert scores(run).violation is not None
    assert scores(run).violation < 0.05
    assert 5 <= nodes_at(run, 900.0) <= 6


def test_slow_nodes_are_detected() -> None:
    run = play("constant(300)", nodes=3, kind=NodeKind(speeds=(0.5,)))
    assert 6 <= nodes_at(run, 900.0) <= 8


def test_nothing_changes_during_an_outage_of_metrics() -> None:
    blind = MissingMetrics(from_s=300.0, until_s=600.0)
    run = play("step(base=150, peak=900, at=330s)", nodes=2, faults=(blind,))
    assert not [entry for entry in acts(run) if 320.0 <= entry.time_s < 600.0]
    assert [entry for entry in acts(run) if entry.time_s >= 600.0]


# -- the record ----------------------------------------------------------------------------------


def test_it_holds_until_two_observations() -> None:
    first = play("constant(500)", seconds=60.0).decisions[0]
    assert first.verdict == "hold"
    assert "learning" in first.decision.reason


def test_every_decision_of_a_flow_has_a_formula_inputs_and_an_expected_effect() -> None:
    run = play("step(base=150, peak=600, at=300s)", nodes=2)
    learned = [entry for entry in run.decisions if "learning" not in entry.decision.reason]
    assert {entry.verdict for entry in learned} == {"act", "hold"}
    for entry in learned:
        assert entry.decision.formula
        assert {"rate_per_s", "row_cpu_ms", "pause_s", "capacity_per_s"} <= set(entry.decision.inputs)
        assert entry.decision.expected is not None
    calm = [e for e in learned if e.time_s > 600.0 and e.achieved is not None and e.decision.expected]
    assert calm
    assert all(abs(e.achieved - e.decision.expected.value) < 1.0 for e in calm)
    assert calm[-1].decision.inputs["row_cpu_ms"] == pytest.approx(10.0, rel=0.01)
