"""What is wrong with a policy although each part of it can be read.

- *Never fires*: conditions that exclude each other (``ranges``), or one way of several that does; thresholds that a
  metric cannot pass; limits, or bounds that hold always, that leave no room.
- *Always holds*: a threshold that a metric is always past decides nothing.
- *Fight*: a scale-out and a scale-in of the same thing that both hold at some value, so that a load that stands
  still makes the size go to and fro. Found where they compare the same metric, whatever they measure of it: of a
  load that stands still a reading is its mean, percentile and forecast, and its rate of change is 0. The
  ranges of (value > a) and (value ≤ b) meet unless a ≥ b.
- *Contradict*: limits or bounds of which no size satisfies all. Bounds with hours contradict no limit of a rule:
  it may be meant for the other hours.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from ebbflow.core.metrics import AT_MOST_ONE
from ebbflow.policy.calendar import always_holds, overlap
from ebbflow.policy.document import BOUNDS, RULE, Problem
from ebbflow.policy.model import EACH_OPERATOR, AllOf, AnyOf, Bounds, Condition, Policy, Rule, Trigger
from ebbflow.policy.ranges import clash, resolved, ways
from ebbflow.policy.values import MeasureKind

_Path = tuple[str | int, ...]


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
    for path, condition in _placed(rule):
        if isinstance(condition, Trigger) and (why := _out_of_range(condition, rule.operator)):
            yield Problem((*here, *path, "above" if condition.is_above else "below"), why)
    found = ways(rule.when, rule.operator)
    if found:
        yield from _dead_ends(here, rule)
    elif found is not None:
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


def _placed(rule: Rule) -> Iterator[tuple[_Path, Condition]]:
    """The conditions of a rule and their parts, each with its path in it."""

    def walk(condition: Condition, path: _Path) -> Iterator[tuple[_Path, Condition]]:
        yield path, condition
        if isinstance(condition, Trigger):
            return
        key, parts = (
            ("all-of", condition.all_of) if isinstance(condition, AllOf) else ("any-of", condition.any_of)
        )
        for index, part in enumerate(parts):
            yield from walk(part, (*path, key, index))

    for index, condition in enumerate(rule.when):
        yield from walk(condition, ("when", index))


def _dead_ends(here: _Path, rule: Rule) -> Iterator[Problem]:
    """Parts of an any-of that can never be the one that holds."""
    dead: list[_Path] = []
    for path, condition in _placed(rule):
        if not isinstance(condition, AnyOf) or any(path[: len(each)] == each for each in dead):
            continue
        for index in range(len(condition.any_of)):
            if ways(rule.when, rule.operator, {id(condition): index}) == []:
                place = (*path, "any-of", index)
                dead.append(place)
                yield Problem(
                    (*here, *place),
                    f"rule '{rule.name}': this part of any-of never holds with the conditions around it; "
                    "leave it out, or move the thresholds apart",
                )


def _out_of_range(trigger: Trigger, operator: str) -> str:
    """Why a threshold is never passed, or always; all metrics are 0 or more."""
    if trigger.measure.kind in (MeasureKind.RATE, MeasureKind.FORECAST):
        return ""
    value, is_share = trigger.threshold, resolved(trigger, operator) in AT_MOST_ONE
    if trigger.is_above and is_share and value.base >= 1:
        return f"{trigger.metric} is never above {value}; write less than 100%"
    if trigger.is_above and value.base < 0:
        return f"{trigger.metric} is always above {value}, which decides nothing; the least is 0"
    if not trigger.is_above and value.base < 0:
        return f"{trigger.metric} is never below {value}; the least is 0"
    if not trigger.is_above and is_share and value.base >= 1:
        return f"{trigger.metric} is always at or below {value}, which decides nothing; write less than 100%"
    return ""


# -- rules against each other ------------------------------------------------------------------------


def _same(one: str, other: str) -> bool:
    """Whether two rules may be about the same thing."""
    return one == other or (EACH_OPERATOR in (one, other) and "" not in (one, other))


def _fights(rules: tuple[Rule, ...]) -> Iterator[Problem]:
    for (_, one), (j, other) in itertools.combinations(enumerate(rules), 2):
        if one.out == other.out or not _same(one.operator, other.operator):
            continue
        operator = other.operator if one.operator == EACH_OPERATOR else one.operator
        ours, theirs = ways(one.when, operator), ways(other.when, operator)
        if ours is None or theirs is None:
            continue
        where = next((found for a in ours for b in theirs if (found := clash(a, b))), None)
        if where is not None:
            yield Problem(
                (RULE, j, "when"),
                f"rules '{one.name}' and '{other.name}' fight each other: both hold at once where {where}; "
                "move their thresholds apart",
            )


def _limits(rules: tuple[Rule, ...]) -> Iterator[Problem]:
    for (_, one), (j, other) in itertools.permutations(enumerate(rules), 2):
        most, least = one.never_above, other.never_below
        if most is None or least is None or not _same(one.operator, other.operator):
            continue
        if most.relative == least.relative and least.amount > most.amount:
            yield Problem(
                (RULE, j, "never-below"),
                f"never-below {least} of rule '{other.name}' contradicts never-above {most} of rule "
                f"'{one.name}'; it must be {most} or less",
            )


def _bounds(policy: Policy) -> Iterator[Problem]:
    for (_, one), (j, other) in itertools.combinations(enumerate(policy.bounds), 2):
        if not _same(one.operator, other.operator):
            continue
        low, high = _tighter(one, other)
        if low > high and overlap(one, other):
            yield Problem(
                (BOUNDS, j),
                f"bounds '{one.name}' and '{other.name}' contradict each other where both hold: at least "
                f"{low:g} and at most {high:g}; let them hold at different hours, or move them together",
            )
    for i, rule in enumerate(policy.rules):
        always = [b for b in policy.bounds if always_holds(b) and _same(rule.operator, b.operator)]
        yield from _room((RULE, i), rule, always)


def _room(here: _Path, rule: Rule, always: list[Bounds]) -> Iterator[Problem]:
    """Whether bounds that always hold leave a rule anything to do."""
    lows = [b for b in always if b.at_least is not None]
    highs = [b for b in always if b.at_most is not None]
    low = max(lows, key=lambda b: b.at_least or 1, default=None)
    high = min(highs, key=lambda b: b.at_most or math.inf, default=None)
    least, most = (low and low.at_least) or 1, (high and high.at_most) or math.inf
    if least > most:
        return  # told already
    # what a rule may not go past, and what it must leave behind
    wall, floor, word = (high, low, "above") if rule.out else (low, high, "below")
    end, start = (most, least) if rule.out else (least, most)
    sign = 1 if rule.out else -1
    limit = rule.never_above if rule.out else rule.never_below
    more = "more" if rule.out else "less"
    if wall is not None and sign * (end - start) <= 0:
        key = "at-most" if rule.out else "at-least"
        yield Problem(
            (*here, "action"),
            f"rule '{rule.name}' never fires: bounds '{wall.name}' always keep {key} {end:g}, "
            f"and nothing is {'smaller' if rule.out else 'larger'}; move the bounds, or leave the rule out",
        )
        return
    if wall is not None and rule.to is not None and sign * (rule.to - end) > 0:
        key = "at-most" if rule.out else "at-least"
        yield Problem(
            (*here, "to"),
            f"to {rule.to} of rule '{rule.name}' contradicts {key} {end:g} of bounds '{wall.name}'; it must be "
            f"{end:g} or {'less' if rule.out else 'more'}",
        )
    if floor is None:
        return
    key = "at-least" if rule.out else "at-most"
    absolute = limit.amount if limit is not None and not limit.relative else None
    for field, size in ((f"never-{word}", absolute), ("to", rule.to)):
        if size is not None and sign * (size - start) <= 0:
            yield Problem(
                (*here, field),
                f"{field} {size:g} of rule '{rule.name}' contradicts {key} {start:g} of bounds '{floor.name}', "
                f"which always hold; it must be {more} than {start:g}",
            )


def _tighter(one: Bounds, other: Bounds) -> tuple[float, float]:
    low = max(one.at_least or 1, other.at_least or 1)
    return low, min(one.at_most or math.inf, other.at_most or math.inf)
