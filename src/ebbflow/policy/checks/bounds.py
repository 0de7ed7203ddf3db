"""Bounds that contradict each other, or leave a rule nothing to do."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from ebbflow.policy.checks.fights import may_be_same
from ebbflow.policy.document import BOUNDS, RULE, Path, Problem
from ebbflow.policy.evaluation.calendar import always_holds, overlap
from ebbflow.policy.model import Bounds, Policy, Rule


def bounds_findings(policy: Policy) -> Iterator[Problem]:
    """What is wrong with the bounds of a policy."""
    for (_, one), (j, other) in itertools.combinations(enumerate(policy.bounds), 2):
        if not may_be_same(one.operator, other.operator):
            continue
        low, high = _tighter(one, other)
        if low > high and overlap(one, other):
            yield Problem(
                (BOUNDS, j),
                f"bounds '{one.name}' and '{other.name}' contradict each other where both hold: at least "
                f"{low:g} and at most {high:g}; let them hold at different hours, or move them together",
            )
    always = [bounds for bounds in policy.bounds if always_holds(bounds)]
    for i, rule in enumerate(policy.rules if always else ()):
        yield from _room((RULE, i), rule, [b for b in always if may_be_same(rule.operator, b.operator)])


def _room(here: Path, rule: Rule, always: list[Bounds]) -> Iterator[Problem]:
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
