"""Operators move once, when it is worth it, and never back and forth."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from ebbflow.core.layout import Layout
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Operator, Pipeline
from ebbflow.core.readings import Reading, Windows
from ebbflow.core.snapshot import ActionKind, ActionUnderWay, Snapshot
from ebbflow.runs.simulation import run_simulation
from ebbflow.strategies import make_strategy
from ebbflow.strategies.balance import Balance
from ebbflow.targets.simulator import Cluster, Continuous, MicroBatch, Scenario, Stage, Tenant
from ebbflow.testing import make_snapshot
from ebbflow.workloads import parse_load

PERIOD_S = 30.0


class Fleet:
    """Operators with given loads on clusters; ``run`` lets a strategy decide and carries its moves out."""

    def __init__(
        self, nodes: Mapping[str, int], placement: Mapping[str, str], *, fixed: tuple[str, ...] = ()
    ) -> None:
        operators = tuple(Operator(name=name, query=name, may_move=name not in fixed) for name in placement)
        self.pipeline = Pipeline(name="fleet", operators=operators)
        self.layout = Layout(nodes=nodes, placement=placement)
        self.windows = Windows(3600.0)
        self.now_s = 0.0
        self.reasons: list[str] = []

    def snapshot(self, **changes) -> Snapshot:
        layouts = {"planned": self.layout, "requested": self.layout, "observed": self.layout}
        return make_snapshot(
            self.now_s, 1, pipeline=self.pipeline, windows=self.windows, queries={}, **(layouts | changes)
        )

    def run(
        self, strategy: Balance, loads: Callable[[float], Mapping[str, float]], seconds: float
    ) -> list[str]:
        """The moves, as ``operator>cluster``; a reading every 10 s at 100 events/s."""
        moves = []
        end_s = self.now_s + seconds
        while self.now_s < end_s:
            for name, load in loads(self.now_s).items():
                self.windows.add(
                    [
                        Reading(self.now_s, name, Metric.EVENT_RATE, 100.0),
                        Reading(self.now_s, name, Metric.TIME_PER_EVENT, load / 100.0),
                    ]
                )
            decision = strategy.decide(self.snapshot())
            self.reasons.append(decision.reason)
            for name, (_, to) in decision.wanted.difference(self.layout).moved.items():
                moves.append(f"{name}>{to}")
            self.layout = decision.wanted
            self.now_s += 10.0
        return moves


def two_clusters(**more) -> Fleet:
    return Fleet({"west": 1, "east": 1}, {"a": "west", "b": "west", "c": "east"}, **more)


def constant(**loads: float) -> Callable[[float], Mapping[str, float]]:
    return lambda _: loads


def test_an_overloaded_cluster_gives_to_the_other_once() -> None:
    fleet = two_clusters()
    moves = fleet.run(Balance(), constant(a=0.8, b=0.3, c=0.1), 3600.0)
    assert moves == ["b>east"]
    assert fleet.reasons[0] == "the first period begins"
    assert "9 of 10 periods observed" in fleet.reasons
    reason = next(reason for reason in fleet.reasons if "moves" in reason)
    assert reason == "b moves from west to east: loads 1.10 and 0.10 become 0.80 and 0.40"


def swinging(time_s: float) -> Mapping[str, float]:
    """Each period, one of the clusters is overloaded and the other idle, in turn."""
    west = int((time_s - 1.0) / PERIOD_S) % 2 == 0  # a reading is about the time before it
    return {"a": 0.8, "b": 0.4, "c": 0.05, "d": 0.1} if west else {"a": 0.1, "b": 0.05, "c": 0.4, "d": 0.8}


def swing(strategy: Balance) -> list[str]:
    fleet = Fleet({"west": 1, "east": 1}, {"a": "west", "b": "west", "c": "east", "d": "east"})
    return fleet.run(strategy, swinging, 2 * 3600.0)


def test_no_ping_pong_on_a_load_that_oscillates_at_the_assessment_period() -> None:
    assert swing(make_strategy("balance(period=30s)")) == []
    # with the present period alone, hysteresis still leaves each operator where it went for half an hour
    once = swing(make_strategy("balance(period=30s, periods=1)"))
    assert len(once) <= 4 * 2 * 2
    # control: without memory and without hysteresis, operators move all the time
    assert len(swing(make_strategy("balance(period=30s, periods=1, stay=0s)"))) > 50


def test_an_operator_with_much_state_stays_where_a_small_one_moves() -> None:
    for state_mb, moves in ((10.0, ["b>east"]), (60_000.0, [])):
        fleet = two_clusters()
        fleet.windows.add([Reading(0.0, "b", Metric.STATE_SIZE, state_mb * 1e6)])
        # a does not fit: it would load the other cluster by more than half of the difference
        assert fleet.run(Balance(), constant(a=0.8, b=0.3, c=0.1), 600.0) == moves


def test_the_measured_down_time_counts_rather_than_the_assumed_one() -> None:
    fleet = two_clusters()
    for metric in (Metric.RESTART_STOP, Metric.RESTART_START):
        fleet.windows.add([Reading(0.0, "b", metric, 400.0)])
    assert fleet.run(Balance(), constant(a=0.8, b=0.3, c=0.1), 600.0) == []


def test_fixed_operators_stay() -> None:
    assert two_clusters(fixed=("b",)).run(Balance(), constant(a=0.8, b=0.3, c=0.1), 900.0) == []


def test_it_waits_for_actions_under_way_and_for_data() -> None:
    loads = constant(a=0.8, b=0.3, c=0.1)
    fleet, strategy = two_clusters(), Balance()
    fleet.run(strategy, loads, 250.0)
    fleet.now_s += 100.0
    for action in (
        ActionUnderWay(kind=ActionKind.RESTART, since_s=0.0),
        ActionUnderWay(kind=ActionKind.GROW, since_s=0.0, nodes=2, cluster="east"),
    ):
        decision = strategy.decide(fleet.snapshot(under_way=[action]))
        assert decision.wanted == fleet.layout
    assert "2 nodes on the way to east" in decision.reason
    fleet.now_s += 100.0  # without a reading since
    assert strategy.decide(fleet.snapshot()).reason == (
        "no data: a has no event rate or no time per event for this period"
    )
    assert fleet.run(strategy, loads, 200.0) == ["b>east"]


def test_a_greedy_placement_to_begin_with() -> None:
    fleet = Fleet({"west": 4, "east": 2}, dict.fromkeys("abcd", "east"))
    moves = fleet.run(make_strategy("balance(initial=greedy)"), constant(a=1.6, b=1.2, c=0.4, d=0.4), 1800.0)
    # a: 0.4 against 0.8; b: 0.7 against 0.6; c: 0.5 against 0.8; d: 0.6 against 0.8
    assert moves == ["a>west", "c>west", "d>west"]


def test_one_cluster_has_nothing_to_balance() -> None:
    decision = Balance().decide(make_snapshot(0.0, 3))
    assert decision.reason == "there is only one cluster, hence nothing to balance"


# -- through the simulator -------------------------------------------------------------------------------


def test_it_moves_an_operator_of_a_flow() -> None:
    """Reading takes 1.2 of four cores, counting 0.9 of one: on the four it leaves both well below 1."""
    engine = Continuous(
        pipeline=Pipeline.chain("p", "read", "count", "rank"),
        row_cost_s={"read": 0.012, "count": 0.009, "rank": 0.0005},
        on_every_node=True,
    )
    scenario = Scenario(
        engine=engine,
        load=parse_load("constant(120)"),
        initial_nodes=4,
        clusters={"west": Cluster()},
        placement={"count": "west", "rank": "west"},
        seconds=1200.0,
    )
    run = run_simulation(scenario, Balance()).run
    acts = [entry for entry in run.decisions if entry.verdict == "act"]
    assert [dict(entry.decision.wanted.placement) for entry in acts] == [{"rank": "west"}]
    assert run.processed.values[-1] == pytest.approx(120 * 1200, rel=0.001)


def test_all_steps_of_a_query_move_together() -> None:
    def query(name: str, per_row_s: float) -> MicroBatch:
        return MicroBatch(
            pipeline=Pipeline.chain(name, "read", "count"), stages=(Stage(tasks=4, per_row_s=per_row_s),)
        )

    scenario = Scenario(
        engine=query("a", 0.008),
        load=parse_load("constant(100)"),
        others=(Tenant(engine=query("b", 0.005), load=parse_load("constant(100)")),),
        clusters={"west": Cluster(initial_nodes=2)},
        initial_nodes=1,
        seconds=1200.0,
    )
    run = run_simulation(scenario, Balance()).run
    acts = [entry for entry in run.decisions if entry.verdict == "act"]
    assert [dict(entry.decision.wanted.placement) for entry in acts] == [
        {"a/read": "west", "a/count": "west"}
    ]
