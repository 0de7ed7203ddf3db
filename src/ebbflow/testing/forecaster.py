"""The contract of a forecaster, as checks that raise ``AssertionError`` with what is wrong."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache

import msgspec
import numpy as np

from ebbflow.forecasting.port import Forecast, Forecaster
from ebbflow.testing.purity import no_side_effects

Factory = Callable[[float], Forecaster]
Series = Sequence[tuple[float, float]]

STEP_S = 60.0
STEPS = 12
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)


def check_forecaster(make: Factory, *, scales: bool = True) -> None:
    """Check that a forecaster works from the first value on, on any series, and returns valid quantiles.

    ``make`` takes the length of a step in seconds and returns a fresh forecaster. Set ``scales`` to False for one whose
    forecast of a load ten times as high is not ten times as high.

    >>> from ebbflow.forecasting import make_forecaster
    >>> check_forecaster(lambda step_s: make_forecaster("smoothing", step_s))
    """
    check_name(make)
    check_first_value(make)
    check_forecasts_are_valid(make)
    check_bad_readings_are_ignored(make)
    check_forecasting_changes_nothing(make)
    check_state_continues(make)
    if scales:
        check_scale(make)


def check_name(make: Factory) -> None:
    """The forecaster is a ``Forecaster`` with a name that fits into a command line."""
    forecaster = make(STEP_S)
    assert isinstance(forecaster, Forecaster), f"{forecaster!r} is not an ebbflow Forecaster; derive from it"
    name = getattr(forecaster, "name", "")
    assert re.fullmatch(r"[a-z][a-z0-9-]*", name), f"the name {name!r} is not lower-case-with-hyphens"


def check_first_value(make: Factory) -> None:
    """Nothing is forecast before the first value; after it, that value is."""
    with no_side_effects():
        forecaster = make(STEP_S)
        assert forecaster.forecast(STEPS) is None, "a forecast before the first value; return None"
        forecaster.learn(STEP_S, 100.0)
        made = checked(forecaster, "one value", LEVELS)
        assert np.allclose(made.at(0.5), 100.0), f"after one value of 100 the median is {made.at(0.5)}"


def check_forecasts_are_valid(make: Factory) -> None:
    """Quantiles are finite, not negative and ordered, for one step and for many, on awkward series."""
    for what, series in awkward_series().items():
        forecaster = make(STEP_S)
        for k, (time_s, value) in enumerate(series):
            forecaster.learn(time_s, value)
            if k < 12 or k % 29 == 0 or k == len(series) - 1:
                made = checked(forecaster, what, LEVELS)
                assert made.start_s == time_s, f"{what}: it starts at {made.start_s:g} s, not at {time_s:g} s"
        highest = max(value for _, value in series)
        median = checked(forecaster, what, LEVELS).at(0.5)
        assert median.max() <= 1e3 * max(highest, 1.0), f"{what}: {median.max():g} after at most {highest:g}"


def check_bad_readings_are_ignored(make: Factory) -> None:
    """Values that are not finite or negative, and times that do not advance, change nothing."""
    clean, other = make(STEP_S), make(STEP_S)
    for time_s, value in awkward_series()["day"][:90]:
        clean.learn(time_s, value)
        other.learn(time_s, value)
        for bad_s, bad in (
            (time_s, 1e9),
            (time_s - 600.0, 5.0),
            (time_s + 1e9, math.nan),
            (time_s + 1e9, -1.0),
        ):
            other.learn(bad_s, bad)
    _same(
        checked(clean, "day", LEVELS), checked(other, "bad readings", LEVELS), "bad readings are not ignored"
    )


def check_forecasting_changes_nothing(make: Factory) -> None:
    """The same readings lead to the same forecasts, however often one was requested."""
    one, other = make(STEP_S), make(STEP_S)
    for time_s, value in awkward_series()["day"][:200]:
        one.learn(time_s, value)
        other.learn(time_s, value)
        other.forecast(3)
        other.forecast(40, (0.9,))
    _same(
        checked(one, "day", LEVELS), checked(other, "day", LEVELS), "requesting a forecast changed the next"
    )


def check_state_continues(make: Factory) -> None:
    """A state that went through JSON continues where it was saved."""
    one, other = make(STEP_S), make(STEP_S)
    series = awkward_series()["day"]
    for time_s, value in series[:200]:
        one.learn(time_s, value)
    other.restore(msgspec.json.decode(msgspec.json.encode(one.state())))
    for time_s, value in series[200:240]:
        one.learn(time_s, value)
        other.learn(time_s, value)
    _same(
        checked(one, "day", LEVELS), checked(other, "day", LEVELS), "the restored state continues differently"
    )


def check_scale(make: Factory) -> None:
    """A load a thousand times as high has a forecast a thousand times as high."""
    one, other = make(STEP_S), make(STEP_S)
    for time_s, value in awkward_series()["day"][:200]:
        one.learn(time_s, value)
        other.learn(time_s, 1024.0 * value)
    low, high = checked(one, "day", LEVELS), checked(other, "day", LEVELS)
    assert np.allclose(1024.0 * low.values, high.values, rtol=1e-3), (
        f"1024 times the load: {low.values[:, 0]} became {high.values[:, 0]}"
    )


def checked(forecaster: Forecaster, what: str, levels: Sequence[float]) -> Forecast:
    """A forecast, checked for being valid."""
    for steps in (1, STEPS):
        requested = forecaster.forecast(steps, levels)
        assert requested is not None, f"{what}: no forecast, although there are values"
        made = requested
        assert made.levels == tuple(levels), f"{what}: levels {made.levels}, not {tuple(levels)}"
        assert made.values.shape == (len(levels), steps), f"{what}: shape {made.values.shape}"
        assert np.isfinite(made.values).all(), f"{what}: not finite: {made.values}"
        assert (made.values >= 0).all(), f"{what}: negative: {made.values.min():g}"
        assert (np.diff(made.values, axis=0) >= 0).all(), f"{what}: a higher level is lower: {made.values}"
        assert made.basis, f"{what}: the basis is empty"
    return made


def _same(one: Forecast, other: Forecast, wrong: str) -> None:
    assert one.start_s == other.start_s, f"{wrong}: start {one.start_s:g} and {other.start_s:g}"
    assert np.allclose(one.values, other.values, rtol=1e-9), f"{wrong}: {one.values} and {other.values}"


@cache
def awkward_series() -> Mapping[str, Series]:
    """Series of minutes that forecasters have to live with."""
    rng = np.random.default_rng(16)
    minutes = np.arange(1, 251)
    day = 100.0 + 50.0 * np.sin(2 * np.pi * minutes / 47.0) + rng.normal(0.0, 5.0, len(minutes))
    series = {
        "day": day,
        "constant": np.full(60, 7.0),
        "zeros": np.zeros(60),
        "zeros, then a load": np.where(minutes < 40, 0.0, 50.0)[:60],
        "a load, then zeros": np.where(minutes < 40, 50.0, 0.0)[:60],
        "1000 times the level": np.where(minutes < 40, day, 1000.0 * day)[:80],
        "a thousandth of the level": np.where(minutes < 40, day, 0.001 * day)[:80],
        "single spikes": np.where(minutes % 37 == 0, 1e6, 1.0)[:90],
        "counts": rng.poisson(0.3, 80).astype(np.float64),
        "exponential growth": 1.2 ** minutes[:80],
        "tiny": 1e-12 * day[:60],
        "huge": 1e15 * day[:60],
        "square": np.where(minutes % 20 < 10, 10.0, 90.0)[:90],
    }
    timed = {
        what: list(zip((STEP_S * minutes[: len(values)]).tolist(), values.tolist(), strict=True))
        for what, values in series.items()
    }
    plain = timed["day"]
    timed["every third step missing"] = [each for k, each in enumerate(plain[:120]) if k % 3]
    timed["a missing day"] = plain[:100] + [(time_s + 86_400.0, value) for time_s, value in plain[100:140]]
    timed["a missing century"] = plain[:100] + [(time_s + 3.2e9, value) for time_s, value in plain[100:140]]
    return timed
