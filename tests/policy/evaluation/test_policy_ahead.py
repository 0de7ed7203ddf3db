"""Forecasts of loads in conditions: by the same forecaster as everywhere, shared, and kept when a rule fires."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from ebbflow.core.metrics import Metric
from ebbflow.core.readings import Reading
from ebbflow.forecasting import Steps, make_forecaster
from ebbflow.policy import (
    Policy,
    above,
    absolute,
    any_of,
    below,
    cluster,
    metric,
    minutes,
    per_second,
    rows,
    rule,
    seconds,
)
from ebbflow.policy.evaluation.ahead import ConditionForecast
from ebbflow.policy.evaluation.measures import Ahead
from ebbflow.policy.evaluation.routing import Router
from ebbflow.policy.evaluation.states import TriggerState

LOAD = metric("arrival-rate")
HIGH = LOAD.is_forecast_to_be(above(per_second(rows(400))), ahead=seconds(80))
LOW = LOAD.is_forecast_to_be(below(per_second(rows(200))), ahead=seconds(80))


def hourly(time_s: float) -> float:
    """100 to 500 rows/s within ten minutes."""
    return 300.0 - 200.0 * math.cos(2 * math.pi * time_s / 600.0)


def router_of(*conditions: object) -> Router:
    rules = [
        rule(f"r{number}").scale_out(cluster()).by(absolute(1)).when(condition)
        for number, condition in enumerate(conditions)
    ]
    return Router(Policy(*rules), "words", [])


def feed(
    router: Router, load: Callable[[float], float], first_s: int, last_s: int, every_s: int = 10
) -> None:
    for time_s in range(first_s, last_s + 1, every_s):
        router.add(Reading(float(time_s), "words", Metric.ARRIVAL_RATE, load(time_s)))


def test_it_is_the_forecast_of_the_default_forecaster() -> None:
    soon, forecaster, steps = ConditionForecast(80.0), make_forecaster("mixture", 10.0), Steps(10.0)
    for time_s in range(0, 701, 10):
        soon.add(float(time_s), hourly(time_s))
        for done in steps.add(float(time_s), hourly(time_s)):
            forecaster.learn(*done)
    expected = forecaster.forecast(8, (0.5,))
    assert expected is not None
    assert soon.expected is not None
    assert (soon.expected.value, soon.expected.basis) == (expected.at(0.5)[-1], expected.basis)


def test_a_rule_fires_before_a_load_that_it_has_seen_before() -> None:
    """The negative control is the reading itself: it is above 400 for the first time at 200 s of each period."""
    router = router_of(HIGH)
    (state,) = router.states
    fired = []
    for time_s in range(0, 3001, 10):
        router.add(Reading(float(time_s), "words", Metric.ARRIVAL_RATE, hourly(time_s)))
        fired.append((time_s, state.fires(float(time_s))))
    starts = [
        time_s % 600
        for (time_s, now), (_, before) in zip(fired[1:], fired, strict=False)
        if now and not before
    ]
    assert hourly(190) < 400 < hourly(210)
    assert len(starts) >= 4
    assert all(start <= 150 for start in starts[-2:]), starts


def test_rules_on_the_same_load_share_a_forecaster_and_others_do_not() -> None:
    later = LOAD.is_forecast_to_be(above(per_second(rows(400))), ahead=minutes(5))
    queue = metric("queue-length").is_forecast_to_be(above(rows(400)), ahead=seconds(80))
    router = router_of(HIGH, any_of(LOW, later), queue)
    high, low, in_5m, queued = (trigger._measure for state in router.states for trigger in state.triggers)
    assert isinstance(high, Ahead)
    assert isinstance(low, Ahead)
    assert isinstance(in_5m, Ahead)
    assert high._forecast is low._forecast
    assert high._forecast is not in_5m._forecast
    assert not isinstance(queued, Ahead)
    feed(router, hourly, 0, 600)
    assert high.value() == low.value() is not None


def test_a_replaced_policy_keeps_the_forecasts_of_loads() -> None:
    router = router_of(HIGH)
    feed(router, hourly, 0, 1200)
    before = router.states[0].triggers[0]._measure.value()
    router.use(Policy(rule("new").scale_in(cluster()).by(absolute(1)).when(LOW)), 1200.0)
    feed(router, hourly, 1210, 1280)
    state = router.states[0]
    assert not state.triggers[0].holds(1280.0), "the new rule has seen 70 s, and needs 80 s"
    feed(router, hourly, 1290, 1300)
    value = state.triggers[0]._measure.value()
    assert value is not None
    assert value != before
    assert "mixture" in state.triggers[0].describe(1300.0), "what was learned before the change counts"


def test_a_rule_that_fired_needs_a_full_period_again_and_keeps_what_it_learned() -> None:
    forecast = ConditionForecast(80.0)
    state = TriggerState(HIGH, forecast=forecast)
    for time_s in range(0, 101, 10):
        state.add(float(time_s), 500.0)
    assert state.holds(100.0)
    load = forecast._load
    state.reset()
    for time_s in range(110, 190, 10):
        state.add(float(time_s), 500.0)
        assert not state.holds(float(time_s))
    state.add(190.0, 500.0)
    assert state.holds(190.0)
    assert forecast._load is load


@pytest.mark.parametrize("every_s", [100, 81])
def test_readings_further_apart_than_the_time_ahead_are_too_few(every_s: int) -> None:
    state = TriggerState(HIGH, forecast=ConditionForecast(80.0))
    for time_s in range(0, 2000, every_s):
        state.add(float(time_s), 500.0)
        assert not state.holds(float(time_s))
    assert "too few readings in 1m20s" in state.describe(float(time_s))
