"""Holt-Winters: level, damped trend and season."""

from __future__ import annotations

import numpy as np

from ebbflow.core.curve import Floats
from ebbflow.forecasting.experts.expert import Expert, Named
from ebbflow.forecasting.grid import Ints
from ebbflow.forecasting.history import History


class HoltWinters(Expert):
    """Additive Holt-Winters with a damped trend: ŷ(t+h) = l + (φ + … + φʰ)·b + s(t+h−P).

    l(t) = α·(y − s(t−P)) + (1−α)·(l + φb), b(t) = β·(l(t) − l(t−1)) + (1−β)·φb, s(t) = γ·(y − l(t)) + (1−γ)·s(t−P).
    (Winters 1960; Hyndman & Athanasopoulos §8.3.) The period is the found one, else a day. When a period appears or
    changes, the season starts from the last cycle minus its mean. Without a period it is the damped trend.
    """

    names = ("Holt-Winters",)

    def __init__(
        self, alpha: float = 0.5, beta: float = 0.1, gamma: float = 0.3, damping: float = 0.9
    ) -> None:
        self._alpha, self._beta, self._gamma, self._damping = alpha, beta, gamma, damping
        self._level = self._slope = 0.0
        self._season = np.zeros(1)

    def update(self, history: History) -> None:
        """Correct level, slope and season by the last value."""
        value, index = float(history.values[-1]), history.index
        period = history.periods.steps[3] or history.periods.steps[1] or 1
        if period != len(self._season):
            self._start(history, period)
            return
        usual = float(self._season[index % period])
        if history.seen == 1 or history.missing:
            self._level, self._slope = value - usual, 0.0
            return
        before, trend = self._level, self._damping * self._slope
        self._level = self._alpha * (value - usual) + (1.0 - self._alpha) * (before + trend)
        self._slope = self._beta * (self._level - before) + (1.0 - self._beta) * trend
        if period > 1:
            self._season[index % period] += self._gamma * (value - self._level - usual)

    def _start(self, history: History, period: int) -> None:
        cycle = history.values[-period:]
        self._season = np.zeros(period)
        if len(cycle) == period > 1:
            self._season = np.roll(cycle - cycle.mean(), (history.index + 1) % period)
        self._level = float(history.values[-1] - self._season[history.index % period])
        self._slope = 0.0

    def ahead(self, history: History, horizons: Ints) -> Floats:
        """Level, damped slopes and season."""
        damping = self._damping
        trend = self._slope * damping * (1.0 - damping**horizons) / (1.0 - damping)
        season = self._season[(history.index + horizons) % len(self._season)]
        return np.asarray(self._level + trend + season)


FORECASTERS: Named = {"holt-winters": lambda _step_s: HoltWinters()}
