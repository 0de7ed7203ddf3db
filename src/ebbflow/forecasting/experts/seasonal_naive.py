"""Seasonal naive: the load one period ago."""

from __future__ import annotations

import numpy as np

from ebbflow.core.curve import Floats
from ebbflow.forecasting.experts.expert import Expert
from ebbflow.forecasting.grid import Ints
from ebbflow.forecasting.history import History
from ebbflow.forecasting.periods import SLOTS


def back(history: History, period: int, horizons: Ints) -> Floats:
    """The values a whole number of periods before the forecast steps."""
    at = len(history) - 1 + horizons - period * -(-horizons // period)
    return np.asarray(history.values[np.maximum(at, 0)])


class SeasonalNaive(Expert):
    """The load one period ago: ŷ(t+h) = y(t+h−P); or ``moved`` to the present level: ŷ(t+h) = y(t) + y(t+h−P) − y(t−P).

    One row per period of ``slots``, or only one for the ``first`` of them that the load has. Without a period it is the
    last value.
    """

    def __init__(self, slots: tuple[int, ...] = (3, 1), *, moved: bool = False, first: bool = False) -> None:
        named = (f"last {SLOTS[slot]}{', moved' * moved}" for slot in slots)
        self.names = ("last period",) if first else tuple(named)
        self._slots, self._moved, self._first = slots, moved, first

    def ahead(self, history: History, horizons: Ints) -> Floats:
        """One row per period."""
        last = float(history.values[-1])
        periods = [history.periods.steps[slot] for slot in self._slots]
        if self._first:
            periods = [next((each for each in periods if each), 0)]
        rows = np.full((len(periods), len(horizons)), last)
        for row, period in enumerate(periods):
            if period:
                rows[row] = back(history, period, horizons)
                if self._moved:
                    rows[row] += last - history.values[max(0, len(history) - 1 - period)]
        return rows
