"""The default forecaster: a mixture of experts that is used only while it beats the last value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ebbflow.core.curve import Floats
from ebbflow.core.duration import format_duration
from ebbflow.forecasting.bands import Bands
from ebbflow.forecasting.experts.autoregression import Autoregression
from ebbflow.forecasting.experts.damped_trend import DampedTrend
from ebbflow.forecasting.experts.expert import Expert
from ebbflow.forecasting.experts.last_value import LastValue
from ebbflow.forecasting.experts.outside import Outside
from ebbflow.forecasting.experts.seasonal_naive import SeasonalNaive
from ebbflow.forecasting.experts.smoothing import Smoothing
from ebbflow.forecasting.grid import GRID, LONGEST, Ints, between
from ebbflow.forecasting.history import History
from ebbflow.forecasting.port import LEVELS, Forecast, Forecaster
from ebbflow.forecasting.weights import Weights

if TYPE_CHECKING:
    from ebbflow.forecasting.training import Trainer

Bools = npt.NDArray[np.bool_]

JUDGED = 100
"""Steps over which the mixture is compared with the last value."""
RING = LONGEST + 1
SHOWN = 3


def default_experts(step_s: float) -> list[Expert]:
    """The experts of the default mixture. All learn at every step; nothing has to be trained."""
    return [
        *(Smoothing(alpha) for alpha in (0.7, 0.4, 0.2, 0.05)),
        DampedTrend(1.0, 1.0, 0.8),
        DampedTrend(0.9, 0.5, 0.9),
        DampedTrend(0.5, 0.2, 0.9),
        SeasonalNaive((1, 2, 3)),
        SeasonalNaive((1, 2, 3), moved=True),
        Autoregression(step_s, memories=(100.0, 1000.0, 100_000.0)),
        Autoregression(step_s, memories=(100.0, 1000.0), log=False),
        Autoregression(step_s, memories=(1000.0,), lags=3, ridge=10.0),
    ]


class Mixture(Forecaster):
    """Weighs experts by their recent errors at each horizon, with conformal bands.

    At each step the forecasts made for it are compared with it, for each horizon of the grid (1 to 30 steps): the
    weights (``Weights``), the errors of the mixture and of the last value, and the bands (``Bands``) learn from that.
    Where the mixture's recent error is above the last value's, the last value is used, and ``basis`` says so.
    ``experts`` adds forecasters to the default ones, or replaces them.

    >>> mixture = Mixture(60.0)
    >>> for minute in range(1, 121):
    ...     mixture.learn(60.0 * minute, 100.0 + 50.0 * (minute % 10))  # a sawtooth
    >>> ahead = mixture.forecast(5)
    >>> ahead.at(0.5).round(-1).tolist()  # minute 120 was at 100
    [150.0, 200.0, 250.0, 300.0, 350.0]
    """

    name = "mixture"

    def __init__(
        self,
        step_s: float,
        extra: Sequence[Forecaster] = (),
        *,
        experts: Sequence[Expert] | None = None,
        judged: int = JUDGED,
    ) -> None:
        self._step_s = step_s
        own = default_experts(step_s) if experts is None else list(experts)
        self._experts: list[Expert] = [LastValue(), *own, *(Outside(each) for each in extra)]
        self._history = History(step_s)
        count, grid = sum(len(each.names) for each in self._experts), len(GRID)
        self._weights = Weights(grid, count)
        self._bands = Bands()
        self._judged = judged
        self._seen = np.zeros(grid)
        self._error = np.zeros(grid)
        self._last_error = np.zeros(grid)
        # What was forecast at the last steps, by step modulo RING.
        self._made_at = np.full(RING, -1)
        self._made = np.zeros((RING, grid, count))
        self._mixed = np.zeros((RING, grid))
        self._used = np.zeros((RING, grid))
        self._limits = np.zeros((RING, grid, self._bands.limits(np.zeros(grid)).shape[1]))

    def learn(self, time_s: float, value: float) -> None:
        """Learn the mean load of the step that ends at ``time_s``."""
        history = self._history
        if not history.push(time_s, value):
            return
        if history.seen == 1:
            self._bands.start(value)
        else:
            self._judge(history.index, value)
        for expert in self._experts:
            expert.update(history)
        rows = self._ahead(GRID)
        at = history.index % RING
        self._made_at[at] = history.index
        self._made[at] = rows.T
        mixed = np.einsum("gk,kg->g", self._weights.values, rows)
        self._mixed[at] = mixed
        self._used[at] = np.where(self.is_better, mixed, value)
        self._limits[at] = self._bands.limits(self._used[at])

    def train_with(self, trainer: Trainer) -> None:
        """Train with this trainer from now on."""
        for expert in self._experts:
            expert.train_with(trainer)

    def forecast(self, steps: int, levels: Sequence[float] = LEVELS) -> Forecast | None:
        """Forecast the next steps; None before the first value."""
        history = self._history
        if not history.seen:
            return None
        horizons = np.arange(1, steps + 1)
        weights = between(self._weights.values, horizons)
        mixed = np.einsum("hk,kh->h", weights, self._ahead(horizons))
        better = between(self.is_better.astype(np.float64), horizons) > 0.5
        points = np.where(better, mixed, history.values[-1])
        return Forecast(
            start_s=history.end_s,
            step_s=self._step_s,
            levels=tuple(levels),
            values=self._bands.at(np.asarray(levels, dtype=np.float64), points, horizons),
            basis=self._basis(weights, better, steps),
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The experts, in the order of ``weights``."""
        return tuple(name for expert in self._experts for name in expert.names)

    @property
    def weights(self) -> Floats:
        """Weights of the experts: one row per horizon of the grid."""
        return self._weights.values

    @property
    def error_ratio(self) -> Floats:
        """Recent error of the mixture divided by that of the last value, for each horizon of the grid."""
        known = (self._last_error > 0) & (self._seen > 0)
        same = np.where(self._error > 0, np.inf, 1.0)
        return np.divide(self._error, self._last_error, out=same, where=known)

    @property
    def is_better(self) -> Bools:
        """Where the mixture beats the last value."""
        return (self._seen > 0) & (self._error < self._last_error)

    def _ahead(self, horizons: Ints) -> Floats:
        rows = [expert.ahead(self._history, horizons) for expert in self._experts]
        return np.asarray(np.maximum(np.vstack(rows), 0.0))

    def _judge(self, index: int, value: float) -> None:
        """Compare the step with what was forecast for it."""
        slots, grid = (index - GRID) % RING, np.arange(len(GRID))
        valid = (self._made_at[slots] == index - GRID).astype(np.float64)
        forecasts, mixed = self._made[slots, grid], self._mixed[slots, grid]
        self._seen += valid
        share = valid * np.maximum(1.0 / self._judged, 1.0 / np.maximum(self._seen, 1.0))
        self._error += share * (np.abs(value - mixed) - self._error)
        self._last_error += share * (np.abs(value - forecasts[:, 0]) - self._last_error)
        self._weights.learn(value, mixed, forecasts, self._last_error, valid)
        self._bands.learn(value, self._used[slots, grid], self._limits[slots, grid], valid)

    def _basis(self, weights: Floats, better: Bools, steps: int) -> str:
        if not self._seen[0]:
            return "last value: nothing to compare forecasts with yet"
        window = format_duration(min(float(self._seen[0]), self._judged) * self._step_s)
        ratio = between(np.minimum(self.error_ratio, 99.0), np.arange(1, steps + 1))
        if not better.any():
            return f"last value: the mixture's error was {ratio[0]:.2f} of it in the last {window}"
        used = weights[better].mean(axis=0)
        best = np.argsort(-used)[:SHOWN]
        named = ", ".join(f"{self.names[k]} {used[k]:.0%}" for k in best)
        text = f"mixture ({named}); its error was {ratio[better].mean():.2f} of the last value's in the last {window}"
        if not better.all():
            text += f"; last value for {int((~better).sum())} of {steps} steps, where it is better"
        return text
