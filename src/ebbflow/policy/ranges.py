"""In which ways conditions can hold: ranges of values that a policy compares, and which of them exclude each other.

A condition that must hold for a time is about the last reading at least: 1 of 1. With m of n: of the last readings
that both look at, min(n, n'), each needs those of its m that do not fit into the rest. Ranges that do not meet exclude
each other if that is more than there are:

    max(0, m − (n − min)) + max(0, m' − (n' − min)) > min

Different measures of a metric: where every reading of a time is in a range, a mean or a percentile over no more than
that time is in it too. And where a load stands still, a reading, its mean, its percentiles and its forecast are
one value, and the rate of change is 0: two rules that both hold there fight.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ebbflow.core.metrics import Metric
from ebbflow.policy.fitting import CPU, metric_of
from ebbflow.policy.model import NODES, AllOf, AnyOf, Condition, Trigger
from ebbflow.policy.values import Measure, MeasureKind

_MOST_BRANCHES = 256
"""Ways to satisfy a condition that are looked at; one with more is not judged."""


class Compared(NamedTuple):
    """What is compared; of whom is empty for the rule's own."""

    metric: str
    of: str


class Range(NamedTuple):
    """A measure greater than the one, at most the other, in so many of the last readings, for so long."""

    low: float
    high: float
    times: int = 1
    of: int = 1
    measure: Measure = Measure()
    lasts_s: float = 0.0

    @property
    def is_rate(self) -> bool:
        """Whether it is about how fast a value changes, not about the value."""
        return self.measure.kind is MeasureKind.RATE

    def meets(self, other: Range) -> bool:
        """Whether one value is in both.

        >>> Range(100, math.inf, 4, 5).meets(Range(-math.inf, 300, 4, 5))
        True
        """
        return max(self.low, other.low) < min(self.high, other.high)

    def excludes(self, other: Range) -> bool:
        """Whether both can never hold together.

        >>> high, low = Range(300, math.inf, 3, 5), Range(-math.inf, 100, 3, 5)
        >>> high.excludes(low), high.excludes(low._replace(times=2))
        (True, False)
        """
        if self.meets(other):
            return False
        if self.measure != other.measure:
            return self._decides(other) or other._decides(self)
        both = min(self.of, other.of)
        return sum(max(0, each.times - (each.of - both)) for each in (self, other)) > both

    def _decides(self, other: Range) -> bool:
        """Whether every reading that the other was made of last is in this range.

        >>> minute = Measure.parse("mean over 1m")
        >>> [Range(300, math.inf, lasts_s=s)._decides(Range(-math.inf, 100, measure=minute)) for s in (59, 60)]
        [False, True]
        """
        made_of_readings = other.measure.kind in (MeasureKind.MEAN, MeasureKind.PERCENTILE)
        if self.measure.kind is not MeasureKind.EACH or not made_of_readings or other.times < other.of:
            return False
        assert other.measure.span is not None
        return self.lasts_s >= other.measure.span.seconds


Way = dict[Compared, tuple[Range, ...]]
"""One way to satisfy conditions: all of these ranges."""


def resolved(trigger: Trigger, operator: str) -> Metric | None:
    """The metric a trigger compares in a rule on an operator or on nodes; None if its name alone does not tell."""
    if trigger.metric != CPU:
        return metric_of(trigger.metric)
    if trigger.of and trigger.of != operator:
        return None  # an operator, or a node
    return Metric.NODE_CPU if operator == NODES else Metric.INSTANCE_CPU


def ways(
    conditions: tuple[Condition, ...], operator: str, only: Mapping[int, int] | None = None
) -> list[Way] | None:
    """The ways in which all conditions of a rule on an operator can hold together: an empty list if there is none,
    None if they are too many to look at. ``only``: of an any-of (by its id) no other part than this one."""
    found: list[Way] = [{}]
    for condition in conditions:
        own = _ways(condition, operator, only or {})
        if own is None or len(found) * len(own) > _MOST_BRANCHES:
            return None
        found = [both for a in found for b in own if (both := _meet(a, b)) is not None]
    return found


def _ways(condition: Condition, operator: str, only: Mapping[int, int]) -> list[Way] | None:
    if isinstance(condition, AllOf):
        return ways(condition.all_of, operator, only)
    if isinstance(condition, AnyOf):
        found: list[Way] = []
        for index, part in enumerate(condition.any_of):
            if only.get(id(condition), index) != index:
                continue
            own = _ways(part, operator, only)
            if own is None:
                return None
            found += own
        return found
    limit, often = condition.threshold.base, condition.in_at_least
    low, high = (limit, math.inf) if condition.is_above else (-math.inf, limit)
    times, of = (often.times, often.of) if often is not None else (1, 1)
    metric = resolved(condition, operator)
    compared = Compared(
        metric.key if metric is not None else condition.metric,
        "" if condition.of == operator else condition.of,
    )
    lasts_s = condition.for_at_least.seconds if condition.for_at_least is not None else 0.0
    return [{compared: (Range(low, high, times, of, condition.measure, lasts_s),)}]


def _meet(a: Way, b: Way) -> Way | None:
    """Both at once, None if they exclude each other."""
    met = dict(a)
    for key, ranges in b.items():
        there = met.get(key, ())
        if any(one.excludes(other) for one in there for other in ranges):
            return None
        met[key] = tuple(dict.fromkeys((*there, *ranges)))
    return met


def clash(a: Way, b: Way) -> str | None:
    """Where both hold at once although nothing moves; None if nothing in common tells, or something keeps them apart.

    Rates of change are compared with rates, because a load that stands still can make a queue grow at one; and
    with values where they are 0.

    >>> above_300, level = Range(300, math.inf), Range(-math.inf, 1, measure=Measure.parse("rate of change over 1m"))
    >>> clash({Compared("backlog", ""): (above_300,)}, {Compared("backlog", ""): (level,)})
    'backlog stands still past the threshold'
    """
    common = sorted(a.keys() & b.keys())
    for key in common:
        for rates in (False, True):
            together = [each for each in (*a[key], *b[key]) if each.is_rate is rates]
            if any(not one.meets(other) for one, other in itertools.combinations(together, 2)):
                return None
    for key in common:
        if {each.is_rate for each in a[key]} & {each.is_rate for each in b[key]}:
            return f"{_named(key)} is past both thresholds"
    all_level = all(each.low < 0 <= each.high for way in (a, b) for each in _rates(way))
    return f"{_named(common[0])} stands still past the threshold" if common and all_level else None


def _rates(way: Way) -> Iterator[Range]:
    return (each for ranges in way.values() for each in ranges if each.is_rate)


def _named(compared: Compared) -> str:
    return f"{compared.metric} of {compared.of}" if compared.of else compared.metric
