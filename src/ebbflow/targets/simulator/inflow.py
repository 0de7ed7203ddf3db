"""The rows that have arrived, looked up fast: what both engines ask at every step."""

from __future__ import annotations

import math
from bisect import bisect_left

import numpy as np
import numpy.typing as npt

from ebbflow.core.curve import Curve, Floats
from ebbflow.workloads.arrivals import Arrivals

_CHUNK_S = 4096


class Inflow:
    """Arrivals in whole rows at whole seconds, evenly in between; second 0 of the load is time 0.

    rows_by(t) = R(s) + ⌊(R(s+1) − R(s)) · (t − s)⌋ with s = ⌊t⌋ and R of :class:`Arrivals`. That is
    never more than what ``Arrivals`` says has come, so no row is seen before its time.

    >>> from ebbflow.workloads import parse_load
    >>> inflow = Inflow(Arrivals(parse_load("constant(4)")))
    >>> inflow.rows_by(2.5), inflow.arrival_s(9)
    (10, 2.5)
    """

    def __init__(self, arrivals: Arrivals) -> None:
        self.arrivals = arrivals
        self._rows: list[int] = [0]
        self._array: npt.NDArray[np.int64] = np.zeros(1, dtype=np.int64)

    def rows_by(self, time_s: float) -> int:
        """Rows that have arrived by a time."""
        if time_s <= 0:
            return 0
        second = int(time_s)
        rows = self._rows
        if second + 1 >= len(rows):
            self._follow(second + 1)
        low = rows[second]
        # a hair more, so that the time of a row's arrival already counts it
        return low + int((rows[second + 1] - low) * (time_s - second) + 1e-7)

    def rows_by_second(self, second: int) -> int:
        """``rows_by`` of a whole second, not below 0."""
        if second + 1 >= len(self._rows):
            self._follow(second + 1)
        return self._rows[second]

    def rows_by_seconds(self, first: int, count: int) -> npt.NDArray[np.int64]:
        """``rows_by`` of some whole seconds one after the other, not below 0."""
        self._follow(first + count)
        return self._array[first : first + count]

    def rows_by_each(self, times_s: Floats) -> npt.NDArray[np.int64]:
        """``rows_by`` of many times, ascending and not below 0: the same arithmetic on arrays."""
        seconds = times_s.astype(np.int64)
        last = int(seconds[-1]) if len(seconds) else 0
        self._follow(last + 1)
        low = self._array[seconds]
        return np.asarray(
            low + ((self._array[seconds + 1] - low) * (times_s - seconds) + 1e-7).astype(np.int64)
        )

    def arrival_s(self, row: int) -> float:
        """When row ``row`` (counted from 0) arrived; infinite if it has not by the last second looked at."""
        rows = self._rows
        index = bisect_left(rows, row + 1)
        if index == len(rows):
            return math.inf
        low = rows[index - 1]
        return index - 1 + (row + 1 - low) / (rows[index] - low)

    def curve(self, until_s: float) -> Curve:
        """Rows arrived, cumulative, at every second up to a time."""
        times_s: Floats = np.append(np.arange(math.ceil(until_s), dtype=np.float64), until_s)
        self._follow(math.ceil(until_s) + 1)
        values = np.asarray(self._rows[: len(times_s)], dtype=np.float64)
        values[-1] = self.rows_by(until_s)
        return Curve(times_s, values)

    def _follow(self, second: int) -> None:
        rows = self._rows
        while len(rows) <= second:
            ahead = max(_CHUNK_S, len(rows) // 8)  # so that a long run does not copy the array too often
            more = self.arrivals.rows_by_each(np.arange(len(rows), len(rows) + ahead, dtype=np.float64))
            rows += more.tolist()
            self._array = np.concatenate((self._array, more))
