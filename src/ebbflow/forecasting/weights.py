"""Weights of experts by their recent errors: slow ones by online aggregation, fast ones by inverse error."""

from __future__ import annotations

import math

import numpy as np

from ebbflow.core.curve import Floats
from ebbflow.forecasting.state import Stateful

MEMORY = 500
"""Steps after which a regret counts for about a third."""
LARGEST = 5.0
"""A regret counts at most this many mean errors of the last value, so that one burst does not decide."""
FAST_SHARE, FAST_POWER = 0.04, 6.0
BLEND_SHARE, BLEND_POWER = 0.02, 8.0
BLEND_CAPPED = 10.0
TINY = 1e-9


class Weights(Stateful):
    """Weights of experts for each horizon: a blend of slow and fast ones.

    Slow: Bernstein online aggregation (Wintenberger 2017) with forgetting. With the mixture's forecast m, an expert's
    forecast x and the value y, the regret is r = sign(m − y)·(m − x)/s, the gradient of the absolute error, where s is
    the last value's mean absolute error. With V = Σr² each expert has a learning rate η = min(1/(2·max|r|), √(ln K/V))
    and the weight w ∝ η·exp(η·Σ(r − ηr²)). The slow mixture does nearly as well as the best fixed weights in hindsight.

    Fast: w ∝ (mean absolute error of about 25 steps)⁻⁶. They find an expert that has become right, as when a period was
    found, within a few steps.

    The two mixtures are blended by their own errors of about 50 steps, to the power −8.
    """

    def __init__(self, horizons: int, experts: int) -> None:
        self._regret = np.zeros((horizons, experts))
        self._squares = np.full((horizons, experts), 1e-12)
        self._largest = np.full((horizons, experts), TINY)
        self._error = np.zeros((horizons, experts))
        self._mixed_error = np.zeros((horizons, 2))
        self._seen = np.zeros(horizons)
        self._slow = np.full((horizons, experts), 1.0 / experts)
        self._fast = self._slow.copy()
        self.values = self._slow.copy()
        """Weights: one row per horizon, each sums to 1."""

    def mix(self, forecasts: Floats) -> Floats:
        """The slow and the fast mixture of forecasts (horizons × experts), as columns."""
        mixed = np.empty((len(forecasts), 2))
        np.einsum("hk,hk->h", self._slow, forecasts, out=mixed[:, 0])
        np.einsum("hk,hk->h", self._fast, forecasts, out=mixed[:, 1])
        return mixed

    def learn(self, value: float, mixed: Floats, forecasts: Floats, size: Floats, valid: Floats) -> None:
        """Learn the value of a step, where ``valid`` is 1, from the forecasts for it and what ``mix`` made of them.

        ``size``: mean absolute error of the last value.
        """
        self._seen += valid
        self._learn_slow(value, mixed[:, 0], forecasts, size, valid)
        errors = np.abs(forecasts - value)
        self._error += _share(FAST_SHARE, valid, self._seen)[:, None] * (errors - self._error)
        self._fast = _inverse(self._error, FAST_POWER)
        errors = np.minimum(np.abs(mixed - value), BLEND_CAPPED * size[:, None])
        self._mixed_error += _share(BLEND_SHARE, valid, self._seen)[:, None] * (errors - self._mixed_error)
        slow, fast = _inverse(self._mixed_error, BLEND_POWER).T[:, :, None]
        self.values = slow * self._slow + fast * self._fast

    def _learn_slow(
        self, value: float, mixed: Floats, forecasts: Floats, size: Floats, valid: Floats
    ) -> None:
        sign = np.sign(mixed - value) * valid
        regret = sign[:, None] * (mixed[:, None] - forecasts)
        limit = LARGEST * size[:, None]
        regret = np.minimum(np.maximum(regret, -limit), limit) / (size[:, None] + 1e-300)
        decay = 1.0 - valid[:, None] * (1.0 / MEMORY)
        squares = regret * regret
        self._squares *= decay
        self._squares += squares
        np.maximum(self._largest, np.abs(regret), out=self._largest)
        rate = np.minimum(0.5 / self._largest, np.sqrt(math.log(regret.shape[1] + 1.0) / self._squares))
        self._regret *= decay
        self._regret += regret - rate * squares
        exponent = rate * self._regret + np.log(rate)
        weights = np.exp(exponent - exponent.max(axis=1, keepdims=True))
        self._slow = weights / weights.sum(axis=1, keepdims=True)


def _share(least: float, valid: Floats, seen: Floats) -> Floats:
    """Weight of the last error in a mean: all alike at first."""
    return np.asarray(valid * np.maximum(least, 1.0 / (seen + 3.0)))


def _inverse(errors: Floats, power: float) -> Floats:
    """Weights ∝ errors to the power −``power``, row by row; equal where all errors are 0."""
    least = errors.min(axis=1, keepdims=True)
    largest = errors.max(axis=1, keepdims=True)
    weights = ((least + TINY * largest + 1e-300) / (errors + TINY * largest + 1e-300)) ** power
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))
