"""Triggers hold exactly when their words say so; incremental statistics equal those of the whole window."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbflow.core.readings import slope_per_s
from ebbflow.core.snapshot import STALE_AFTER_S
from ebbflow.policy import (
    above,
    absolute,
    all_of,
    any_of,
    below,
    cluster,
    metric,
    per_second,
    rows,
    rule,
    seconds,
)
from ebbflow.policy.evaluation.states import RuleState, TriggerState
from ebbflow.policy.model import Condition, Trigger
from ebbflow.policy.values import MeasureKind

QUEUE = metric("queue-length")
LONG = QUEUE.is_(above(rows(300))).for_at_least(seconds(30))


def fed(trigger: Trigger, *points: tuple[float, float]) -> TriggerState:
    state = TriggerState(trigger)
    for time_s, value in points:
        state.add(time_s, value)
    return state


def every(step_s: float, until_s: float, value: float = 301.0) -> list[tuple[float, float]]:
    return [(k * step_s, value) for k in range(int(until_s / step_s) + 1)]


def rule_of(*conditions: Condition) -> RuleState:
    built = rule("r").scale_out(cluster()).by(absolute(1)).when(conditions[0])
    for condition in conditions[1:]:
        built = built.and_when(condition)
    return RuleState(built.build(), "")


# -- durations ------------------------------------------------------------------------------


def test_a_trigger_holds_when_readings_past_the_threshold_span_its_duration() -> None:
    assert not fed(LONG, *every(5, 25)).holds(25)
    assert fed(LONG, *every(5, 30)).holds(30)


def test_above_is_strict_and_below_is_not() -> None:
    assert not fed(LONG, *every(5, 60, 300.0)).holds(60)
    assert fed(QUEUE.is_(below(rows(1))).for_at_least(seconds(30)), *every(5, 60, 1.0)).holds(60)


def test_one_reading_on_the_other_side_starts_a_new_run() -> None:
    points = [*every(5, 25), (30, 300.0), (35, 301.0), (40, 301.0)]
    assert not fed(LONG, *points).holds(40)
    assert fed(LONG, *points, *((t, 301.0) for t in (45, 50, 55, 60, 65))).holds(65)


def test_a_gap_in_the_readings_ends_the_run() -> None:
    assert not fed(LONG, (0, 301.0), (30, 301.0)).holds(30)
    assert not fed(LONG, *every(5, 25), (45, 301.0)).holds(45)


def test_readings_that_are_always_far_apart_have_no_gaps() -> None:
    assert fed(LONG, (0, 301.0), (60, 301.0), (120, 301.0), (180, 301.0)).holds(180)


def test_a_trigger_without_recent_readings_does_not_hold() -> None:
    state = fed(LONG, *every(5, 60))
    assert state.holds(60 + STALE_AFTER_S)
    assert not state.holds(60 + STALE_AFTER_S + 0.1)
    assert "has no reading for" in state.describe(120)


def test_a_trigger_needs_a_full_new_period_after_a_reset() -> None:
    state = fed(LONG, *every(5, 60))
    state.reset()
    for time_s in (65, 70, 75, 80, 85, 90):
        state.add(time_s, 301.0)
        assert not state.holds(time_s)
    state.add(95, 301.0)
    assert state.holds(95)


# -- outliers ----------------------------------------------------------------------------------------


def test_one_outlier_neither_fires_nor_blocks_m_of_n() -> None:
    trigger = QUEUE.is_(above(rows(300))).in_at_least(4, of=5)
    assert fed(trigger, *every(1, 3), (4, 0.0)).holds(4)
    assert not fed(trigger, *every(1, 3, 0.0), (4, 10**9)).holds(4)
    assert not fed(trigger, *every(1, 3)).holds(3), "four of four are not four of five"


def test_one_outlier_neither_fires_nor_blocks_a_percentile() -> None:
    trigger = QUEUE.percentile(90, over=seconds(19)).is_(above(rows(300)))
    assert not fed(trigger, *every(1, 18, 0.0), (19, 10**9)).holds(19)
    low = QUEUE.percentile(50, over=seconds(19)).is_(above(rows(300)))
    assert fed(low, *every(1, 18), (19, 0.0)).holds(19)


def test_a_mean_needs_readings_that_span_its_duration() -> None:
    trigger = QUEUE.mean_over(seconds(10)).is_(above(rows(300)))
    assert not fed(trigger, *every(1, 9, 999.0)).holds(9)
    assert fed(trigger, *every(1, 10, 999.0)).holds(10)


# -- incremental against direct computation -------------------------------------------------------------------

KINDS = {
    "mean": QUEUE.mean_over(seconds(20)).is_(above(rows(50))),
    "p80": QUEUE.percentile(80, over=seconds(20)).is_(above(rows(50))),
    "p80 below": QUEUE.percentile(80, over=seconds(20)).is_(below(rows(50))),
    "rate": QUEUE.rate_of_change_over(seconds(20)).is_(above(per_second(rows(0)))),
    "forecast": QUEUE.is_forecast_to_be(above(rows(50)), ahead=seconds(20)),
}


def directly(trigger: Trigger, points: list[tuple[float, float]]) -> float | None:
    """The statistic of the readings of the last 20 s, computed directly."""
    now_s = points[-1][0]
    if now_s - points[0][0] < 20:
        return None
    window = [(t, v) for t, v in points if t >= now_s - 20]
    values = sorted(v for _, v in window)
    if trigger.measure.kind is MeasureKind.MEAN:
        return math.fsum(values) / len(values)
    if trigger.measure.kind is MeasureKind.PERCENTILE:
        return values[math.ceil(0.8 * len(values)) - 1]
    slope, _ = slope_per_s(window)
    if trigger.measure.kind is MeasureKind.RATE:
        return slope
    mean_t = sum(t for t, _ in window) / len(window)
    return math.fsum(values) / len(values) + slope * (now_s + 20 - mean_t)


@pytest.mark.parametrize("kind", KINDS)
@given(steps=st.lists(st.tuples(st.integers(1, 10), st.integers(0, 100)), min_size=1, max_size=80))
@settings(max_examples=60, deadline=None)
def test_incremental_statistics_equal_those_of_the_window(kind: str, steps: list[tuple[int, int]]) -> None:
    trigger, state, points, now_s = KINDS[kind], TriggerState(KINDS[kind]), [], 0.0
    for wait, value in steps:
        now_s += wait
        points.append((now_s, float(value)))
        state.add(now_s, float(value))
        wanted = directly(trigger, points)
        found = state._measure.value()
        if wanted is None:
            assert not state.holds(now_s)
            continue
        assert found == pytest.approx(wanted, abs=1e-6)
        margin = abs(wanted - trigger.threshold.base)
        if margin > 1e-6 or trigger.measure.kind is MeasureKind.PERCENTILE:
            assert state.holds(now_s) is ((wanted > trigger.threshold.base) is trigger.is_above)


@given(steps=st.lists(st.tuples(st.integers(1, 12), st.booleans()), min_size=1, max_size=100))
@settings(max_examples=100, deadline=None)
def test_a_run_equals_a_scan_of_the_history(steps: list[tuple[int, bool]]) -> None:
    state, points, now_s = TriggerState(LONG), [], 0.0
    for wait, past in steps:
        now_s += wait
        points.append((now_s, past))
        state.add(now_s, 301.0 if past else 0.0)
        spans = now_s - points[0][0] >= 30
        # every reading of the last 30 s, and the last one before
        before = [p for t, p in points if t <= now_s - 30]
        inside = all(p for t, p in points if t > now_s - 30)
        assert state.holds(now_s) is (spans and inside and before[-1])


def test_sums_do_not_drift() -> None:
    rng = random.Random(1)
    mean, rate = TriggerState(KINDS["mean"]), TriggerState(KINDS["rate"])
    values = [rng.uniform(0, 1e12) for _ in range(2000)] + [0.125] * 60
    for k, value in enumerate(values):
        mean.add(1.7e9 + k, value)
        rate.add(1.7e9 + k, value)
    assert mean._measure.value() == 0.125
    assert rate._measure.value() == pytest.approx(0.0, abs=1e-9)


# -- rules -------------------------------------------------------------------------------------------

HIGH = QUEUE.is_(above(rows(300))).for_at_least(seconds(10))
LATE = metric("freshness").is_(above(seconds(20))).for_at_least(seconds(10))


@pytest.mark.parametrize(
    ("state", "high", "late", "fires"),
    [
        (rule_of(HIGH, LATE), True, False, False),
        (rule_of(HIGH, LATE), True, True, True),
        (rule_of(any_of(HIGH, LATE)), True, False, True),
        (rule_of(any_of(HIGH, LATE)), False, False, False),
        (rule_of(all_of(HIGH, LATE)), False, True, False),
        (rule_of(any_of(all_of(HIGH, LATE), HIGH)), True, False, True),
    ],
)
def test_all_of_and_any_of_combine_conditions(state: RuleState, high: bool, late: bool, fires: bool) -> None:
    for time_s in range(0, 11):
        for each in state.triggers:
            is_high = each.trigger.metric == "queue-length"
            each.add(float(time_s), 999.0 if (high if is_high else late) else 0.0)
    assert state.fires(10.0) is fires
    assert (state.progress(10.0) == 1.0) is fires
    if not fires:
        assert "it must be above" in state.missing(10.0)
