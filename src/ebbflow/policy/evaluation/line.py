"""A least-squares line through readings."""

from __future__ import annotations

import math
from collections.abc import Iterable


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
