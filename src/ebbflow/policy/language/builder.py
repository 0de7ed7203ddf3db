"""The grammar of the language: each stage has only the words that may come next.

::

    rule(NAME) . scale_out | scale_in (WHAT)
               . by(STEP) | to(SIZE)            [ . but_never_above | but_never_below (LIMIT) ]
               . when(CONDITION)                { . and_when(CONDITION) }
               { . with_no_scale_out_since(TIME) | . with_no_scale_in_since(TIME) }

    CONDITION: metric(KEY) [ .of(NAME) ] . is_(THRESHOLD) . for_at_least(TIME) | in_at_least(M, of=N)
             | metric(KEY) . mean_over(TIME) | percentile(P, over=TIME) | rate_of_change_over(TIME)  . is_(THRESHOLD)
             | metric(KEY) . is_forecast_to_be(THRESHOLD, ahead=TIME)
             | all_of(CONDITION, …) | any_of(CONDITION, …)

    bounds(NAME) . keep(WHAT, at_least=N, at_most=M) [ . between(FROM, UNTIL) ] [ . on(DAYS) ] [ . in_timezone(ZONE) ]

Inside a rule the parenthesis of ``when`` may close after the metric: ``.when(metric("cpu")).is_(…)``.
"""

from __future__ import annotations

from functools import cache
from typing import Any, overload

from ebbflow.errors import PolicyError, UnknownNameError
from ebbflow.policy.language.words import (
    Measured,
    Metric,
    Scaled,
    above,
    absolute,
    below,
    cluster,
    condition,
    fitting,
    metric,
    minutes,
    per_second,
    percent,
    seconds,
    span_of,
    tuples,
)
from ebbflow.policy.model import (
    Action,
    AllOf,
    AnyOf,
    Bounds,
    Buildable,
    Condition,
    Day,
    Policy,
    Rule,
    Trigger,
    Unfinished,
)
from ebbflow.policy.quantities import Clock, Percent, Span
from ebbflow.policy.values import Limit, Step

DAYS = {
    "weekdays": tuple(Day)[:5],
    "weekends": tuple(Day)[5:],
    **{day.value: (day,) for day in Day},
}

# -- rules -------------------------------------------------------------------------------------------


class _Stage(Unfinished):
    """A rule so far."""

    def __init__(self, known: dict[str, Any]) -> None:
        self._known = known

    def _with(self, **more: Any) -> dict[str, Any]:
        return {**self._known, **more}

    def _also(self, holds: Condition) -> Ready:
        return Ready(self._with(when=(*self._known.get("when", ()), holds)))


class RuleStart(_Stage):
    """A rule with a name: what does it do?"""

    missing = ".scale_out(…) or .scale_in(…)"

    def scale_out(self, what: Scaled) -> ScaleOut:
        """Make it larger."""
        return ScaleOut(self._with(action=Action.SCALE_OUT, operator=_scaled("scale_out", what)))

    def scale_in(self, what: Scaled) -> ScaleIn:
        """Make it smaller; never below 1."""
        return ScaleIn(self._with(action=Action.SCALE_IN, operator=_scaled("scale_in", what)))


class When(_Stage):
    """It is known what to do: when?"""

    missing = ".when(…)"

    @overload
    def when(self, holds: Metric[Trigger]) -> Metric[Ready]: ...
    @overload
    def when(self, holds: Measured[Trigger]) -> Measured[Ready]: ...
    @overload
    def when(self, holds: Trigger | AllOf | AnyOf) -> Ready: ...
    def when(self, holds: Metric[Trigger] | Measured[Trigger] | Condition) -> Any:
        """When this holds."""
        if not isinstance(holds, Metric | Measured):
            return self._also(condition("when", holds))
        stage: Any = type(holds)
        return stage(holds._known, self._also)


class LimitOut(When):
    """How far: up to where, or at once when?"""

    def but_never_above(self, limit: Limit) -> When:
        """A step past it ends there."""
        return When(self._with(never_above=_limit("but_never_above", limit)))


class LimitIn(When):
    """How far: down to where, or at once when?"""

    def but_never_below(self, limit: Limit) -> When:
        """A step past it ends there."""
        return When(self._with(never_below=_limit("but_never_below", limit)))


class ScaleOut(_Stage):
    """Larger: by how much?"""

    missing = ".by(…) or .to(…)"

    def by(self, step: Step | Percent) -> LimitOut:
        """By a step."""
        return LimitOut(self._with(by=_step(step)))

    def to(self, size: Limit) -> LimitOut:
        """To exactly this size, if it is smaller."""
        return LimitOut(self._with(to=_exact(size)))


class ScaleIn(_Stage):
    """Smaller: by how much?"""

    missing = ".by(…) or .to(…)"

    def by(self, step: Step | Percent) -> LimitIn:
        """By a step."""
        return LimitIn(self._with(by=_step(step)))

    def to(self, size: Limit) -> LimitIn:
        """To exactly this size, if it is larger."""
        return LimitIn(self._with(to=_exact(size)))


class Guarded(_Stage, Buildable):
    """A whole rule with its conditions; guard times may follow."""

    def with_no_scale_out_since(self, time: Span) -> Guarded:
        """Not if it was scaled out in that time."""
        return Guarded(self._with(no_scale_out_since=span_of("with_no_scale_out_since", time)))

    def with_no_scale_in_since(self, time: Span) -> Guarded:
        """Not if it was scaled in in that time."""
        return Guarded(self._with(no_scale_in_since=span_of("with_no_scale_in_since", time)))

    def build(self) -> Rule:
        """The rule as a plain value; ``Policy`` does this by itself."""
        return Rule(**self._known)


class Ready(Guarded):
    """A whole rule; more conditions or guard times may follow."""

    @overload
    def and_when(self, holds: Metric[Trigger]) -> Metric[Ready]: ...
    @overload
    def and_when(self, holds: Measured[Trigger]) -> Measured[Ready]: ...
    @overload
    def and_when(self, holds: Trigger | AllOf | AnyOf) -> Ready: ...
    def and_when(self, holds: Metric[Trigger] | Measured[Trigger] | Condition) -> Any:
        """And only when this holds too."""
        return When(self._known).when(holds)


def rule(name: str) -> RuleStart:
    """A rule; its name is for people and for the ledger."""
    return RuleStart({"name": fitting("rule", name, str, 'rule("Queue length is above 300")')})


def _scaled(said: str, what: Scaled) -> str:
    right = f'{said}(operator("enrich")) or {said}(cluster())'
    found: Scaled = fitting(said, what, Scaled, right)
    return found.operator


def _limit(said: str, limit: Limit) -> Limit:
    found: Limit = fitting(said, limit, Limit, f"{said}(nodes(4))")
    return found


def _step(step: Step | Percent) -> Step:
    found = fitting("by", step, Step | Percent, "by(absolute(1)), by(relative(2)) or by(percent(25))")
    return found if isinstance(found, Step) else Step("percent", found.amount)


def _exact(size: Limit) -> int:
    fitting("to", size, Limit, "to(nodes(4))")
    if size.relative:
        raise PolicyError(f"to({size}) is not an exact size; write to(nodes(4))")
    return int(size.amount)


# -- bounds ------------------------------------------------------------------------------------------


class BoundsStart(Unfinished):
    """Bounds with a name: of what?"""

    missing = ".keep(…)"

    def __init__(self, name: str) -> None:
        self._name = fitting("bounds", name, str, 'bounds("office hours")')

    def keep(self, what: Scaled, *, at_least: int | None = None, at_most: int | None = None) -> Within:
        """Within these sizes."""
        for size in (at_least, at_most):
            fitting("keep", size, int | None, "keep(cluster(), at_least=4, at_most=12)")
        operator = _scaled("keep", what)
        return Within({"name": self._name, "operator": operator, "at_least": at_least, "at_most": at_most})


class Within(Buildable):
    """Whole bounds; hours, days and a time zone may follow."""

    def __init__(self, known: dict[str, Any]) -> None:
        self._known = known

    def between(self, start: str, end: str) -> Within:
        """From one time of day until another, perhaps of the next day."""
        return Within({**self._known, "from_": Clock.parse(start), "until": Clock.parse(end)})

    def on(self, *days: str) -> Within:
        """``weekdays``, ``weekends``, or days by name; those on which the hours begin."""
        for day in days:
            fitting("on", day, str, 'on("monday", "friday") or on("weekdays")')
        return Within({**self._known, "on": days_named(days)})

    def in_timezone(self, zone: str) -> Within:
        """Whose hours and days, like ``Europe/Berlin``."""
        right = 'in_timezone("Europe/Berlin")'
        return Within({**self._known, "timezone": fitting("in_timezone", zone, str, right)})

    def build(self) -> Bounds:
        """The bounds as a plain value."""
        return Bounds(**self._known)


def bounds(name: str) -> BoundsStart:
    """Bounds that hold always, or at certain hours."""
    return BoundsStart(name)


def days_named(names: tuple[str, ...]) -> tuple[Day, ...]:
    """The days, each once, in the order of the week.

    >>> [str(day) for day in days_named(("weekends", "friday"))]
    ['friday', 'saturday', 'sunday']
    """
    chosen: set[Day] = set()
    for name in names:
        if name not in DAYS:
            raise UnknownNameError("day", name, DAYS)
        chosen.update(DAYS[name])
    return tuple(day for day in Day if day in chosen)


# The policy of the strategy ``rules`` when nobody gave it one.


@cache
def default_policy() -> Policy:
    """For any pipeline on any target: nodes by freshness and by what waits."""
    return Policy(
        rule("Rows wait too long: half as many nodes again")
        .scale_out(cluster()).by(percent(50))
        .when(metric("freshness")).is_(above(seconds(20))).in_at_least(2, of=3)
        .with_no_scale_out_since(seconds(20)),
        rule("The queue keeps growing: one more node")
        .scale_out(cluster()).by(absolute(1))
        .when(metric("queue-length").rate_of_change_over(minutes(1))).is_(above(per_second(tuples(1))))
        .and_when(metric("freshness")).is_(above(seconds(10))).in_at_least(2, of=3)
        .with_no_scale_out_since(seconds(30)),
        rule("Rows hardly wait: one node less")
        .scale_in(cluster()).by(absolute(1))
        .when(metric("freshness").percentile(90, over=minutes(2))).is_(below(seconds(8)))
        .with_no_scale_out_since(minutes(5)).with_no_scale_in_since(minutes(1)),
    )  # fmt: skip
