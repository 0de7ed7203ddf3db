"""The model of a policy: frozen values that are the same whether written in Python, TOML or YAML.

A policy has rules and bounds. A rule has a name, an action (scale out or in) on an operator, on each operator or on the
nodes, a step, conditions that must all hold, a limit, and guard times (Rules, §4.2.2). Bounds keep a size within a
range, always or at certain hours. Field names are the keys of the file form, with ``-`` for ``_``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, ClassVar, TypeAlias
from zoneinfo import ZoneInfo

import msgspec

from ebbflow.core.metrics import Metric
from ebbflow.errors import PolicyError, UnknownNameError
from ebbflow.policy.values import (
    LARGEST_SIZE,
    Limit,
    Measure,
    MeasureKind,
    Occurrences,
    Quantity,
    Span,
    StepSize,
    TimeOfDay,
)

EACH_OPERATOR = "*"
"""Stands for an operator's name: the rule applies to each operator, by its own readings."""
NODES = ""
"""No operator: the rule applies to the nodes of the cluster."""
CPU = "cpu"
"""The metric name for the CPU of whatever the rule scales: an operator's instances or the nodes."""
RULE, BOUNDS = "rule", "bounds"
"""The top-level keys of a policy."""

MINUTES_OF_DAY = 1440

PolicyPath: TypeAlias = tuple[str | int, ...]
"""A place in a policy: ``("rule", 0, "when", 1, "above")``."""
KeyProblem: TypeAlias = tuple[str, str]
"""A key of a table, and what is wrong with its value."""


class Problem(msgspec.Struct, frozen=True):
    """Something wrong in a policy, and where."""

    path: PolicyPath
    text: str


class RuleAction(StrEnum):
    """The direction in which a rule scales."""

    SCALE_OUT = "scale-out"
    SCALE_IN = "scale-in"


class Weekday(StrEnum):
    """A day of the week; Monday is the first."""

    MONDAY = "monday"
    TUESDAY = "tuesday"
    WEDNESDAY = "wednesday"
    THURSDAY = "thursday"
    FRIDAY = "friday"
    SATURDAY = "saturday"
    SUNDAY = "sunday"


DAYS = {
    "weekdays": tuple(Weekday)[:5],
    "weekends": tuple(Weekday)[5:],
    **{day.value: (day,) for day in Weekday},
}
"""The days by each name a policy may use."""


def days_named(names: tuple[str, ...]) -> tuple[Weekday, ...]:
    """The named days, each once, in the order of the week.

    >>> [str(day) for day in days_named(("weekends", "friday"))]
    ['friday', 'saturday', 'sunday']
    """
    chosen: set[Weekday] = set()
    for name in names:
        if name not in DAYS:
            raise UnknownNameError("day", name, DAYS)
        chosen.update(DAYS[name])
    return tuple(day for day in Weekday if day in chosen)


class PolicyTable(
    msgspec.Struct, frozen=True, kw_only=True, rename=lambda name: name.strip("_").replace("_", "-")
):
    """A table of the file form. Building an invalid one raises ``PolicyError`` with all of its problems."""

    CHECKS: ClassVar[tuple[Callable[[Any], Iterator[KeyProblem]], ...]] = ()
    """Each check uses few fields, so that it also runs on a table in which other fields could not be read."""

    def __post_init__(self) -> None:
        found = [each for check in self.CHECKS for each in check(self)]
        if found:
            raise PolicyError(*(text for _, text in found), keys=[key for key, _ in found])


# -- conditions ----------------------------------------------------------------------------------------


class Trigger(PolicyTable, frozen=True, kw_only=True):
    """A metric, a threshold (above is strict, below includes equality), and for how long or how often."""

    metric: Annotated[str, msgspec.Meta(description="a metric of `ebbflow metrics`, or cpu")]
    of: Annotated[
        str, msgspec.Meta(description="operator, query or node to measure; by default what the rule scales")
    ] = ""
    measure: Annotated[Measure, msgspec.Meta(description="statistic to compare; by default each reading")] = (
        Measure()
    )
    above: Annotated[Quantity | None, msgspec.Meta(description="holds when greater than this")] = None
    below: Annotated[Quantity | None, msgspec.Meta(description="holds when less than or equal to this")] = (
        None
    )
    for_at_least: Annotated[
        Span | None, msgspec.Meta(description="must hold for every reading of this duration")
    ] = None
    in_at_least: Annotated[
        Occurrences | None, msgspec.Meta(description="must hold in this many of the latest readings")
    ] = None

    def _check_threshold(self) -> Iterator[KeyProblem]:
        if self.above is None and self.below is None:
            yield "metric", f"the condition on {self.metric} has no threshold; add above or below"
        elif self.above is not None and self.below is not None:
            yield "below", f"the condition on {self.metric} has both above and below; remove one"
        else:
            side = "above" if self.is_above else "below"
            yield from _check_unit(self.metric, self.measure, self.threshold, side)

    def _check_of(self) -> Iterator[KeyProblem]:
        if self.of and not self.of.strip():
            yield "of", "the name in 'of' is blank; write an operator, query or node, or leave it out"

    def _check_duration(self) -> Iterator[KeyProblem]:
        if self.for_at_least is not None and self.in_at_least is not None:
            yield "in-at-least", "a condition has either for-at-least or in-at-least; remove one"
        if self.measure.kind is MeasureKind.EACH and self.for_at_least is None and self.in_at_least is None:
            yield (
                "metric",
                "a single reading cannot fire a rule; add for-at-least (such as 30s) "
                "or in-at-least (such as 4 of 5)",
            )

    CHECKS = (_check_threshold, _check_of, _check_duration)

    @property
    def threshold(self) -> Quantity:
        """The value of ``above`` or ``below``."""
        found = self.below if self.above is None else self.above
        assert found is not None
        return found

    @property
    def is_above(self) -> bool:
        """Whether it holds above the threshold, not below."""
        return self.above is not None


class AllOf(PolicyTable, frozen=True, kw_only=True):
    """All of these conditions must hold."""

    all_of: Annotated[tuple[Condition, ...], msgspec.Meta(description="conditions; all must hold")]

    def _check_parts(self) -> Iterator[KeyProblem]:
        if not self.all_of:
            yield "all-of", "all-of is empty; add at least one condition"

    CHECKS = (_check_parts,)


class AnyOf(PolicyTable, frozen=True, kw_only=True):
    """At least one of these conditions must hold."""

    any_of: Annotated[tuple[Condition, ...], msgspec.Meta(description="conditions; one must hold")]

    def _check_parts(self) -> Iterator[KeyProblem]:
        if not self.any_of:
            yield "any-of", "any-of is empty; add at least one condition"

    CHECKS = (_check_parts,)


Condition: TypeAlias = Trigger | AllOf | AnyOf


def triggers_of(condition: Condition) -> Iterator[Trigger]:
    """The triggers of a condition, at any depth."""
    if isinstance(condition, Trigger):
        yield condition
        return
    for part in condition.all_of if isinstance(condition, AllOf) else condition.any_of:
        yield from triggers_of(part)


UNIT_NAMES = {
    "rows": ("rows", "300 rows"),
    "rows/s": ("rows per second", "300 rows/s"),
    "s": ("seconds", "30s or 500ms"),
    "count": ("plain numbers", "4"),
    "share of 1": ("percent", "80%"),
    "bytes": ("bytes", "64MB"),
    "bytes/s": ("bytes per second", "64MB/s"),
}
"""The units of metrics in words, and an example of each."""


def metric_of(key: str) -> Metric:
    """The metric that a trigger names; ``cpu`` counts as the CPU of instances."""
    return Metric.INSTANCE_CPU if key == CPU else Metric.of(key)


def _check_unit(key: str, measure: Measure, value: Quantity, side: str) -> Iterator[KeyProblem]:
    """The threshold must have the unit of the metric, per time where a rate is compared."""
    try:
        unit = metric_of(key).unit.value
    except UnknownNameError as error:
        yield "metric", str(error)
        return
    counted, _, per = unit.partition("/")
    is_rate = measure.kind is MeasureKind.RATE
    if is_rate and per:
        yield "measure", f"{key} is already a rate; compare its mean or forecast instead"
        return
    if value.kind.value == counted and bool(value.per) == (is_rate or bool(per)):
        return
    name, example = UNIT_NAMES[unit]
    metric = key
    if is_rate:
        metric, name, example = (
            f"the rate of change of {key}",
            f"{name} per time",
            f"{example.split(' or ')[0]}/min",
        )
    yield side, f"{value} does not fit {metric}, which is measured in {name}; write, for example, {example}"


# -- rules and bounds ----------------------------------------------------------------------------------


class Rule(PolicyTable, frozen=True, kw_only=True):
    """Changes a size by a step, up to a limit, when its conditions hold and no guard time is running."""

    name: Annotated[str, msgspec.Meta(description="shown in the ledger when the rule fires")]
    action: Annotated[RuleAction, msgspec.Meta(description="scale-out or scale-in")]
    operator: Annotated[
        str, msgspec.Meta(description="operator to scale; * for each; leave out to scale the nodes")
    ] = NODES
    by: Annotated[StepSize | None, msgspec.Meta(description="step: 1, x2 or 25%")] = None
    to: Annotated[int | None, msgspec.Meta(description="exact size, instead of a step")] = None
    never_above: Annotated[Limit | None, msgspec.Meta(description="limit of a scale-out: 8, or x2")] = None
    never_below: Annotated[Limit | None, msgspec.Meta(description="limit of a scale-in: 2, or x0.5")] = None
    when: Annotated[tuple[Condition, ...], msgspec.Meta(description="conditions; all must hold")]
    no_scale_out_since: Annotated[
        Span | None, msgspec.Meta(description="guard time: minimum time since the last scale-out")
    ] = None
    no_scale_in_since: Annotated[
        Span | None, msgspec.Meta(description="guard time: minimum time since the last scale-in")
    ] = None

    def _check_name(self) -> Iterator[KeyProblem]:
        if not self.name.strip():
            yield "name", "the rule has no name; the ledger needs one to say which rule fired"

    def _check_operator(self) -> Iterator[KeyProblem]:
        yield from _check_operator_name(self.operator)

    def _check_step(self) -> Iterator[KeyProblem]:
        if self.by is None and self.to is None:
            yield "name", f"rule '{self.name}' needs by (a step, such as 1) or to (an exact size, such as 4)"
        elif self.by is not None and self.to is not None:
            yield "to", f"rule '{self.name}' has both by and to; remove one"

    def _check_to(self) -> Iterator[KeyProblem]:
        yield from _check_size("to", self.to)

    def _check_limit(self) -> Iterator[KeyProblem]:
        if self.out and self.never_below is not None:
            yield "never-below", "never-below limits a scale-in; for a scale-out write never-above"
        if not self.out and self.never_above is not None:
            yield "never-above", "never-above limits a scale-out; for a scale-in write never-below"

    def _check_when(self) -> Iterator[KeyProblem]:
        if not self.when:
            yield "when", f"rule '{self.name}' has no conditions; add at least one to when"
        if self.operator == NODES:
            for trigger in self.triggers:
                if not trigger.of and _is_about_operator(trigger.metric):
                    yield (
                        "when",
                        f"rule '{self.name}' scales the nodes, but {trigger.metric} belongs to an operator; "
                        "name the operator with of",
                    )

    CHECKS = (_check_name, _check_operator, _check_step, _check_to, _check_limit, _check_when)

    @property
    def out(self) -> bool:
        """Whether it scales out."""
        return self.action is RuleAction.SCALE_OUT

    @property
    def triggers(self) -> tuple[Trigger, ...]:
        """All triggers of its conditions."""
        return tuple(trigger for condition in self.when for trigger in triggers_of(condition))


class BoundsRule(PolicyTable, frozen=True, kw_only=True):
    """Keeps a size within bounds, always or at certain hours (the constraint rules of WASABi)."""

    name: Annotated[str, msgspec.Meta(description="shown in the ledger when the bounds apply")]
    operator: Annotated[str, msgspec.Meta(description="as in a rule")] = NODES
    at_least: Annotated[int | None, msgspec.Meta(description="smallest size")] = None
    at_most: Annotated[int | None, msgspec.Meta(description="largest size")] = None
    from_: Annotated[
        TimeOfDay | None, msgspec.Meta(description="time of day at which they start to apply")
    ] = None
    until: Annotated[
        TimeOfDay | None,
        msgspec.Meta(description="time of day at which they end; on the next day if earlier than from"),
    ] = None
    on: Annotated[
        tuple[Weekday, ...], msgspec.Meta(description="days on which the hours start; every day by default")
    ] = ()
    timezone: Annotated[
        str, msgspec.Meta(description="time zone of the hours and days, such as Europe/Berlin")
    ] = "UTC"

    def _check_name(self) -> Iterator[KeyProblem]:
        if not self.name.strip():
            yield "name", "the bounds have no name; the ledger needs one to say which bounds applied"

    def _check_operator(self) -> Iterator[KeyProblem]:
        yield from _check_operator_name(self.operator)

    def _check_at_least(self) -> Iterator[KeyProblem]:
        yield from _check_size("at-least", self.at_least)

    def _check_at_most(self) -> Iterator[KeyProblem]:
        yield from _check_size("at-most", self.at_most)

    def _check_range(self) -> Iterator[KeyProblem]:
        low, high = self.at_least, self.at_most
        if low is None and high is None:
            yield "name", f"bounds '{self.name}' have no size; add at-least or at-most"
        elif low is not None and high is not None and 1 <= high < low <= LARGEST_SIZE:
            yield (
                "at-least",
                f"at-least {low} is greater than at-most {high}; did you mean at-least {high} and at-most {low}?",
            )

    def _check_hours(self) -> Iterator[KeyProblem]:
        if (self.from_ is None) != (self.until is None):
            yield "until" if self.until else "from", "from and until go together; write both or neither"
        if self.from_ is not None and self.from_ == self.until:
            yield "until", f"from and until are both {self.from_}; leave both out to cover the whole day"
        if self.from_ is not None and self.from_.minute == MINUTES_OF_DAY:
            yield "from", "24:00 is the end of a day; to start at midnight, write 00:00"

    def _check_timezone(self) -> Iterator[KeyProblem]:
        try:
            ZoneInfo(self.timezone)
        except (KeyError, ValueError, OSError):
            yield (
                "timezone",
                f"unknown time zone '{self.timezone}'; write UTC or an IANA name such as Europe/Berlin",
            )

    CHECKS = (
        _check_name,
        _check_operator,
        _check_at_least,
        _check_at_most,
        _check_range,
        _check_hours,
        _check_timezone,
    )


def _check_size(key: str, size: int | None) -> Iterator[KeyProblem]:
    if size is not None and size < 1:
        yield key, f"{key} {size} is too small; the smallest size is 1"
    if size is not None and size > LARGEST_SIZE:
        yield key, f"{key} is too large; the largest size is {LARGEST_SIZE}"


def _check_operator_name(name: str) -> Iterator[KeyProblem]:
    if name and not name.strip():
        yield (
            "operator",
            "the operator name is blank; write a name, * for each operator, or leave it out for the nodes",
        )


def _is_about_operator(metric: str) -> bool:
    return metric != CPU and Metric.of(metric).about.value == "operator"


# -- the policy ----------------------------------------------------------------------------------------


class Buildable(ABC):
    """A complete phrase of the language, from which a rule or bounds can be built."""

    @abstractmethod
    def build(self) -> Rule | BoundsRule:
        """The rule or bounds."""


class Incomplete:
    """A phrase of the language that needs more words."""

    continuation = ""
    """The words of which one must follow."""
    rule_name: str | None = None
    """The name of the rule it belongs to, if known."""


class Policy:
    """Rules and bounds.

    >>> from ebbflow.policy import *
    >>> policy = Policy(
    ...     rule("Queue length is above 300 for 30 seconds")
    ...     .scale_out(operator("enrich")).by(absolute(1)).but_never_above(nodes(2))
    ...     .when(metric("queue-length")).is_(above(rows(300))).for_at_least(seconds(30))
    ...     .with_no_scale_out_since(minutes(5)),
    ... )
    >>> policy.rules[0].never_above, str(policy.rules[0].no_scale_out_since)
    (Limit(amount=2.0, relative=False), '5m')
    """

    __slots__ = ("bounds", "rules")

    rules: tuple[Rule, ...]
    bounds: tuple[BoundsRule, ...]

    def __init__(self, *parts: Rule | BoundsRule | Buildable) -> None:
        built: list[Rule | BoundsRule] = []
        for part in parts:
            complete = part.build() if isinstance(part, Buildable) else part
            if not isinstance(complete, Rule | BoundsRule):
                raise PolicyError(_not_a_part(complete))
            built.append(complete)
        object.__setattr__(self, "rules", tuple(part for part in built if isinstance(part, Rule)))
        object.__setattr__(self, "bounds", tuple(part for part in built if isinstance(part, BoundsRule)))
        duplicate = next((name for name, times in Counter(self._names()).items() if times > 1), None)
        if duplicate is not None:
            raise PolicyError(f"duplicate name '{duplicate}'; give each rule and bounds a name of its own")

    def _names(self) -> list[str]:
        return [rule.name for rule in self.rules] + [bounds.name for bounds in self.bounds]

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"cannot set {name}: a policy is immutable; create a new one")

    def __reduce__(self) -> tuple[type[Policy], tuple[Rule | BoundsRule, ...]]:
        return (type(self), (*self.rules, *self.bounds))  # attributes cannot be set when unpickling

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Policy):
            return NotImplemented
        return self.rules == other.rules and self.bounds == other.bounds

    def __hash__(self) -> int:
        return hash((self.rules, self.bounds))

    def __repr__(self) -> str:
        return f"Policy({', '.join(map(repr, self._names()))})"


def _not_a_part(part: object) -> str:
    if isinstance(part, Incomplete):
        phrase = f"rule '{part.rule_name}'" if part.rule_name is not None else "this phrase"
        return f"{phrase} is incomplete; continue with {part.continuation}"
    return f"{part!r} is not part of a policy; write rule(…) or bounds(…)"


@dataclass(frozen=True, kw_only=True)
class PolicyChange:
    """The differences between two policies, by the names of their rules."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]
    unchanged: tuple[str, ...]
    """Rules that are identical; they keep the readings they have."""

    @classmethod
    def between(cls, before: Policy, after: Policy) -> PolicyChange:
        """Compare the rules of two policies."""
        old = {rule.name: rule for rule in before.rules}
        new = {rule.name: rule for rule in after.rules}
        return cls(
            added=tuple(name for name in new if name not in old),
            removed=tuple(name for name in old if name not in new),
            changed=tuple(name for name in new if name in old and new[name] != old[name]),
            unchanged=tuple(name for name in new if old.get(name) == new[name]),
        )

    def __str__(self) -> str:
        parts = [
            f"{len(names)} {word} ({', '.join(names)})"
            for word, names in (("added", self.added), ("changed", self.changed), ("removed", self.removed))
            if names
        ]
        return "; ".join([*parts, f"{len(self.unchanged)} unchanged"])
