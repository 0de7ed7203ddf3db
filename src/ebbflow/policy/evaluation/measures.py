"""Statistics of the latest readings, at a cost per reading that does not depend on how many there are.

Every reading enters a queue once and leaves it once, and sums are updated with it. Sums of floats drift, so they are
recomputed whenever as many readings have left as remain: amortised O(1), and as exact as a fresh sum. Comparing a
percentile needs no sorting: the p-th percentile is at or below x exactly when enough readings are, which is a
count. Its value is only computed for people, in O(n log n).

A reading that arrives slightly late (of another node) counts at its own time; one older than the window is dropped.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque

from ebbflow.core.duration import format_duration
from ebbflow.policy.evaluation.ahead import ConditionForecast
from ebbflow.policy.evaluation.line import RunningLine
from ebbflow.policy.model import Trigger
from ebbflow.policy.values import MeasureKind


class RunningMeasure(ABC):
    """Takes readings, oldest first, and compares a statistic of them with a threshold."""

    def __init__(self, limit: float, is_above: bool) -> None:
        self._limit, self._is_above = limit, is_above
        self.compared: float | None = None
        """The value compared last; None for a percentile, which is compared without being computed."""
        self.since_s = math.inf
        """The oldest reading it depends on."""
        self.basis = ""
        """What a forecast is based on, for people; empty for other measures."""

    @abstractmethod
    def add(self, time_s: float, value: float) -> bool | None:
        """Whether it is now past the threshold; None while there are too few readings."""

    def value(self) -> float | None:
        """The statistic, for people."""
        return self.compared

    def nearness(self) -> float:
        """The distance to the threshold covered so far, 0 to 1, in O(1).

        >>> queue = Each(300.0, is_above=True)
        >>> queue.add(0.0, 150.0), queue.nearness()
        (False, 0.5)
        """
        if self.compared is None:
            return 0.0
        near, far = (self.compared, self._limit) if self._is_above else (self._limit, self.compared)
        return min(1.0, max(0.0, near / far)) if far > 0 else 0.0

    def clear(self) -> None:
        """Forget all readings."""
        self.compared = None

    def _past(self, value: float) -> bool:
        """Above is strict, below includes equality."""
        return (value > self._limit) is self._is_above


def running_measure(trigger: Trigger, forecast: ConditionForecast | None = None) -> RunningMeasure:
    """The measure that a trigger compares. ``forecast``: that of the load, if it is about a load's future."""
    limit, is_above, measure = trigger.threshold.base, trigger.is_above, trigger.measure
    span_s = measure.span.seconds if measure.span is not None else 0.0
    if measure.kind is MeasureKind.MEAN:
        return Mean(limit, is_above, span_s)
    if measure.kind is MeasureKind.PERCENTILE:
        return Percentile(limit, is_above, span_s, measure.percentile)
    if measure.kind is MeasureKind.RATE:
        return Trend(limit, is_above, span_s, ahead_s=None)
    if forecast is not None:
        return Ahead(limit, is_above, forecast)
    if measure.kind is MeasureKind.FORECAST:
        return Trend(limit, is_above, span_s, ahead_s=span_s)
    return Each(limit, is_above)


class Each(RunningMeasure):
    """The readings themselves."""

    def add(self, time_s: float, value: float) -> bool:
        """Whether the reading is past the threshold."""
        self.since_s = time_s
        self.compared = value
        return (value > self._limit) is self._is_above


class _Sliding(RunningMeasure):
    """The readings of the last ``span_s`` seconds; nothing is compared until they span that time."""

    def __init__(self, limit: float, is_above: bool, span_s: float) -> None:
        super().__init__(limit, is_above)
        self._span_s = span_s
        self._points: deque[tuple[float, float]] = deque()
        self._first_s = self._newest_s = math.inf
        self._departed = 0

    def _full(self) -> bool:
        """Whether readings span the time, with a tolerance of 0.01 s for the jitter of clocks."""
        return self._newest_s - self._first_s >= self._span_s - 0.01

    def clear(self) -> None:
        """Forget all readings."""
        super().clear()
        self._points.clear()
        self.since_s = math.inf
        self._first_s = self._newest_s = math.inf
        self._departed = 0
        self._recount()

    @abstractmethod
    def _recount(self) -> None:
        """Compute the sums of the window anew."""

    def _shift(self, time_s: float, value: float) -> list[tuple[float, float]] | None:
        """Add a reading and return those that left the window; None if the reading itself is too old."""
        points = self._points
        if not points:
            self._first_s = self._newest_s = time_s
        elif time_s > self._newest_s:
            self._newest_s = time_s
        horizon_s = self._newest_s - self._span_s - 0.01
        if time_s < horizon_s:
            return None
        points.append((time_s, value))
        left: list[tuple[float, float]] = []
        while points[0][0] < horizon_s:
            left.append(points.popleft())
        self._departed += len(left)
        self.since_s = points[0][0]
        return left

    def _due(self) -> bool:
        """Whether enough readings have left that sums must be recomputed."""
        if self._departed <= len(self._points):
            return False
        self._departed = 0
        return True


class Mean(_Sliding):
    """Σ v / n.

    >>> mean = Mean(10.0, True, 2.0)
    >>> [mean.add(float(t), v) for t, v in enumerate([30.0, 0.0, 0.0, 31.0])]
    [None, None, False, True]
    """

    def __init__(self, limit: float, is_above: bool, span_s: float) -> None:
        super().__init__(limit, is_above, span_s)
        self._sum = 0.0

    def _recount(self) -> None:
        self._sum = math.fsum(v for _, v in self._points)

    def add(self, time_s: float, value: float) -> bool | None:
        """Whether the mean is past the threshold."""
        left = self._shift(time_s, value)
        if left is None:
            return None
        self._sum += value
        for _, old in left:
            self._sum -= old
        if self._due():
            self._recount()
        self.compared = self._sum / len(self._points)
        return self._past(self.compared) if self._full() else None


class Percentile(_Sliding):
    """Nearest rank: the k-th smallest of n, k = ⌈p·n/100⌉. It is above x when fewer than k are at or below x.

    >>> outlier = [5.0, 5.0, 900.0, 5.0, 5.0]
    >>> p80 = Percentile(300.0, True, 4.0, 80.0)
    >>> [p80.add(float(t), v) for t, v in enumerate(outlier)][-1], p80.value()
    (False, 5.0)
    """

    def __init__(self, limit: float, is_above: bool, span_s: float, percent: float) -> None:
        super().__init__(limit, is_above, span_s)
        self._percent = percent
        self._at_or_below = 0

    def _rank(self) -> int:
        return max(1, math.ceil(self._percent * len(self._points) / 100 - 1e-9))

    def _recount(self) -> None:
        self._at_or_below = sum(v <= self._limit for _, v in self._points)

    def add(self, time_s: float, value: float) -> bool | None:
        """Whether the percentile is past the threshold; None while there are too few readings."""
        left = self._shift(time_s, value)
        if left is None:
            return None
        self._at_or_below += value <= self._limit
        for _, old in left:
            self._at_or_below -= old <= self._limit
        if not self._full():
            return None
        return (self._at_or_below < self._rank()) is self._is_above

    def value(self) -> float | None:
        """The percentile."""
        return sorted(v for _, v in self._points)[self._rank() - 1] if self._points else None

    def nearness(self) -> float:
        """The share of the readings needed past the threshold that are: k at or below it, or n − k + 1 above.

        >>> p80 = Percentile(300.0, True, 4.0, 80.0)
        >>> _ = [p80.add(float(t), v) for t, v in enumerate([5.0, 5.0, 900.0, 5.0, 5.0])]
        >>> p80.nearness()  # k = 4, so two of five must be above
        0.5
        """
        if not self._points:
            return 0.0
        count, rank = len(self._points), self._rank()
        if self._is_above:
            return min(1.0, (count - self._at_or_below) / (count - rank + 1))
        return min(1.0, self._at_or_below / rank)


class Trend(_Sliding):
    """The least-squares line (``policy.evaluation.line``): its slope, or its value ``ahead_s`` from now.

    >>> rise = Trend(1.5, True, 3.0, ahead_s=None)
    >>> [rise.add(float(t), 2.0 * t) for t in range(4)], rise.value()
    ([None, None, None, True], 2.0)
    >>> soon = Trend(12.0, True, 3.0, ahead_s=4.0)
    >>> [soon.add(float(t), 2.0 * t) for t in range(4)], soon.value()
    ([None, None, None, True], 14.0)
    """

    def __init__(self, limit: float, is_above: bool, span_s: float, *, ahead_s: float | None) -> None:
        super().__init__(limit, is_above, span_s)
        self._ahead_s = ahead_s
        self._line = RunningLine()
        if ahead_s is not None:
            self.basis = f"line through the last {format_duration(span_s)}"

    def _recount(self) -> None:
        self._line.restart(self._points)

    def add(self, time_s: float, value: float) -> bool | None:
        """Whether the slope or the forecast is past the threshold; None while there are too few readings."""
        left = self._shift(time_s, value)
        if left is None:
            return None
        self._line.count(time_s, value)
        for old_s, old in left:
            self._line.count(old_s, old, -1)
        if self._due():
            self._recount()
        ahead_s = self._ahead_s
        found = self._line.slope_per_s() if ahead_s is None else self._line.at(self._newest_s + ahead_s)
        self.compared = found
        return None if found is None or not self._full() else self._past(found)


class Ahead(RunningMeasure):
    """The forecast of a load (``ahead``), compared once readings span the time ahead.

    ``clear`` asks for that again and keeps what the forecaster has learned: it bridges gaps itself, and needs days to
    find out what recurs every day.

    >>> soon = Ahead(12.0, True, ConditionForecast(20.0))
    >>> [soon.add(float(t), 30.0) for t in range(22)][18:], soon.value(), soon.basis[:10]
    ([None, None, True, True], 30.0, 'last value')
    """

    def __init__(self, limit: float, is_above: bool, forecast: ConditionForecast) -> None:
        super().__init__(limit, is_above)
        self._forecast = forecast
        self._first_s = math.inf
        self._previous_s = self._newest_s = -math.inf

    def clear(self) -> None:
        """Compare nothing until readings span the time again."""
        super().clear()
        self._first_s = self.since_s = math.inf

    def add(self, time_s: float, value: float) -> bool | None:
        """Whether the forecast is past the threshold; None while there are too few readings."""
        self._forecast.add(time_s, value)
        if time_s > self._newest_s:
            self._previous_s, self._newest_s = self._newest_s, time_s
        self._first_s = min(self._first_s, time_s)
        ahead_s, expected = self._forecast.ahead_s, self._forecast.expected
        self.since_s = max(self._first_s, self._newest_s - ahead_s)
        spanned = self._newest_s - self._first_s >= ahead_s - 0.01
        if expected is None or not spanned or self._newest_s - self._previous_s > ahead_s + 0.01:
            return None
        self.compared, self.basis = expected.value, expected.basis
        return self._past(expected.value)
