"""A run in steps has the same scores as a run in one go."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbflow.core.limits import Limits
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.slo import Slo
from ebbflow.guards import Bounds, default_guards
from ebbflow.runs.environment.episode import Episode
from ebbflow.runs.score import score
from ebbflow.runs.simulation import run_simulation
from ebbflow.strategies import make_strategy
from ebbflow.targets.simulator import (
    Continuous,
    LateMetrics,
    MissingMetrics,
    NodeDies,
    NodeKind,
    Scenario,
    SlowNode,
    built_in_engine,
)
from ebbflow.workloads import parse_load

FAULTS = (
    NodeDies(at_s=65.0),
    SlowNode(from_s=100.0, until_s=250.0),
    MissingMetrics(from_s=0.0, until_s=25.0),
    MissingMetrics(from_s=180.0, until_s=215.0),
    LateMetrics(from_s=280.0, until_s=340.0, delay_s=30.0),
)


LOSSY = Continuous(
    pipeline=Pipeline.chain("p", "quick", "slow"),
    row_cost_s={"quick": 0.0005, "slow": 0.004},
    parallelism={"quick": 2, "slow": 2},
    queue_bound_rows=300.0,
)


def world(engine: str | Continuous = "micro-batch", **more) -> Scenario:
    made = (
        built_in_engine(more.pop("pipeline", "top-words"), engine, noise=more.pop("noise", 0.0))
        if isinstance(engine, str)
        else engine
    )
    defaults = {
        "load": parse_load(more.pop("load", "sine(base=100, peak=900, period=5m)")),
        "limits": Limits.parse("1:8"),
        "seconds": 405.0,
    }
    return Scenario(engine=made, **{**defaults, **more})


@pytest.mark.parametrize("engine", ["micro-batch", "continuous"])
@pytest.mark.parametrize("faults", [(), FAULTS], ids=["calm", "faults"])
def test_the_maximum_throughout_scores_as_the_static_strategy(engine: str, faults) -> None:
    scenario = world(engine, noise=0.2, faults=faults, nodes=NodeKind(lead_noise=0.3))
    whole = run_simulation(scenario, make_strategy("static"), guards=(Bounds(),)).run
    episode = Episode(scenario)
    while not episode.over:
        episode.step(scenario.limits.max_nodes)
    stepped = episode.simulation.run
    for name in ("arrived", "processed", "nodes", "nodes_working"):
        assert getattr(stepped, name).times_s.tolist() == getattr(whole, name).times_s.tolist()
        assert getattr(stepped, name).values.tolist() == getattr(whole, name).values.tolist()
    assert score(stepped, oracle_node_seconds=None) == score(whole, oracle_node_seconds=None)


@settings(max_examples=20, deadline=None)
@given(
    sizes=st.lists(st.integers(-2, 11), min_size=41, max_size=41),
    engine=st.sampled_from(["micro-batch", "continuous"]),
    faults=st.sets(st.sampled_from(FAULTS)),
    objective_s=st.sampled_from([3.0, 15.0, 60.0]),
    lead_time_s=st.sampled_from([0.0, 7.5, 40.0]),
    lossy=st.booleans(),
)
def test_the_steps_add_up_to_the_scores(sizes, engine, faults, objective_s, lead_time_s, lossy) -> None:
    scenario = world(
        engine,
        faults=tuple(faults),
        slo=Slo(freshness_s=objective_s),
        nodes=NodeKind(lead_time_s=lead_time_s),
        noise=0.1,
    )
    if lossy:
        scenario = replace(scenario, engine=LOSSY)
    episode = Episode(scenario)
    steps = []
    for nodes in sizes:
        steps.append(episode.step(nodes))
        assert scenario.limits.min_nodes <= episode.planned_nodes <= scenario.limits.max_nodes
    assert episode.over
    scores = score(episode.simulation.run, oracle_node_seconds=None)
    assert sum(step.node_seconds for step in steps) == pytest.approx(scores.node_seconds)
    late = sum(step.late_rows for step in steps)
    assert late / episode.rows == pytest.approx(scores.violation, abs=1e-9)


def test_rows_lost_in_a_step_are_late_in_it() -> None:
    episode = Episode(
        world(engine=LOSSY, load="constant(600)", initial_nodes=8, slo=Slo(freshness_s=60.0), seconds=100.0)
    )
    late = [episode.step(8).late_rows for _ in range(10)]
    # 500 of the 600 rows a second are served; the queues of two instances are full after 6 s
    assert late == pytest.approx([400.0] + [1000.0] * 9)


def test_guards_restrain_an_episode_as_they_restrain_a_run() -> None:
    episode = Episode(world(), guards=default_guards())
    episode.step(8)
    assert episode.planned_nodes == 3  # the step cap: from 1 to 3 at once, no further
    assert [c.name for c in episode.entry.decision.bound_by] == ["step cap"]


def test_the_last_step_ends_with_the_scenario() -> None:
    episode = Episode(world(seconds=95.0))
    ends_s = []
    while not episode.over:
        episode.step(2)
        ends_s.append(episode.time_s)
    assert ends_s[-2:] == [90.0, 95.0]
    assert episode.simulation.run.ended_s == 95.0
