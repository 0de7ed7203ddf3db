"""A simulated flow: closed form against small steps, and cases worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbflow.profiling.flow import FlowState, simulate_flow


def flow(
    rate_per_s: float = 100.0, queue_rows: float = 0.0, freshness_s: float = 0.0, **more: float
) -> FlowState:
    return FlowState(
        now_s=50.0, queue_rows=queue_rows, freshness_s=freshness_s, rate_per_s=rate_per_s, **more
    )


def stepped(
    state: FlowState, phases: list[tuple[float, float]], judge_from_s: float, until_s: float
) -> tuple[float, float]:
    """The same in steps of a tenth of a second."""
    step_s, done, age_s, at_s = 0.1, 0.0, 0.0, state.now_s
    worst_s = state.freshness_s if judge_from_s <= state.now_s and state.queue_rows > 1e-6 else 0.0
    while at_s < until_s - 1e-9:
        capacity = [rate for from_s, rate in phases if from_s <= at_s + step_s / 2][-1]
        at_s += step_s
        done = min(done + capacity * step_s, state.queue_rows + state.rows_after(at_s - state.now_s))
        if state.queue_rows + state.rows_after(at_s - state.now_s) - done < 1e-6:
            age_s = 0.0
        elif done < state.queue_rows:
            age_s = at_s - state.now_s + state.freshness_s * (1 - done / state.queue_rows)
        else:
            age_s = at_s - state.now_s - state.seconds_until(done - state.queue_rows)
        if at_s >= judge_from_s - 1e-6:
            worst_s = max(worst_s, age_s)
    return worst_s, age_s


@settings(max_examples=40, deadline=None)
@given(
    rate=st.floats(20, 300),
    slope=st.floats(0, 5),
    rising_s=st.floats(0, 60),
    queue_s=st.floats(0, 30),
    capacities=st.lists(st.floats(0, 500), min_size=1, max_size=3),
    judge_s=st.integers(0, 60),
)
def test_the_closed_form_agrees_with_small_steps(
    rate: float, slope: float, rising_s: float, queue_s: float, capacities: list[float], judge_s: int
) -> None:
    state = flow(rate, queue_s * rate, queue_s, slope_per_s2=slope, slope_for_s=rising_s)
    phases = [(50.0 + 20.0 * i, capacity) for i, capacity in enumerate(capacities)]
    worst_s, final_s = simulate_flow(state, phases, judge_from_s=50.0 + judge_s, until_s=150.0)
    by_steps = stepped(state, phases, 50.0 + judge_s, 150.0)
    assert worst_s == pytest.approx(by_steps[0], abs=0.3, rel=0.02)
    assert final_s == pytest.approx(by_steps[1], abs=0.3, rel=0.02)


def test_a_backlog_is_worked_off_by_what_is_left_of_the_capacity() -> None:
    # 1000 rows wait, 100 come and 150 go each second: gone after 20 s.
    behind = flow(queue_rows=1000.0, freshness_s=10.0)
    worst_s, final_s = simulate_flow(behind, [(50.0, 150.0)], judge_from_s=50.0, until_s=69.0)
    assert worst_s == pytest.approx(10.0)
    assert final_s == pytest.approx(50 / 150, abs=0.2)
    assert simulate_flow(behind, [(50.0, 150.0)], judge_from_s=70.0, until_s=90.0) == (0.0, 0.0)


def test_rows_are_late_by_the_length_of_a_stop() -> None:
    phases = [(50.0, 200.0), (60.0, 0.0), (67.0, 200.0)]
    assert simulate_flow(flow(), phases, judge_from_s=50.0, until_s=100.0)[0] == pytest.approx(7.0)


def test_without_capacity_rows_only_get_older() -> None:
    assert simulate_flow(flow(), [(50.0, 0.0)], judge_from_s=50.0, until_s=80.0) == (30.0, 30.0)


def test_without_arrivals_and_queue_nothing_is_late() -> None:
    assert simulate_flow(flow(0.0), [(50.0, 0.0)], judge_from_s=50.0, until_s=80.0) == (0.0, 0.0)


@given(
    rate=st.floats(0.1, 500), slope=st.floats(0, 20), rising_s=st.floats(0, 100), ahead_s=st.floats(0, 300)
)
def test_rows_and_seconds_are_inverse(rate: float, slope: float, rising_s: float, ahead_s: float) -> None:
    state = flow(rate, slope_per_s2=slope, slope_for_s=rising_s)
    assert state.seconds_until(state.rows_after(ahead_s)) == pytest.approx(ahead_s, abs=1e-6)
