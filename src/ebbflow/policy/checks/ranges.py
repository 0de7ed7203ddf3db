"""The ways in which conditions can hold: ranges of compared values, and which of them exclude each other.

A condition that must hold for a duration is at least about the last reading: 1 of 1. With m of n, consider the readings
that both conditions cover, min(n, n'). Each needs those of its m that do not fit into the rest. Disjoint ranges exclude
each other if together they need more readings than there are:

    max(0, m − (n − min)) + max(0, m' − (n' − min)) > min

Different measures of one metric: if every reading of a duration is in a range, so is a mean or percentile over at most
that duration. If every mean over s is in a range, so is a mean over a longer S, except for the first s. Of two
percentiles over the same duration the higher is never less. Under a constant load a reading, its mean, its percentiles
and its forecast are equal and the rate of change is 0: two opposed rules that both hold there conflict.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ebbflow.core.metrics import Metric
from ebbflow.policy.model import CPU, NODES, AllOf, AnyOf, Condition, Trigger, metric_of
from ebbflow.policy.values import Measure, MeasureKind

_MAX_WAYS = 256
"""Ways to satisfy a rule that are enumerated; a rule with more is not checked."""


class Compared(NamedTuple):
    """A compared series; ``of`` is empty for the rule's own operator or nodes."""

    metric: str
    of: str


class Interval(NamedTuple):
    """A measure above ``low`` and at most ``high``, in ``times`` of the last ``of`` readings, for ``lasts_s``."""

    low: float
    high: float
    times: int = 1
    of: int = 1
    measure: Measure = Measure()
    lasts_s: float = 0.0

    @property
    def is_rate(self) -> bool:
        """Whether it is about the rate of change, not the value."""
        return self.measure.kind is MeasureKind.RATE

    def overlaps(self, other: Interval) -> bool:
        """Whether some value is in both.

        >>> Interval(100, math.inf, 4, 5).overlaps(Interval(-math.inf, 300, 4, 5))
        True
        """
        return max(self.low, other.low) < min(self.high, other.high)

    def excludes(self, other: Interval) -> bool:
        """Whether both can never hold at once.

        >>> high, low = Interval(300, math.inf, 3, 5), Interval(-math.inf, 100, 3, 5)
        >>> high.excludes(low), high.excludes(low._replace(times=2))
        (True, False)
        """
        if self.overlaps(other):
            return False
        if self.measure != other.measure and not self._is_out_of_order(other):
            return self._determines(other) or other._determines(self)
        both = min(self.of, other.of)
        return sum(max(0, each.times - (each.of - both)) for each in (self, other)) > both

    def _is_out_of_order(self, other: Interval) -> bool:
        """Whether these are percentiles of the same readings of which the higher would have to be smaller.

        >>> p50, p95 = (Measure.parse(f"p{p} over 5m") for p in (50, 95))
        >>> Interval(300, math.inf, measure=p50).excludes(Interval(-math.inf, 100, measure=p95))
        True
        >>> Interval(300, math.inf, measure=p95).excludes(Interval(-math.inf, 100, measure=p50))
        False
        """
        kinds, spans = {self.measure.kind, other.measure.kind}, {self.measure.span, other.measure.span}
        if kinds != {MeasureKind.PERCENTILE} or len(spans) > 1:
            return False
        lower, higher = sorted((self, other), key=lambda each: each.measure.percentile)
        return higher.high <= lower.low

    def _determines(self, other: Interval) -> bool:
        """Whether all readings of the other measure are in this range, or in means that are.

        >>> minute = Measure.parse("mean over 1m")
        >>> [Interval(300, math.inf, lasts_s=s)._determines(Interval(-math.inf, 100, measure=minute)) for s in (59, 60)]
        [False, True]
        >>> means = Interval(300, math.inf, measure=minute, lasts_s=600)
        >>> [means._determines(Interval(-math.inf, most, measure=Measure.parse("mean over 5m"))) for most in (240, 241)]
        [True, False]
        """
        is_statistic = other.measure.kind in (MeasureKind.MEAN, MeasureKind.PERCENTILE)
        if not is_statistic or other.times < other.of:
            return False
        assert other.measure.span is not None
        span_s = other.measure.span.seconds
        if self.measure.kind is MeasureKind.EACH:
            return self.lasts_s >= span_s
        if {self.measure.kind, other.measure.kind} != {MeasureKind.MEAN} or self.lasts_s < span_s:
            return False
        assert self.measure.span is not None
        cut = self.measure.span.seconds / span_s  # the part of the other span that the first mean may miss
        if self.low >= other.high:
            return self.low * (1 - cut) >= other.high
        return self.high * (1 + cut) <= other.low


Way = dict[Compared, tuple[Interval, ...]]
"""One way to satisfy conditions: all of these ranges hold."""


SAME_SERIES = {Metric.OPERATOR_QUEUE: Metric.QUEUE_LENGTH}
"""Two names of the series that a rule on an operator reads. On Spark ``backlog`` is a third one if the query has a read
limit and another series if not; a policy does not say which, so ``backlog`` is compared with itself only."""


def resolved(trigger: Trigger, operator: str) -> Metric | None:
    """The metric that a trigger compares in a rule on an operator or on nodes; None if the name is ambiguous."""
    if trigger.metric != CPU:
        return metric_of(trigger.metric)
    if trigger.of and trigger.of != operator:
        return None  # an operator or a node
    return Metric.NODE_CPU if operator == NODES else Metric.INSTANCE_CPU


def ways(conditions: tuple[Condition, ...], operator: str) -> list[Way] | None:
    """The ways in which all conditions of a rule can hold at once; None if there are too many to enumerate."""
    return _all_of(conditions, operator, {})


def can_hold(conditions: tuple[Condition, ...], operator: str, only: Mapping[int, int]) -> bool:
    """Whether there is any such way. ``only`` selects one part of an any-of, given by its id."""
    choices = [_ways(condition, operator, only) for condition in _flat(conditions)]

    def fits(index: int, so_far: Way) -> bool:
        if index == len(choices):
            return True
        own = choices[index]
        return own is None or any(
            (both := _combine(so_far, each)) is not None and fits(index + 1, both) for each in own
        )

    return fits(0, {})


def _flat(conditions: tuple[Condition, ...]) -> Iterator[Condition]:
    for condition in conditions:
        if isinstance(condition, AllOf):
            yield from _flat(condition.all_of)
        else:
            yield condition


def _all_of(conditions: tuple[Condition, ...], operator: str, only: Mapping[int, int]) -> list[Way] | None:
    found: list[Way] = [{}]
    for condition in conditions:
        own = _ways(condition, operator, only)
        if own is None or len(found) * len(own) > _MAX_WAYS:
            return None
        found = [both for a in found for b in own if (both := _combine(a, b)) is not None]
    return found


def _ways(condition: Condition, operator: str, only: Mapping[int, int]) -> list[Way] | None:
    if isinstance(condition, AllOf):
        return _all_of(condition.all_of, operator, only)
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
    metric = SAME_SERIES.get(metric, metric) if metric is not None else None
    compared = Compared(
        metric.key if metric is not None else condition.metric,
        "" if condition.of == operator else condition.of,
    )
    lasts_s = condition.for_at_least.seconds if condition.for_at_least is not None else 0.0
    return [{compared: (Interval(low, high, times, of, condition.measure, lasts_s),)}]


def _combine(a: Way, b: Way) -> Way | None:
    """Both ways at once; None if they exclude each other."""
    combined = dict(a)
    for key, ranges in b.items():
        own = combined.get(key, ())
        if any(one.excludes(other) for one in own for other in ranges):
            return None
        combined[key] = tuple(dict.fromkeys((*own, *ranges)))
    return combined


class SteadyRange(NamedTuple):
    """What a way requires of one series under a constant load: above ``low`` and at most ``high``, and the same for
    its rate of change."""

    low: float
    high: float
    rate_low: float
    rate_high: float

    @property
    def has_value(self) -> bool:
        """Whether it restricts the value."""
        return self.low > -math.inf or self.high < math.inf

    @property
    def has_rate(self) -> bool:
        """Whether it restricts the rate of change."""
        return self.rate_low > -math.inf or self.rate_high < math.inf


def steady(way: Way) -> dict[Compared, SteadyRange] | None:
    """What a way requires under a constant load; None if no constant load satisfies it."""
    found = {}
    for key, ranges in way.items():
        values, rates = [r for r in ranges if not r.is_rate], [r for r in ranges if r.is_rate]
        found[key] = SteadyRange(*_intersection(values), *_intersection(rates))
        if found[key].low >= found[key].high or found[key].rate_low >= found[key].rate_high:
            return None
    return found


def _intersection(ranges: list[Interval]) -> tuple[float, float]:
    low = max((each.low for each in ranges), default=-math.inf)
    return low, min((each.high for each in ranges), default=math.inf)


def both_hold(a: Mapping[Compared, SteadyRange], b: Mapping[Compared, SteadyRange]) -> str | None:
    """When both ways hold under a constant load; None if they have no series in common or exclude each other.

    Rates of change are compared with rates, because a queue can grow at a constant rate under a constant load, and
    with values where the rate is 0.

    >>> rate = Measure.parse("rate of change over 1m")
    >>> above_300, level = Interval(300, math.inf), Interval(-math.inf, 1, measure=rate)
    >>> high, calm = (steady({Compared("backlog", ""): (each,)}) for each in (above_300, level))
    >>> both_hold(high or {}, calm or {})
    'backlog is constant and past the threshold'
    """
    common = []
    for key, (low, high, rate_low, rate_high) in a.items():
        other = b.get(key)
        if other is not None:
            if low >= other[1] or other[0] >= high or rate_low >= other[3] or other[2] >= rate_high:
                return None
            common.append(key)
    if not common:
        return None
    for key in sorted(common):
        one, other = a[key], b[key]
        if (one.has_value and other.has_value) or (one.has_rate and other.has_rate):
            return f"{_named(key)} is past both thresholds"
    all_level = all(each.rate_low < 0 <= each.rate_high for way in (a, b) for each in way.values())
    return f"{_named(min(common))} is constant and past the threshold" if all_level else None


def _named(compared: Compared) -> str:
    return f"{compared.metric} of {compared.of}" if compared.of else compared.metric
