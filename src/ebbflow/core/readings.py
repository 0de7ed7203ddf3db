"""Readings, and windows of recent ones."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from ebbflow.core.metrics import Metric


class Reading(msgspec.Struct, frozen=True, gc=False):
    """One value of one metric of one subject at one time."""

    time_s: float
    subject: str
    metric: Metric
    value: float


class Series(NamedTuple):
    """A subject and one of its metrics. In a subscription, the subject may be a pattern such as ``executor-*``."""

    subject: str
    metric: Metric


class Window:
    """Readings of one series over the last ``span_s`` seconds, oldest first.

    A reading older than the newest one is dropped.

    >>> window = Window(span_s=10.0)
    >>> for t in range(5):
    ...     window.add(float(t), 2.0 * t)
    >>> window.last, window.mean(), window.slope_per_s()
    (8.0, 4.0, 2.0)
    >>> window.add(100.0, 1.0)
    >>> len(window)
    1
    """

    def __init__(self, span_s: float) -> None:
        self.span_s = span_s
        self.points: deque[tuple[float, float]] = deque()

    def add(self, time_s: float, value: float) -> None:
        """Append a reading and drop those older than the span."""
        points = self.points
        if points and time_s < points[-1][0]:
            return
        points.append((time_s, value))
        horizon_s = time_s - self.span_s
        while points[0][0] < horizon_s:
            points.popleft()

    def __len__(self) -> int:
        return len(self.points)

    def __iter__(self) -> Iterator[tuple[float, float]]:
        return iter(self.points)

    def values(self) -> list[float]:
        """The values, oldest first."""
        return [value for _, value in self.points]

    @property
    def last(self) -> float | None:
        """The newest value; None if there is none."""
        return self.points[-1][1] if self.points else None

    @property
    def last_time_s(self) -> float | None:
        """Time of the newest value."""
        return self.points[-1][0] if self.points else None

    def since(self, time_s: float) -> list[tuple[float, float]]:
        """Readings at or after a time."""
        points = self.points
        if len(points) > 1 and points[-2][0] < time_s <= points[-1][0]:
            return [points[-1]]  # fast path for polling once per cycle
        recent = []
        for point in reversed(points):  # polling must not walk the whole span
            if point[0] < time_s:
                break
            recent.append(point)
        recent.reverse()
        return recent

    def after(self, time_s: float) -> list[tuple[float, float]]:
        """Readings after a time."""
        points = self.points
        if len(points) > 1 and points[-2][0] <= time_s < points[-1][0]:
            return [points[-1]]  # fast path for polling once per cycle
        recent = []
        for point in reversed(points):
            if point[0] <= time_s:
                break
            recent.append(point)
        recent.reverse()
        return recent

    def mean(self) -> float | None:
        """Mean of the values."""
        return sum(v for _, v in self.points) / len(self.points) if self.points else None

    def maximum(self) -> float | None:
        """Largest of the values."""
        return max((v for _, v in self.points), default=None)

    def slope_per_s(self) -> float:
        """Least-squares slope; 0 without two distinct times."""
        return slope_per_s(self.points)[0]

    def rise_per_s(self) -> float:
        """A cautious estimate of the rise: slope minus its standard error, at least 0."""
        slope, error = slope_per_s(self.points)
        return max(0.0, slope - error)


def slope_per_s(points: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """Least-squares slope of (time, value) points and its standard error.

    slope = Σ(t−t̄)(v−v̄) / Σ(t−t̄)²,  error = √(Σ residual² / (n−2) / Σ(t−t̄)²); 0 for fewer than three points

    >>> slope_per_s([(0.0, 1.0), (2.0, 5.0)])
    (2.0, 0.0)
    >>> slope_per_s([(0.0, 0.0), (1.0, 3.0), (2.0, 2.0)])  # doctest: +ELLIPSIS
    (1.0, 1.15...)
    """
    pairs = list(points)
    count = len(pairs)
    if count < 2:
        return 0.0, 0.0
    sum_t = sum_v = 0.0
    for t, v in pairs:
        sum_t += t
        sum_v += v
    mean_t, mean_v = sum_t / count, sum_v / count
    spread = product = squares = 0.0
    for t, v in pairs:
        t -= mean_t
        v -= mean_v
        spread += t * t
        product += t * v
        squares += v * v
    if spread <= 0:
        return 0.0, 0.0
    slope = product / spread
    if count == 2:
        return slope, 0.0
    residual = max(0.0, squares - slope * product)
    return slope, math.sqrt(residual / (count - 2) / spread)


class Windows:
    """All windows, by series. The loop fills them and strategies read them."""

    def __init__(self, span_s: float = 600.0) -> None:
        self._span_s = span_s
        self._by_series: dict[tuple[str, Metric], Window] = {}

    def add(self, readings: Iterable[Reading]) -> None:
        """Add readings to their windows."""
        by_series, span_s = self._by_series, self._span_s
        for reading in readings:
            time_s = reading.time_s
            try:
                points = by_series[reading.subject, reading.metric].points
            except KeyError:
                window = by_series[reading.subject, reading.metric] = Window(span_s)
                window.add(time_s, reading.value)
                continue
            # Window.add, inlined: a simulated day has millions of readings, and calls would take a third of it.
            if time_s >= points[-1][0]:
                points.append((time_s, reading.value))
                horizon_s = time_s - span_s
                while points[0][0] < horizon_s:
                    points.popleft()

    def of(self, subject: str, metric: Metric) -> Window:
        """The window of a series; an empty one if it has no readings."""
        window = self._by_series.get((subject, metric))
        return Window(self._span_s) if window is None else window

    def series(self) -> Iterator[tuple[str, Metric]]:
        """All series with a window."""
        return iter(self._by_series)

    def forget_before(self, time_s: float) -> None:
        """Drop series without readings since ``time_s``, such as those of removed nodes."""
        silent = [k for k, w in self._by_series.items() if not w.points or w.points[-1][0] < time_s]
        for key in silent:
            del self._by_series[key]

    def __len__(self) -> int:
        return len(self._by_series)
