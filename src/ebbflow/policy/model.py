"""What a policy is made of: plain frozen values, the same whether written in Python, TOML or YAML.

Policy = rules and calendar bounds. A rule has a name, an action (scale out or in) on an operator, on each
operator or on the nodes, a step, conditions that must all hold, a limit, and guard times (Rules, §4.2.2).
Field names are the keys of the file form, with ``-`` for ``_``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated
from zoneinfo import ZoneInfo

import msgspec

from ebbflow.core.metrics import Metric
from ebbflow.errors import PolicyError
from ebbflow.policy.conditions import AllOf, AnyOf, Condition, Part, Trigger, Wrong, triggers_of
from ebbflow.policy.quantities import Clock, Span
from ebbflow.policy.values import LARGEST_SIZE, Limit, Step

__all__ = [
    "EACH_OPERATOR",
    "NODES",
    "Action",
    "AllOf",
    "AnyOf",
    "Bounds",
    "Buildable",
    "Condition",
    "Day",
    "Policy",
    "Rule",
    "Trigger",
    "Unfinished",
    "triggers_of",
]

EACH_OPERATOR = "*"
"""In place of an operator's name: the rule applies to each operator, by its own readings."""
NODES = ""
"""No operator: the rule applies to the nodes of the cluster."""


MINUTES_OF_DAY = 1440


class Action(StrEnum):
    """What a rule does."""

    SCALE_OUT = "scale-out"
    SCALE_IN = "scale-in"


class Day(StrEnum):
    """A day of the week; Monday is the first."""

    MONDAY = "monday"
    TUESDAY = "tuesday"
    WEDNESDAY = "wednesday"
    THURSDAY = "thursday"
    FRIDAY = "friday"
    SATURDAY = "saturday"
    SUNDAY = "sunday"


class Rule(Part, frozen=True, kw_only=True):
    """When its conditions hold, and nothing forbids it, a size changes by a step, up to a limit."""

    name: Annotated[str, msgspec.Meta(description="for people; the ledger tells which rule fired")]
    action: Annotated[Action, msgspec.Meta(description="scale-out or scale-in")]
    operator: Annotated[
        str, msgspec.Meta(description="the operator to scale; * for each; leave out to scale the nodes")
    ] = NODES
    by: Annotated[Step | None, msgspec.Meta(description="the step: 1, x2 or 25%")] = None
    to: Annotated[int | None, msgspec.Meta(description="the exact size, instead of a step")] = None
    never_above: Annotated[Limit | None, msgspec.Meta(description="limit of a scale-out: 8, or x2")] = None
    never_below: Annotated[Limit | None, msgspec.Meta(description="limit of a scale-in: 2, or x0.5")] = None
    when: Annotated[tuple[Condition, ...], msgspec.Meta(description="conditions; all must hold")]
    no_scale_out_since: Annotated[
        Span | None, msgspec.Meta(description="guard time: not so soon after a scale-out")
    ] = None
    no_scale_in_since: Annotated[
        Span | None, msgspec.Meta(description="guard time: not so soon after a scale-in")
    ] = None

    def _wrong_name(self) -> Iterator[Wrong]:
        if not self.name.strip():
            yield "name", "a rule needs a name, by which the ledger can tell that it fired"

    def _wrong_operator(self) -> Iterator[Wrong]:
        yield from _wrong_subject(self.operator)

    def _wrong_step(self) -> Iterator[Wrong]:
        if (self.by is None) == (self.to is None):
            yield "name", f"rule '{self.name}': write either by, like 1, or to, like 4"

    def _wrong_size(self) -> Iterator[Wrong]:
        if self.to is not None and self.to < 1:
            yield "to", f"rule '{self.name}': to {self.to} leaves nothing to work; 1 or more"
        if self.to is not None and self.to > LARGEST_SIZE:
            yield "to", f"rule '{self.name}': to more than a billion; nothing is that large"

    def _wrong_limit(self) -> Iterator[Wrong]:
        if self.out and self.never_below is not None:
            yield "never-below", "a scale-out has never-above, not never-below"
        if not self.out and self.never_above is not None:
            yield "never-above", "a scale-in has never-below, not never-above"

    def _wrong_when(self) -> Iterator[Wrong]:
        if not self.when:
            yield "when", f"rule '{self.name}' has no condition; add at least one to when"
        if self.operator == NODES:
            for trigger in self.triggers:
                if not trigger.of and _about_operator(trigger.metric):
                    yield (
                        "when",
                        f"rule '{self.name}': {trigger.metric} is about an operator; say of which one",
                    )

    CHECKS = (_wrong_name, _wrong_operator, _wrong_step, _wrong_size, _wrong_limit, _wrong_when)

    @property
    def out(self) -> bool:
        """Whether it makes something larger."""
        return self.action is Action.SCALE_OUT

    @property
    def triggers(self) -> tuple[Trigger, ...]:
        """All leaves of its conditions."""
        return tuple(trigger for condition in self.when for trigger in triggers_of(condition))


class Bounds(Part, frozen=True, kw_only=True):
    """A size is kept within bounds, always or at certain hours (WASABi's constraint rules)."""

    name: Annotated[str, msgspec.Meta(description="for people")]
    operator: Annotated[str, msgspec.Meta(description="as in a rule")] = NODES
    at_least: Annotated[int | None, msgspec.Meta(description="smallest size")] = None
    at_most: Annotated[int | None, msgspec.Meta(description="largest size")] = None
    from_: Annotated[Clock | None, msgspec.Meta(description="time of day from which it holds")] = None
    until: Annotated[
        Clock | None, msgspec.Meta(description="and until which; earlier than from: of the next day")
    ] = None
    on: Annotated[
        tuple[Day, ...], msgspec.Meta(description="days on which it begins; every day if none")
    ] = ()
    timezone: Annotated[str, msgspec.Meta(description="whose hours and days, like Europe/Berlin")] = "UTC"

    def _wrong_name(self) -> Iterator[Wrong]:
        if not self.name.strip():
            yield "name", "bounds need a name, by which the ledger can tell that they held something"

    def _wrong_operator(self) -> Iterator[Wrong]:
        yield from _wrong_subject(self.operator)

    def _wrong_at_least(self) -> Iterator[Wrong]:
        yield from _wrong_size("at-least", self.at_least)

    def _wrong_at_most(self) -> Iterator[Wrong]:
        yield from _wrong_size("at-most", self.at_most)

    def _wrong_sizes(self) -> Iterator[Wrong]:
        if self.at_least is None and self.at_most is None:
            yield "name", f"bounds '{self.name}' bound nothing; add at-least or at-most"
        elif (
            self.at_least is not None
            and self.at_most is not None
            and 1 <= self.at_most < self.at_least <= LARGEST_SIZE
        ):
            yield (
                "at-least",
                f"at least {self.at_least} and at most {self.at_most} contradict each other; "
                f"did you mean {self.at_most} to {self.at_least}?",
            )

    def _wrong_hours(self) -> Iterator[Wrong]:
        if (self.from_ is None) != (self.until is None):
            yield "until" if self.until else "from", "from and until go together; write both or neither"
        if self.from_ is not None and self.from_ == self.until:
            yield (
                "until",
                f"from {self.from_} until {self.until} is no time at all; leave both out for the whole day",
            )
        if self.from_ is not None and self.from_.minute == MINUTES_OF_DAY:
            yield "from", "from 24:00 is the end of a day; write 00:00 for the begin of the next"

    def _wrong_timezone(self) -> Iterator[Wrong]:
        try:
            ZoneInfo(self.timezone)
        except (KeyError, ValueError, OSError):
            yield "timezone", f"unknown time zone '{self.timezone}'; write UTC or one like Europe/Berlin"

    CHECKS = (
        _wrong_name,
        _wrong_operator,
        _wrong_at_least,
        _wrong_at_most,
        _wrong_sizes,
        _wrong_hours,
        _wrong_timezone,
    )


class Policy:
    """Rules and bounds.

    >>> from ebbflow.policy import *
    >>> policy = Policy(
    ...     rule("Queue length is above 300 for 30 seconds")
    ...     .scale_out(operator("enrich")).by(absolute(1)).but_never_above(nodes(2))
    ...     .when(metric("queue-length")).is_(above(tuples(300))).for_at_least(seconds(30))
    ...     .with_no_scale_out_since(minutes(5)),
    ... )
    >>> policy.rules[0].never_above, str(policy.rules[0].no_scale_out_since)
    (Limit(amount=2.0, relative=False), '5m')
    """

    __slots__ = ("bounds", "rules")

    rules: tuple[Rule, ...]
    bounds: tuple[Bounds, ...]

    def __init__(self, *parts: Rule | Bounds | Buildable) -> None:
        made: list[Rule | Bounds] = []
        for part in parts:
            whole = part.build() if isinstance(part, Buildable) else part
            if not isinstance(whole, Rule | Bounds):
                raise PolicyError(_no_part(whole))
            made.append(whole)
        object.__setattr__(self, "rules", tuple(part for part in made if isinstance(part, Rule)))
        object.__setattr__(self, "bounds", tuple(part for part in made if isinstance(part, Bounds)))
        names = [rule.name for rule in self.rules] + [bounds.name for bounds in self.bounds]
        twice = next((name for name, times in Counter(names).items() if times > 1), None)
        if twice is not None:
            raise PolicyError(f"two parts of the policy are named '{twice}'; the ledger could not tell which")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a policy does not change; make another one ({name} stays)")

    def __reduce__(self) -> tuple[type[Policy], tuple[Rule | Bounds, ...]]:
        return (type(self), (*self.rules, *self.bounds))  # by its parts: nothing may be set afterwards

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Policy):
            return NotImplemented
        return self.rules == other.rules and self.bounds == other.bounds

    def __hash__(self) -> int:
        return hash((self.rules, self.bounds))

    def __repr__(self) -> str:
        names = [rule.name for rule in self.rules] + [bounds.name for bounds in self.bounds]
        return f"Policy({', '.join(map(repr, names))})"


class Buildable:
    """A sentence of the language that is complete, and can be made a rule or bounds of."""

    def build(self) -> Rule | Bounds:
        """The plain value."""
        raise NotImplementedError


class Unfinished:
    """A sentence of the language that goes on."""

    missing = ""
    """The words of which one must come next."""


def _no_part(part: object) -> str:
    if isinstance(part, Unfinished):
        name = getattr(part, "_known", {}).get("name")
        whose = f"rule '{name}'" if name is not None else "this sentence"
        return f"{whose} is not finished; go on with {part.missing}"
    return f"{part!r} is no part of a policy; write rule(…) or bounds(…)"


def _wrong_size(key: str, size: int | None) -> Iterator[Wrong]:
    if size is not None and size < 1:
        yield key, f"{key} {size}; a size is 1 or more"
    if size is not None and size > LARGEST_SIZE:
        yield key, f"{key} of more than a billion; nothing is that large"


def _wrong_subject(name: str) -> Iterator[Wrong]:
    if name and not name.strip():
        yield (
            "operator",
            "a name of blanks is no operator; write its name, * for each, or leave it out for the nodes",
        )


def _about_operator(metric: str) -> bool:
    return metric != "cpu" and Metric.of(metric).about.value == "operator"
