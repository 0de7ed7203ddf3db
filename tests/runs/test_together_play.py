"""Pipelines that share nodes, through the loop and to their scores."""

from __future__ import annotations

from dataclasses import replace

from ebbflow.core.limits import Limits
from ebbflow.runs.score import score_together
from ebbflow.runs.simulation import run_simulation
from ebbflow.strategies import make_strategy
from ebbflow.targets.simulator import Scenario, built_in_engine
from ebbflow.targets.simulator.scenario import Tenant
from ebbflow.workloads import parse_load


def test_two_queries_on_the_same_nodes_are_scored_each_and_together() -> None:
    alone = Scenario(
        engine=built_in_engine("top-words"),
        load=parse_load("constant(100)"),
        seconds=300.0,
        limits=Limits(min_nodes=1, max_nodes=8),
    )
    other = Tenant(engine=built_in_engine("sentiment"), load=parse_load("constant(300)"))
    shared = replace(alone, others=(other,))
    simulation = run_simulation(shared, make_strategy("capacity"))
    assert [run.pipeline for run in simulation.runs] == ["top-words", "sentiment"]
    assert simulation.run is simulation.runs[0]
    assert all({batch.query for batch in run.batches} == {run.pipeline} for run in simulation.runs)
    both = score_together(simulation.runs)
    assert both.rows_in == 300 * 100 + 300 * 300
    assert both.violation is not None
    assert both.violation < 0.2, "sized together, they keep up"
    # One needs a node, the other two more: sized for one of them alone, rows would be late.
    assert (
        both.node_seconds > score_together(run_simulation(alone, make_strategy("capacity")).runs).node_seconds
    )
