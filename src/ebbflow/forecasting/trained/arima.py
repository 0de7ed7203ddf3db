"""ARIMA by linear regression (Hannan & Rissanen, 1982)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import msgspec
import numpy as np

from ebbflow.core.curve import Floats
from ebbflow.errors import InputError
from ebbflow.forecasting.trained.model import TrainingLoad, at_least

LONG, LONGEST = 20, 80
"""Order of the first autoregression, whose residuals stand in for the shocks: n/500 within these limits. It has to grow
with the series, because shocks that are averaged over (θ near −1) can be seen only in the distant past."""
PART = 2048
WARM_UP = 300
"""Values from which the last shocks are computed; older ones no longer matter in an invertible model."""


class ArimaModel(msgspec.Struct, frozen=True, kw_only=True, tag="arima"):
    """w(t) = c + Σ φ_i·w(t−i) + e(t) + Σ θ_j·e(t−j), where w is √load, differenced ``differences`` times.

    >>> rise = ArimaModel(differences=1, constant=0.0, ar=(0.5,), ma=())
    >>> rise.ahead(np.array([0.0, 64.0]), end_s=120.0, step_s=60.0, steps=3).tolist()  # √: 8, then 8 + 4, + 2, + 1
    [144.0, 196.0, 225.0]
    """

    differences: int
    constant: float
    ar: tuple[float, ...]
    ma: tuple[float, ...]

    @property
    def order(self) -> tuple[int, int, int]:
        """(p, d, q)."""
        return len(self.ar), self.differences, len(self.ma)

    @property
    def needs(self) -> int:
        """Values for the lags, and for the recursion of the shocks."""
        return WARM_UP + len(self.ar) + self.differences

    def ahead(self, recent: Floats, end_s: float, step_s: float, steps: int) -> Floats:
        """The next steps: past shocks by the recursion, future ones 0."""
        del end_s, step_s
        p, d, q = self.order
        tail = np.sqrt(at_least(recent[-self.needs :], p + d + 1))
        w: list[float] = np.diff(tail, d).tolist()
        known = len(w)
        shocks = [0.0] * max(p, q)
        for now in range(p, known + steps):
            expected = self.constant
            for lag in range(p):
                expected += self.ar[lag] * w[now - 1 - lag]
            for lag in range(q):
                expected += self.ma[lag] * shocks[-1 - lag]
            if now < known:
                shocks.append(w[now] - expected)
            else:
                w.append(expected)
                shocks.append(0.0)
        ahead = np.asarray(w[known:])
        for order in range(d, 0, -1):
            ahead = np.diff(tail, order - 1)[-1] + np.cumsum(ahead)
        return np.asarray(np.maximum(ahead, 0.0) ** 2)


class Arima(msgspec.Struct, frozen=True, kw_only=True, tag="arima"):
    """Fits ARIMA(p, d, q) in two regressions (Hannan & Rissanen, Biometrika 69, 1982).

    It works on √load: the variance of counts grows with their mean, that of their roots does not (Bartlett 1936).
    The residuals of a long autoregression estimate the shocks e. Then w is regressed on p lags of its own and q of
    e. The orders are those with the least n·ln σ² + k·ln n (Schwarz), among the models that neither grow without
    bound (roots of φ) nor depend ever more on the distant past (roots of θ).
    """

    ar: tuple[int, ...] = (1, 2, 3, 5)
    differences: tuple[int, ...] = (0, 1)
    ma: tuple[int, ...] = (0, 1, 2)

    def __post_init__(self) -> None:
        if not self.ar or not self.differences or not self.ma:
            raise InputError("ARIMA needs at least one order each of p, d and q")
        if min(self.ar) < 1 or min(self.differences) < 0 or min(self.ma) < 0:
            raise InputError("the orders of ARIMA must be p ≥ 1, d ≥ 0 and q ≥ 0")

    @property
    def least_steps(self) -> int:
        """Enough for the long autoregression."""
        return 4 * LONG

    def fit(self, series: TrainingLoad) -> ArimaModel:
        """The best orders and their coefficients."""
        return _best(series, [(p, d, q) for d in self.differences for p in self.ar for q in self.ma])

    def refit(self, series: TrainingLoad, model: ArimaModel) -> ArimaModel:
        """The coefficients for the orders of ``model``."""
        return _best(series, [model.order])


def _best(series: TrainingLoad, orders: list[tuple[int, int, int]]) -> ArimaModel:
    values = np.sqrt(series.values)
    # Relative to the mean, so that the small numbers below are small for every load.
    unit = float(values.mean()) if len(values) else 0.0
    unit = unit if unit > 0 else 1.0
    best: tuple[float, ArimaModel] | None = None
    for differences in sorted({d for _, d, _ in orders}):
        w = np.diff(values / unit, differences)
        if len(w) < 3 * LONG:
            raise InputError(f"ARIMA needs at least {4 * LONG} steps, but got {len(values)}")
        regression = _Regression(w, max(p for p, _, _ in orders), max(q for _, _, q in orders))
        for p, d, q in orders:
            if d != differences:
                continue
            constant, ar, ma, variance = regression.fit(p, q, constant=d == 0)
            if not (_dies_away(ar) and _dies_away(-ma)):
                continue
            parameters = p + q + (d == 0)
            count = regression.count
            score = count * math.log(max(variance, 1e-12)) + parameters * math.log(count)
            if best is None or score < best[0]:
                model = ArimaModel(
                    differences=d, constant=constant * unit, ar=tuple(ar.tolist()), ma=tuple(ma.tolist())
                )
                best = score, model
    if best is None:
        raise InputError(f"no stable ARIMA model fits these {len(values)} steps")
    return best[1]


class _Regression:
    """Regressions of a series on its lags and on those of its shocks, for all orders from one table of products."""

    def __init__(self, w: Floats, most_ar: int, most_ma: int) -> None:
        self._most_ar = most_ar
        order = min(max(LONG, len(w) // 500), LONGEST)
        shocks = _shocks(w, order)
        first = order + max(most_ar, most_ma)
        columns = [np.ones(len(w) - first)]
        columns += [w[first - lag : len(w) - lag] for lag in range(1, most_ar + 1)]
        columns += [shocks[first - lag : len(w) - lag] for lag in range(1, most_ma + 1)]
        table = np.stack([*columns, w[first:]], axis=1)
        self.count = len(table)
        self._products = table.T @ table

    def fit(self, p: int, q: int, *, constant: bool) -> tuple[float, Floats, Floats, float]:
        """c, φ, θ and the variance of what is left."""
        after = 1 + self._most_ar
        used = [0] * constant + list(range(1, p + 1)) + list(range(after, after + q))
        square, right = self._products[np.ix_(used, used)], self._products[used, -1]
        found = _solve(square, right)
        variance = float(self._products[-1, -1] - 2 * found @ right + found @ square @ found) / self.count
        rest = found[1:] if constant else found
        return float(found[0]) if constant else 0.0, rest[:p], rest[p:], variance


def _shocks(w: Floats, order: int) -> Floats:
    """Residuals of the long autoregression; 0 for the first steps."""
    mean = float(w.mean())
    rows = np.lib.stride_tricks.sliding_window_view(w - mean, order + 1)
    # In parts: the whole table would take 30 MB for a month of minutes.
    parts = [rows[start : start + PART] for start in range(0, len(rows), PART)]
    products = np.sum([part.T @ part for part in parts], axis=0)
    found = _solve(products[:-1, :-1], products[:-1, -1])
    left = [part[:, -1] - part[:, :-1] @ found for part in parts]
    return np.concatenate((np.zeros(order), *left))


def _solve(square: Floats, right: Floats) -> Floats:
    """Least squares with a trace of ridge, so that a constant or exactly periodic series has a solution."""
    ridge = 1e-9 * float(np.trace(square)) / len(square) + 1e-12
    return np.asarray(np.linalg.solve(square + ridge * np.eye(len(square)), right))


def _dies_away(coefficients: Floats) -> bool:
    """Whether w(t) = Σ a_i·w(t−i) does."""
    if not len(coefficients):
        return True
    companion = np.diag(np.ones(len(coefficients) - 1), -1)
    companion[0] = coefficients
    return bool(np.abs(np.linalg.eigvals(companion)).max() < 0.9999)


METHODS: Mapping[str, Callable[[int], Arima]] = {"arima": lambda _seed: Arima()}
