"""Loads per minute, the resolution of all forecasters (Elysium §3.2)."""

from __future__ import annotations

from collections import deque

from ebbflow.forecasting.forecast import MINUTE_S, Loads

LONGEST_GAP = 30
"""Gaps up to this many minutes are filled with the last value; after a longer one the history starts again."""
WEEK = 7 * 24 * 60


class MinuteLoads:
    """Collects readings into the mean load of each minute. A reading describes the time before it.

    >>> loads = MinuteLoads()
    >>> for t in range(10, 130, 10):
    ...     loads.add(float(t), 100.0 if t <= 60 else 400.0)
    >>> loads.all()  # (the middle of the readings, their mean)
    [(35.0, 100.0), (95.0, 400.0)]
    """

    def __init__(self, most: int = WEEK) -> None:
        self._done: deque[tuple[float, float]] = deque(maxlen=most)
        self._minute = -1
        self._count = 0
        self._time_s = self._load = 0.0

    def add(self, time_s: float, load: float) -> None:
        """Add a reading; drop it if it is older than the current minute."""
        minute = int((time_s - 1e-6) // MINUTE_S)
        if minute < self._minute:
            return
        if minute > self._minute and self._count:
            self._done.append((self._time_s / self._count, self._load / self._count))
            self._count, self._time_s, self._load = 0, 0.0, 0.0
        self._minute = minute
        self._count += 1
        self._time_s += time_s
        self._load += load

    def all(self) -> list[tuple[float, float]]:
        """Mean loads of all minutes, including the current one."""
        now = [(self._time_s / self._count, self._load / self._count)] if self._count else []
        return [*self._done, *now]


def by_minute(loads: Loads) -> list[tuple[float, float]]:
    """Mean load of each minute, by its start, with gaps filled.

    >>> by_minute([(0.0, 10.0), (30.0, 20.0), (70.0, 40.0), (185.0, 50.0)])
    [(0.0, 15.0), (60.0, 40.0), (120.0, 40.0), (180.0, 50.0)]
    """
    sums: dict[int, tuple[float, int]] = {}
    for time_s, load in loads:
        minute = int(time_s // MINUTE_S)
        total, count = sums.get(minute, (0.0, 0))
        sums[minute] = (total + load, count + 1)
    filled: list[tuple[float, float]] = []
    for minute in sorted(sums):
        mean = sums[minute][0] / sums[minute][1]
        if filled:
            before = int(filled[-1][0] // MINUTE_S)
            if minute - before - 1 > LONGEST_GAP:
                filled.clear()
            else:
                filled += [(k * MINUTE_S, filled[-1][1]) for k in range(before + 1, minute)]
        filled.append((minute * MINUTE_S, mean))
    return filled
