"""The arrival rate to size for, and how fast it surely rises."""

from __future__ import annotations

from ebbflow.core.readings import Window

MOST_GROWTH = 3.0
"""A rise is not believed beyond this many times the rate."""


class Rates:
    """The recent arrival rates of a query or pipeline.

    >>> rates = Rates(window_s=30.0)
    >>> for t in (0.0, 10.0, 20.0):
    ...     rates.add(t, 100.0 + t)
    >>> rates.level, rates.rise_per_s(ahead_s=60.0)
    (120.0, 1.0)
    """

    def __init__(self, *, window_s: float) -> None:
        self._window = Window(span_s=window_s)
        self.level = 0.0
        """The higher of the last rate and the mean of the last three: a fall is believed when it has happened."""

    def add(self, time_s: float, rate_per_s: float) -> None:
        """Take in a rate."""
        self._window.add(time_s, rate_per_s)
        points = self._window.points
        recent = [points[k][1] for k in range(-min(3, len(points)), 0)]
        self.level = max(recent[-1], sum(recent) / len(recent))

    @property
    def last_time_s(self) -> float | None:
        """When the newest rate was read."""
        return self._window.last_time_s

    def rise_per_s(self, ahead_s: float) -> float:
        """The slope less its standard error; in the seconds ahead to no more than three times the rate."""
        return min(self._window.rise_per_s(), (MOST_GROWTH - 1.0) * self.level / ahead_s)
