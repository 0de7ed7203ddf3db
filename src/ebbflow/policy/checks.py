"""What is wrong with a policy although each part of it can be read.

- *Never fires*: conditions that exclude each other, thresholds that a metric cannot pass, limits that leave no room.
- *Fight*: a scale-out and a scale-in of the same thing that can both hold at the same reading, so that a
  load that stands still makes the size go to and fro. Found where they compare the same measure of the
  same metric; the ranges of (value > a) and (value ≤ b) meet unless a ≥ b.
- *Contradict*: limits or bounds of which no size satisfies all.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from ebbflow.policy.calendar import overlap
from ebbflow.policy.document import BOUNDS, RULE, Problem
from ebbflow.policy.fitting import metric_of
from ebbflow.policy.model import EACH_OPERATOR, AllOf, AnyOf, Bounds, Condition, Policy, Rule, Trigger
from ebbflow.policy.values import Measure, MeasureKind

_MOST_BRANCHES = 256
"""Ways to satisfy a condition that are looked at; one with more is not judged."""
_AT_MOST_ONE = ("instance-cpu", "instance-busy", "node-heap-share", "host-cpu", "host-memory")
"""Shares that cannot be more than the whole. A node may use more CPU than its own where nobody confines it."""

_Key = tuple[str, str, Measure]
_Ranges = dict[_Key, tuple[float, float]]
"""For each thing compared: greater than the first, at most the second."""


def findings(policy: Policy) -> list[Problem]:
    """Everything found; none for a sound policy."""
    return [
        *itertools.chain.from_iterable(_rule(index, rule) for index, rule in enumerate(policy.rules)),
        *_fights(policy.rules),
        *_limits(policy.rules),
        *_bounds(policy),
    ]


def _rule(index: int, rule: Rule) -> Iterator[Problem]:
    here = (RULE, index)
    for path, trigger in _placed(rule):
        why = _out_of_range(trigger)
        if why:
            yield Problem((*here, *path, "above" if trigger.is_above else "below"), why)
    branches = _branches(rule.when)
    if branches is not None and not branches:
        yield Problem(
            (*here, "when"),
            f"rule '{rule.name}' never fires: its conditions exclude each other; "
            "join them with any-of, or move the thresholds apart",
        )
    most, least = rule.never_above, rule.never_below
    if most is not None and not most.relative and most.amount <= 1:
        yield Problem(
            (*here, "never-above"),
            f"rule '{rule.name}' never fires: every size is at least 1; never-above must be 2 or more",
        )
    if most is not None and most.relative and most.amount <= 1:
        yield Problem(
            (*here, "never-above"),
            f"rule '{rule.name}' never grows past its original size; never-above must be more than x1",
        )
    if rule.to is not None and most is not None and not most.relative and rule.to > most.amount:
        yield Problem((*here, "to"), f"to {rule.to} is past never-above {most}; it must be {most} or less")
    if rule.to is not None and least is not None and not least.relative and rule.to < least.amount:
        yield Problem((*here, "to"), f"to {rule.to} is past never-below {least}; it must be {least} or more")
    if rule.out and rule.to == 1:
        yield Problem(
            (*here, "to"),
            f"rule '{rule.name}' never fires: nothing is smaller than 1; scale out to 2 or more",
        )


def _placed(rule: Rule) -> Iterator[tuple[tuple[str | int, ...], Trigger]]:
    """The triggers of a rule, each with its path in it."""

    def walk(
        condition: Condition, path: tuple[str | int, ...]
    ) -> Iterator[tuple[tuple[str | int, ...], Trigger]]:
        if isinstance(condition, Trigger):
            yield path, condition
            return
        key, parts = (
            ("all-of", condition.all_of) if isinstance(condition, AllOf) else ("any-of", condition.any_of)
        )
        for index, part in enumerate(parts):
            yield from walk(part, (*path, key, index))

    for index, condition in enumerate(rule.when):
        yield from walk(condition, ("when", index))


def _out_of_range(trigger: Trigger) -> str:
    """Why a threshold is never passed; all metrics are 0 or more."""
    if trigger.measure.kind in (MeasureKind.RATE, MeasureKind.FORECAST):
        return ""
    value = trigger.threshold
    if not trigger.is_above and value.base < 0:
        return f"{trigger.metric} is never below {value}; the least is 0"
    if trigger.is_above and value.base >= 1 and trigger.metric in _AT_MOST_ONE:
        return f"{trigger.metric} is never above {value}; write less than 100%"
    return ""


# -- ranges ------------------------------------------------------------------------------------------


def _branches(conditions: tuple[Condition, ...]) -> list[_Ranges] | None:
    """The ways in which all conditions can hold together: none if there is none; None if there are too many."""
    ways: list[_Ranges] = [{}]
    for condition in conditions:
        own = _ways(condition)
        if own is None or len(ways) * len(own) > _MOST_BRANCHES:
            return None
        ways = [both for a in ways for b in own if (both := _meet(a, b)) is not None]
    return ways


def _ways(condition: Condition) -> list[_Ranges] | None:
    if isinstance(condition, AllOf):
        return _branches(condition.all_of)
    if isinstance(condition, AnyOf):
        ways: list[_Ranges] = []
        for part in condition.any_of:
            own = _ways(part)
            if own is None:
                return None
            ways += own
        return ways
    if condition.in_at_least is not None:
        return [{}]  # it may hold although the last reading is not past the threshold
    limit = condition.threshold.base
    span = (limit, math.inf) if condition.is_above else (-math.inf, limit)
    return [{(metric_of(condition.metric).key, condition.of, condition.measure): span}]


def _meet(a: _Ranges, b: _Ranges) -> _Ranges | None:
    """Both at once, None if they exclude each other."""
    met = dict(a)
    for key, (low, high) in b.items():
        other_low, other_high = met.get(key, (-math.inf, math.inf))
        met[key] = max(low, other_low), min(high, other_high)
        if met[key][0] >= met[key][1]:
            return None
    return met


# -- rules against each other ------------------------------------------------------------------------


def _same(one: str, other: str) -> bool:
    """Whether two rules may be about the same thing."""
    return one == other or (EACH_OPERATOR in (one, other) and "" not in (one, other))


def _fights(rules: tuple[Rule, ...]) -> Iterator[Problem]:
    for (i, one), (j, other) in itertools.combinations(enumerate(rules), 2):
        if one.out == other.out or not _same(one.operator, other.operator):
            continue
        ours, theirs = _branches(one.when), _branches(other.when)
        if ours is None or theirs is None:
            continue
        clash = next((k for a in ours for b in theirs if (k := _clash(a, b))), None)
        if clash:
            yield Problem(
                (RULE, j, "when"),
                f"rules '{one.name}' and '{other.name}' fight each other: both hold at once where {clash}; "
                "move their thresholds apart",
            )
        del i


def _clash(a: _Ranges, b: _Ranges) -> str:
    """Where both hold, if they compare something in common and nothing in common excludes it."""
    common = sorted(a.keys() & b.keys(), key=str)
    if not common or _meet({k: a[k] for k in common}, {k: b[k] for k in common}) is None:
        return ""
    metric, of, _ = common[0]
    return f"{metric}{f' of {of}' if of else ''} is past both thresholds"


def _limits(rules: tuple[Rule, ...]) -> Iterator[Problem]:
    for (i, one), (j, other) in itertools.permutations(enumerate(rules), 2):
        most, least = one.never_above, other.never_below
        if most is None or least is None or not _same(one.operator, other.operator):
            continue
        if most.relative == least.relative and least.amount > most.amount:
            yield Problem(
                (RULE, j, "never-below"),
                f"never-below {least} of rule '{other.name}' contradicts never-above {most} of rule "
                f"'{one.name}'; it must be {most} or less",
            )
        del i


def _bounds(policy: Policy) -> Iterator[Problem]:
    for (i, one), (j, other) in itertools.combinations(enumerate(policy.bounds), 2):
        if not _same(one.operator, other.operator):
            continue
        low, high = _tighter(one, other)
        if low > high and overlap(one, other):
            yield Problem(
                (BOUNDS, j),
                f"bounds '{one.name}' and '{other.name}' contradict each other where both hold: at least "
                f"{low:g} and at most {high:g}; let them hold at different hours, or move them together",
            )
        del i
    for i, rule in enumerate(policy.rules):
        for bounds in policy.bounds:
            if not _same(rule.operator, bounds.operator):
                continue
            most, least = rule.never_above, rule.never_below
            if most and not most.relative and bounds.at_least is not None and most.amount < bounds.at_least:
                yield Problem(
                    (RULE, i, "never-above"),
                    f"never-above {most} of rule '{rule.name}' contradicts at-least {bounds.at_least} of bounds "
                    f"'{bounds.name}'; it must be {bounds.at_least} or more",
                )
            if least and not least.relative and bounds.at_most is not None and least.amount > bounds.at_most:
                yield Problem(
                    (RULE, i, "never-below"),
                    f"never-below {least} of rule '{rule.name}' contradicts at-most {bounds.at_most} of bounds "
                    f"'{bounds.name}'; it must be {bounds.at_most} or less",
                )


def _tighter(one: Bounds, other: Bounds) -> tuple[float, float]:
    low = max(one.at_least or 1, other.at_least or 1)
    return low, min(one.at_most or math.inf, other.at_most or math.inf)
