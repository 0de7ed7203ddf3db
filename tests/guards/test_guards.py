"""The rules of each guard, as properties."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from worlds import NOW_S, measured, names, wish, world

from ebbflow.core.decision import Decision
from ebbflow.core.layout import Layout
from ebbflow.core.limits import Limits
from ebbflow.core.metrics import Metric
from ebbflow.core.ports import Guard
from ebbflow.core.readings import Reading, Windows
from ebbflow.guards import (
    Bounds,
    CoolDown,
    FreezeScaleInOnBacklog,
    HoldOnMissingData,
    StepCap,
    default_guards,
)

NODES = st.integers(0, 300)
SOME = st.integers(1, 300)
LIMITS = st.tuples(st.integers(1, 100), st.integers(0, 100)).map(
    lambda t: Limits(min_nodes=t[0], max_nodes=t[0] + t[1])
)


@pytest.mark.parametrize("guard", default_guards(), ids=lambda g: type(g).__name__)
def test_a_guard_that_does_not_bind_returns_the_same_decision(guard: Guard) -> None:
    decision = wish(5)
    assert guard.restrain(world(4), decision) is decision


@pytest.mark.parametrize("guard", default_guards(), ids=lambda g: type(g).__name__)
@given(nodes=NODES, now=SOME, age_s=st.floats(0, 100), last_s=st.floats(900, 1000), backlog=st.floats(0, 1e5))
def test_a_guard_that_changes_the_size_names_the_constraint_and_its_reason(
    guard: Guard, nodes: int, now: int, age_s: float, last_s: float, backlog: float
) -> None:
    snapshot = world(now, data_age_s=age_s, last_out_s=last_s, windows=measured(backlog=backlog))
    decision = wish(nodes)
    restrained = guard.restrain(snapshot, decision)
    if restrained.wanted != decision.wanted:
        assert len(restrained.bound_by) == 1
        assert restrained.bound_by[0].name
        assert restrained.bound_by[0].why
    assert replace(restrained, wanted=decision.wanted, bound_by=()) == decision


# -- bounds --------------------------------------------------------------------------------------


@given(nodes=st.integers(-50, 500), now=NODES, limits=LIMITS)
def test_sizes_stay_within_the_bounds(nodes: int, now: int, limits: Limits) -> None:
    decision = Bounds().restrain(world(now, limits=limits), wish(nodes))
    assert limits.min_nodes <= decision.wanted.main_nodes <= limits.max_nodes
    assert names(decision) == ([] if limits.clamp(nodes) == nodes else ["bounds"])


def test_bounds_hold_for_every_cluster() -> None:
    wanted = Layout(nodes={"main": 9, "spare": 0})
    decision = Bounds().restrain(
        world(limits=Limits(min_nodes=1, max_nodes=5)), Decision(wanted=wanted, reason="r")
    )
    assert decision.wanted.nodes == {"main": 5, "spare": 1}


# -- step cap ------------------------------------------------------------------------------------


@given(now=NODES, nodes=NODES)
def test_no_step_is_longer_than_the_cap(now: int, nodes: int) -> None:
    got = StepCap().restrain(world(now), wish(nodes)).wanted.main_nodes
    assert got <= max(2 * now, now + 2)
    assert now - got <= max(1, math.ceil(now / 2))


@given(now=NODES, nodes=NODES)
def test_a_capped_step_goes_towards_the_wanted_size_and_never_past_it(now: int, nodes: int) -> None:
    got = StepCap().restrain(world(now), wish(nodes)).wanted.main_nodes
    if nodes == now:
        assert got == now
    else:
        assert abs(nodes - got) < abs(nodes - now)
        assert min(now, nodes) <= got <= max(now, nodes)


@given(now=SOME, nodes=SOME)
def test_every_wanted_size_is_reached_in_a_few_steps(now: int, nodes: int) -> None:
    steps = 0
    while now != nodes:
        now = StepCap().restrain(world(now), wish(nodes)).wanted.main_nodes
        steps += 1
    assert steps <= 10


@pytest.mark.parametrize(("now", "nodes", "got"), [(1, 10, 3), (4, 10, 8), (8, 1, 4), (2, 1, 1), (5, 6, 6)])
def test_capped_steps_worked_out_by_hand(now: int, nodes: int, got: int) -> None:
    assert StepCap().restrain(world(now), wish(nodes)).wanted.main_nodes == got


# -- cool-down -----------------------------------------------------------------------------------


@given(
    now=SOME,
    nodes=NODES,
    out_ago_s=st.none() | st.floats(0, 60),
    in_ago_s=st.none() | st.floats(0, 60),
)
def test_cool_down_holds_only_while_a_change_is_recent(
    now: int, nodes: int, out_ago_s: float | None, in_ago_s: float | None
) -> None:
    snapshot = world(
        now,
        last_out_s=None if out_ago_s is None else NOW_S - out_ago_s,
        last_in_s=None if in_ago_s is None else NOW_S - in_ago_s,
    )
    guard = CoolDown(out_s=20.0, in_s=40.0)
    got = guard.restrain(snapshot, wish(nodes)).wanted.main_nodes
    out_s, in_s = out_ago_s if out_ago_s is not None else 1e9, in_ago_s if in_ago_s is not None else 1e9
    if nodes > now:
        hot = out_s < 20.0 - 1e-6
        cold = out_s > 20.0 + 1e-6
    else:
        hot = min(out_s, in_s) < 40.0 - 1e-6 and nodes != now
        cold = min(out_s, in_s) > 40.0 + 1e-6
    if hot:
        assert got == now
    elif cold:
        assert got == nodes


def test_a_shrink_does_not_delay_a_growth() -> None:
    decision = CoolDown().restrain(world(4, last_in_s=NOW_S - 0.1), wish(8))
    assert decision.wanted.main_nodes == 8


def test_a_cool_down_says_how_long_it_still_takes() -> None:
    decision = CoolDown(out_s=20.0).restrain(world(4, last_out_s=NOW_S - 5.0), wish(8))
    assert names(decision) == ["cool-down"]
    assert "15s" in decision.bound_by[0].why


# -- backlog -------------------------------------------------------------------------------------


@given(now=SOME, nodes=NODES, backlog=st.floats(0, 1e6), rows=st.floats(0, 1e5), fresh_s=st.floats(0, 100))
def test_a_backlog_blocks_scale_in_but_not_scale_out(
    now: int, nodes: int, backlog: float, rows: float, fresh_s: float
) -> None:
    windows = measured(backlog=backlog, batch_rows=rows, freshness=fresh_s)
    decision = FreezeScaleInOnBacklog().restrain(world(now, windows=windows), wish(nodes))
    waiting = backlog > max(1.0, rows) or fresh_s > 0.8 * 30.0
    assert decision.wanted.main_nodes == (now if waiting and nodes < now else nodes)
    assert names(decision) == (["backlog"] if waiting and nodes < now else [])


def two_batches(taken: float, left_before: float, left: float) -> Windows:
    """Readings of two batches; the second processed ``taken`` rows."""
    windows = Windows()
    for at_s, rows, behind in ((NOW_S - 5, 1.0, left_before), (NOW_S, taken, left)):
        windows.add([Reading(at_s, "words", Metric.BATCH_ROWS, rows)])
        windows.add([Reading(at_s, "words", Metric.BACKLOG, behind)])
    return windows


@pytest.mark.parametrize(
    ("taken", "left_before", "left", "kept"),
    [
        (800, 1368, 768, True),  # 200 arrived, and it processed only rows that the previous batch had left
        (800, 768, 168, False),  # 200 arrived: no more than that is left
        (800, 0, 4200, True),  # a burst: nearly all rows have just arrived, and they are more than a batch
        (800, 0, 700, False),  # a source that reports its rows late
        (800, 900, 0.5, False),
        (0, 50, 60, True),
        (100, 100, 100, False),
        (100, 101, 100, True),
    ],
)
def test_more_rows_left_than_arrived_since_the_last_batch_are_a_backlog(
    taken: float, left_before: float, left: float, kept: bool
) -> None:
    windows = two_batches(taken, left_before, left)
    for queries in ({}, {"words": None}, {"other": None}):
        decision = FreezeScaleInOnBacklog().restrain(world(8, windows=windows, queries=queries), wish(4))
        assert decision.wanted.main_nodes == (8 if kept else 4)
        assert names(decision) == (["backlog"] if kept else [])


def test_a_backlog_of_one_query_is_not_hidden_by_a_large_other_query() -> None:
    windows = measured(backlog=500.0, batch_rows=9000.0)
    for query, left, taken in (("lags", 500.0, 100.0), ("fresh", 0.0, 8900.0)):
        windows.add([Reading(NOW_S, query, Metric.BACKLOG, left)])
        windows.add([Reading(NOW_S, query, Metric.BATCH_ROWS, taken)])
    queries = {"fresh": None, "lags": None}
    decision = FreezeScaleInOnBacklog().restrain(world(8, windows=windows, queries=queries), wish(4))
    assert decision.wanted.main_nodes == 8


def test_rows_that_arrived_since_the_trigger_are_not_a_backlog() -> None:
    windows = measured(queue_length=5000.0, backlog=0.0, batch_rows=1000.0)
    assert FreezeScaleInOnBacklog().restrain(world(8, windows=windows), wish(4)).wanted.main_nodes == 4


def test_without_waiting_rows_freshness_does_not_block_scale_in() -> None:
    for waiting, nodes in ((0.0, 4), (10.0, 8)):
        windows = measured(queue_length=waiting, freshness=29.0)
        decision = FreezeScaleInOnBacklog().restrain(world(8, windows=windows), wish(4))
        assert decision.wanted.main_nodes == nodes


def batches_of(query: str, *ends_s: float, took_s: float, backlog: float | None = None) -> Windows:
    """Readings of batches that ended at these times before now; ``backlog`` is what each left behind."""
    windows = Windows()
    for end_s in ends_s:
        windows.add([Reading(NOW_S + end_s, query, Metric.BATCH_TIME, took_s)])
        if backlog is not None:
            windows.add([Reading(NOW_S + end_s, query, Metric.BACKLOG, backlog)])
    return windows


@pytest.mark.parametrize(
    ("ends_s", "backlog", "since_s", "kept"),
    [
        ((-4.0, -0.1), None, NOW_S, True),
        ((-4.0, -0.1), 0.0, NOW_S, False),  # its source reports no backlog
        ((-10.0, -0.1), None, NOW_S, False),  # it was idle for six seconds
        ((-9.0, -5.1), None, None, False),  # it is idle now
        ((-0.1,), None, NOW_S, False),
    ],
)
def test_back_to_back_batches_with_unknown_backlog_block_scale_in(
    ends_s: tuple[float, ...], backlog: float | None, since_s: float | None, kept: bool
) -> None:
    windows = batches_of("q", *ends_s, took_s=3.9, backlog=backlog)
    decision = FreezeScaleInOnBacklog().restrain(world(8, windows=windows, queries={"q": since_s}), wish(4))
    assert decision.wanted.main_nodes == (8 if kept else 4)
    assert names(decision) == (["backlog"] if kept else [])


def test_an_old_backlog_reading_does_not_count() -> None:
    windows = measured(backlog=5000.0, batch_rows=10.0, queue_length=0.0, freshness=29.0)
    windows.add([Reading(NOW_S + 5, "words", Metric.BATCH_ROWS, 10.0)])
    windows.add([Reading(NOW_S + 5, "words", Metric.FRESHNESS, 29.0)])
    decision = FreezeScaleInOnBacklog().restrain(world(8, windows=windows), wish(4))
    assert decision.wanted.main_nodes == 8
    assert "freshness" in decision.bound_by[0].why, "neither the old backlog nor the empty queue counts"


def test_only_the_shrinking_cluster_is_frozen() -> None:
    planned = Layout(nodes={"main": 4, "spare": 2})
    wanted = Layout(nodes={"main": 2, "spare": 3})
    snapshot = world(planned=planned, windows=measured(backlog=100.0))
    got = FreezeScaleInOnBacklog().restrain(snapshot, Decision(wanted=wanted, reason="r"))
    assert got.wanted.nodes == {"main": 4, "spare": 3}


# -- missing data --------------------------------------------------------------------------------


@given(now=SOME, nodes=NODES, age_s=st.floats(0, 200))
def test_on_missing_data_nothing_changes(now: int, nodes: int, age_s: float) -> None:
    decision = HoldOnMissingData(stale_after_s=15.0).restrain(world(now, data_age_s=age_s), wish(nodes))
    assert decision.wanted.main_nodes == (now if age_s > 15.0 else nodes)


def test_on_missing_data_no_operator_is_restarted_either() -> None:
    snapshot = world(planned=Layout.of(4, split=2), data_age_s=60.0)
    decision = HoldOnMissingData().restrain(snapshot, wish(4, split=8))
    assert decision.wanted == snapshot.planned
    assert names(decision) == ["missing data"]
    assert "1m" in decision.bound_by[0].why


def test_before_the_first_node_runs_nothing_changes() -> None:
    decision = HoldOnMissingData().restrain(world(1, observed=Layout.of(0)), wish(8))
    assert decision.wanted.main_nodes == 1
    assert names(decision) == ["missing data"]


# -- all of them ---------------------------------------------------------------------------------


def through_all(snapshot_nodes: int, nodes: int, **changes: object) -> Decision:
    snapshot, decision = world(snapshot_nodes, **changes), wish(nodes)
    for guard in default_guards():
        decision = guard.restrain(snapshot, decision)
    return decision


def test_bounds_come_after_all_that_restrain_sizes() -> None:
    kinds = [type(guard) for guard in default_guards()]
    assert set(kinds) == {HoldOnMissingData, FreezeScaleInOnBacklog, CoolDown, StepCap, Bounds}
    assert kinds.index(Bounds) > max(kinds.index(k) for k in (FreezeScaleInOnBacklog, CoolDown, StepCap))


def test_all_constraints_that_bound_a_decision_are_written_into_it_in_order() -> None:
    decision = through_all(4, 50, limits=Limits(min_nodes=1, max_nodes=6))
    assert decision.wanted.main_nodes == 6
    assert names(decision) == ["step cap", "bounds"]


@given(now=NODES, nodes=NODES, limits=LIMITS, age_s=st.floats(0, 14), out_ago_s=st.floats(0, 60))
def test_with_fresh_data_the_guards_together_always_leave_an_allowed_size(
    now: int, nodes: int, limits: Limits, age_s: float, out_ago_s: float
) -> None:
    decision = through_all(now, nodes, limits=limits, data_age_s=age_s, last_out_s=NOW_S - out_ago_s)
    assert limits.min_nodes <= decision.wanted.main_nodes <= limits.max_nodes


@given(now=NODES, nodes=NODES, limits=LIMITS, age_s=st.floats(15.1, 1000))
def test_with_stale_data_the_guards_together_change_nothing(
    now: int, nodes: int, limits: Limits, age_s: float
) -> None:
    assert through_all(now, nodes, limits=limits, data_age_s=age_s).wanted.main_nodes == now


def test_missing_data_is_the_last_guard() -> None:
    assert isinstance(default_guards()[-1], HoldOnMissingData)


def test_before_the_first_node_runs_the_minimum_is_requested() -> None:
    limits = Limits(min_nodes=2, max_nodes=5)
    assert through_all(0, 0, limits=limits).wanted.main_nodes == 2
    assert through_all(0, 5, limits=limits).wanted.main_nodes == 2
