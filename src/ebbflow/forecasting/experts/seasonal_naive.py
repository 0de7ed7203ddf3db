"""Seasonal naive: the load one period ago."""

from __future__ import annotations

import numpy as np

from ebbflow.core.curve import Floats
from ebbflow.forecasting.experts.expert import Expert, Named
from ebbflow.forecasting.grid import Ints
from ebbflow.forecasting.history import History
from ebbflow.forecasting.load_periods import SLOTS

DAY, FOUND = 1, 3


class SeasonalNaive(Expert):
    """The load one period ago, and the same moved to the present level.

    For day, week and found period P two rows: y(t+h−P), and y(t) + y(t+h−P) − y(t−P). Without the period both are the
    last value.
    """

    names = tuple(f"last {slot}{moved}" for moved in ("", ", moved") for slot in SLOTS[1:])

    def ahead(self, history: History, horizons: Ints) -> Floats:
        """Two rows per period."""
        context = history.context(horizons)
        back = context.back[1:]
        return np.concatenate((back, back + (history.values[-1] - context.ago[1:, None])))


class LastPeriod(Expert):
    """Seasonal naive with the found period, else a day: ŷ(t+h) = y(t+h−P). Without a period it is the last value."""

    names = ("last period",)

    def ahead(self, history: History, horizons: Ints) -> Floats:
        """The values one period ago."""
        slot = FOUND if history.periods.steps[FOUND] else DAY
        return np.asarray(history.context(horizons).back[slot])


FORECASTERS: Named = {"seasonal-naive": lambda _step_s: LastPeriod()}
