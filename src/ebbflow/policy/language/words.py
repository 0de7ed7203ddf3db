"""The words of the language: what to scale, by how much, thresholds and units. ``builder`` has the grammar."""

from __future__ import annotations

from types import UnionType
from typing import Any

import msgspec

from ebbflow.errors import PolicyError
from ebbflow.policy.model import EACH_OPERATOR, NODES, Incomplete
from ebbflow.policy.values import Limit, Percent, Quantity, Span, StepSize, to_float


def expect(word: str, value: Any, kinds: type | UnionType, example: str) -> Any:
    """The argument of a word if it has the right type; otherwise ``PolicyError`` with an example.

    >>> expect("by", 1, StepSize, "by(absolute(1))")
    Traceback (most recent call last):
    ...
    ebbflow.errors.PolicyError: invalid argument in by(1); write, for example, by(absolute(1))
    """
    if isinstance(value, kinds) and not isinstance(value, bool):
        return value
    if isinstance(value, Incomplete):
        raise PolicyError(f"{word}(…) contains an incomplete phrase; continue it with {value.continuation}")
    raise PolicyError(f"invalid argument in {word}({value!r}); write, for example, {example}")


def expect_span(word: str, value: Span) -> Span:
    """The argument if it is a duration."""
    found: Span = expect(word, value, Span, f"{word}(seconds(30))")
    return found


def _number(word: str, value: Any) -> float:
    return to_float(expect(word, value, int | float, f"{word}(5)"))


# -- what to scale -------------------------------------------------------------------------------------


class Scalable(msgspec.Struct, frozen=True):
    """Something that rules can scale: an operator, each operator, or the nodes."""

    operator: str


def operator(name: str) -> Scalable:
    """One operator of the pipeline."""
    expect("operator", name, str, 'operator("enrich")')
    if not name.strip() or name == EACH_OPERATOR:
        raise PolicyError(
            f"'{name}' is not the name of an operator; to scale each of them, write all_operators()"
        )
    return Scalable(name)


def all_operators() -> Scalable:
    """Each operator of the pipeline, by its own readings."""
    return Scalable(EACH_OPERATOR)


def cluster() -> Scalable:
    """The nodes of the cluster."""
    return Scalable(NODES)


# -- steps and limits ----------------------------------------------------------------------------------


def absolute(count: int) -> StepSize:
    """Add or remove this many."""
    return StepSize("absolute", _number("absolute", count))


def relative(factor: float) -> StepSize:
    """Multiply or divide the current size."""
    return StepSize("relative", _number("relative", factor))


def nodes(count: int) -> Limit:
    """A size: instances of an operator, or nodes."""
    return Limit(_number("nodes", count))


def times_original(factor: float) -> Limit:
    """A multiple of the size at the start."""
    return Limit(_number("times_original", factor), relative=True)


# -- thresholds ----------------------------------------------------------------------------------------


class Threshold(msgspec.Struct, frozen=True):
    """A value, and the side of it on which a condition holds."""

    value: Quantity
    is_above: bool


def above(value: Quantity | Span) -> Threshold:
    """Greater than."""
    return Threshold(_quantity("above", value), True)


def below(value: Quantity | Span) -> Threshold:
    """Less than or equal to."""
    return Threshold(_quantity("below", value), False)


def _quantity(word: str, value: Quantity | Span) -> Quantity:
    expect(word, value, Quantity | Span, f"{word}(rows(300)) or {word}(percent(80))")
    return Quantity(value.seconds, "s") if isinstance(value, Span) else value


# -- units ---------------------------------------------------------------------------------------------


def rows(count: float) -> Quantity:
    """Rows; ``tuples`` is the word of the Rules thesis."""
    return Quantity(_number("rows", count), "rows")


tuples = rows


def count(number: float) -> Quantity:
    """A plain number: of nodes, instances or tasks."""
    return Quantity(_number("count", number), "")


def percent(share: float) -> Percent:
    """Percent of a metric that is a share; as a step, of the current size."""
    return Percent(_number("percent", share), "%")


def bytes_(size: float) -> Quantity:
    """Bytes."""
    return Quantity(_number("bytes_", size), "B")


def kilobytes(size: float) -> Quantity:
    """Units of 1024 bytes."""
    return Quantity(_number("kilobytes", size), "KB")


def megabytes(size: float) -> Quantity:
    """Units of 1024 · 1024 bytes, as in Spark."""
    return Quantity(_number("megabytes", size), "MB")


def gigabytes(size: float) -> Quantity:
    """Units of 1024 megabytes."""
    return Quantity(_number("gigabytes", size), "GB")


def per_second(value: Quantity | Span) -> Quantity:
    """A rate, or a rate of change, per second."""
    return _per(value, "s")


def per_minute(value: Quantity | Span) -> Quantity:
    """A rate, or a rate of change, per minute."""
    return _per(value, "min")


def _per(value: Quantity | Span, time: str) -> Quantity:
    found = _quantity("per_second" if time == "s" else "per_minute", value)
    if found.per:
        raise PolicyError(f"{found} is already a rate; remove per_second or per_minute")
    return Quantity(found.amount, found.unit, time)


def milliseconds(time: float) -> Span:
    """A duration, or the value of a metric in seconds."""
    return Span.of_seconds(_number("milliseconds", time) / 1000)


def seconds(time: float) -> Span:
    """A duration, or the value of a metric in seconds."""
    return Span.of_seconds(_number("seconds", time))


def minutes(time: float) -> Span:
    """A duration, or the value of a metric in seconds."""
    return Span.of_seconds(60 * _number("minutes", time))


def hours(time: float) -> Span:
    """A duration, or the value of a metric in seconds."""
    return Span.of_seconds(3600 * _number("hours", time))
