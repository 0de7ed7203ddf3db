"""Single decisions of the capacity strategy, on plain values."""

from __future__ import annotations

import math
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_snapshots import made_batch, made_snapshot
from msgspec.structs import replace

from ebbflow.core.decision import Decision
from ebbflow.core.layout import Layout
from ebbflow.core.limits import Limits
from ebbflow.core.ports import Strategy
from ebbflow.core.slo import Slo
from ebbflow.core.snapshot import ActionKind, ActionUnderWay
from ebbflow.errors import UnknownNameError
from ebbflow.strategies import STRATEGIES, make_strategy
from ebbflow.strategies.capacity import Capacity
from ebbflow.strategies.static import Static


def decide(
    rates_per_s: list[float], tasks: list[int], *, nodes: int = 4, slots: int = 1, most: int = 50
) -> Decision:
    """The decision after batches at these rates."""
    batches = [made_batch(i, rate, tasks, slots=nodes * slots) for i, rate in enumerate(rates_per_s)]
    limits = Limits(min_nodes=1, max_nodes=most)
    return Capacity().decide(made_snapshot(batches, nodes=nodes, slots_per_node=slots, limits=limits))


def test_it_holds_until_two_batches_are_known() -> None:
    for count in (0, 1):
        decision = decide([100.0] * count, [12])
        assert decision.wanted == Layout.of(4)
        assert "learning" in decision.reason
    assert "learning" not in decide([100.0, 100.0], [12]).reason


def test_a_first_batch_is_given_time_to_warm_up_even_under_a_short_objective() -> None:
    """Several cold nodes at once make a first batch longer, not shorter."""
    strategy, short = Capacity(), Slo(freshness_s=8.0, quantile=0.95)
    wanted = []
    for now_s in range(100, 150):
        seen = made_snapshot([], nodes=1, limits=Limits(min_nodes=1, max_nodes=12), slo=short)
        seen = replace(seen, now_s=float(now_s), queries={"q": 100.0}, lead_time_s=10.0)
        wanted.append(strategy.decide(seen).wanted.main_nodes)
    grown = {nodes: wanted.index(nodes) for nodes in sorted(set(wanted))}
    assert grown == {1: 0, 2: 15, 4: 25, 8: 35, 12: 45}


def test_batches_without_rows_teach_nothing() -> None:
    decision = decide([0.0] * 10, [12])
    assert "learning" in decision.reason
    assert decision.wanted == Layout.of(4)


@settings(max_examples=150, deadline=None)
@given(
    rates=st.lists(st.floats(1, 2000), min_size=2, max_size=8),
    tasks=st.lists(st.integers(1, 64), min_size=1, max_size=4),
    nodes=st.integers(1, 40),
    slots=st.integers(1, 4),
    most=st.integers(1, 50),
)
def test_it_never_requests_a_size_that_saves_no_wave(
    rates: list[float], tasks: list[int], nodes: int, slots: int, most: int
) -> None:
    wanted = decide(rates, tasks, nodes=nodes, slots=slots, most=most).wanted.main_nodes
    if wanted in (nodes, 1):
        return
    assert any(math.ceil(p / (wanted * slots)) < math.ceil(p / ((wanted - 1) * slots)) for p in tasks)
    assert wanted <= most


@settings(max_examples=50, deadline=None)
@given(
    rate=st.floats(1, 500),
    tasks=st.lists(st.integers(1, 64), min_size=1, max_size=3),
    more=st.floats(1.0, 5.0),
    nodes=st.integers(1, 8),
)
def test_more_load_never_leads_to_fewer_nodes(rate: float, tasks: list[int], more: float, nodes: int) -> None:
    """Batches of several sizes: where all are alike, what a task costs counts as its rows', the more the fewer."""
    less_load, more_load = (
        decide([level * part for part in (0.3, 0.5, 0.7, 0.9, 1.0, 1.0)], tasks, nodes=nodes)
        for level in (rate, rate * more)
    )
    if not any(decision.bound_by for decision in (less_load, more_load)):  # all that helps is helped with
        assert more_load.wanted.main_nodes >= less_load.wanted.main_nodes


def test_the_same_snapshots_lead_to_the_same_decision() -> None:
    rates = [100.0, 150.0, 220.0, 400.0]
    assert decide(rates, [12, 7]) == decide(rates, [12, 7])


def test_a_growth_has_inputs_a_formula_and_an_expected_effect() -> None:
    decision = decide([400.0, 410.0, 420.0], [12], nodes=1)
    assert decision.wanted.main_nodes > 1
    assert "rows/s" in decision.reason
    assert "β" in decision.formula
    assert decision.inputs["rate_per_s"] == pytest.approx(420.0, rel=0.1)
    assert decision.inputs["driver_s"] == pytest.approx(0.3, abs=0.05)
    assert decision.expected is not None
    assert decision.expected.value == pytest.approx(decision.inputs["predicted_freshness_s"], abs=0.01)


def test_nodes_under_way_are_not_requested_twice() -> None:
    batches = [made_batch(i, 300.0, [12], slots=1) for i in range(3)]
    fresh = made_snapshot(batches, nodes=1)
    wanted = Capacity().decide(fresh).wanted.main_nodes
    assert wanted > 1
    coming = replace(
        fresh,
        planned=Layout.of(wanted),
        requested=Layout.of(wanted),
        under_way=(ActionUnderWay(kind=ActionKind.GROW, since_s=fresh.now_s - 1.0, nodes=wanted - 1),),
    )
    assert Capacity().decide(coming).wanted.main_nodes == wanted


def test_running_nodes_count_even_if_fewer_are_requested() -> None:
    batches = [made_batch(k, 80.0, [12]) for k in range(1, 4)]
    for requested in range(1, 5):
        decision = Capacity().decide(made_snapshot(batches, nodes=4, requested=Layout.of(requested)))
        assert decision.wanted.main_nodes == 4, decision.reason
        assert [c.name for c in decision.bound_by] == ["hold"]


def test_nodes_that_could_not_be_obtained_are_wanted_again() -> None:
    batches = [made_batch(k, 300.0, [12]) for k in range(1, 4)]
    there = Layout.of(1)
    decision = Capacity().decide(made_snapshot(batches, nodes=6, requested=there, observed=there))
    assert decision.wanted.main_nodes > 1
    assert decision.reason.startswith("grow 1 → ")


@pytest.mark.parametrize("age_s", [0.0, 5.0, 10.0, 14.0])
def test_an_old_observation_is_not_taken_for_idleness_or_an_overdue_batch(age_s: float) -> None:
    for running_s in (None, 15.5):
        strategy = Capacity()
        for k in range(1, 4):
            batch = made_batch(k, 200.0, [12])
            seen_s = 5.0 * k + 4.0
            queries = {"q": running_s if k == 3 and running_s else None}
            decision = strategy.decide(
                made_snapshot([batch], now_s=seen_s + age_s, data_age_s=age_s, queries=queries)
            )
        assert decision.inputs["rate_per_s"] == 200.0
        assert decision.wanted.main_nodes == 4, decision.reason
        assert "overdue" not in decision.reason


@pytest.mark.parametrize(("running_s", "overdue"), [(1.0, False), (60.0, True)])
def test_a_batch_after_a_pause_without_rows_is_not_overdue_by_the_pause(
    running_s: float, overdue: bool
) -> None:
    """On a row in a minute or two, batches of half a second used to be called a minute and more late."""
    strategy = Capacity()
    for i in range(8):
        strategy.decide(made_snapshot([made_batch(i, 20.0, [12], slots=12)], nodes=12))
    strategy.decide(made_snapshot([], nodes=12, now_s=150.0, queries={"q": None}))
    seen = made_snapshot([], nodes=12, now_s=200.0 + running_s, queries={"q": 200.0})
    assert ("overdue" in strategy.decide(seen).reason) is overdue


def test_it_grows_ahead_of_a_rising_load() -> None:
    steady = decide([150.0] * 5, [12], nodes=3)
    rising = decide([50.0, 75.0, 100.0, 125.0, 150.0], [12], nodes=3)
    assert rising.wanted.main_nodes > steady.wanted.main_nodes


def test_shrinking_waits_until_it_has_been_right_for_a_while() -> None:
    strategy, acted_s = Capacity(hold_in_s=10.0), []
    for i in range(8):
        batch = made_batch(i, 20.0, [12], slots=12)
        decision = strategy.decide(made_snapshot([batch], nodes=12))
        if decision.wanted.main_nodes < 12:
            acted_s.append(batch.ended_s)
        elif i >= 1:
            assert decision.bound_by[0].name == "hold"
    first_right_s = made_batch(1, 20.0, [12], slots=12).ended_s
    assert acted_s
    assert acted_s[0] - first_right_s >= 10.0


def test_no_node_is_released_while_a_batch_is_overdue() -> None:
    strategy = Capacity()
    for i in range(8):
        strategy.decide(made_snapshot([made_batch(i, 20.0, [12], slots=12)], nodes=12))
    stuck = made_snapshot([], nodes=12, now_s=100.0, queries={"q": 40.0})
    decision = strategy.decide(stuck)
    assert decision.wanted.main_nodes >= 12
    assert "overdue" in decision.reason


def test_no_node_is_released_while_another_query_is_unknown() -> None:
    strategy, known = Capacity(), {"q": None}
    for i in range(8):
        strategy.decide(made_snapshot([made_batch(i, 20.0, [12], slots=12)], nodes=12))
    joined = strategy.decide(made_snapshot([], nodes=12, now_s=38.0, queries={**known, "new": None}))
    assert joined.wanted.main_nodes == 12
    assert "learning new" in joined.reason
    quiet = [
        strategy.decide(made_snapshot([], nodes=12, now_s=38.0 + t, queries={**known, "new": None}))
        for t in range(5, 60, 5)
    ]
    assert quiet[-1].wanted.main_nodes < 12, "without a batch for longer than the objective it has no rows"
    assert all(decision.wanted.main_nodes == 12 for decision in quiet[:6])


def test_a_query_that_ended_is_forgotten() -> None:
    strategy = Capacity()
    for i in range(4):
        strategy.decide(made_snapshot([made_batch(i, 300.0, [12], query="old")], nodes=4))
    decision = strategy.decide(made_snapshot([], nodes=4, now_s=30.0, queries={"new": None}))
    assert "learning" in decision.reason
    assert decision.wanted.main_nodes == 4


def test_the_batch_that_ends_an_idle_period_counts_with_its_rate() -> None:
    strategy = Capacity()
    for i in range(3):
        strategy.decide(made_snapshot([made_batch(i, 100.0, [12], slots=2)], nodes=2))
    # Silence until 62; the batch began at 60 and was seen only when it ended.
    for now_s in (50.0, 55.0, 61.0):
        strategy.decide(made_snapshot([], nodes=2, now_s=now_s, queries={"q": None}))
    woken = strategy.decide(made_snapshot([made_batch(12, 100.0, [12], slots=2)], nodes=2))
    assert woken.inputs["rate_per_s"] == pytest.approx(100.0)


def test_two_queries_need_more_than_either_alone() -> None:
    def nodes_for(*queries: str) -> int:
        batches = [made_batch(i, 100.0, [12], slots=1, query=q) for i in range(4) for q in queries]
        return Capacity().decide(made_snapshot(batches, nodes=1)).wanted.main_nodes

    assert nodes_for("a", "b") > nodes_for("a") == nodes_for("b")


# -- all strategies ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_decides_before_anything_is_known(name: str) -> None:
    strategy = make_strategy(name)
    assert isinstance(strategy, Strategy)
    assert strategy.name == name
    decision = strategy.decide(made_snapshot([], queries={}))
    assert decision.reason


def test_an_unknown_strategy_names_the_closest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'capacity'"):
        make_strategy("capasity")


def test_static_always_holds_the_maximum() -> None:
    assert Static().decide(made_snapshot([], nodes=3)).wanted.main_nodes == 50


# -- speed (four times what is asked for, so that a busy machine does not fail it) ----------------


@pytest.mark.parametrize(
    ("tasks", "nodes", "limit_s"),
    [
        ([1 + 3 * i for i in range(10)], 8, 4 * 0.005),
        ([1 + (37 * i) % 1000 for i in range(200)], 1000, 4 * 0.050),
    ],
    ids=["10 stages, 8 nodes", "200 stages, 1000 nodes"],
)
def test_a_decision_is_quick(tasks: list[int], nodes: int, limit_s: float) -> None:
    strategy, took_s = Capacity(), []
    for i in range(8):
        batch = made_batch(i, 500.0 + 50.0 * i, tasks, slots=nodes)
        snapshot = made_snapshot([batch], nodes=nodes // 2, limits=Limits(min_nodes=1, max_nodes=nodes))
        start_s = time.perf_counter()
        strategy.decide(snapshot)
        took_s.append(time.perf_counter() - start_s)
    assert sorted(took_s)[len(took_s) // 2] < limit_s
