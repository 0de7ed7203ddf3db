"""Strategies for one cluster decide on main alone, and say so."""

from __future__ import annotations

import pytest

from ebbflow.control.deciding import Decider
from ebbflow.core.decision import Decision, hold
from ebbflow.core.layout import Layout
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.ports import Strategy
from ebbflow.core.snapshot import Snapshot
from ebbflow.runs.simulation import run_simulation
from ebbflow.strategies import STRATEGIES, make_strategy
from ebbflow.targets.simulator import Cluster, Continuous, Scenario
from ebbflow.testing import ManualClock, make_snapshot
from ebbflow.workloads import parse_load


def two_clusters(placement: dict[str, str]) -> Scenario:
    engine = Continuous(
        pipeline=Pipeline.chain("p", "read", "count", "rank"),
        row_cost_s={"read": 0.010, "count": 0.020, "rank": 0.020},
        parallelism={"read": 8, "count": 8, "rank": 8},
    )
    return Scenario(
        engine=engine,
        load=parse_load("constant(200)"),
        clusters={"west": Cluster(initial_nodes=8), "east": Cluster()},
        placement=placement,
        initial_nodes=3,
        seconds=900.0,
    )


class Watching(Strategy):
    """Holds, and remembers what it saw."""

    name = "watching"

    def __init__(self, handles_clusters: bool) -> None:
        self.handles_clusters = handles_clusters
        self.seen: Snapshot | None = None

    def decide(self, snapshot: Snapshot) -> Decision:
        self.seen = snapshot
        return hold(snapshot, "watching", "n")


@pytest.mark.parametrize("handles", [True, False])
def test_a_strategy_for_one_cluster_sees_only_main_and_the_ledger_says_so(handles: bool) -> None:
    strategy = Watching(handles)
    run = run_simulation(two_clusters({"count": "west", "rank": "west"}), strategy).run
    assert strategy.seen is not None
    notes = [entry.decision.reason for entry in run.decisions if "sizes only" in entry.decision.reason]
    if handles:
        assert strategy.seen.pipeline.order == ("read", "count", "rank")
        assert notes == []
    else:
        assert strategy.seen.pipeline.order == ("read",)
        assert notes == [
            "strategy watching sizes only the cluster main; west and east and placements stay as they are"
        ]


def test_capacity_sizes_main_for_the_operators_that_are_there() -> None:
    """At 200 rows/s reading needs 2 nodes; all three operators need 10."""
    run = run_simulation(two_clusters({"count": "west", "rank": "west"}), make_strategy("capacity")).run
    nodes = run.decisions[-1].decision.wanted.nodes
    assert nodes["main"] in (2, 3)
    assert (nodes["west"], nodes["east"]) == (8, 1)


def test_without_operators_in_main_nothing_is_sized() -> None:
    run = run_simulation(
        two_clusters(dict.fromkeys(("read", "count", "rank"), "west")), make_strategy("capacity")
    ).run
    assert run.decisions[-1].decision.reason == (
        "strategy capacity sizes only the cluster main, which has no operators here"
    )
    assert run.reconfigurations == 0


def test_without_a_cluster_main_even_a_constant_size_holds() -> None:
    """As in a fleet. Static would otherwise plan nodes for a cluster that does not exist."""
    fleet = Layout(nodes={"left": 1, "right": 2})
    snapshot = make_snapshot(0.0, 1, planned=fleet, requested=fleet, observed=fleet)
    for name in ("static", "capacity"):
        decision = Decider(make_strategy(name), (), ManualClock(0.0)).decide(snapshot)
        assert decision.wanted == fleet
        assert (
            decision.reason
            == f"strategy {name} sizes only the cluster main, which is not among left and right"
        )


def test_the_strategies_for_several_clusters() -> None:
    assert [name for name, kind in STRATEGIES.items() if kind.handles_clusters] == ["balance", "provision"]


def test_a_job_without_named_operators_is_sized() -> None:
    """On Spark a pipeline has operators only where the job names them."""
    strategy = Watching(handles_clusters=False)
    unnamed = make_snapshot(0.0, 1, pipeline=Pipeline(name="shop", operators=()))
    Decider(strategy, (), ManualClock(0.0)).decide(unnamed)
    assert strategy.seen is unnamed
