"""Exponential smoothing."""

from __future__ import annotations

import numpy as np

from ebbflow.core.curve import Floats
from ebbflow.forecasting.experts.expert import Expert, Named
from ebbflow.forecasting.grid import Ints
from ebbflow.forecasting.history import History


class Smoothing(Expert):
    """Simple exponential smoothing: l(t) = l(t−1) + α·(y(t) − l(t−1)), ŷ(t+h) = l(t). One row per α.

    The first 1/α steps are averaged with equal weights. (Brown 1959; Hyndman & Athanasopoulos, *Forecasting:
    Principles and Practice*, §8.1.)
    """

    def __init__(self, *alphas: float) -> None:
        self.names = tuple(f"smoothing {alpha:g}" for alpha in alphas)
        self._alphas = np.array(alphas)
        self._levels = np.zeros(len(alphas))

    def update(self, history: History) -> None:
        """Move the levels towards the last value."""
        share = np.maximum(self._alphas, 1.0 / history.seen)
        self._levels += share * (history.values[-1] - self._levels)

    def ahead(self, _history: History, horizons: Ints) -> Floats:
        """The levels at every horizon."""
        return np.repeat(self._levels[:, None], len(horizons), axis=1)


FORECASTERS: Named = {"smoothing": lambda _step_s: Smoothing(0.3)}
