"""The words of the language: ``scale_out(operator("enrich")).by(absolute(1))…``. ``builder`` has its grammar."""

from __future__ import annotations

from types import UnionType
from typing import Any

import msgspec

from ebbflow.errors import PolicyError
from ebbflow.policy.model import EACH_OPERATOR, NODES, AllOf, AnyOf, Condition, Trigger, Unfinished
from ebbflow.policy.quantities import Percent, Quantity, Span, real
from ebbflow.policy.values import Limit, Step

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
