"""Bands around a forecast: online conformal quantiles of its scaled errors."""

from __future__ import annotations

import numpy as np

from ebbflow.core.curve import Floats
from ebbflow.forecasting.grid import GRID, Ints, between
from ebbflow.forecasting.state import Stateful

TRACKED: Floats = np.array((0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99))
UPPER = TRACKED > 0.5
FIRST_SPREAD = 0.1
"""Mean absolute error before any was measured, as a share of the first value."""
SHARE = 0.05
"""Weight of the last error in the mean absolute error."""
RATE = 0.1
"""Step of a quantile, in mean absolute errors."""
WIDEST = 50.0
LEAST, MOST = np.where(TRACKED < 0.5, -WIDEST, 0.0), np.where(UPPER, WIDEST, 0.0)
"""Bounds of the quantiles: the median is the forecast itself."""


class Bands(Stateful):
    """Tracks quantiles of the errors of a forecast, for each horizon of the grid and each side by itself.

    The error e = y − ŷ is divided by its recent mean size s, so that a band follows the level of the load. A quantile
    q of level ℓ is moved after each step: q ← q + η·(ℓ − 1[y ≤ ŷ + s·q]). In the long run a share ℓ of the values is
    below it, whatever the load does. (Gibbs & Candès 2021, *Adaptive conformal inference under distribution shift*;
    the quantile tracker of Angelopoulos, Candès & Tibshirani 2023, *Conformal PID control for time series*.) It starts
    with the quantiles of a Laplace distribution.
    """

    def __init__(self) -> None:
        laplace = np.where(UPPER, -np.log(2.0 * (1.0 - TRACKED)), np.log(2.0 * TRACKED))
        self._quantiles = np.tile(laplace, (len(GRID), 1))
        self._size = np.zeros(len(GRID))
        self._count = np.zeros(len(GRID))

    def start(self, value: float) -> None:
        """Set the first width from the first value."""
        self._size = FIRST_SPREAD * value * np.sqrt(GRID)

    def limits(self, points: Floats) -> Floats:
        """The tracked quantiles around points on the grid: one row per horizon."""
        return np.asarray(np.maximum(0.0, points[:, None] + self._size[:, None] * self._quantiles))

    def learn(self, value: float, points: Floats, limits: Floats, valid: Floats) -> None:
        """Learn the value of a step from the points and limits forecast for it, where ``valid`` is 1."""
        self._count += valid
        share = valid * np.maximum(SHARE, 1.0 / (self._count + 1.0))
        self._size += share * (np.abs(value - points) - self._size)
        # Loads have atoms, such as 0: a value on a limit is inside the band on both sides.
        below = np.where(UPPER, value <= limits, value < limits)
        rate = RATE * np.maximum(1.0, 10.0 / (self._count + 1.0))
        self._quantiles += (valid * rate)[:, None] * (TRACKED - below)
        np.maximum(self._quantiles, LEAST, out=self._quantiles)
        np.minimum(self._quantiles, MOST, out=self._quantiles)

    def at(self, levels: Floats, points: Floats, horizons: Ints) -> Floats:
        """Quantiles around points at any horizons: one row per level, sorted, not negative."""
        size = self._size * (self._count > 0)
        if not size.all():
            # No error is known yet at the longer horizons: a random walk's grow with the root.
            size = np.where(self._count > 0, self._size, self._size[0] * np.sqrt(GRID))
        offsets = between(size[:, None] * np.sort(self._quantiles, axis=1), horizons)
        beyond = np.sqrt(np.maximum(1.0, horizons / GRID[-1]))
        places = np.interp(levels, TRACKED, np.arange(len(TRACKED)))
        left = np.minimum(places.astype(np.int64), len(TRACKED) - 2)
        part = places - left
        rows = offsets[:, left] * (1.0 - part) + offsets[:, left + 1] * part
        return np.asarray(np.maximum(0.0, points + rows.T * beyond))
