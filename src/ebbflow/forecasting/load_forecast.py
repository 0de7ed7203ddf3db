"""The load of one application: readings in, the highest load until some time out."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ebbflow.forecasting.port import Forecast, Forecaster
from ebbflow.forecasting.steps import Steps

STEP_S = 10.0
"""Length of a step unless another is given: that of a cycle."""
MOST_STEPS = 360
"""A forecast never looks further ahead; an hour in steps of 10 s."""


class LoadForecast:
    """Feeds the readings of a load to a forecaster in even steps, and asks it up to a point in time.

    >>> from ebbflow.forecasting.registry import make_forecaster
    >>> load = LoadForecast(make_forecaster("last-value", 10.0))
    >>> load.until(60.0, (0.5,)) is None  # nothing was read yet
    True
    >>> for time_s in (5.0, 10.0, 15.0, 20.0):
    ...     _ = load.add(time_s, 40.0 + time_s)
    >>> ahead = load.until(60.0, (0.5,))  # from the end of the last step, at 20 s
    >>> ahead.ends_s.tolist(), highest(ahead, 0.5, since_s=25.0, until_s=45.0)
    ([30.0, 40.0, 50.0, 60.0], 57.5)
    """

    def __init__(self, forecaster: Forecaster, *, step_s: float = STEP_S) -> None:
        """``step_s``: the step that the forecaster was made for."""
        self.forecaster, self._steps = forecaster, Steps(step_s)
        self._learned_s: float | None = None

    def add(self, time_s: float, rate_per_s: float) -> bool:
        """Add a reading, which describes the time before it. Returns whether it completed a step."""
        done = self._steps.add(time_s, rate_per_s)
        for end_s, mean_per_s in done:
            self.forecaster.learn(end_s, mean_per_s)
            self._learned_s = end_s
        return bool(done)

    def until(self, end_s: float, levels: Sequence[float]) -> Forecast | None:
        """The forecast from the last complete step to ``end_s``; None before the first step is complete."""
        if self._learned_s is None:
            return None
        steps = math.ceil((end_s - self._learned_s) / self._steps.step_s - 1e-9)
        return self.forecaster.forecast(min(max(1, steps), MOST_STEPS), levels)


def highest(ahead: Forecast, level: float, *, since_s: float, until_s: float, over_s: float = 0.0) -> float:
    """The highest value of a quantile in the steps between two times, as the mean over ``over_s``; at least one step.

    >>> loads = np.array([[10.0, 90.0, 20.0, 40.0]])
    >>> ahead = Forecast(start_s=0.0, step_s=10.0, levels=(0.5,), values=loads, basis="an example")
    >>> [highest(ahead, 0.5, since_s=0.0, until_s=40.0, over_s=seconds) for seconds in (0.0, 20.0, 900.0)]
    [90.0, 55.0, 40.0]
    """
    values = ahead.at(level)
    first = min(max(0, math.floor((since_s - ahead.start_s) / ahead.step_s + 1e-9)), len(values) - 1)
    last = max(first + 1, math.ceil((until_s - ahead.start_s) / ahead.step_s - 1e-9))
    within = values[first:last]
    steps = min(max(1, round(over_s / ahead.step_s)), len(within))
    return float(np.convolve(within, np.full(steps, 1.0 / steps), "valid").max())
