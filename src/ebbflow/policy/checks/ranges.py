"""In which ways conditions can hold: ranges of values that a policy compares, and which of them exclude each other.

A condition that must hold for a time is about the last reading at least: 1 of 1. With m of n: of the last readings
that both look at, min(n, n'), each needs those of its m that do not fit into the rest. Ranges that do not meet exclude
each other if that is more than there are:

    max(0, m − (n − min)) + max(0, m' − (n' − min)) > min

Different measures of a metric: where every reading of a time is in a range, a mean or a percentile over no more than
that time is in it too, and where every mean over s is, so is, but for the s at its begin, one over a longer S. Of two
percentiles over the same time the higher is never less. And where a load stands still, a reading, its mean, its
percentiles and its forecast are one value, and the rate of change is 0: two rules that both hold there fight.
"""

from __future__ import annotations

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
        if self.measure != other.measure and not self._out_of_order(other):
            return self._decides(other) or other._decides(self)
        both = min(self.of, other.of)
        return sum(max(0, each.times - (each.of - both)) for each in (self, other)) > both

    def _out_of_order(self, other: Range) -> bool:
        """Whether these are percentiles of the same readings, and the higher would have to be the smaller one.

        >>> p50, p95 = (Measure.parse(f"p{p} over 5m") for p in (50, 95))
        >>> Range(300, math.inf, measure=p50).excludes(Range(-math.inf, 100, measure=p95))
        True
        >>> Range(300, math.inf, measure=p95).excludes(Range(-math.inf, 100, measure=p50))
        False
        """
        kinds, spans = {self.measure.kind, other.measure.kind}, {self.measure.span, other.measure.span}
        if kinds != {MeasureKind.PERCENTILE} or len(spans) > 1:
            return False
        lower, higher = sorted((self, other), key=lambda each: each.measure.percentile)
        return higher.high <= lower.low

    def _decides(self, other: Range) -> bool:
        """Whether every reading that the other was made of last is in this range, or in a mean that is.

        >>> minute = Measure.parse("mean over 1m")
        >>> [Range(300, math.inf, lasts_s=s)._decides(Range(-math.inf, 100, measure=minute)) for s in (59, 60)]
        [False, True]
        >>> means = Range(300, math.inf, measure=minute, lasts_s=600)
        >>> [means._decides(Range(-math.inf, most, measure=Measure.parse("mean over 5m"))) for most in (240, 241)]
        [True, False]
        """
        made_of_readings = other.measure.kind in (MeasureKind.MEAN, MeasureKind.PERCENTILE)
        if not made_of_readings or other.times < other.of:
            return False
        assert other.measure.span is not None
        span_s = other.measure.span.seconds
        if self.measure.kind is MeasureKind.EACH:
            return self.lasts_s >= span_s
        if {self.measure.kind, other.measure.kind} != {MeasureKind.MEAN} or self.lasts_s < span_s:
            return False
        assert self.measure.span is not None
        cut = (
            self.measure.span.seconds / span_s
        )  # of the first of these means only a part may be in the other
        if self.low >= other.high:
            return self.low * (1 - cut) >= other.high
        return self.high * (1 + cut) <= other.low


Way = dict[Compared, tuple[Range, ...]]
"""One way to satisfy conditions: all of these ranges."""


SAME_SERIES = {Metric.OPERATOR_QUEUE: Metric.QUEUE_LENGTH}
"""Two names of what a rule on an operator reads. (``backlog`` is a third on Spark where there is a read limit, and
something else where there is none: nobody can tell from a policy, so it is compared with itself alone.)"""


def resolved(trigger: Trigger, operator: str) -> Metric | None:
    """The metric a trigger compares in a rule on an operator or on nodes; None if its name alone does not tell."""
    if trigger.metric != CPU:
        return metric_of(trigger.metric)
    if trigger.of and trigger.of != operator:
        return None  # an operator, or a node
    return Metric.NODE_CPU if operator == NODES else Metric.INSTANCE_CPU


def ways(conditions: tuple[Condition, ...], operator: str) -> list[Way] | None:
    """The ways in which all conditions of a rule on an operator can hold together: an empty list if there is none,
    None if they are too many to look at."""
    return _all_of(conditions, operator, {})


def can_hold(conditions: tuple[Condition, ...], operator: str, only: Mapping[int, int]) -> bool:
    """Whether there is any such way. ``only``: of an any-of (by its id) no other part than this one."""
    choices = [_ways(condition, operator, only) for condition in _flat(conditions)]

    def fits(index: int, so_far: Way) -> bool:
        if index == len(choices):
            return True
        own = choices[index]
        return own is None or any(
            (both := _meet(so_far, each)) is not None and fits(index + 1, both) for each in own
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
        if own is None or len(found) * len(own) > _MOST_BRANCHES:
            return None
        found = [both for a in found for b in own if (both := _meet(a, b)) is not None]
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


class Still(NamedTuple):
    """What a way asks of one series of a load that stands still: to be greater than ``low`` and at most ``high``, and
    the same of its rate of change."""

    low: float
    high: float
    rate_low: float
    rate_high: float

    @property
    def has_value(self) -> bool:
        """Whether it asks anything of the value."""
        return self.low > -math.inf or self.high < math.inf

    @property
    def has_rate(self) -> bool:
        """Whether it asks anything of the rate of change."""
        return self.rate_low > -math.inf or self.rate_high < math.inf


def still(way: Way) -> dict[Compared, Still] | None:
    """What a way asks of a load that stands still; None if none such satisfies it."""
    found = {}
    for key, ranges in way.items():
        values, rates = [r for r in ranges if not r.is_rate], [r for r in ranges if r.is_rate]
        found[key] = Still(*_met(values), *_met(rates))
        if found[key].low >= found[key].high or found[key].rate_low >= found[key].rate_high:
            return None
    return found


def _met(ranges: list[Range]) -> tuple[float, float]:
    return max((each.low for each in ranges), default=-math.inf), min(
        (each.high for each in ranges), default=math.inf
    )


def clash(a: Mapping[Compared, Still], b: Mapping[Compared, Still]) -> str | None:
    """Where both hold at once although nothing moves; None if nothing in common tells, or something keeps them apart.

    Rates of change are compared with rates, because a load that stands still can make a queue grow at one; and
    with values where they are 0.

    >>> above_300, level = Range(300, math.inf), Range(-math.inf, 1, measure=Measure.parse("rate of change over 1m"))
    >>> high, calm = (still({Compared("backlog", ""): (each,)}) for each in (above_300, level))
    >>> clash(high or {}, calm or {})
    'backlog stands still past the threshold'
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
    return f"{_named(min(common))} stands still past the threshold" if all_level else None


def _named(compared: Compared) -> str:
    return f"{compared.metric} of {compared.of}" if compared.of else compared.metric
