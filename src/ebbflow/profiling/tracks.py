"""Totals that grow, known only at the times of their readings: what happened between any two times."""

from __future__ import annotations

from bisect import bisect_left, bisect_right


class Track:
    """A running total on straight lines between its readings: rows of an operator, CPU seconds of an instance.

    Rates and CPU are read at different times on Spark (a batch ends when it ends, an agent looks when it looks), so
    windows are cut out of the totals. A batch's rows and its CPU are spread over the same stretch and keep their ratio.

    >>> rows = Track()
    >>> for time_s, new in ((0.0, 7.0), (10.0, 100.0), (30.0, 400.0)):
    ...     rows.add(time_s, new)
    >>> rows.between(5.0, 20.0)  # half of 100, half of 400; the 7 came nobody knows since when
    250.0
    """

    def __init__(self) -> None:
        self._times_s: list[float] = []
        self._totals: list[float] = []

    def add(self, time_s: float, new: float) -> None:
        """So much came since the last reading. The first one only tells since when it is read."""
        if not self._times_s:
            self._times_s, self._totals = [time_s], [0.0]
        elif time_s > self._times_s[-1]:
            self._times_s.append(time_s)
            self._totals.append(self._totals[-1] + new)

    def add_mean(self, time_s: float, mean: float) -> None:
        """It was so much a second since the last reading."""
        self.add(time_s, mean * (time_s - self._times_s[-1]) if self._times_s else 0.0)

    @property
    def first_s(self) -> float | None:
        """Since when it is read."""
        return self._times_s[0] if self._times_s else None

    def covers(self, start_s: float, end_s: float) -> bool:
        """Whether there are readings on both sides of a stretch of time."""
        return bool(self._times_s) and self._times_s[0] <= start_s and self._times_s[-1] >= end_s

    def ended_before(self, time_s: float) -> bool:
        """Whether its last reading was before a time."""
        return bool(self._times_s) and self._times_s[-1] < time_s

    def between(self, start_s: float, end_s: float) -> float:
        """How much came in a stretch that it covers."""
        return self._at(end_s) - self._at(start_s)

    def forget_before(self, time_s: float) -> None:
        """Drop readings that no stretch from there on needs."""
        first = bisect_right(self._times_s, time_s) - 1
        if first > 64:  # not for every window: deleting from the front moves all the rest
            del self._times_s[:first], self._totals[:first]

    def _at(self, time_s: float) -> float:
        after = bisect_left(self._times_s, time_s)
        if after == 0:
            return self._totals[0]
        t0, t1 = self._times_s[after - 1], self._times_s[after]
        y0, y1 = self._totals[after - 1], self._totals[after]
        return y0 + (y1 - y0) * (time_s - t0) / (t1 - t0)


class Level:
    """A count that holds until the next reading says otherwise: instances, nodes.

    >>> instances = Level()
    >>> for time_s, count in ((0.0, 2.0), (10.0, 2.0), (20.0, 3.0)):
    ...     instances.add(time_s, count)
    >>> instances.throughout(0.0, 10.0), instances.throughout(5.0, 15.0)  # at 15 it may have been 3 already
    (2.0, None)
    """

    def __init__(self) -> None:
        self._times_s: list[float] = []
        self._counts: list[float] = []

    def add(self, time_s: float, count: float) -> None:
        """It was so many when it was read."""
        if not self._times_s or time_s > self._times_s[-1]:
            self._times_s.append(time_s)
            self._counts.append(count)

    def throughout(self, start_s: float, end_s: float) -> float | None:
        """The count, if every reading around the stretch says the same; None if it changed or is not known."""
        first = max(0, bisect_right(self._times_s, start_s) - 1)
        last = bisect_left(self._times_s, end_s)
        seen = set(self._counts[first : last + 1])
        return seen.pop() if len(seen) == 1 else None

    def forget_before(self, time_s: float) -> None:
        """Drop readings that no stretch from there on needs."""
        first = bisect_right(self._times_s, time_s) - 1
        if first > 64:
            del self._times_s[:first], self._counts[:first]
