"""A trend that levels off."""

from __future__ import annotations

import numpy as np

from ebbflow.core.curve import Floats
from ebbflow.forecasting.experts.expert import Expert, Named
from ebbflow.forecasting.grid import LONGEST, Ints
from ebbflow.forecasting.history import History


class DampedTrend(Expert):
    """Holt's linear trend, damped: ŷ(t+h) = l + (φ + φ² + … + φʰ)·b.

    l(t) = α·y + (1−α)·(l + φb) and b(t) = β·(l(t) − l(t−1)) + (1−β)·φb. (Gardner & McKenzie 1985; Hyndman &
    Athanasopoulos §8.2.) With φ below 1 a slope of noise does little harm far ahead.
    """

    def __init__(self, alpha: float = 0.8, beta: float = 0.3, damping: float = 0.9) -> None:
        self.names = (f"damped trend {alpha:g}/{beta:g}/{damping:g}",)
        self._alpha, self._beta, self._damping = alpha, beta, damping
        self._level = self._slope = 0.0
        self._sums = np.cumsum(damping ** np.arange(1.0, LONGEST + 1))

    def update(self, history: History) -> None:
        """Correct level and slope by the last value."""
        value = float(history.values[-1])
        if history.seen == 1 or history.missing:
            self._level, self._slope = value, 0.0
            return
        before, trend = self._level, self._damping * self._slope
        self._level = self._alpha * value + (1.0 - self._alpha) * (before + trend)
        self._slope = self._beta * (self._level - before) + (1.0 - self._beta) * trend

    def ahead(self, _history: History, horizons: Ints) -> Floats:
        """Level plus the damped sum of slopes."""
        return np.asarray(self._level + self._slope * self._sums[np.minimum(horizons, LONGEST) - 1])


FORECASTERS: Named = {"damped-trend": lambda _step_s: DampedTrend()}
