"""Nodes for every cluster: Algorithm 2 of DoDo as its text means it, and the model of capacity instead."""

from __future__ import annotations

import pytest

from ebbflow.core.layout import Layout
from ebbflow.core.limits import Limits
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Operator, Pipeline
from ebbflow.core.readings import Reading, Windows
from ebbflow.core.snapshot import ActionKind, ActionUnderWay
from ebbflow.errors import InputError
from ebbflow.runs.score import score
from ebbflow.runs.simulation import run_simulation
from ebbflow.strategies import make_strategy
from ebbflow.strategies.provision.per_cluster import view_of
from ebbflow.targets.simulator import Cluster, Continuous, NodeKind, Scenario
from ebbflow.testing import make_snapshot
from ebbflow.workloads import parse_load

PERIOD_S = 15.0


class TwoClusters:
    """Operator a in west and b in east, with given loads."""

    def __init__(self, west: int, east: int) -> None:
        self.pipeline = Pipeline(name="p", operators=(Operator(name="a"), Operator(name="b")))
        self.layout = Layout(nodes={"west": west, "east": east}, placement={"a": "west", "b": "east"})
        self.windows = Windows(3600.0)
        self.now_s = 0.0

    def decide(self, strategy, a: float, b: float, *, periods: int = 5, under_way=(), carry_out=True):
        """The decision after some periods, and the change that it makes."""
        for _ in range(periods):
            self.now_s += PERIOD_S
            for name, load in (("a", a), ("b", b)):
                self.windows.add(
                    [
                        Reading(self.now_s, name, Metric.EVENT_RATE, 100.0),
                        Reading(self.now_s, name, Metric.TIME_PER_EVENT, load / 100.0),
                    ]
                )
            layouts = dict.fromkeys(("planned", "requested", "observed"), self.layout)
            snapshot = make_snapshot(
                self.now_s, 1, pipeline=self.pipeline, windows=self.windows, queries={}, under_way=under_way,
                limits=Limits(min_nodes=1, max_nodes=20), lead_time_s=100.0, **layouts,
            )  # fmt: skip
            decision = strategy.decide(snapshot)
            change = decision.wanted.difference(self.layout)
            if carry_out:
                self.layout = decision.wanted
            if change:
                break
        return decision, dict(change.nodes)


def paper(**more) -> str:
    options = "".join(f", {name}={value}" for name, value in more.items())
    return f"provision(sizing=thresholds, balance=false{options})"


def test_a_loaded_cluster_grows_to_the_maximum_load_and_waits_for_its_nodes() -> None:
    world, strategy = TwoClusters(west=4, east=2), make_strategy(paper())
    # 4.4 / 4 = 1.1: 4 · (1.1 − 0.8) / 0.8 = 1.5, so two more; 1.2 / 2 is fine
    decision, change = world.decide(strategy, 4.4, 1.2)
    assert change == {"west": 2}
    assert decision.reason == "west 4 → 6: its load of 1.10 becomes 0.73"
    # 7.2 / 6 = 1.2, but the nodes are launching for 100 s; east is not held back by that
    _, change = world.decide(strategy, 7.2, 2.0, periods=3)
    assert change == {"east": 1}
    growing = [ActionUnderWay(kind=ActionKind.GROW, since_s=0.0, nodes=2, cluster="west")]
    assert world.decide(strategy, 7.2, 2.0, periods=12, under_way=growing)[1] == {}, "they still launch"
    assert world.decide(strategy, 7.2, 2.0)[1] == {"west": 3}


def test_an_idle_cluster_shrinks_to_the_ideal_load_as_the_text_says() -> None:
    """ES = 0.2 on 10 nodes, k·max = 0.75 · 0.8 = 0.6: four nodes, at 0.5. As printed, 10 · (0.2 − 0.8)/0.6 = −10."""
    world, strategy = TwoClusters(west=10, east=2), make_strategy(paper())
    _, change = world.decide(strategy, 2.0, 0.02)
    assert change == {"west": -6}, "and a cluster of two keeps both"
    assert world.decide(strategy, 0.4, 0.02, periods=1)[1] == {}, "it waits for the shutdown"
    assert world.decide(strategy, 0.4, 0.02)[1] == {"west": -2}


def test_the_capacity_covers_all_clusters_and_the_last_nodes_go_to_the_highest_load() -> None:
    world, strategy = TwoClusters(west=4, east=2), make_strategy(paper(most_nodes=7))
    decision, change = world.decide(strategy, 4.4, 2.8)  # 1.1 and 1.4; they want 6 and 4
    assert change == {"east": 1}
    assert [str(c.why) for c in decision.bound_by] == ["10 nodes wanted, 7 allowed in all clusters"]


def test_balancing_comes_when_no_size_changes() -> None:
    world = TwoClusters(west=2, east=6)
    world.pipeline = Pipeline(name="p", operators=(Operator(name="a"), Operator(name="b")))
    strategy = make_strategy("provision(sizing=thresholds, most_nodes=8, min_load=0.01)")
    decision, change = world.decide(strategy, 2.4, 0.6)
    assert not change
    assert decision.wanted.placement == {"a": "east", "b": "east"}


def test_thresholds_in_the_wrong_order_are_refused() -> None:
    with pytest.raises(InputError, match=r"min_load is 0\.9 and max_load is 0\.8"):
        make_strategy("provision(min_load=0.9)")


# -- through the simulator -------------------------------------------------------------------------------


def scenario(load: str, *, launch_s: float = 60.0) -> Scenario:
    engine = Continuous(
        pipeline=Pipeline.chain("p", "read", "count"),
        row_cost_s={"read": 0.010, "count": 0.004},
        on_every_node=True,
    )
    nodes = NodeKind(lead_time_s=launch_s)
    return Scenario(
        engine=engine, load=parse_load(load), nodes=nodes, initial_nodes=1,
        clusters={"west": Cluster(nodes=nodes)}, placement={"count": "west"},
        limits=Limits(min_nodes=1, max_nodes=12), seconds=1800.0,
    )  # fmt: skip


def test_a_cluster_is_sized_for_its_own_operators() -> None:
    """At 400 rows/s reading needs 4 nodes and counting 1.6."""
    for sizing in ("capacity", "thresholds"):
        run = run_simulation(
            scenario("constant(400)"), make_strategy(f"provision(sizing={sizing}, balance=false)")
        ).run
        nodes = run.decisions[-1].before.nodes
        assert 4 <= nodes["main"] <= 8, sizing
        assert 2 <= nodes["west"] <= 4, sizing


def test_the_model_of_capacity_is_ahead_of_a_load_that_rises_while_nodes_launch() -> None:
    late = {}
    for sizing in ("capacity", "thresholds"):
        rising = scenario("sawtooth(base=20, peak=600, period=30m)", launch_s=180.0)
        run = run_simulation(rising, make_strategy(f"provision(sizing={sizing})")).run
        late[sizing] = score(run, oracle_node_seconds=None).violation
    assert late["capacity"] == 0.0
    assert late["thresholds"] > 0.02


def test_all_clusters_together_never_have_more_nodes_than_allowed() -> None:
    """Also where a node is to go from one cluster to the other and a guard keeps it for a while."""
    for sizing in ("capacity", "thresholds"):
        run = run_simulation(
            scenario("square(base=50, peak=500, period=10m)"),
            make_strategy(f"provision(sizing={sizing}, most_nodes=6)"),
        ).run
        assert max(sum(entry.decision.wanted.nodes.values()) for entry in run.decisions) == 6, sizing


def test_the_view_of_a_cluster_has_only_what_is_there() -> None:
    world = TwoClusters(west=3, east=2)
    layouts = dict.fromkeys(("planned", "requested", "observed"), world.layout)
    world.windows.add(
        [Reading(1.0, "b", Metric.EVENT_RATE, 50.0), Reading(1.0, "b", Metric.OPERATOR_QUEUE, 25.0)]
    )
    snapshot = make_snapshot(1.0, 1, pipeline=world.pipeline, windows=world.windows, **layouts)
    shown = view_of(snapshot, "east")
    assert shown is not None
    assert (shown.pipeline.order, shown.observed.main_nodes) == (("b",), 2)
    assert shown.windows.of("east", Metric.ARRIVAL_RATE).last == 50.0
    assert shown.windows.of("east", Metric.FRESHNESS).last == pytest.approx(0.5)
    assert view_of(snapshot, "north") is None
