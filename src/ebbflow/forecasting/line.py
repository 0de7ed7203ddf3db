"""Forecasts by a least-squares line."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ebbflow.errors import InputError
from ebbflow.forecasting.forecast import HORIZON_MINUTES, MINUTE_S, Loads


class RunningLine:
    """A least-squares line to which points can be added and from which they can be removed, in O(1) each.

        slope = (nΣtv − ΣtΣv) / (nΣt² − (Σt)²),      at(t) = Σv/n + slope · (t − Σt/n)

    Times count from ``origin_s``, so that they stay small. Sums of floats drift; ``restart`` recomputes them.

    >>> line = RunningLine()
    >>> line.restart([(100.0, 1.0), (101.0, 3.0), (102.0, 5.0)])
    >>> line.slope_per_s(), line.at(104.0)
    (2.0, 9.0)
    >>> line.count(100.0, 1.0, -1)
    >>> round(line.at(104.0), 9)
    9.0
    """

    def __init__(self) -> None:
        self.origin_s = 0.0
        self._n = 0
        self._t = self._v = self._tt = self._tv = 0.0

    def restart(self, points: Iterable[tuple[float, float]]) -> None:
        """Start with these points."""
        pairs = list(points)
        self._n = len(pairs)
        self.origin_s = pairs[0][0] if pairs else 0.0
        times = [t - self.origin_s for t, _ in pairs]
        self._t, self._v = math.fsum(times), math.fsum([v for _, v in pairs])
        self._tt = math.fsum([t * t for t in times])
        self._tv = math.fsum([t * v for t, (_, v) in zip(times, pairs, strict=True)])

    def count(self, time_s: float, value: float, sign: int = 1) -> None:
        """Add a point, or remove it with ``sign=-1``."""
        if not self._n:
            self.origin_s = time_s
        t = time_s - self.origin_s
        self._n += sign
        self._t += sign * t
        self._v += sign * value
        self._tt += sign * t * t
        self._tv += sign * t * value

    def slope_per_s(self) -> float | None:
        """The slope; None without two distinct times."""
        n = self._n
        spread = n * self._tt - self._t * self._t
        if n < 2 or spread <= 1e-9 * n * n:
            return None
        return (n * self._tv - self._t * self._v) / spread

    def at(self, time_s: float) -> float | None:
        """Value of the line at a time; None without two distinct times."""
        slope = self.slope_per_s()
        if slope is None:
            return None
        return self._v / self._n + slope * (time_s - self.origin_s - self._t / self._n)


MOST_GROWTH = 3.0
"""Forecasts are capped at this many times the highest load of the span."""


class Naive:
    """Continues the line through the last minutes; never below 0. Policies use it for ``is forecast to be``.

    >>> rising = [(60.0 * k, 100.0 + 10.0 * k) for k in range(6)]
    >>> [round(load) for load in Naive().predict(rising, now_s=300.0)]
    [160, 170, 180, 190, 200]
    >>> Naive().predict([(0.0, 70.0)], now_s=10.0)
    [70.0, 70.0, 70.0, 70.0, 70.0]
    """

    basis = "the line through the last minutes"

    def __init__(self, *, span_s: float = 5 * MINUTE_S, horizon: int = HORIZON_MINUTES) -> None:
        """``span_s``: how far back the line is fitted."""
        if not span_s > 0 or horizon < 1:
            raise InputError(f"a line through {span_s:g} s for {horizon} minutes; both must be above 0")
        self._span_s, self._horizon = span_s, horizon

    def predict(self, loads: Loads, now_s: float) -> list[float]:
        """Value of the line at the end of each of the next minutes."""
        recent = [point for point in loads if point[0] >= now_s - self._span_s] or list(loads[-1:])
        if not recent:
            return []
        line = RunningLine()
        line.restart(recent)
        most = MOST_GROWTH * max(load for _, load in recent)
        ahead = []
        for minute in range(1, self._horizon + 1):
            load = line.at(now_s + minute * MINUTE_S)
            ahead.append(recent[-1][1] if load is None else min(max(load, 0.0), most))
        return ahead
