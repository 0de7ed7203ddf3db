"""Exponential smoothing."""

from __future__ import annotations

import numpy as np

from ebbflow.core.curve import Floats
from ebbflow.forecasting.experts.expert import Expert
from ebbflow.forecasting.grid import Ints
from ebbflow.forecasting.history import History


class Smoothing(Expert):
    """Simple exponential smoothing: l(t) = l(t−1) + α·(y(t) − l(t−1)), ŷ(t+h) = l(t).

    The first 1/α steps are averaged with equal weights. (Brown 1959; Hyndman & Athanasopoulos, *Forecasting:
    Principles and Practice*, §8.1.)
    """

    def __init__(self, alpha: float = 0.3) -> None:
        self.names = (f"smoothing {alpha:g}",)
        self._alpha = alpha
        self._level = 0.0

    def update(self, history: History) -> None:
        """Move the level towards the last value."""
        share = max(self._alpha, 1.0 / history.seen)
        self._level += share * (float(history.values[-1]) - self._level)

    def ahead(self, _history: History, horizons: Ints) -> Floats:
        """The level at every horizon."""
        return np.full(len(horizons), self._level)
