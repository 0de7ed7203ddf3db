"""Curves: a quantity over time, such as rows that arrived, rows processed, or nodes held."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Curve:
    """Points (time, value), times ascending.

    >>> arrived = Curve.of([(0.0, 0.0), (10.0, 100.0)])
    >>> float(arrived.interpolated(5.0)), float(arrived.time_of(25.0))
    (50.0, 2.5)
    >>> Curve.of([(0.0, 1.0), (10.0, 3.0)]).integral(0.0, 20.0)  # as steps: 1·10 + 3·10
    40.0
    """

    times_s: Floats
    values: Floats

    @classmethod
    def of(cls, points: Iterable[tuple[float, float]]) -> Curve:
        """From (time, value) pairs."""
        pairs = np.asarray(list(points), dtype=np.float64).reshape(-1, 2)
        return cls(pairs[:, 0], pairs[:, 1])

    def __len__(self) -> int:
        return len(self.times_s)

    def interpolated(self, time_s: float | Floats) -> Floats:
        """Value at a time, on straight lines between the points."""
        return np.asarray(np.interp(time_s, self.times_s, self.values))

    def stepped(self, time_s: float | Floats) -> Floats:
        """Value at a time, each point's value held until the next."""
        index = np.searchsorted(self.times_s, time_s, side="right") - 1
        return np.asarray(np.where(index >= 0, self.values[np.maximum(index, 0)], 0.0))

    def time_of(self, value: float | Floats) -> Floats:
        """First time at which a non-decreasing curve reached a value, on straight lines."""
        return np.asarray(np.interp(value, self.values, self.times_s))

    def minus(self, other: Curve) -> Curve:
        """The difference to another curve, both interpolated linearly.

        >>> left = Curve.of([(0.0, 0.0), (10.0, 100.0)]).minus(Curve.of([(0.0, 0.0), (5.0, 20.0)]))
        >>> left.times_s.tolist(), left.values.tolist()
        ([0.0, 5.0, 10.0], [0.0, 30.0, 80.0])
        """
        times_s = np.union1d(self.times_s, other.times_s)
        return Curve(times_s, self.interpolated(times_s) - other.interpolated(times_s))

    def integral(self, start_s: float, end_s: float) -> float:
        """Value × seconds between two times, each point's value held until the next."""
        inside = self.times_s[(self.times_s > start_s) & (self.times_s < end_s)]
        edges = np.concatenate(([start_s], inside, [end_s]))
        return float(np.sum(self.stepped(edges[:-1]) * np.diff(edges)))


def count_over_time(lives: Iterable[tuple[float, float]]) -> Curve:
    """How many intervals [start, end) cover each moment, as steps.

    >>> curve = count_over_time([(0.0, 10.0), (5.0, math.inf)])
    >>> curve.times_s.tolist(), curve.values.tolist()
    ([0.0, 5.0, 10.0], [1.0, 2.0, 1.0])
    """
    events = [event for start, end in lives for event in ((start, 1.0), (end, -1.0)) if event[0] < math.inf]
    if not events:
        return Curve.of([(0.0, 0.0)])
    pairs = np.asarray(events)
    times_s, where = np.unique(pairs[:, 0], return_inverse=True)
    counts: Floats = np.cumsum(np.bincount(where, weights=pairs[:, 1])).astype(np.float64)
    changed = np.concatenate(([True], np.diff(counts) != 0))
    return Curve(times_s[changed], counts[changed])


def sum_of_steps(curves: Sequence[Curve]) -> Curve:
    """The sum of curves that are steps.

    >>> both = sum_of_steps([Curve.of([(0.0, 1.0), (5.0, 2.0)]), Curve.of([(0.0, 3.0), (9.0, 1.0)])])
    >>> both.times_s.tolist(), both.values.tolist()
    ([0.0, 5.0, 9.0], [4.0, 5.0, 3.0])
    """
    if len(curves) == 1:
        return curves[0]
    times_s = np.unique(np.concatenate([curve.times_s for curve in curves]))
    return Curve(times_s, np.sum([curve.stepped(times_s) for curve in curves], axis=0))
