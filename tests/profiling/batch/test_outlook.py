"""Simulated batches, against cases worked out by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ebbflow.profiling.batch.model import BatchTime
from ebbflow.profiling.batch.outlook import Outlook, QueryState, simulate_batches

CALM = QueryState(
    now_s=100.0,
    offsets_taken_s=100.0,
    free_at_s=100.0,
    trigger_interval_s=10.0,
    backlog_rows=0.0,
    rows_per_batch_limit=math.inf,
    rate_per_s=100.0,
)


def ahead(state: QueryState, *phases: tuple[float, BatchTime], for_s: float = 60.0) -> Outlook:
    return simulate_batches(state, phases, judge_from_s=state.now_s, until_s=state.now_s + for_s)


def always(fixed_s: float, per_row_s: float) -> tuple[float, BatchTime]:
    return -math.inf, BatchTime(fixed_s=fixed_s, per_row_s=per_row_s)


def test_a_row_waits_for_its_trigger_and_for_its_batch() -> None:
    seen = ahead(CALM, always(1.0, 0.002))  # 10 s, then a batch of 1000 rows: 1 + 2 s
    assert seen.worst_freshness_s == pytest.approx(13.0)
    assert seen.last_batch_s == pytest.approx(3.0)


def test_without_rows_a_batch_is_its_fixed_cost() -> None:
    seen = ahead(replace(CALM, rate_per_s=0.0), always(1.0, 0.002))
    assert seen.last_batch_s == pytest.approx(1.0)


def test_without_a_trigger_batches_follow_each_other() -> None:
    # A batch takes P = 1 + 0.005·100·P, so P = 2; its oldest row waits one batch and then its own.
    seen = ahead(replace(CALM, trigger_interval_s=0.0), always(1.0, 0.005), for_s=100.0)
    assert seen.last_batch_s == pytest.approx(2.0, rel=0.01)
    assert seen.worst_freshness_s == pytest.approx(4.0, rel=0.01)


def test_a_late_batch_starts_the_next_one_at_once() -> None:
    # Offsets were taken at 85, the batch ended only at 100: its successor takes 15 s of rows, at once.
    state = replace(CALM, offsets_taken_s=85.0)
    seen = simulate_batches(state, [always(1.0, 0.002)], judge_from_s=100.0, until_s=101.0)
    assert seen.last_batch_s == pytest.approx(1.0 + 0.002 * 1500)
    assert seen.worst_freshness_s == pytest.approx(15.0 + 4.0)


def test_a_batch_that_should_have_ended_has_not_ended_before_now() -> None:
    # It started at its trigger, 90, and should have taken 1 s; it is 100 and it still runs.
    state = replace(CALM, offsets_taken_s=80.0, free_at_s=82.0)
    seen = simulate_batches(state, [always(1.0, 0.0)], judge_from_s=100.0, until_s=100.0)
    assert seen.worst_freshness_s >= 20.0


def test_overload_grows_without_bound() -> None:
    overloaded = always(1.0, 0.012)  # 100 rows/s need 1.2 s a second
    short, long = ahead(CALM, overloaded, for_s=60.0), ahead(CALM, overloaded, for_s=600.0)
    assert long.worst_freshness_s > 2 * short.worst_freshness_s > 2 * 30.0


def test_a_read_limit_below_the_rate_leaves_more_behind_with_every_batch() -> None:
    # 900 of 1000 rows are taken every 10 s: each batch the oldest row is a second older.
    state = replace(CALM, rows_per_batch_limit=900.0)
    one = simulate_batches(state, [always(1.0, 0.0)], judge_from_s=110.0, until_s=110.5)
    ten = simulate_batches(state, [always(1.0, 0.0)], judge_from_s=200.0, until_s=200.5)
    assert one.worst_freshness_s == pytest.approx(11.0)
    assert ten.worst_freshness_s == pytest.approx(11.0 + 9 * 1.0, rel=0.02)


def test_a_backlog_under_a_read_limit_is_worked_off_batch_by_batch() -> None:
    # 2000 rows (20 s) behind, 1500 a batch, 1000 come: 500 less each time, gone after four batches.
    state = replace(CALM, backlog_rows=2000.0, rows_per_batch_limit=1500.0)
    now = simulate_batches(state, [always(1.0, 0.0)], judge_from_s=100.0, until_s=112.0)
    later = simulate_batches(state, [always(1.0, 0.0)], judge_from_s=150.0, until_s=200.0)
    assert now.worst_freshness_s == pytest.approx(20.0 + 10.0 + 1.0)
    assert later.worst_freshness_s == pytest.approx(11.0)


def test_nodes_under_way_help_from_when_they_join() -> None:
    slow, fast = BatchTime(fixed_s=1.0, per_row_s=0.008), BatchTime(fixed_s=1.0, per_row_s=0.001)
    soon = ahead(CALM, (-math.inf, slow), (115.0, fast))
    assert soon.last_batch_s == pytest.approx(2.0)
    # The first batch, from 110, would have taken 9 s; 5 of them are done when the nodes come, and the
    # remaining 4/9 are done at the new pace: 10 s of waiting, 5 s, and 4/9 of 2 s.
    assert soon.worst_freshness_s == pytest.approx(10.0 + 5.0 + 2.0 * 4 / 9)
    after = simulate_batches(CALM, [(-math.inf, slow), (115.0, fast)], judge_from_s=125.0, until_s=160.0)
    assert after.worst_freshness_s == pytest.approx(12.0)


def test_a_rising_rate_is_followed_for_as_long_as_it_is_trusted() -> None:
    rising = replace(CALM, slope_per_s2=10.0, slope_for_s=20.0)
    assert rising.rate_ahead_per_s == 300.0
    assert rising.arrived_between(100.0, 110.0) == pytest.approx(1500.0)  # 100 to 200, so 150 on average
    assert rising.arrived_between(200.0, 210.0) == pytest.approx(3000.0)
    assert rising.arrived_between(80.0, 90.0) == pytest.approx(1000.0)
    assert ahead(rising, always(1.0, 0.001)).last_batch_s == pytest.approx(4.0, rel=0.01)


STATES = st.builds(
    lambda taken_ago, busy, interval, backlog, limit, rate: QueryState(
        now_s=100.0,
        offsets_taken_s=100.0 - taken_ago - busy,
        free_at_s=100.0 - taken_ago,
        trigger_interval_s=interval,
        backlog_rows=backlog,
        rows_per_batch_limit=limit if backlog else math.inf,
        rate_per_s=rate,
    ),
    taken_ago=st.floats(0, 5),
    busy=st.floats(0.1, 20),
    interval=st.sampled_from([0.0, 1.0, 5.0, 10.0]),
    backlog=st.sampled_from([0.0, 500.0, 20_000.0]),
    limit=st.floats(100, 5000),
    rate=st.floats(1, 1000),
)


@settings(max_examples=200, deadline=None)
@given(state=STATES, fixed_s=st.floats(0.1, 3), share=st.floats(0.0, 0.9), gain=st.floats(0.3, 1.0))
def test_where_the_slower_keeps_up_the_faster_is_no_less_fresh(
    state: QueryState, fixed_s: float, share: float, gain: float
) -> None:
    """At the edges of the stretch a batch more or less may fall inside: worth one trigger at most."""
    per_row_s = share / state.rate_per_s
    state = replace(state, rows_per_batch_limit=math.inf)
    slow = ahead(state, always(fixed_s, per_row_s))
    fast = ahead(state, always(gain * fixed_s, gain * per_row_s))
    assert fast.worst_freshness_s <= slow.worst_freshness_s + state.trigger_interval_s + 1e-6


@settings(max_examples=100, deadline=None)
@given(state=STATES, fixed_s=st.floats(0.1, 3), per_row_s=st.floats(0.0, 0.02), gain=st.floats(0.3, 1.0))
def test_in_overload_the_faster_is_ahead_but_for_the_batch_that_the_end_cuts(
    state: QueryState, fixed_s: float, per_row_s: float, gain: float
) -> None:
    slow = ahead(state, always(fixed_s, per_row_s))
    fast = ahead(state, always(gain * fixed_s, gain * per_row_s))
    slack_s = state.trigger_interval_s + fast.last_batch_s
    assert fast.worst_freshness_s <= slow.worst_freshness_s + slack_s + 1e-6


@settings(max_examples=100, deadline=None)
@given(state=STATES, fixed_s=st.floats(0.1, 3), share=st.floats(0.0, 0.9), less=st.floats(0.1, 1.0))
def test_less_load_is_no_less_fresh_where_the_load_is_kept_up_with(
    state: QueryState, fixed_s: float, share: float, less: float
) -> None:
    time = always(fixed_s, share / state.rate_per_s)
    busier = replace(state, backlog_rows=0.0, rows_per_batch_limit=math.inf)
    calmer = replace(busier, rate_per_s=state.rate_per_s * less)
    slack_s = state.trigger_interval_s + 1e-6
    assert ahead(calmer, time).worst_freshness_s <= ahead(busier, time).worst_freshness_s + slack_s


def test_a_change_of_slots_between_batches_is_simply_the_new_pace() -> None:
    slow, fast = BatchTime(fixed_s=8.0, per_row_s=0.0), BatchTime(fixed_s=1.0, per_row_s=0.0)
    seen = simulate_batches(CALM, [(-math.inf, slow), (105.0, fast)], judge_from_s=100.0, until_s=150.0)
    assert seen.worst_freshness_s == pytest.approx(11.0)
