"""A worked example of each point forecaster."""

from __future__ import annotations

import numpy as np
import pytest

from ebbflow.core.curve import Floats
from ebbflow.forecasting.change import ChangeTest
from ebbflow.forecasting.experts.analogues import Analogues
from ebbflow.forecasting.experts.autoregression import Autoregression
from ebbflow.forecasting.experts.damped_trend import DampedTrend
from ebbflow.forecasting.experts.expert import Expert
from ebbflow.forecasting.experts.holt_winters import HoltWinters
from ebbflow.forecasting.experts.jumps import Jumps
from ebbflow.forecasting.experts.last_value import LastValue
from ebbflow.forecasting.experts.moving import MovingMaximum, MovingMean
from ebbflow.forecasting.experts.seasonal_naive import LastPeriod, SeasonalNaive
from ebbflow.forecasting.experts.smoothing import Smoothing
from ebbflow.forecasting.history import History
from ebbflow.forecasting.load_periods import find_period

NEXT = np.array([1, 2, 3])


def forecast(expert: Expert, values: Floats | list[float], step_s: float = 60.0, horizons=NEXT) -> Floats:
    """What the expert says after learning the values."""
    history = History(step_s)
    for k, value in enumerate(values):
        history.push(step_s * (k + 1), float(value))
        expert.update(history)
    return expert.ahead(history, horizons)


@pytest.mark.parametrize(
    ("expert", "values", "expected"),
    [
        (LastValue(), [1, 2, 7], [7, 7, 7]),
        (MovingMean(3), [100, 1, 2, 6], [3, 3, 3]),
        (MovingMaximum(3), [100, 1, 6, 2], [6, 6, 6]),
        # the level: 4, then the mean of 4 and 8, then a quarter of the way from 6 to 10
        (Smoothing(0.25), [4, 8, 6, 10], [7, 7, 7]),
        # y = 10, 20: level 20, slope 10; damped by half: 20 + 5, + 2.5, + 1.25
        (DampedTrend(1.0, 1.0, 0.5), [10, 20], [25, 27.5, 28.75]),
        (LastPeriod(), [1, 5, 2, 9] * 5, [1, 5, 2]),
    ],
)
def test_worked_examples(expert: Expert, values: list[float], expected: list[float]) -> None:
    assert forecast(expert, values).ravel().tolist() == expected


def test_holt_winters_follows_trend_and_season() -> None:
    steps = np.arange(240)
    values = 100.0 + 0.5 * steps + 20.0 * np.sin(2 * np.pi * steps / 12)
    expected = 100.0 + 0.5 * (239 + NEXT) + 20.0 * np.sin(2 * np.pi * (239 + NEXT) / 12)
    assert forecast(HoltWinters(), values) == pytest.approx(expected, rel=0.02)


def test_seasonal_naive_repeats_the_day_and_moves_it_to_the_present_level() -> None:
    day = 10.0 + np.arange(24) % 7
    rows = forecast(SeasonalNaive(), np.concatenate((day, day, 5.0 + day[:10])), step_s=3600.0)
    names = dict(zip(SeasonalNaive.names, rows.tolist(), strict=True))
    assert names["last day"] == day[10:13].tolist()
    assert names["last day, moved"] == (5.0 + day[10:13]).tolist()


@pytest.mark.parametrize("log", [True, False])
def test_the_autoregression_learns_a_process_it_can_express(log: bool) -> None:
    """A process that returns by 40 % of its distance from 100 at each step."""
    rng, values = np.random.default_rng(1), [100.0]
    for _ in range(600):
        values.append(100.0 + 0.6 * (values[-1] - 100.0) + rng.normal(0.0, 2.0))
    values.append(106.0)
    expected = 100.0 + 6.0 * 0.6**NEXT
    assert forecast(Autoregression(60.0, log=log), values)[0] == pytest.approx(expected, abs=1.0)


def test_the_autoregression_uses_the_time_of_day() -> None:
    """At noon the load of every day doubles; nothing else announces it."""
    rng = np.random.default_rng(2)
    hours = np.arange(24 * 15 + 12)
    values = np.where(hours % 24 == 12, 200.0, 100.0) + rng.normal(0.0, 3.0, len(hours))
    made = forecast(Autoregression(3600.0, fits=((1000.0, 1.0),), clip=20.0), values, 3600.0)[0]
    assert made[0] > 160.0
    assert made[1] < 140.0


def test_analogues_repeat_what_followed_a_pattern() -> None:
    """A ramp of three steps is always followed by a fall, at times that do not recur."""
    rng, values = np.random.default_rng(3), []
    for _ in range(40):
        values += [100.0] * int(rng.integers(5, 30)) + [120.0, 150.0, 200.0, 100.0]
    made = forecast(Analogues(5.0), [*values, *[100.0] * 9, 120.0, 150.0, 200.0])
    assert (made[:, 0] < 110.0).all()


def test_jumps_come_at_the_same_minute_of_the_hour() -> None:
    minutes = np.arange(60 * 9 + 28)
    burst = (minutes % 60 >= 29) & (minutes % 60 < 32)
    values = np.where(burst, 500.0, 100.0) + np.random.default_rng(4).normal(0.0, 5.0, len(minutes))
    made = forecast(Jumps(), values, horizons=np.array([1, 2, 3, 4, 5]))
    # The first value is minute 1, so the burst of minute 29 ends at 30 minutes past the hour.
    assert made == pytest.approx([100.0, 500.0, 500.0, 500.0, 100.0], abs=30.0)
    noise = forecast(Jumps(), 100.0 + np.random.default_rng(5).normal(0.0, 30.0, 600))
    assert np.ptp(noise) < 25.0, "noise is no calendar"


def test_a_period_is_found_in_noise_and_not_without_one() -> None:
    rng, steps = np.random.default_rng(6), np.arange(600)
    assert find_period(np.where(steps % 45 < 20, 1.0, 3.0) + rng.normal(0.0, 0.5, 600)) == 45
    assert find_period(rng.normal(0.0, 1.0, 600)) is None
    assert find_period(np.full(100, 5.0)) is None


def test_larger_errors_are_noticed_and_a_burst_is_not() -> None:
    test = ChangeTest()
    errors = np.random.default_rng(7).laplace(0.0, 1.0, 500)
    errors[250] = 300.0
    assert not any(test.add(float(each)) for each in errors)
    assert any(test.add(4.0 * float(each)) for each in errors[:30])
