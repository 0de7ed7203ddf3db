"""The backtest: rolling origin, nothing from the future, and measures that follow their definitions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import numpy as np
import pytest

from ebbflow.core.curve import Floats
from ebbflow.errors import InputError, RunFailedError
from ebbflow.forecasting.backtest import RELIABILITY_LEVELS, Accuracy, Backtest, LoadSeries, backtest
from ebbflow.forecasting.port import LEVELS, Forecast, Forecaster
from ebbflow.forecasting.registry import FORECASTERS, make_forecaster

STEP_S = 60.0


class Scripted(Forecaster):
    """Forecasts the last value plus ``spread`` times the level's distance from the median, and keeps what it saw."""

    name = "scripted"

    def __init__(self, spread: float = 0.0) -> None:
        self.spread = spread
        self.seen: list[tuple[float, float]] = []
        self.asked_after: list[int] = []

    def learn(self, time_s: float, value: float) -> None:
        self.seen.append((time_s, value))

    def points(self, steps: int) -> Floats:
        return np.full(steps, self.seen[-1][1])

    def forecast(self, steps: int, levels: Sequence[float] = LEVELS) -> Forecast | None:
        self.asked_after.append(len(self.seen))
        offsets = self.spread * (np.asarray(levels) - 0.5)
        values = np.maximum(0.0, self.points(steps)[None, :] + offsets[:, None])
        return Forecast(
            start_s=self.seen[-1][0], step_s=STEP_S, levels=tuple(levels), values=values, basis="a script"
        )


class Clairvoyant(Scripted):
    """A leak: it has the series before the backtest starts."""

    name = "clairvoyant"

    def __init__(self, series: LoadSeries) -> None:
        super().__init__()
        self.values = series.values

    def points(self, steps: int) -> Floats:
        after = self.values[len(self.seen) : len(self.seen) + steps]
        return np.append(after, np.zeros(steps - len(after)))


def series_of(values: Sequence[float] | Floats, missing: Sequence[int] = ()) -> LoadSeries:
    kept = np.array([place for place in range(len(values)) if place not in missing], dtype=int)
    return LoadSeries(
        step_s=STEP_S, ends_s=STEP_S * (kept + 1.0), values=np.asarray(values, dtype=float)[kept]
    )


def run(forecaster: Forecaster, series: LoadSeries, *leads: int) -> Backtest:
    ticks = count()
    return backtest(forecaster, series, leads=leads or (1,), timer=lambda: next(ticks) / 1000)


def only(tried: Backtest) -> Accuracy:
    (accuracy,) = tried.accuracy
    return accuracy


NOISE = np.random.default_rng(7).normal(100.0, 10.0, 3000).clip(0)


def test_each_forecast_is_made_before_the_step_it_is_scored_on_is_learned() -> None:
    forecaster = Scripted()
    run(forecaster, series_of(NOISE[:50]))
    assert forecaster.asked_after[:50] == list(range(1, 51))
    assert [value for _, value in forecaster.seen] == NOISE[:50].tolist()


@pytest.mark.parametrize("lead", [1, 4])
def test_changing_the_future_does_not_change_a_forecast(lead: int) -> None:
    known = 40
    other = np.concatenate((NOISE[:known], 5 * NOISE[known:80]))
    before, after = (run(Scripted(), series_of(values), lead) for values in (NOISE[:80], other))
    assert np.array_equal(before.forecasts[:, :, :known], after.forecasts[:, :, :known])
    assert not np.array_equal(before.forecasts[:, :, known:], after.forecasts[:, :, known:])


def test_a_leak_shows_as_an_error_that_noise_does_not_allow() -> None:
    """Of independent noise nothing is known but its mean, which has 1/√2 of the error of the last value."""

    class Mean(Scripted):
        def points(self, steps: int) -> Floats:
            return np.full(steps, np.mean([value for _, value in self.seen[-400:]]))

    series = series_of(NOISE)
    assert only(run(Mean(), series)).error_ratio == pytest.approx(1 / np.sqrt(2), abs=0.03)
    assert only(run(Clairvoyant(series), series)).error_ratio == 0.0


def test_no_forecaster_knows_more_of_noise_than_its_mean() -> None:
    """Training included: what was trained on the future would beat the bound."""
    series = series_of(NOISE[:300])
    for name in FORECASTERS:
        ratio = only(run(make_forecaster(name, STEP_S), series)).error_ratio
        assert ratio is not None
        assert ratio > 0.64, name


def test_the_last_value_has_an_error_ratio_of_one_at_every_lead() -> None:
    for score in run(Scripted(), series_of(NOISE), 1, 3, 10).accuracy:
        assert (score.error_ratio, score.squared_error_ratio) == (1.0, 1.0)
        assert score.steps == len(NOISE) - score.ahead


def test_measures_follow_their_definitions() -> None:
    score = only(run(Scripted(spread=4.0), series_of([10.0, 12.0, 12.0, 9.0, 17.0]), 2))
    # origins 10, 12, 12; loads 12, 9, 17; band of the last value ± 0.45 · 4
    assert score.error == pytest.approx((2 + 3 + 5) / 3)
    assert score.squared_error == pytest.approx((4 + 9 + 25) / 3)
    assert score.scaled_error == pytest.approx((10 / 3) / ((2 + 0 + 3 + 8) / 4))
    assert score.normalised_squared_error == pytest.approx((38 / 3) / 64)
    assert score.coverage == 0.0
    assert score.width == pytest.approx(3.6 / (38 / 3))
    assert score.reliability == pytest.approx([1 / 3] * len(RELIABILITY_LEVELS))


def test_bands_are_covered_as_often_as_they_claim_if_their_quantiles_are_right() -> None:
    class Exact(Scripted):
        def forecast(self, steps: int, levels: Sequence[float] = LEVELS) -> Forecast:
            row = np.quantile(NOISE, levels)
            values = np.repeat(row[:, None], steps, axis=1)
            return Forecast(start_s=0.0, step_s=STEP_S, levels=tuple(levels), values=values, basis="")

    score = only(run(Exact(), series_of(NOISE)))
    assert score.coverage == pytest.approx(0.9, abs=0.002)
    assert score.reliability == pytest.approx(RELIABILITY_LEVELS, abs=0.002)
    too_narrow = only(run(Scripted(spread=1.0), series_of(NOISE)))
    assert too_narrow.coverage < 0.1


def test_missing_steps_are_neither_learned_nor_scored() -> None:
    forecaster = Scripted()
    score = only(run(forecaster, series_of([5.0, 6.0, 99.0, 8.0, 9.0], missing=[2])))
    assert [value for _, value in forecaster.seen] == [5.0, 6.0, 8.0, 9.0]
    assert (score.steps, score.error) == (2, 1.0)


def test_a_constant_load_has_a_ratio_of_one_and_no_normalised_error() -> None:
    score = only(run(Scripted(), series_of([0.0] * 10)))
    assert (score.error_ratio, score.scaled_error, score.coverage) == (1.0, 1.0, 1.0)
    assert (score.normalised_squared_error, score.width) == (None, None)
    moved = only(run(Clairvoyant(series_of([0.0] * 9 + [1.0])), series_of([0.0] * 10)))
    assert moved.error_ratio is None


def test_steps_that_end_half_way_between_round_times_are_all_learned() -> None:
    values = NOISE[:40]
    half = LoadSeries(step_s=STEP_S, ends_s=STEP_S * (np.arange(40) + 0.5), values=values)
    round_times = LoadSeries(step_s=STEP_S, ends_s=STEP_S * np.arange(1.0, 41.0), values=values)
    one, other = (run(make_forecaster("moving-mean", STEP_S), each) for each in (half, round_times))
    assert np.array_equal(one.forecasts, other.forecasts)


@pytest.mark.parametrize("values", [[], [3.0]])
def test_a_series_too_short_for_a_forecast_has_no_scores(values: list[float]) -> None:
    assert run(Scripted(), series_of(values)).accuracy == ()


def test_times_are_means_over_the_steps() -> None:
    tried = run(Scripted(), series_of(NOISE[:10]))
    assert (tried.update_ms, tried.forecast_ms) == (pytest.approx(1.0), pytest.approx(1.0))


def test_a_forecaster_without_a_valid_forecast_fails_the_backtest() -> None:
    class Silent(Scripted):
        name = "silent"

        def forecast(self, steps: int, levels: Sequence[float] = LEVELS) -> None:
            return None

    class Unknown(Scripted):
        name = "unknown"

        def points(self, steps: int) -> Floats:
            return np.full(steps, np.nan)

    for forecaster in (Silent(), Unknown()):
        with pytest.raises(RunFailedError, match=f"{forecaster.name} made no valid forecast after 1 steps"):
            run(forecaster, series_of([1.0, 2.0]))


@pytest.mark.parametrize(
    ("ends_s", "values", "words"),
    [
        ([60.0, 60.0], [1.0, 2.0], "in order"),
        ([120.0, 60.0], [1.0, 2.0], "in order"),
        ([60.0, 120.0], [1.0, float("nan")], "leave missing steps out"),
        ([60.0, 120.0], [1.0, -2.0], "0 or more"),
        ([60.0], [1.0, 2.0], "1 times and 2 values"),
    ],
)
def test_a_series_refuses_what_is_not_a_load(ends_s: list[float], values: list[float], words: str) -> None:
    with pytest.raises(InputError, match=words):
        LoadSeries(step_s=60.0, ends_s=np.array(ends_s), values=np.array(values))
