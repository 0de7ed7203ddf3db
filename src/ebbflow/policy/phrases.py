"""The grammar of conditions: a metric, what of it, past which threshold, how long. ``builder`` has that of rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ebbflow.policy.model import Trigger, Unfinished
from ebbflow.policy.quantities import Span
from ebbflow.policy.values import Measure, MeasureKind, Often
from ebbflow.policy.words import Threshold, fitting

T = TypeVar("T")


class _Phrase(Unfinished, Generic[T]):
    """What is known of a trigger so far, and what becomes of it when it is complete."""

    def __init__(self, known: dict[str, Any], finish: Callable[[Trigger], T]) -> None:
        self._known, self._finish = known, finish

    def _end(self, **more: Any) -> T:
        return self._finish(Trigger(**self._known, **more))


class Lasting(_Phrase[T]):
    """A metric past a threshold: for how long, or how often?"""

    missing = ".for_at_least(…) or .in_at_least(…)"

    def for_at_least(self, time: Span) -> T:
        """Every reading of that time, and readings that span it."""
        return self._end(for_at_least=span_of("for_at_least", time))

    def in_at_least(self, times: int, *, of: int) -> T:
        """So many of the last readings: one outlier neither fires nor blocks."""
        for number in (times, of):
            fitting("in_at_least", number, int, "in_at_least(4, of=5)")
        return self._end(in_at_least=Often(times, of))


class Measured(_Phrase[T]):
    """Something made of the last readings: past which threshold?"""

    missing = ".is_(…)"

    def is_(self, threshold: Threshold, *, for_at_least: Span | None = None) -> T:
        """Above or below."""
        if for_at_least is not None:
            span_of("for_at_least", for_at_least)
        return self._end(**_side("is_", threshold), for_at_least=for_at_least)


class Metric(_Phrase[T]):
    """A metric: what of it, past which threshold?"""

    missing = ".is_(…), .mean_over(…), .percentile(…), .rate_of_change_over(…) or .is_forecast_to_be(…)"

    def of(self, name: str) -> Metric[T]:
        """Of another operator, query or node than the rule's own."""
        return Metric({**self._known, "of": fitting("of", name, str, 'of("store")')}, self._finish)

    def mean_over(self, time: Span) -> Measured[T]:
        """The mean of the readings of the last time."""
        return self._measured(Measure(MeasureKind.MEAN, span_of("mean_over", time)))

    def percentile(self, percent: float, *, over: Span) -> Measured[T]:
        """The value that so many percent of the readings do not exceed (nearest rank)."""
        fitting("percentile", percent, int | float, "percentile(95, over=minutes(5))")
        return self._measured(Measure(MeasureKind.PERCENTILE, span_of("over", over), float(percent)))

    def rate_of_change_over(self, time: Span) -> Measured[T]:
        """The slope of the least-squares line."""
        return self._measured(Measure(MeasureKind.RATE, span_of("rate_of_change_over", time)))

    def is_forecast_to_be(self, threshold: Threshold, *, ahead: Span, for_at_least: Span | None = None) -> T:
        """Where the line through the last readings, as long ago as ``ahead``, will be."""
        measure = Measure(MeasureKind.FORECAST, span_of("ahead", ahead))
        if for_at_least is not None:
            span_of("for_at_least", for_at_least)
        return self._end(**_side("is_forecast_to_be", threshold), measure=measure, for_at_least=for_at_least)

    def is_(self, threshold: Threshold) -> Lasting[T]:
        """Above or below."""
        return Lasting({**self._known, **_side("is_", threshold)}, self._finish)

    def _measured(self, measure: Measure) -> Measured[T]:
        return Measured({**self._known, "measure": measure}, self._finish)


def metric(key: str) -> Metric[Trigger]:
    """A metric by its key in the catalogue (``ebbflow metrics``), or ``cpu``."""
    return Metric({"metric": fitting("metric", key, str, 'metric("cpu")')}, lambda trigger: trigger)


def span_of(said: str, time: Span) -> Span:
    """The time, if it is one."""
    found: Span = fitting(said, time, Span, f"{said}(seconds(30))")
    return found


def _side(said: str, threshold: Threshold) -> dict[str, Any]:
    fitting(said, threshold, Threshold, f"{said}(above(tuples(300)))")
    return {"above" if threshold.is_above else "below": threshold.value}
