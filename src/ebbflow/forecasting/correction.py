"""Corrections of a forecast by its own errors: the repeated error and the bias."""

from __future__ import annotations

import numpy as np

from ebbflow.core.curve import Floats
from ebbflow.forecasting.grid import GRID
from ebbflow.forecasting.state import Stateful

DECAY = 0.998
PRIOR = 20.0
"""Steps' worth of belief that errors are not repeated."""
CLIPPED = 3.0
"""An error counts at most this many times its mean size."""
SHARE = 0.05
RATE = 0.01
"""Step of the median."""


class Correction(Stateful):
    """Adds the part of the last error that repeats, and moves the forecast to the median.

    The last one-step error e, divided by its mean size s and clipped, is x. For each horizon h the error u of the
    forecast is regressed on the x known when it was made: θ = Σxu/(Σx² + 20), as the moving-average term of an ARMA
    model. The correction is S_h·(θ_h·x + q_h), where S_h is the mean size of the error and q_h its median, tracked in
    small steps. The mean of a load with bursts is above its median, and the absolute error is smallest at the median.
    """

    def __init__(self) -> None:
        grid = len(GRID)
        self._size = np.zeros(grid)
        self._count = np.zeros(grid)
        self._products = np.zeros(grid)
        self._squares = np.zeros(grid)
        self._median = np.zeros(grid)
        self._last = 0.0

    @property
    def last(self) -> float:
        """The last one-step error, scaled and clipped."""
        return self._last

    def learn(self, errors: Floats, known: Floats, valid: Floats) -> None:
        """Learn the errors of the forecasts for a step, where ``valid`` is 1. ``known``: ``last`` at their time."""
        self._count += valid
        share = valid * np.maximum(SHARE, 1.0 / np.maximum(self._count, 1.0))
        self._size += share * (np.abs(errors) - self._size)
        scaled = errors / (self._size + 1e-9 * np.abs(errors) + 1e-300)
        scaled = np.minimum(np.maximum(scaled, -CLIPPED), CLIPPED) * valid
        repeated = self._products / (self._squares + PRIOR) * known
        rest = scaled - repeated - self._median
        self._median += valid * RATE * 0.5 * np.sign(rest)
        decay = 1.0 - valid * (1.0 - DECAY)
        self._products = self._products * decay + known * scaled
        self._squares = self._squares * decay + known * known * valid
        self._last = float(scaled[0])

    def offsets(self) -> Floats:
        """What to add to the forecast, for each horizon of the grid."""
        repeated = self._products / (self._squares + PRIOR) * self._last
        return np.asarray(self._size * (repeated + self._median))
