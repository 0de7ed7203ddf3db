"""Autoregression with calendar features, by ridge regression updated at every step."""

from __future__ import annotations

import math

import numpy as np

from ebbflow.core.curve import Floats
from ebbflow.forecasting.experts.expert import Expert
from ebbflow.forecasting.experts.profile import Profile
from ebbflow.forecasting.experts.seasonal_naive import back
from ebbflow.forecasting.grid import GRID, Ints, between
from ebbflow.forecasting.history import DAY_S, History

EMAS = np.array((0.3, 0.1, 0.03))
PERIODS = 4
PER_PERIOD = 3
HARMONICS = 2
OFFSET = 0.02
"""Share of the mean load added before taking the logarithm, so that zeros are allowed."""


class Autoregression(Expert):
    """Ridge regression of the change over h steps on lags, averages, periods and the time of day.

    For each horizon h of ``GRID``: z(t+h) − z(t) = w_h · x_h(t), where z is the load, or its logarithm. x_h holds the
    last values, three exponential averages and the values and profiles of each period at t+h, all minus z(t), and
    harmonics of the time of day. So w = 0 is the last value, and the ridge shrinks towards it. The normal equations
    A = λA + xxᵀ, b = λb + xy are updated at each step; λ = 1 − 1/memory, one row per memory. Targets are clipped at
    ``clip`` times their mean size, which keeps single bursts from ruling the fit. (Hoerl & Kennard 1970; direct
    multi-step forecasts: Hyndman & Athanasopoulos §13.)
    """

    def __init__(
        self,
        step_s: float,
        *,
        lags: int = 8,
        memories: tuple[float, ...] = (1000.0,),
        log: bool = True,
        ridge: float = 1.0,
        clip: float = 4.0,
    ) -> None:
        kind = "log " if log else ""
        self.names = tuple(f"{kind}autoregression {memory:g}" for memory in memories)
        self._step_s, self._lags, self._log, self._ridge, self._clip = step_s, lags, log, ridge, clip
        self._decay = np.array([1.0 - 1.0 / memory for memory in memories])
        size, grid, rows = lags + len(EMAS) + PERIODS * PER_PERIOD + 2 * HARMONICS, len(GRID), len(memories)
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
        ring = int(GRID[-1]) + 1
        self._made = np.zeros((ring, grid, size))
        self._made_from = np.zeros(ring)
        self._made_at = np.full(ring, -1)
        self._turn = 0
        self._profiles = [Profile() for _ in range(PERIODS)]

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
        for slot, (period, profile) in enumerate(zip(followed, self._profiles, strict=True)):
            if profile.follow(period, history.index, z):
                self._forget(slot)
        at = history.index % len(self._made)
        self._made[at] = self._features(history, GRID, z)
        self._made_from[at], self._made_at[at] = value, history.index

    def ahead(self, history: History, horizons: Ints) -> Floats:
        """One row per memory."""
        value = float(history.values[-1])
        z = self._z(value)
        if horizons is GRID:
            features, weights, largest = (
                self._made[history.index % len(self._made)],
                self._weights,
                self._largest,
            )
        else:
            features = self._features(history, horizons, z)
            weights = between(self._weights, horizons, axis=1)
            largest = between(self._largest, horizons)
        change = np.einsum("rhk,hk->rh", weights, features)
        z_ahead = z + np.clip(change, -largest, largest)
        return np.asarray(np.exp(z_ahead) - OFFSET * self._mean if self._log else z_ahead)

    def _z(self, value: float) -> float:
        if not self._log:
            return value
        return math.log(max(value + OFFSET * self._mean, 1e-300))

    def _features(self, history: History, horizons: Ints, z: float) -> Floats:
        count = self._lags + len(EMAS)
        rows = np.zeros((len(horizons), self._made.shape[2]))
        recent = history.values[-self._lags - 1 : -1][::-1]
        before = np.log(recent + OFFSET * self._mean + 1e-300) if self._log else recent
        rows[:, : len(before)] = before - z
        rows[:, self._lags : count] = self._emas - z
        for slot, (period, profile) in enumerate(zip(history.periods.steps, self._profiles, strict=True)):
            if period:
                at = count + slot * PER_PERIOD
                ago = float(history.values[max(0, len(history) - 1 - period)])
                then = back(history, period, horizons)
                rows[:, at] = (np.log(then + OFFSET * self._mean + 1e-300) if self._log else then) - z
                rows[:, at + 1] = self._z(ago) - z
                rows[:, at + 2] = profile.change(history.index, horizons)
        if history.periods.steps[1]:
            angle = 2.0 * math.pi * ((history.index + horizons) * self._step_s % DAY_S) / DAY_S
            at, size = count + PERIODS * PER_PERIOD, self._size[0]
            for k in range(1, HARMONICS + 1):
                rows[:, at], rows[:, at + 1] = size * np.sin(k * angle), size * np.cos(k * angle)
                at += 2
        return rows

    def _learn(self, index: int, z: float) -> None:
        slots = (index - GRID) % len(self._made)
        grid = np.arange(len(GRID))
        valid = self._made_at[slots] == index - GRID
        if not valid.any():
            return
        features = self._made[slots, grid]
        before = self._made_from[slots]
        target = z - (np.log(before + OFFSET * self._mean + 1e-300) if self._log else before)
        size = np.abs(target)
        limit = self._clip * np.where(self._size > 0, self._size, size)
        clipped = np.clip(target, -limit, limit)
        share = np.maximum(0.02, 1.0 / (1.0 + self._samples[0]))
        self._size = np.where(
            valid, self._size + share * (np.minimum(size, 4 * limit) - self._size), self._size
        )
        self._largest = np.where(
            valid, np.maximum(0.9995 * self._largest, np.minimum(size, limit)), self._largest
        )
        decay = np.where(valid, self._decay[:, None], 1.0)
        used = features * valid[:, None]
        self._a *= decay[:, :, None, None]
        self._a += used[:, :, None] * used[:, None, :]
        self._b *= decay[:, :, None]
        self._b += used * clipped[:, None]
        self._samples = self._samples * decay + valid
        self._turn = (self._turn + 1) % (len(GRID) - 1)
        self._fit((0, 1 + self._turn))

    def _fit(self, grid: tuple[int, ...]) -> None:
        """Solve the normal equations of some horizons; the others have their turn later."""
        at = list(grid)
        a = self._a[:, at].copy()
        diagonal = np.einsum("rgkk->rgk", a)
        samples = np.maximum(self._samples[:, at], 1.0)[:, :, None]
        diagonal += (
            self._ridge * diagonal.mean(axis=2, keepdims=True) / samples + 1e-9 * diagonal.max() + 1e-300
        )
        self._weights[:, at] = np.linalg.solve(a, self._b[:, at][..., None])[..., 0]

    def _forget(self, slot: int) -> None:
        """Unlearn the features of a period that changed."""
        at = self._lags + len(EMAS) + slot * PER_PERIOD
        which = slice(at, at + PER_PERIOD)
        self._a[:, :, which, :] = 0.0
        self._a[:, :, :, which] = 0.0
        self._b[:, :, which] = 0.0
        self._weights[:, :, which] = 0.0
        self._made[:, :, which] = 0.0
