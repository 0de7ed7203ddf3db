"""Weights of experts by their recent errors: Bernstein online aggregation."""

from __future__ import annotations

import math

import numpy as np

from ebbflow.core.curve import Floats
from ebbflow.forecasting.state import Stateful

MEMORY = 500
"""Steps after which an error counts for about a third."""
LARGEST = 5.0
"""A regret counts at most this many mean errors of the last value, so that one burst does not decide."""


class Weights(Stateful):
    """Weights of experts for each horizon: Bernstein online aggregation (Wintenberger 2017), with forgetting.

    With the mixture's forecast m, an expert's forecast x and the value y, the regret is r = sign(m − y)·(m − x)/s, the
    gradient of the absolute error, where s is the last value's mean absolute error. With V = Σr² each expert has a
    learning rate η = min(1/(2·max|r|), √(ln K/V)) and the weight w ∝ η·exp(η·Σ(r − ηr²)). Sums are discounted, so that
    the weights follow a load that changes. The mixture does nearly as well as the best fixed weights in hindsight,
    not only as the best expert.
    """

    def __init__(self, horizons: int, experts: int, memory: float = MEMORY) -> None:
        self._decay = 1.0 - 1.0 / memory
        self._regret = np.zeros((horizons, experts))
        self._squares = np.full((horizons, experts), 1e-12)
        self._largest = np.full((horizons, experts), 1e-9)
        self.values = np.full((horizons, experts), 1.0 / experts)
        """Weights: one row per horizon, each sums to 1."""

    def learn(self, value: float, mixed: Floats, forecasts: Floats, size: Floats, valid: Floats) -> None:
        """Learn the value of a step from the forecasts (horizons × experts) made for it, where ``valid`` is 1."""
        sign = np.sign(mixed - value) * valid / (size + 1e-300)
        regret = np.clip(sign[:, None] * (mixed[:, None] - forecasts), -LARGEST, LARGEST)
        decay = np.where(valid, self._decay, 1.0)[:, None]
        squares = regret * regret
        self._squares *= decay
        self._squares += squares
        np.maximum(self._largest, np.abs(regret), out=self._largest)
        rate = np.minimum(0.5 / self._largest, np.sqrt(math.log(regret.shape[1] + 1.0) / self._squares))
        self._regret *= decay
        self._regret += regret - rate * squares
        exponent = rate * self._regret + np.log(rate)
        exponent -= exponent.max(axis=1, keepdims=True)
        weights = np.exp(exponent)
        self.values = weights / weights.sum(axis=1, keepdims=True)

    def forget(self, share: float) -> None:
        """Forget a share of what was learned, after a change of the load."""
        self._regret *= 1.0 - share
        self._squares *= 1.0 - share
