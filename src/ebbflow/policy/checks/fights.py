"""Rules against each other: those that make a size go to and fro, and limits that no size satisfies."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from ebbflow.policy.checks.ranges import Compared, Still, clash, still, ways
from ebbflow.policy.document import RULE, Problem
from ebbflow.policy.model import EACH_OPERATOR, NODES, Rule

MOST_PAIRS = 4096
"""Pairs of ways that are looked at for two rules: one in which they fight is found among so many, or not at all."""
MOST_PAIRS_IN_ALL = 100_000
"""Pairs of ways that are looked at in a policy: about a second. A running job may wait for the answer."""
MOST_TOLD = 50
"""Fights that are told. Where thresholds are mixed up there are as many as pairs of rules."""

_Ways = tuple[Mapping[Compared, Still], ...]


def may_be_same(one: str, other: str) -> bool:
    """Whether two rules may be about the same thing."""
    return one == other or (EACH_OPERATOR in (one, other) and NODES not in (one, other))


def fights(rules: tuple[Rule, ...]) -> Iterator[Problem]:
    """A scale-out and a scale-in of the same thing that both hold where nothing moves."""

    @cache
    def ways_of(index: int, operator: str) -> _Ways:
        found = ways(rules[index].when, operator) or ()
        return tuple(level for way in found if (level := still(way)) is not None)

    told, left = 0, MOST_PAIRS_IN_ALL
    for i, j in _opposed(rules):
        one, other = rules[i], rules[j]
        operator = other.operator if one.operator == EACH_OPERATOR else one.operator
        ours, theirs = ways_of(i, operator), ways_of(j, operator)
        most = min(MOST_PAIRS, left)
        left -= min(most, len(ours) * len(theirs))
        where = _clash(ours, theirs, most)
        if where is not None and not _end_together(one, other):
            yield Problem(
                (RULE, j, "when"),
                f"rules '{one.name}' and '{other.name}' fight each other: both hold at once where {where}; "
                "move their thresholds apart",
            )
            told += 1
            if told >= MOST_TOLD:
                return


def _clash(ours: _Ways, theirs: _Ways, most: int) -> str | None:
    for a, b in itertools.islice(itertools.product(ours, theirs), most):
        if found := clash(a, b):
            return found
    return None


def _opposed(rules: tuple[Rule, ...]) -> Iterator[tuple[int, int]]:
    """Rules that may size the same thing in opposite directions, the earlier first."""
    grows: dict[str, list[int]] = {}
    for index, rule in enumerate(rules):
        if rule.out:
            grows.setdefault(rule.operator, []).append(index)
    for index, rule in enumerate(rules):
        if rule.out:
            continue
        if rule.operator == EACH_OPERATOR:
            rivals: Iterable[int] = itertools.chain(*(g for name, g in grows.items() if name != NODES))
        else:
            of_each = grows.get(EACH_OPERATOR, ()) if rule.operator != NODES else ()
            rivals = itertools.chain(grows.get(rule.operator, ()), of_each)
        yield from ((min(index, rival), max(index, rival)) for rival in rivals)


def _end_together(one: Rule, other: Rule) -> bool:
    """Whether the one stops growing where the other stops shrinking, so that the size comes to rest there."""
    grows, shrinks = (one, other) if one.out else (other, one)
    for relative in (False, True):
        ends = [
            limit.amount for limit in [grows.never_above] if limit is not None and limit.relative is relative
        ]
        floors = [
            limit.amount
            for limit in [shrinks.never_below]
            if limit is not None and limit.relative is relative
        ]
        if not relative:
            ends += [] if grows.to is None else [grows.to]
            floors += [] if shrinks.to is None else [shrinks.to]
        if ends and floors and min(ends) <= max(floors):
            return True
    return False


def limits(rules: tuple[Rule, ...]) -> Iterator[Problem]:
    """Limits of two rules of which no size satisfies both."""
    for i, j in _opposed(rules):
        grows, shrinks = (i, j) if rules[i].out else (j, i)
        most, least = rules[grows].never_above, rules[shrinks].never_below
        if most is None or least is None:
            continue
        if most.relative == least.relative and least.amount > most.amount:
            yield Problem(
                (RULE, shrinks, "never-below"),
                f"never-below {least} of rule '{rules[shrinks].name}' contradicts never-above {most} of rule "
                f"'{rules[grows].name}'; it must be {most} or less",
            )
