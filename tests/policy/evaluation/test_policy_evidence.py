"""A trigger describes the value it compared, and its evidence is the readings that made it hold."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from ebbflow.policy import above, below, metric, per_second, rows, seconds
from ebbflow.policy.evaluation.ahead import ConditionForecast
from ebbflow.policy.evaluation.measures import running_measure
from ebbflow.policy.evaluation.states import TriggerState
from ebbflow.policy.model import Trigger

QUEUE = metric("queue-length")


def fed(trigger: Trigger, values: Iterable[float]) -> TriggerState:
    """Fed with one reading per second from 0 on."""
    state = TriggerState(trigger)
    for time_s, value in enumerate(values):
        state.add(float(time_s), float(value))
    return state


def description(trigger: Trigger, values: list[float]) -> tuple[str, float]:
    """The description at the last reading, at which the trigger must hold, and the start of its evidence."""
    state = fed(trigger, values)
    now_s = float(len(values) - 1)
    assert state.holds(now_s)
    return state.describe(now_s), state.evidence_since_s


def test_each_reading_describes_the_run_and_its_range() -> None:
    text, since_s = description(
        QUEUE.is_(above(rows(300))).for_at_least(seconds(3)), [0, 999, 0, 305, 301, 309, 304]
    )
    assert text == ("queue-length is 304 rows, above 300 rows for 3s (4 readings, 301 rows to 309 rows)")
    assert since_s == 3


def test_m_of_n_has_all_n_readings_as_evidence() -> None:
    text, since_s = description(
        QUEUE.is_(above(rows(300))).in_at_least(4, of=5), [999, 0, 0, 301, 302, 0, 303, 304]
    )
    assert text == "queue-length is 304 rows, above 300 rows in 4 of 5 readings"
    assert since_s == 3


def test_a_mean_describes_its_own_range_and_has_all_its_readings_as_evidence() -> None:
    mean = QUEUE.mean_over(seconds(10)).is_(above(rows(300)))
    text, since_s = description(mean, [0] * 20 + [600] * 6)  # 6 · 600 / 11
    assert text == ("the mean of queue-length over 10s is 327.3 rows, above 300 rows (1 reading)")
    assert since_s == 15
    text, since_s = description(mean, [0] * 20 + [600] * 7)
    assert text.endswith("above 300 rows for 1s (2 readings, 327.3 rows to 381.8 rows)")
    assert since_s == 15, "the readings of the first mean past the threshold"


def test_a_percentile_has_all_its_readings_as_evidence_but_no_range() -> None:
    text, since_s = description(
        QUEUE.percentile(50, over=seconds(10)).is_(above(rows(300))), [0] * 20 + [600] * 6
    )
    assert text == "the p50 of queue-length over 10s is 600 rows, above 300 rows (1 reading)"
    assert since_s == 15


def test_a_rate_of_change_describes_rates_not_rows() -> None:
    text, since_s = description(
        QUEUE.rate_of_change_over(seconds(20)).is_(above(per_second(rows(5)))),
        [300 + 6 * t for t in range(22)],
    )
    assert text == (
        "the rate of change of queue-length over 20s is 6 rows/s, above 5 rows/s for 1s (2 readings, all 6 rows/s)"
    )
    assert since_s == 0


def test_a_forecast_describes_the_forecast_value() -> None:
    text, since_s = description(
        QUEUE.is_forecast_to_be(above(rows(300)), ahead=seconds(10)), [10 * t + 5 for t in range(21)]
    )
    assert (
        "is 305 rows (line through the last 10s), above 300 rows (1 reading)" in text
    )  # 205 now, 10 more a second
    assert since_s == 10


def test_the_forecast_of_a_load_describes_what_it_is_based_on() -> None:
    forecast = ConditionForecast(10.0)
    trigger = metric("arrival-rate").is_forecast_to_be(above(per_second(rows(300))), ahead=seconds(10))
    state = TriggerState(trigger, forecast=forecast)
    for time_s in range(21):
        state.add(float(time_s), 310.0)
    assert forecast.expected is not None
    assert state.describe(20.0) == (
        f"the forecast of arrival-rate in 10s is 310 rows/s ({forecast.expected.basis}), above 300 rows/s for 10s "
        "(11 readings, all 310 rows/s)"
    )
    assert forecast.expected.basis.startswith("last value, because ")
    assert state.evidence_since_s == 0


def test_readings_before_a_reset_are_no_evidence() -> None:
    state = fed(QUEUE.mean_over(seconds(10)).is_(above(rows(300))), [999] * 20)
    state.reset()
    for time_s in range(20, 31):
        state.add(float(time_s), 400.0)
    assert state.holds(30.0)
    assert state.evidence_since_s == 20


# -- nearness ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trigger", "values", "near"),
    [
        (QUEUE.percentile(80, over=seconds(9)).is_(above(rows(300))), [0] * 9 + [999], 1 / 3),
        (QUEUE.percentile(80, over=seconds(9)).is_(below(rows(300))), [999] * 6 + [0] * 4, 4 / 8),
        (QUEUE.mean_over(seconds(9)).is_(above(rows(300))), [150] * 10, 0.5),
        (QUEUE.is_(below(rows(100))).for_at_least(seconds(3)), [400], 0.25),
        (QUEUE.is_(above(rows(300))).for_at_least(seconds(3)), [], 0.0),
    ],
)
def test_nearness_is_that_of_the_compared_statistic(
    trigger: Trigger, values: list[float], near: float
) -> None:
    measure = running_measure(trigger)
    for time_s, value in enumerate(values):
        measure.add(float(time_s), float(value))
    assert measure.nearness() == pytest.approx(near)


def test_the_progress_of_a_percentile_needs_no_sorting(monkeypatch: pytest.MonkeyPatch) -> None:
    state = fed(QUEUE.percentile(95, over=seconds(60)).is_(above(rows(300))), [150.0] * 100)
    monkeypatch.setattr(state._measure, "value", lambda: pytest.fail("the percentile was computed"))
    assert 0.0 <= state.progress(99.0) < 0.5


# -- late readings ---------------------------------------------------------------------------------


def test_a_slightly_late_reading_counts_at_its_own_time_in_a_line() -> None:
    trigger = QUEUE.rate_of_change_over(seconds(20)).is_(above(per_second(rows(1))))
    late, ordered = TriggerState(trigger), TriggerState(trigger)
    for time_s in range(30):
        early_s = time_s - 0.7
        late.add(float(time_s), 2.0 * time_s)
        late.add(early_s, 2.0 * early_s)
        for at_s in (early_s, float(time_s)):
            ordered.add(at_s, 2.0 * at_s)
    assert late._measure.value() == pytest.approx(2.0)
    assert ordered._measure.value() == pytest.approx(2.0)


@pytest.mark.parametrize("trigger", [
    QUEUE.is_(above(rows(300))).for_at_least(seconds(3)),
    QUEUE.mean_over(seconds(3)).is_(above(rows(300))),
    QUEUE.is_(above(rows(300))).in_at_least(4, of=4),
])  # fmt: skip
def test_a_trigger_ignores_readings_from_before_its_start(trigger: Trigger) -> None:
    """Also if a reading of another node arrives after one that counts."""
    state = TriggerState(trigger, starts_s=10.0)
    for time_s in (3.0, 9.0, 10.0, 11.0, 9.5, 10.0, 9.9, 12.0, 13.0):
        state.add(time_s, 301.0)
    assert not state.holds(13.0)
    state.add(14.0, 301.0)
    assert state.holds(14.0)
    assert state.evidence_since_s == 11.0


def test_a_very_late_reading_changes_nothing() -> None:
    state = fed(QUEUE.is_(above(rows(300))).for_at_least(seconds(3)), [301] * 40)
    state.add(20.0, 0.0)
    assert state.holds(39.0)
    mean = fed(QUEUE.mean_over(seconds(5)).is_(above(rows(300))), [301] * 40)
    mean.add(30.0, 0.0)
    assert mean.holds(39.0)
