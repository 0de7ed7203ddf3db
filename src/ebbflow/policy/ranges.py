"""In which ways conditions can hold: ranges of values that a policy compares, and which of them exclude each other.

A condition that must hold for a time is about the last reading at least: 1 of 1. With m of n: of the last readings
that both look at, min(n, n'), each needs those of its m that do not fit into the rest. Ranges that do not meet exclude
each other if that is more than there are:

    max(0, m − (n − min)) + max(0, m' − (n' − min)) > min
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from ebbflow.core.metrics import Metric
from ebbflow.policy.fitting import CPU, metric_of
from ebbflow.policy.model import NODES, AllOf, AnyOf, Condition, Trigger
from ebbflow.policy.values import Measure

_MOST_BRANCHES = 256
"""Ways to satisfy a condition that are looked at; one with more is not judged."""


class Compared(NamedTuple):
    """What is compared; of whom is empty for the rule's own."""

    metric: str
    of: str
    measure: Measure


class Range(NamedTuple):
    """Greater than the one, at most the other, in so many of the last readings."""

    low: float
    high: float
    times: int
    of: int

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
        both = min(self.of, other.of)
        return sum(max(0, each.times - (each.of - both)) for each in (self, other)) > both


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
        condition.measure,
    )
    return [{compared: (Range(low, high, times, of),)}]


def _meet(a: Way, b: Way) -> Way | None:
    """Both at once, None if they exclude each other."""
    met = dict(a)
    for key, ranges in b.items():
        there = met.get(key, ())
        if any(one.excludes(other) for one in there for other in ranges):
            return None
        met[key] = tuple(dict.fromkeys((*there, *ranges)))
    return met


def clash(a: Way, b: Way) -> Compared | None:
    """What a load that stands still would make both hold by: something in common, and nothing in common that keeps
    them apart."""
    common = sorted(a.keys() & b.keys(), key=str)
    if any(not one.meets(other) for key in common for one in a[key] for other in b[key]):
        return None
    return common[0] if common else None
