"""The words of the language: ``scale_out(operator("enrich")).by(absolute(1))…``. ``builder`` has its grammar."""

from __future__ import annotations

import msgspec

from ebbflow.errors import PolicyError
from ebbflow.policy.model import EACH_OPERATOR, NODES, AllOf, AnyOf, Condition
from ebbflow.policy.quantities import Percent, Quantity, Span
from ebbflow.policy.values import Limit, Step

# -- what is scaled ----------------------------------------------------------------------------------


class Scaled(msgspec.Struct, frozen=True):
    """What a rule scales."""

    operator: str


def operator(name: str) -> Scaled:
    """One operator of the pipeline."""
    if not name or name == EACH_OPERATOR:
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
    return Step("absolute", float(count))


def relative(factor: float) -> Step:
    """Multiply, or divide, the current size."""
    return Step("relative", float(factor))


def nodes(count: int) -> Limit:
    """So many: instances of an operator, or nodes."""
    return Limit(float(count))


def times_original(factor: float) -> Limit:
    """So many times the size at the start."""
    return Limit(float(factor), relative=True)


# -- values ------------------------------------------------------------------------------------------


class Threshold(msgspec.Struct, frozen=True):
    """Above or below something."""

    value: Quantity
    is_above: bool


def above(value: Quantity | Span) -> Threshold:
    """Strictly greater."""
    return Threshold(_quantity(value), True)


def below(value: Quantity | Span) -> Threshold:
    """Less or equal."""
    return Threshold(_quantity(value), False)


def _quantity(value: Quantity | Span) -> Quantity:
    return Quantity(value.seconds, "s") if isinstance(value, Span) else value


def tuples(count: float) -> Quantity:
    """Rows."""
    return Quantity(float(count), "tuples")


rows = tuples


def count(number: float) -> Quantity:
    """A plain number: of nodes, instances, tasks."""
    return Quantity(float(number), "")


def percent(share: float) -> Percent:
    """Of a metric that is a share; as a step, of the current size."""
    return Percent(float(share), "%")


def bytes_(size: float) -> Quantity:
    """Bytes."""
    return Quantity(float(size), "B")


def kilobytes(size: float) -> Quantity:
    """1024 bytes each."""
    return Quantity(float(size), "KB")


def megabytes(size: float) -> Quantity:
    """1024 · 1024 bytes each, as Spark counts."""
    return Quantity(float(size), "MB")


def gigabytes(size: float) -> Quantity:
    """1024 megabytes each."""
    return Quantity(float(size), "GB")


def per_second(value: Quantity | Span) -> Quantity:
    """For rates, and for rates of change."""
    return _per(value, "s")


def per_minute(value: Quantity | Span) -> Quantity:
    """For rates, and for rates of change."""
    return _per(value, "min")


def _per(value: Quantity | Span, time: str) -> Quantity:
    found = _quantity(value)
    if found.per:
        raise PolicyError(f"{found} is a rate already")
    return Quantity(found.amount, found.unit, time)


def milliseconds(time: float) -> Span:
    """A time, or a value of a metric that is one."""
    return Span.of_seconds(time / 1000)


def seconds(time: float) -> Span:
    """A time, or a value of a metric that is one."""
    return Span.of_seconds(time)


def minutes(time: float) -> Span:
    """A time, or a value of a metric that is one."""
    return Span.of_seconds(60 * time)


def hours(time: float) -> Span:
    """A time, or a value of a metric that is one."""
    return Span.of_seconds(3600 * time)


# -- conditions together -----------------------------------------------------------------------------


def all_of(*conditions: Condition) -> AllOf:
    """All must hold."""
    return AllOf(all_of=conditions)


def any_of(*conditions: Condition) -> AnyOf:
    """One must hold."""
    return AnyOf(any_of=conditions)
