"""Find policies that are well-formed but cannot work.

- *Never fires*: conditions that exclude each other (``ranges``), thresholds that a metric never passes, limits or
  permanent bounds that leave no size to scale to. Also one part of an ``any-of`` that can never hold.
- *No effect*: a threshold that a metric is always past.
- *Conflict* (``conflicts``): a scale-out and a scale-in of the same thing that both hold under a constant load, so
  that the size oscillates. Under a constant load a reading equals its mean, percentiles and forecast, and its rate
  of change is 0. The ranges of (value > a) and (value ≤ b) overlap unless a ≥ b.
- *Contradiction* (``conflicts``): limits or bounds that no size satisfies. Bounds with hours do not contradict the
  limit of a rule, which may be meant for the other hours.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import lru_cache

from ebbflow.core.metrics import AT_LEAST_ONE, AT_MOST_ONE
from ebbflow.policy.checks.conflicts import conflicting_bounds, conflicting_limits, conflicting_rules
from ebbflow.policy.checks.ranges import can_hold, resolved, ways
from ebbflow.policy.model import RULE, AllOf, AnyOf, Condition, Policy, PolicyPath, Problem, Rule, Trigger
from ebbflow.policy.values import MeasureKind


def find_problems(policy: Policy) -> list[Problem]:
    """All problems of a policy; none for a sound one."""
    return list(_find_problems(policy))


@lru_cache(maxsize=4)  # a policy is checked when its file is read and again by the strategy
def _find_problems(policy: Policy) -> tuple[Problem, ...]:
    return (
        *itertools.chain.from_iterable(_rule(index, rule) for index, rule in enumerate(policy.rules)),
        *conflicting_rules(policy.rules),
        *conflicting_limits(policy.rules),
        *conflicting_bounds(policy),
    )


def _rule(index: int, rule: Rule) -> Iterator[Problem]:
    here = (RULE, index)
    for path, condition in _with_paths(rule):
        if isinstance(condition, Trigger) and (why := _out_of_range(condition, rule.operator)):
            yield Problem((*here, *path, "above" if condition.is_above else "below"), why)
    found = ways(rule.when, rule.operator)
    if found:
        yield from _dead_parts(here, rule)
    elif found is not None:
        yield Problem(
            (*here, "when"),
            f"rule '{rule.name}' never fires: its conditions exclude each other; "
            "join them with any-of or change the thresholds",
        )
    most, least = rule.never_above, rule.never_below
    if most is not None and not most.relative and most.amount <= 1:
        yield Problem(
            (*here, "never-above"),
            f"rule '{rule.name}' never fires: every size is at least 1; write never-above 2 or more",
        )
    if most is not None and most.relative and most.amount <= 1:
        yield Problem(
            (*here, "never-above"),
            f"rule '{rule.name}' never exceeds the original size; write never-above more than x1",
        )
    if rule.to is not None and most is not None and not most.relative and rule.to > most.amount:
        yield Problem((*here, "to"), f"to {rule.to} is above never-above {most}; write {most} or less")
    if rule.to is not None and least is not None and not least.relative and rule.to < least.amount:
        yield Problem((*here, "to"), f"to {rule.to} is below never-below {least}; write {least} or more")
    if rule.out and rule.to == 1:
        yield Problem(
            (*here, "to"),
            f"rule '{rule.name}' never fires: every size is at least 1; scale out to 2 or more",
        )


def _with_paths(rule: Rule) -> Iterator[tuple[PolicyPath, Condition]]:
    """The conditions of a rule at any depth, each with its path in the rule."""

    def walk(condition: Condition, path: PolicyPath) -> Iterator[tuple[PolicyPath, Condition]]:
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


def _dead_parts(here: PolicyPath, rule: Rule) -> Iterator[Problem]:
    """Parts of an any-of that can never hold."""
    dead: list[PolicyPath] = []
    for path, condition in _with_paths(rule):
        if not isinstance(condition, AnyOf) or any(path[: len(each)] == each for each in dead):
            continue
        for index in range(len(condition.any_of)):
            if not can_hold(rule.when, rule.operator, {id(condition): index}):
                place = (*path, "any-of", index)
                dead.append(place)
                yield Problem(
                    (*here, *place),
                    f"rule '{rule.name}': this part of any-of never holds together with the other conditions; "
                    "remove it or change the thresholds",
                )


def _out_of_range(trigger: Trigger, operator: str) -> str:
    """Why a metric is never or always past the threshold. All metrics are at least 0, some at least 1."""
    if trigger.measure.kind in (MeasureKind.RATE, MeasureKind.FORECAST):
        return ""
    metric = resolved(trigger, operator)
    value, is_share, least = trigger.threshold, metric in AT_MOST_ONE, 1 if metric in AT_LEAST_ONE else 0
    name = trigger.metric
    if trigger.is_above and is_share and value.base >= 1:
        return f"{name} is never above {value}; write less than 100%"
    if trigger.is_above and value.base < least:
        return f"{name} is always above {value}, so this condition has no effect; its minimum is {least}"
    if not trigger.is_above and value.base < least:
        return f"{name} is never at or below {value}; its minimum is {least}"
    if not trigger.is_above and is_share and value.base >= 1:
        return f"{name} is always at or below {value}, so this condition has no effect; write less than 100%"
    return ""
