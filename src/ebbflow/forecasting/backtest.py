"""The backtest of a forecaster: rolling origin, nothing from the future.

The forecaster learns one step of a series after the other. After each step it forecasts, and only then it learns the
next one. Every forecast counts, the first included: a forecaster has to work from the first minute.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ebbflow.core.curve import Floats
from ebbflow.errors import InputError, RunFailedError
from ebbflow.forecasting.port import Forecaster

RELIABILITY_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Quantiles that a backtest requests; the outer two limit the 90 % band, the middle one is the point forecast."""
TIMED_STEPS = 30
"""Length of the forecasts that are timed after the backtest."""
_TIMED_FORECASTS = 20


@dataclass(frozen=True, kw_only=True, eq=False)
class LoadSeries:
    """The mean load of even steps, in order. A step that is missing is left out, so its neighbours are further apart.

    >>> series = LoadSeries(step_s=60.0, ends_s=np.array([60.0, 120.0, 240.0]), values=np.array([5.0, 7.0, 6.0]))
    >>> len(series), series.slots.tolist(), series.last(2).ends_s.tolist()
    (3, [0, 1, 3], [120.0, 240.0])
    """

    step_s: float
    ends_s: Floats
    values: Floats

    def __post_init__(self) -> None:
        if len(self.ends_s) != len(self.values):
            raise InputError(f"a series has {len(self.ends_s)} times and {len(self.values)} values")
        if np.any(np.diff(self.ends_s) <= 0):
            raise InputError("the steps of a series must be in order, each at a time of its own")
        if not np.all(np.isfinite(self.values)) or np.any(self.values < 0):
            raise InputError("the values of a series must be 0 or more; leave missing steps out")

    def __len__(self) -> int:
        return len(self.values)

    @property
    def slots(self) -> npt.NDArray[np.int64]:
        """Number of each step, counted from the first; missing steps count."""
        first_s = self.ends_s[0] if len(self) else 0.0
        return np.rint((self.ends_s - first_s) / self.step_s).astype(np.int64)

    def last(self, steps: int) -> LoadSeries:
        """The last steps that are not missing."""
        return LoadSeries(step_s=self.step_s, ends_s=self.ends_s[-steps:], values=self.values[-steps:])

    def after(self, time_s: float) -> LoadSeries:
        """The steps that end after a time."""
        new = self.ends_s > time_s + self.step_s / 2
        return LoadSeries(step_s=self.step_s, ends_s=self.ends_s[new], values=self.values[new])


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """How good the forecasts ``ahead`` steps ahead were. The last value is scored on the same steps.

    With y the load of a step, f its forecast (the median) and n the last value that was known:

    - ``error`` = mean \\|y - f\\|, ``squared_error`` = mean (y - f)²; the same with n for the last value.
    - ``error_ratio`` = error ÷ that of the last value. Below 1 is better than the last value.
    - ``scaled_error`` (MASE) = error ÷ mean \\|yₜ - yₜ₋₁\\| over the series (Hyndman and Koehler, 2006). One step ahead
      it is the error ratio.
    - ``normalised_squared_error`` = squared error ÷ (highest - lowest y)²: the mean square error on [0, 1].
    - ``coverage`` = share of y within the 90 % band, ``width`` = mean width of the band ÷ mean y.
    - ``reliability``: for each of ``RELIABILITY_LEVELS`` the share of y at or below that quantile.
    """

    ahead: int
    steps: int
    """Number of forecasts that were scored."""
    error: float
    last_error: float
    squared_error: float
    last_squared_error: float
    change: float
    """Mean absolute difference between one step and the next."""
    level: float
    """Mean load of the scored steps."""
    range: float
    """Difference between the highest and the lowest load of the scored steps."""
    coverage: float
    band: float
    """Mean width of the 90 % band, in the unit of the load."""
    reliability: tuple[float, ...]

    @property
    def error_ratio(self) -> float | None:
        """Error ÷ that of the last value; 1 if neither has any, None if only the last value has none."""
        return _ratio(self.error, self.last_error)

    @property
    def squared_error_ratio(self) -> float | None:
        """Squared error ÷ that of the last value."""
        return _ratio(self.squared_error, self.last_squared_error)

    @property
    def scaled_error(self) -> float | None:
        """Mean absolute scaled error (MASE)."""
        return _ratio(self.error, self.change)

    @property
    def normalised_squared_error(self) -> float | None:
        """Mean square error of the series scaled to [0, 1]; None if it is constant."""
        return None if self.range == 0 else self.squared_error / self.range**2

    @property
    def width(self) -> float | None:
        """Mean width of the 90 % band relative to the mean load."""
        return None if self.level == 0 else self.band / self.level

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "ahead": self.ahead,
            "steps": self.steps,
            "error_ratio": self.error_ratio,
            "squared_error_ratio": self.squared_error_ratio,
            "scaled_error": self.scaled_error,
            "normalised_squared_error": self.normalised_squared_error,
            "error": self.error,
            "level": self.level,
            "coverage": self.coverage,
            "width": self.width,
            "reliability": dict(
                zip((f"{level:g}" for level in RELIABILITY_LEVELS), self.reliability, strict=True)
            ),
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class Backtest:
    """The forecasts of a backtest, how good they were, and how long they took."""

    accuracy: tuple[Accuracy, ...]
    """One for each lead that was requested and that the series is long enough for."""
    update_ms: float
    """Mean time to learn a step."""
    forecast_ms: float
    """Mean time of a forecast of as many steps as the longest lead."""
    forecast_30_ms: float
    """Mean time of a forecast of 30 steps, after the last step."""
    ends_s: Floats
    """End of each step that was learned last before a forecast."""
    forecasts: Floats
    """[lead, level, origin]: the quantiles ``RELIABILITY_LEVELS`` of the step that is ``lead`` after each origin."""


def backtest(
    forecaster: Forecaster,
    series: LoadSeries,
    *,
    leads: Sequence[int] = (1,),
    timer: Callable[[], float],
    on_step: Callable[[], None] | None = None,
) -> Backtest:
    """Learn a series step by step and score the forecasts of the steps that come ``leads`` steps later.

    ``timer`` returns seconds, like ``time.perf_counter``. The forecaster must be new.

    >>> from itertools import count
    >>> from ebbflow.forecasting.port import Forecast
    >>> class Last(Forecaster):
    ...     name = "last"
    ...     def learn(self, time_s, value):
    ...         self.time_s, self.value = time_s, value
    ...     def forecast(self, steps, levels=(0.5,)):
    ...         values = np.full((len(levels), steps), self.value)
    ...         return Forecast(start_s=self.time_s, step_s=60.0, levels=tuple(levels), values=values, basis="last")
    >>> times_s, loads = 60.0 * np.arange(1, 5), np.array([4.0, 6.0, 5.0, 5.0])
    >>> tried = backtest(Last(), LoadSeries(step_s=60.0, ends_s=times_s, values=loads), timer=lambda c=count(): next(c))
    >>> (score,) = tried.accuracy
    >>> score.steps, score.error, score.error_ratio, score.coverage
    (3, 1.0, 1.0, 0.3333333333333333)
    """
    if not leads or min(leads) < 1:
        raise InputError("a backtest needs leads of 1 step or more")
    steps, levels = max(leads), len(RELIABILITY_LEVELS)
    chosen = np.asarray(leads) - 1
    forecasts = np.empty((len(leads), levels, len(series)))
    update_s = forecast_s = 0.0
    for index, (time_s, value) in enumerate(zip(series.ends_s.tolist(), series.values.tolist(), strict=True)):
        before = timer()
        forecaster.learn(time_s, value)
        learned = timer()
        made = forecaster.forecast(steps, RELIABILITY_LEVELS)
        update_s, forecast_s = update_s + learned - before, forecast_s + timer() - learned
        if made is None or made.values.shape != (levels, steps) or not np.all(np.isfinite(made.values)):
            raise RunFailedError(f"{forecaster.name} made no valid forecast after {index + 1} steps")
        forecasts[:, :, index] = made.values[:, chosen].T
        if on_step is not None:
            on_step()
    long_s = 0.0
    if len(series):
        before = timer()
        for _ in range(_TIMED_FORECASTS):
            forecaster.forecast(TIMED_STEPS, RELIABILITY_LEVELS)
        long_s = (timer() - before) / _TIMED_FORECASTS
    count = max(1, len(series))
    scored = (_accuracy(series, forecasts[place], lead) for place, lead in enumerate(leads))
    return Backtest(
        accuracy=tuple(each for each in scored if each is not None),
        update_ms=1000 * update_s / count,
        forecast_ms=1000 * forecast_s / count,
        forecast_30_ms=1000 * long_s,
        ends_s=series.ends_s,
        forecasts=forecasts,
    )


def _accuracy(series: LoadSeries, forecasts: Floats, lead: int) -> Accuracy | None:
    """Score the forecasts of one lead; None if none of their steps is in the series."""
    origins, targets = pairs(series, lead)
    if not len(origins):
        return None
    loads, known = series.values[targets], series.values[origins]
    quantiles = forecasts[:, origins]
    low, point, high = quantiles[0], quantiles[RELIABILITY_LEVELS.index(0.5)], quantiles[-1]
    _, following = pairs(series, 1)
    changes = np.abs(series.values[following] - series.values[following - 1])
    return Accuracy(
        ahead=lead,
        steps=len(origins),
        error=float(np.mean(np.abs(loads - point))),
        last_error=float(np.mean(np.abs(loads - known))),
        squared_error=float(np.mean((loads - point) ** 2)),
        last_squared_error=float(np.mean((loads - known) ** 2)),
        change=float(np.mean(changes)) if len(changes) else 0.0,
        level=float(np.mean(loads)),
        range=float(np.ptp(loads)),
        coverage=float(np.mean((low <= loads) & (loads <= high))),
        band=float(np.mean(high - low)),
        reliability=tuple(float(share) for share in np.mean(loads <= quantiles, axis=1)),
    )


def pairs(series: LoadSeries, lead: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Positions of the steps from which, and of the steps for which, forecasts ``lead`` steps ahead are scored.

    >>> gap = LoadSeries(step_s=1.0, ends_s=np.array([1.0, 2.0, 4.0]), values=np.zeros(3))
    >>> [positions.tolist() for positions in pairs(gap, 1)], [positions.tolist() for positions in pairs(gap, 2)]
    ([[0], [1]], [[1], [2]])
    """
    slots = series.slots
    found = np.searchsorted(slots, slots + lead)
    inside = found < len(slots)
    origins = np.flatnonzero(inside)[slots[found[inside]] == slots[inside] + lead]
    return origins, found[origins]


def _ratio(error: float, other: float) -> float | None:
    if other == 0:
        return 1.0 if error == 0 else None
    return error / other
