"""The shortest path through a corridor: the funnel algorithm.

Reference: Davies, Kovac, "Local extremes, runs, strings and multiresolution" (Annals of Statistics, 2001).
"""

from __future__ import annotations

import numpy as np

from ebbflow.core.curve import Floats


def taut_string(times_s: Floats, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """Knots of the shortest path through the gates lower ≤ S ≤ upper; first and last gate are points.

    The funnel algorithm: from the last fixed knot (the apex) keep the concave majorant of the lower edge and
    the convex minorant of the upper one. Where a new gate makes them cross, the string is wrapped around the
    first corner of the chain that is in its way, which becomes the apex. Each point enters and leaves each
    chain once: linear in the number of gates.

    >>> times, rows = taut_string(np.arange(4.0), np.array([0.0, 0, 6, 6]), np.array([0.0, 1, 9, 6]))
    >>> times.tolist(), rows.tolist()
    ([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 6.0, 6.0])
    """
    times, lows, highs = times_s.tolist(), lower.tolist(), upper.tolist()
    knots = [(times[0], lows[0])]
    floor, ceiling = _Chain(knots[0], side=1.0), _Chain(knots[0], side=-1.0)
    for time_s, low, high in zip(times[1:], lows[1:], highs[1:], strict=True):
        if ceiling.append(time_s, high):
            floor.wrap(ceiling, time_s, high, knots)
        if floor.append(time_s, low):
            ceiling.wrap(floor, time_s, low, knots)
    knots.append((times[-1], lows[-1]))
    path = np.array(knots)
    return path[:, 0], path[:, 1]


class _Chain:
    """Corners from the apex on, with slopes that fall (side 1, the floor) or rise (side −1, the ceiling)."""

    def __init__(self, apex: tuple[float, float], *, side: float) -> None:
        self._side = side
        self._restart(*apex)

    def _restart(self, time_s: float, rows: float) -> None:
        self._times = [time_s]
        self._rows = [rows]
        self._slopes = [0.0]  # of the line that ends in the corner; the apex has none
        self._head = 0

    def append(self, time_s: float, rows: float) -> bool:
        """Add a gate's edge; True if the chain is now one line from the apex."""
        times, heights, slopes, side = self._times, self._rows, self._slopes, self._side
        last = len(times) - 1
        slope = (rows - heights[last]) / (time_s - times[last])
        while last > self._head and (slope - slopes[last]) * side >= 0.0:
            times.pop(), heights.pop(), slopes.pop()
            last -= 1
            slope = (rows - heights[last]) / (time_s - times[last])
        times.append(time_s)
        heights.append(rows)
        slopes.append(slope)
        return last == self._head

    def wrap(self, other: _Chain, time_s: float, rows: float, knots: list[tuple[float, float]]) -> None:
        """Move the apex along this chain while the line from it to (time, rows) is on its wrong side."""
        head = self._head
        apex_s, apex_rows = self._times[head], self._rows[head]
        slope = (rows - apex_rows) / (time_s - apex_s)
        while head + 1 < len(self._times) and (slope - self._slopes[head + 1]) * self._side < 0.0:
            head += 1
            apex_s, apex_rows = self._times[head], self._rows[head]
            knots.append((apex_s, apex_rows))
            slope = (rows - apex_rows) / (time_s - apex_s)
        if head != self._head:
            self._head = head
            other._restart(apex_s, apex_rows)
            other.append(time_s, rows)
