"""The words of the language: ``scale_out(operator("enrich")).by(absolute(1))…``. ``builder`` has its grammar."""

from __future__ import annotations

from collections.abc import Callable
from types import UnionType
from typing import Any, Generic, TypeVar

import msgspec

from ebbflow.errors import PolicyError
from ebbflow.policy.model import EACH_OPERATOR, NODES, AllOf, AnyOf, Condition, Trigger, Unfinished
from ebbflow.policy.quantities import Percent, Quantity, Span, real
from ebbflow.policy.values import Limit, Measure, MeasureKind, Often, Step

# -- wrong ones --------------------------------------------------------------------------------------


def fitting(said: str, value: Any, kinds: type | UnionType, right: str) -> Any:
    """The value, if it is of a kind that fits where it was said; else ``PolicyError`` with what would be right.

    >>> fitting("by", 1, Step, "by(absolute(1))")
    Traceback (most recent call last):
    ...
    ebbflow.errors.PolicyError: by(1) does not fit; write it like by(absolute(1))
    """
    if isinstance(value, kinds) and not isinstance(value, bool):  # an int to Python, not to people
        return value
    if isinstance(value, Unfinished):
        raise PolicyError(f"{said}(…): the sentence in it is not finished; go on with {value.missing}")
    raise PolicyError(f"{said}({value!r}) does not fit; write it like {right}")


def _number(said: str, value: Any) -> float:
    return real(fitting(said, value, int | float, f"{said}(5)"))


# -- what is scaled ----------------------------------------------------------------------------------


class Scaled(msgspec.Struct, frozen=True):
    """What a rule scales."""

    operator: str


def operator(name: str) -> Scaled:
    """One operator of the pipeline."""
    fitting("operator", name, str, 'operator("enrich")')
    if not name.strip() or name == EACH_OPERATOR:
        raise PolicyError(f"'{name}' names no operator; for each of them write all_operators()")
    return Scaled(name)


def all_operators() -> Scaled:
    """Each operator of the pipeline, by its own readings."""
    return Scaled(EACH_OPERATOR)


def cluster() -> Scaled:
    """The nodes of the cluster."""
    return Scaled(NODES)


# -- by how much, up to where ------------------------------------------------------------------------


def absolute(count: int) -> Step:
    """Add or take so many."""
    return Step("absolute", _number("absolute", count))


def relative(factor: float) -> Step:
    """Multiply, or divide, the current size."""
    return Step("relative", _number("relative", factor))


def nodes(count: int) -> Limit:
    """So many: instances of an operator, or nodes."""
    return Limit(_number("nodes", count))


def times_original(factor: float) -> Limit:
    """So many times the size at the start."""
    return Limit(_number("times_original", factor), relative=True)


# -- values ------------------------------------------------------------------------------------------


class Threshold(msgspec.Struct, frozen=True):
    """Above or below something."""

    value: Quantity
    is_above: bool


def above(value: Quantity | Span) -> Threshold:
    """Strictly greater."""
    return Threshold(_quantity("above", value), True)


def below(value: Quantity | Span) -> Threshold:
    """Less or equal."""
    return Threshold(_quantity("below", value), False)


def _quantity(said: str, value: Quantity | Span) -> Quantity:
    fitting(said, value, Quantity | Span, f"{said}(tuples(300)) or {said}(percent(80))")
    return Quantity(value.seconds, "s") if isinstance(value, Span) else value


def tuples(count: float) -> Quantity:
    """Rows."""
    return Quantity(_number("tuples", count), "tuples")


rows = tuples


def count(number: float) -> Quantity:
    """A plain number: of nodes, instances, tasks."""
    return Quantity(_number("count", number), "")


def percent(share: float) -> Percent:
    """Of a metric that is a share; as a step, of the current size."""
    return Percent(_number("percent", share), "%")


def bytes_(size: float) -> Quantity:
    """Bytes."""
    return Quantity(_number("bytes_", size), "B")


def kilobytes(size: float) -> Quantity:
    """1024 bytes each."""
    return Quantity(_number("kilobytes", size), "KB")


def megabytes(size: float) -> Quantity:
    """1024 · 1024 bytes each, as Spark counts."""
    return Quantity(_number("megabytes", size), "MB")


def gigabytes(size: float) -> Quantity:
    """1024 megabytes each."""
    return Quantity(_number("gigabytes", size), "GB")


def per_second(value: Quantity | Span) -> Quantity:
    """For rates, and for rates of change."""
    return _per(value, "s")


def per_minute(value: Quantity | Span) -> Quantity:
    """For rates, and for rates of change."""
    return _per(value, "min")


def _per(value: Quantity | Span, time: str) -> Quantity:
    found = _quantity("per_second" if time == "s" else "per_minute", value)
    if found.per:
        raise PolicyError(f"{found} is a rate already")
    return Quantity(found.amount, found.unit, time)


def milliseconds(time: float) -> Span:
    """A time, or a value of a metric that is one."""
    return Span.of_seconds(_number("milliseconds", time) / 1000)


def seconds(time: float) -> Span:
    """A time, or a value of a metric that is one."""
    return Span.of_seconds(_number("seconds", time))


def minutes(time: float) -> Span:
    """A time, or a value of a metric that is one."""
    return Span.of_seconds(60 * _number("minutes", time))


def hours(time: float) -> Span:
    """A time, or a value of a metric that is one."""
    return Span.of_seconds(3600 * _number("hours", time))


# -- conditions together -----------------------------------------------------------------------------


def all_of(*conditions: Condition) -> AllOf:
    """All must hold."""
    return AllOf(all_of=tuple(condition("all_of", each) for each in conditions))


def any_of(*conditions: Condition) -> AnyOf:
    """One must hold."""
    return AnyOf(any_of=tuple(condition("any_of", each) for each in conditions))


def condition(said: str, value: Any) -> Condition:
    """A whole condition."""
    right = f'{said}(metric("cpu").is_(above(percent(80))).for_at_least(seconds(30)))'
    found: Condition = fitting(said, value, Trigger | AllOf | AnyOf, right)
    return found


# The grammar of conditions: a metric, what of it, past which threshold, how long. ``builder`` has that of rules.


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
