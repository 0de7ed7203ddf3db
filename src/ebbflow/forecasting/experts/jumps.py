"""A calendar of jumps: bursts that come at the same minute of the hour or of the day."""

from __future__ import annotations

import numpy as np

from ebbflow.core.curve import Floats
from ebbflow.forecasting.experts.expert import Expert, Named
from ebbflow.forecasting.grid import Ints
from ebbflow.forecasting.history import History
from ebbflow.forecasting.state import Stateful

SLOTS = ("hour", "day")
SURE = 2.0
"""A change recurs if its mean is this many standard errors from 0."""
LEAST = 3
"""Cycles that have to be seen first."""
SHARE = 0.1


class Calendar(Stateful):
    """Mean change of the load at each phase of a period, where it recurs.

    With n changes d at a phase, mean m and standard error e = √(var/n), the expected change is m·max(0, 1 − (2e/m)²): 0
    where the changes look like noise, m where they are always the same. Changes are relative to the mean load.

    >>> calendar = Calendar(4)
    >>> for index in range(1, 41):
    ...     calendar.learn(index, 5.0 if index % 4 == 2 else 0.0)
    >>> calendar.ahead(40, np.array([1, 2, 3])).round(1).tolist(), calendar.at(42)
    ([0.0, 5.0, 0.0], 5.0)
    """

    def __init__(self, period: int) -> None:
        self._mean = np.zeros(period)
        self._square = np.zeros(period)
        self._count = np.zeros(period)

    def learn(self, index: int, change: float) -> None:
        """Learn the change into a step."""
        at = index % len(self._mean)
        self._count[at] += 1
        share = max(SHARE, 1.0 / self._count[at])
        self._mean[at] += share * (change - self._mean[at])
        self._square[at] += share * (change * change - self._square[at])

    def at(self, index: int) -> float:
        """The expected change into a step; as ``ahead``, but faster."""
        at = index % len(self._mean)
        mean, count = float(self._mean[at]), min(float(self._count[at]), 2.0 / SHARE)
        if count < LEAST or mean == 0.0:
            return 0.0
        squared_error = max(float(self._square[at]) - mean * mean, 0.0) / max(count - 1.0, 1.0)
        return mean * max(0.0, 1.0 - SURE * SURE * squared_error / (mean * mean))

    def ahead(self, index: int, horizons: Ints) -> Floats:
        """The expected change into each step ahead."""
        at = (index + horizons) % len(self._mean)
        mean, count = self._mean[at], np.minimum(self._count[at], 2.0 / SHARE)
        squared_error = np.maximum(self._square[at] - mean * mean, 0.0) / np.maximum(count - 1.0, 1.0)
        kept = 1.0 - SURE * SURE * squared_error / np.maximum(mean * mean, 1e-300)
        return np.where(count >= LEAST, mean * np.maximum(kept, 0.0), 0.0)


class Jumps(Expert):
    """The last value plus the changes that recur at the minutes ahead, by hour or by day.

    The calendar with the smaller recent one-step error is used. On a public feed about half of all jumps began within
    the same five minutes of the hour: scheduled jobs and notifications make them.
    """

    names = ("calendar of jumps",)

    def __init__(self) -> None:
        self._calendars = [Calendar(1) for _ in SLOTS]
        self._errors = np.zeros(len(SLOTS))
        self._mean = 0.0

    def update(self, history: History) -> None:
        """Learn the last change."""
        value = float(history.values[-1])
        self._mean += max(1.0 / history.seen, 0.001) * (value - self._mean)
        if len(history) < 2:
            self._calendars = [Calendar(max(1, each)) for each in history.periods.calendar[: len(SLOTS)]]
            return
        if history.missing or self._mean <= 0.0:
            return
        change = (value - float(history.values[-2])) / self._mean
        for k, calendar in enumerate(self._calendars):
            error = abs(change - calendar.at(history.index))
            self._errors[k] += 0.005 * (error - self._errors[k])
            calendar.learn(history.index, change)

    def ahead(self, history: History, horizons: Ints) -> Floats:
        """The last value plus the sum of the expected changes."""
        steps = np.arange(1, int(horizons[-1]) + 1)
        changes = self._calendars[int(np.argmin(self._errors))].ahead(history.index, steps)
        sums = np.cumsum(changes) * self._mean
        return np.asarray(history.values[-1] + sums[horizons - 1])


FORECASTERS: Named = {"jumps": lambda _step_s: Jumps()}
