"""Seasonal naive: the load one period ago, or the usual one of the last three."""

from __future__ import annotations

import numpy as np

from ebbflow.core.curve import Floats
from ebbflow.forecasting.experts.expert import Expert, Named
from ebbflow.forecasting.grid import Ints
from ebbflow.forecasting.history import History
from ebbflow.forecasting.load_periods import SLOTS

DAY, FOUND = 1, 3
PERIODS = 3
"""Periods of which the median is taken."""


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


class UsualPeriod(Expert):
    """The median of the last three periods at each phase, for day and found period: y(t+h−P), y(t+h−2P), y(t+h−3P).

    A burst that comes in most periods is part of it, one that came once is not. With fewer than three periods it is the
    last one; without a period it is the last value.
    """

    names = tuple(f"median of three: {SLOTS[slot]}" for slot in (DAY, FOUND))

    def ahead(self, history: History, horizons: Ints) -> Floats:
        """One row per period."""
        values, now, rows = history.values, len(history) - 1, []
        for slot in (DAY, FOUND):
            period = history.periods.steps[slot]
            if not period:
                rows.append(np.full(len(horizons), values[-1]))
                continue
            last = now + horizons - period * -(-horizons // period)
            back = last - period * np.arange(PERIODS)[:, None]
            first, second, third = values[np.where(back >= 0, back, last)]
            rows.append(np.maximum(np.minimum(first, second), np.minimum(np.maximum(first, second), third)))
        return np.vstack(rows)


class LastPeriod(Expert):
    """Seasonal naive with the found period, else a day: ŷ(t+h) = y(t+h−P). Without a period it is the last value."""

    names = ("last period",)

    def ahead(self, history: History, horizons: Ints) -> Floats:
        """The values one period ago."""
        slot = FOUND if history.periods.steps[FOUND] else DAY
        return np.asarray(history.context(horizons).back[slot])


FORECASTERS: Named = {"seasonal-naive": lambda _step_s: LastPeriod()}
