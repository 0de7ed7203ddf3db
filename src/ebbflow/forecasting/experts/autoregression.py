"""Autoregression with calendar features, by ridge regression updated at every step."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ebbflow.core.curve import Floats
from ebbflow.forecasting.experts.expert import Expert, Named
from ebbflow.forecasting.experts.profile import Profiles
from ebbflow.forecasting.grid import GRID, Ints, between
from ebbflow.forecasting.history import DAY_S, History
from ebbflow.forecasting.made import Made

EMAS = np.array((0.3, 0.1, 0.03))
PERIODS = 4
PER_PERIOD = 3
HARMONICS = np.array((1, 2))
FEW = 50
"""Up to this many samples the next step's weights are fitted at each step; later all horizons take turns."""
OFFSET = 0.02
"""Share of the mean load added before taking the logarithm, so that zeros are allowed."""


@dataclass(frozen=True, kw_only=True, eq=False)
class _Regressed:
    """What a forecast was computed from, one row per horizon of the grid."""

    features: Floats
    before: Floats
    """The load at the time."""


class Autoregression(Expert):
    """Ridge regression of the change over h steps on lags, averages, periods and the time of day.

    For each horizon h of ``GRID``: z(t+h) − z(t) = w_h · x_h(t), where z is the load, or its logarithm. x_h holds the
    last values, three exponential averages and the values and profiles of each period at t+h, all minus z(t), and
    harmonics of the time of day. So w = 0 is the last value, and the ridge shrinks towards it. The normal equations
    A = λA + xxᵀ, b = λb + xy are updated at each step; λ = 1 − 1/memory, one row per fit. Targets are clipped at
    ``clip`` times their mean size, which keeps single bursts from ruling the fit. (Hoerl & Kennard 1970; direct
    multi-step forecasts: Hyndman & Athanasopoulos §13.)
    """

    def __init__(
        self,
        step_s: float,
        *,
        lags: int = 6,
        fits: tuple[tuple[float, float], ...] = ((1000.0, 10.0),),
        log: bool = True,
        clip: float = 2.5,
    ) -> None:
        kind = "log " if log else ""
        self.names = tuple(f"{kind}autoregression {memory:g}/{ridge:g}" for memory, ridge in fits)
        self._step_s, self._lags, self._log, self._clip = step_s, lags, log, clip
        self._decay = np.array([1.0 - 1.0 / memory for memory, _ in fits])
        self._ridge = np.array([ridge for _, ridge in fits])
        size, grid, rows = lags + len(EMAS) + PERIODS * PER_PERIOD + 2 * len(HARMONICS), len(GRID), len(fits)
        self._a = np.zeros((rows, grid, size, size))
        self._b = np.zeros((rows, grid, size))
        self._weights = np.zeros((rows, grid, size))
        self._samples = np.zeros((rows, grid))
        self._emas = np.zeros(len(EMAS))
        self._mean = 0.0
        self._size = np.zeros(grid)
        """Mean absolute change by horizon."""
        self._largest = np.zeros(grid)
        """Largest absolute change by horizon, slowly forgotten."""
        self._made = Made(_Regressed, features=(size,), before=())
        self._now = np.zeros((grid, size))
        self._prior = _prior(lags, size)
        self._turn = 0
        self._profiles = Profiles(PERIODS)

    def update(self, history: History) -> None:
        """Learn from the forecasts that end here, then compute the features of the next ones."""
        value = float(history.values[-1])
        self._mean += max(1.0 / history.seen, 0.0005) * (value - self._mean)
        z = self._z(value)
        if history.seen == 1:
            self._emas[:] = z
        else:
            self._emas += np.maximum(EMAS, 1.0 / history.seen) * (z - self._emas)
            self._learn(history.index, z)
        followed = (*history.periods.calendar, history.periods.steps[3])
        for slot in self._profiles.follow(followed, history.index, z):
            self._forget(slot)
        self._now = self._features(history, GRID, z)
        before = np.full(len(GRID), value)
        self._made.keep(history.index, _Regressed(features=self._now, before=before))

    def ahead(self, history: History, horizons: Ints) -> Floats:
        """One row per fit."""
        value = float(history.values[-1])
        z = self._z(value)
        if horizons is GRID:
            features, weights, largest = self._now, self._weights, self._largest
        else:
            features = self._features(history, horizons, z)
            weights = between(self._weights, horizons, axis=1)
            largest = between(self._largest, horizons)
        change = np.einsum("rhk,hk->rh", weights, features)
        z_ahead = z + np.minimum(np.maximum(change, -largest), largest)
        return np.asarray(np.exp(z_ahead) - OFFSET * self._mean if self._log else z_ahead)

    def _z(self, value: float) -> float:
        if not self._log:
            return value
        return math.log(max(value + OFFSET * self._mean, 1e-300))

    def _features(self, history: History, horizons: Ints, z: float) -> Floats:
        context = history.context(horizons)
        recent = history.values[-self._lags - 1 : -1][::-1]
        looked = np.concatenate((recent, context.ago, context.back.ravel()))
        if self._log:
            looked = np.log(looked + (OFFSET * self._mean + 1e-300))
        looked -= z
        rows, first, count = (
            np.zeros((len(horizons), self._now.shape[1])),
            len(recent),
            self._lags + len(EMAS),
        )
        rows[:, :first] = looked[:first]
        rows[:, self._lags : count] = self._emas - z
        rows[:, count : count + PERIODS] = looked[first : first + PERIODS]
        count += PERIODS
        rows[:, count : count + PERIODS] = looked[first + PERIODS :].reshape(PERIODS, -1).T
        count += PERIODS
        rows[:, count : count + PERIODS] = self._profiles.change(history.index, horizons).T
        if history.periods.steps[1]:
            day = 2.0 * math.pi * self._step_s / DAY_S
            angles = (history.index + horizons)[:, None] * (day * HARMONICS) % (2.0 * math.pi)
            count += PERIODS
            rows[:, count : count + len(HARMONICS)] = self._size[0] * np.sin(angles)
            rows[:, count + len(HARMONICS) :] = self._size[0] * np.cos(angles)
        return rows

    def _learn(self, index: int, z: float) -> None:
        due = self._made.due(index)
        valid, features, before = due.valid, due.tables.features, due.tables.before
        if not valid.any():
            return
        target = z - (np.log(before + OFFSET * self._mean + 1e-300) if self._log else before)
        size = np.abs(target)
        limit = self._clip * np.where(self._size > 0, self._size, size)
        clipped = np.minimum(np.maximum(target, -limit), limit)
        share = np.maximum(0.02, 1.0 / (1.0 + self._samples[0]))
        self._size += valid * share * (np.minimum(size, 4.0 * limit) - self._size)
        self._largest = np.where(
            valid, np.maximum(0.9995 * self._largest, np.minimum(size, limit)), self._largest
        )
        decay = 1.0 - valid * (1.0 - self._decay[:, None])
        used = features * valid[:, None]
        self._a *= decay[:, :, None, None]
        self._a += used[:, :, None] * used[:, None, :]
        self._b *= decay[:, :, None]
        self._b += used * clipped[:, None]
        self._samples = self._samples * decay + valid
        self._turn = (self._turn + 1) % len(GRID)
        self._fit((0, self._turn) if self._turn and self._samples[0, 0] < FEW else (self._turn,))

    def _fit(self, grid: tuple[int, ...]) -> None:
        """Solve the normal equations of some horizons; the others have their turn later."""
        at = list(grid)
        a = self._a[:, at].copy()
        diagonal = np.einsum("rgkk->rgk", a)
        samples = np.maximum(self._samples[:, at], 1.0)[:, :, None]
        prior = self._prior * 0.5 * (diagonal + diagonal.sum(axis=2, keepdims=True) / diagonal.shape[2])
        diagonal += self._ridge[:, None, None] * prior / samples + 1e-9 * diagonal.max() + 1e-300
        self._weights[:, at] = np.linalg.solve(a, self._b[:, at][..., None])[..., 0]

    def _forget(self, slot: int) -> None:
        """Unlearn the features of a period that changed."""
        first = self._lags + len(EMAS) + slot
        for at in range(first, first + PERIODS * PER_PERIOD, PERIODS):
            self._a[:, :, at, :] = 0.0
            self._a[:, :, :, at] = 0.0
            self._b[:, :, at] = 0.0
            self._weights[:, :, at] = 0.0


def _prior(lags: int, size: int) -> Floats:
    """Relative ridge of each feature: a far lag and the last hour matter less (Litterman's prior, 1986)."""
    prior = np.ones(size)
    prior[:lags] = np.arange(1, lags + 1) ** 2
    prior[lags + len(EMAS) :: PERIODS][:PER_PERIOD] = 4.0
    return prior


FORECASTERS: Named = {"autoregression": Autoregression}
