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
from collections.abc import Iterator
from functools import lru_cache

from ebbflow.core.metrics import AT_LEAST_ONE, AT_MOST_ONE
from ebbflow.policy.checks.bounds import bounds_findings
from ebbflow.policy.checks.fights import fights, limits
from ebbflow.policy.checks.ranges import can_hold, resolved, ways
from ebbflow.policy.document import RULE, Problem
from ebbflow.policy.model import AllOf, AnyOf, Condition, Policy, Rule, Trigger
from ebbflow.policy.values import MeasureKind

_Path = tuple[str | int, ...]


def findings(policy: Policy) -> list[Problem]:
    """Everything found; none for a sound policy."""
    return list(_findings(policy))


@lru_cache(maxsize=4)  # who reads a policy checks it, and who follows it checks it once more
def _findings(policy: Policy) -> tuple[Problem, ...]:
    return (
        *itertools.chain.from_iterable(_rule(index, rule) for index, rule in enumerate(policy.rules)),
        *fights(policy.rules),
        *limits(policy.rules),
        *bounds_findings(policy),
    )


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
            if not can_hold(rule.when, rule.operator, {id(condition): index}):
                place = (*path, "any-of", index)
                dead.append(place)
                yield Problem(
                    (*here, *place),
                    f"rule '{rule.name}': this part of any-of never holds with the conditions around it; "
                    "leave it out, or move the thresholds apart",
                )


def _out_of_range(trigger: Trigger, operator: str) -> str:
    """Why a threshold is never passed, or always; all metrics are 0 or more, and some 1."""
    if trigger.measure.kind in (MeasureKind.RATE, MeasureKind.FORECAST):
        return ""
    metric = resolved(trigger, operator)
    value, is_share, least = trigger.threshold, metric in AT_MOST_ONE, 1 if metric in AT_LEAST_ONE else 0
    if trigger.is_above and is_share and value.base >= 1:
        return f"{trigger.metric} is never above {value}; write less than 100%"
    if trigger.is_above and value.base < least:
        return f"{trigger.metric} is always above {value}, which decides nothing; the least is {least}"
    if not trigger.is_above and value.base < least:
        return f"{trigger.metric} is never below {value}; the least is {least}"
    if not trigger.is_above and is_share and value.base >= 1:
        return f"{trigger.metric} is always at or below {value}, which decides nothing; write less than 100%"
    return ""
