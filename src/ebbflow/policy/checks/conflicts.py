"""Parts of a policy that work against each other: rules, limits and bounds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from ebbflow.policy.checks.ranges import Compared, SteadyRange, both_hold, steady, ways
from ebbflow.policy.evaluation.calendar import always_applies, overlap
from ebbflow.policy.model import (
    BOUNDS,
    EACH_OPERATOR,
    NODES,
    RULE,
    BoundsRule,
    Policy,
    PolicyPath,
    Problem,
    Rule,
)
from ebbflow.policy.values import Limit

MAX_PAIRS_PER_RULES = 4096
"""Pairs of ways compared for two rules. If they conflict, a conflict is found among the first of them."""
MAX_PAIRS = 100_000
"""Pairs of ways compared for a whole policy: about a second, for which a running job may have to wait."""
MAX_REPORTED = 50
"""Conflicts reported. Mixed-up thresholds can make every pair of rules conflict."""

_Ways = tuple[Mapping[Compared, SteadyRange], ...]


# -- rules ---------------------------------------------------------------------------------------------


def conflicting_rules(rules: tuple[Rule, ...]) -> Iterator[Problem]:
    """A scale-out and a scale-in of the same thing that both hold under a constant load."""

    @cache
    def ways_of(index: int, operator: str) -> _Ways:
        found = ways(rules[index].when, operator) or ()
        return tuple(level for way in found if (level := steady(way)) is not None)

    reported, pairs_left = 0, MAX_PAIRS
    for i, j in _opposed(rules):
        one, other = rules[i], rules[j]
        operator = other.operator if one.operator == EACH_OPERATOR else one.operator
        own, others = ways_of(i, operator), ways_of(j, operator)
        most = min(MAX_PAIRS_PER_RULES, pairs_left)
        pairs_left -= min(most, len(own) * len(others))
        where = _first_conflict(own, others, most)
        if where is not None and not _meet_at_limits(one, other):
            yield Problem(
                (RULE, j, "when"),
                f"rules '{one.name}' and '{other.name}' conflict: both hold when {where}; "
                "move their thresholds apart",
            )
            reported += 1
            if reported >= MAX_REPORTED:
                return


def _first_conflict(own: _Ways, others: _Ways, most: int) -> str | None:
    for a, b in itertools.islice(itertools.product(own, others), most):
        if found := both_hold(a, b):
            return found
    return None


def _opposed(rules: tuple[Rule, ...]) -> Iterator[tuple[int, int]]:
    """Pairs of rules that may scale the same thing in opposite directions, the earlier rule first."""
    scale_outs: dict[str, list[int]] = {}
    for index, rule in enumerate(rules):
        if rule.out:
            scale_outs.setdefault(rule.operator, []).append(index)
    for index, rule in enumerate(rules):
        if rule.out:
            continue
        if rule.operator == EACH_OPERATOR:
            rivals: Iterable[int] = itertools.chain(*(g for name, g in scale_outs.items() if name != NODES))
        else:
            of_each = scale_outs.get(EACH_OPERATOR, ()) if rule.operator != NODES else ()
            rivals = itertools.chain(scale_outs.get(rule.operator, ()), of_each)
        yield from ((min(index, rival), max(index, rival)) for rival in rivals)


def _meet_at_limits(one: Rule, other: Rule) -> bool:
    """Whether the scale-out stops at or below the size where the scale-in stops, so that the size settles there."""
    scale_out, scale_in = (one, other) if one.out else (other, one)
    for relative in (False, True):
        highest = _amounts(scale_out.never_above, None if relative else scale_out.to, relative)
        lowest = _amounts(scale_in.never_below, None if relative else scale_in.to, relative)
        if highest and lowest and min(highest) <= max(lowest):
            return True
    return False


def _amounts(limit: Limit | None, exact: int | None, relative: bool) -> list[float]:
    amounts: list[float] = [] if exact is None else [exact]
    if limit is not None and limit.relative is relative:
        amounts.append(limit.amount)
    return amounts


def conflicting_limits(rules: tuple[Rule, ...]) -> Iterator[Problem]:
    """Limits of two rules that no size satisfies."""
    for i, j in _opposed(rules):
        scale_out, scale_in = (i, j) if rules[i].out else (j, i)
        most, least = rules[scale_out].never_above, rules[scale_in].never_below
        if most is None or least is None:
            continue
        if most.relative == least.relative and least.amount > most.amount:
            yield Problem(
                (RULE, scale_in, "never-below"),
                f"never-below {least} of rule '{rules[scale_in].name}' contradicts never-above {most} of rule "
                f"'{rules[scale_out].name}'; write {most} or less",
            )


# -- bounds --------------------------------------------------------------------------------------------


def conflicting_bounds(policy: Policy) -> Iterator[Problem]:
    """Bounds that contradict each other, or that keep a rule from ever acting."""
    for (_, one), (j, other) in itertools.combinations(enumerate(policy.bounds), 2):
        if not _may_be_same(one.operator, other.operator):
            continue
        low = max(one.at_least or 1, other.at_least or 1)
        high = min(one.at_most or math.inf, other.at_most or math.inf)
        if low > high and overlap(one, other):
            yield Problem(
                (BOUNDS, j),
                f"bounds '{one.name}' and '{other.name}' contradict each other when both apply: at least "
                f"{low:g} and at most {high:g}; give them different hours or compatible sizes",
            )
    always = [bounds for bounds in policy.bounds if always_applies(bounds)]
    for i, rule in enumerate(policy.rules if always else ()):
        yield from _rule_within_bounds(
            (RULE, i), rule, [b for b in always if _may_be_same(rule.operator, b.operator)]
        )


def _may_be_same(one: str, other: str) -> bool:
    """Whether two parts may apply to the same operator."""
    return one == other or (EACH_OPERATOR in (one, other) and NODES not in (one, other))


def _rule_within_bounds(here: PolicyPath, rule: Rule, always: list[BoundsRule]) -> Iterator[Problem]:
    """Whether bounds that always apply let a rule change anything."""
    lows = [b for b in always if b.at_least is not None]
    highs = [b for b in always if b.at_most is not None]
    low = max(lows, key=lambda b: b.at_least or 1, default=None)
    high = min(highs, key=lambda b: b.at_most or math.inf, default=None)
    least, most = (low and low.at_least) or 1, (high and high.at_most) or math.inf
    if least > most:
        return  # already reported
    # the bounds that the rule moves towards, and those that it moves away from
    ahead, behind = (high, low) if rule.out else (low, high)
    end, start = (most, least) if rule.out else (least, most)
    ahead_key, behind_key = ("at-most", "at-least") if rule.out else ("at-least", "at-most")
    sign = 1 if rule.out else -1
    if ahead is not None and sign * (end - start) <= 0:
        yield Problem(
            (*here, "action"),
            f"rule '{rule.name}' never fires: bounds '{ahead.name}' always apply, and {ahead_key} {end:g} "
            "leaves no other size; change the bounds or remove the rule",
        )
        return
    if ahead is not None and rule.to is not None and sign * (rule.to - end) > 0:
        yield Problem(
            (*here, "to"),
            f"to {rule.to} of rule '{rule.name}' contradicts {ahead_key} {end:g} of bounds '{ahead.name}'; write "
            f"{end:g} or {'less' if rule.out else 'more'}",
        )
    if behind is None:
        return
    limit, limit_key = (rule.never_above, "never-above") if rule.out else (rule.never_below, "never-below")
    absolute = limit.amount if limit is not None and not limit.relative else None
    for key, size in ((limit_key, absolute), ("to", rule.to)):
        if size is not None and sign * (size - start) <= 0:
            yield Problem(
                (*here, key),
                f"{key} {size:g} of rule '{rule.name}' contradicts {behind_key} {start:g} of bounds "
                f"'{behind.name}', which always apply; write {'more' if rule.out else 'less'} than {start:g}",
            )
