"""The grammar of the language: each phrase offers only the words that may follow, so editors complete a policy
and mypy rejects a wrong one.

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

Inside a rule the parenthesis of ``when`` may close right after the metric: ``.when(metric("cpu")).is_(…)``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

from ebbflow.errors import PolicyError
from ebbflow.policy.language.words import Scalable, Threshold, expect, expect_span
from ebbflow.policy.model import (
    AllOf,
    AnyOf,
    BoundsRule,
    Buildable,
    Condition,
    Incomplete,
    Rule,
    RuleAction,
    Trigger,
    days_named,
)
from ebbflow.policy.values import Limit, Measure, MeasureKind, Occurrences, Percent, Span, StepSize, TimeOfDay

T = TypeVar("T")
"""What a complete condition becomes: the trigger itself, or the rule it is part of."""


# -- conditions ----------------------------------------------------------------------------------------


class _ConditionPhrase(Incomplete, Generic[T]):
    """The fields of a trigger so far, and what to make of the complete trigger."""

    def __init__(self, fields: dict[str, Any], finish: Callable[[Trigger], T]) -> None:
        self._fields, self._finish = fields, finish

    def _complete(self, **more: Any) -> T:
        return self._finish(Trigger(**self._fields, **more))


class ThresholdPhrase(_ConditionPhrase[T]):
    """A metric and a threshold; for how long or how often is next."""

    continuation = ".for_at_least(…) or .in_at_least(…)"

    def for_at_least(self, time: Span) -> T:
        """Every reading of this duration; the readings must span it."""
        return self._complete(for_at_least=expect_span("for_at_least", time))

    def in_at_least(self, times: int, *, of: int) -> T:
        """This many of the latest readings, so that one outlier neither fires nor blocks the rule."""
        for number in (times, of):
            expect("in_at_least", number, int, "in_at_least(4, of=5)")
        return self._complete(in_at_least=Occurrences(times, of))


class MeasurePhrase(_ConditionPhrase[T]):
    """A statistic of the latest readings; the threshold is next."""

    continuation = ".is_(…)"

    def is_(self, threshold: Threshold, *, for_at_least: Span | None = None) -> T:
        """Above or below a threshold."""
        if for_at_least is not None:
            expect_span("for_at_least", for_at_least)
        return self._complete(**_side("is_", threshold), for_at_least=for_at_least)


class MetricPhrase(_ConditionPhrase[T]):
    """A metric; a statistic of it or the threshold is next."""

    continuation = ".is_(…), .mean_over(…), .percentile(…), .rate_of_change_over(…) or .is_forecast_to_be(…)"

    def of(self, name: str) -> MetricPhrase[T]:
        """Measure this operator, query or node instead of what the rule scales."""
        return MetricPhrase({**self._fields, "of": expect("of", name, str, 'of("store")')}, self._finish)

    def is_(self, threshold: Threshold) -> ThresholdPhrase[T]:
        """Above or below a threshold."""
        return ThresholdPhrase({**self._fields, **_side("is_", threshold)}, self._finish)

    def mean_over(self, time: Span) -> MeasurePhrase[T]:
        """The mean of the readings in this duration."""
        return self._measure(Measure(MeasureKind.MEAN, expect_span("mean_over", time)))

    def percentile(self, percent: float, *, over: Span) -> MeasurePhrase[T]:
        """The value that this percentage of the readings does not exceed (nearest rank)."""
        expect("percentile", percent, int | float, "percentile(95, over=minutes(5))")
        return self._measure(Measure(MeasureKind.PERCENTILE, expect_span("over", over), float(percent)))

    def rate_of_change_over(self, time: Span) -> MeasurePhrase[T]:
        """The slope of the least-squares line through the readings in this duration."""
        return self._measure(Measure(MeasureKind.RATE, expect_span("rate_of_change_over", time)))

    def is_forecast_to_be(self, threshold: Threshold, *, ahead: Span, for_at_least: Span | None = None) -> T:
        """The forecast for ``ahead`` from now: of ``arrival-rate`` by the default forecaster; of other metrics, which
        scaling changes, by the least-squares line through the readings of the last ``ahead``."""
        measure = Measure(MeasureKind.FORECAST, expect_span("ahead", ahead))
        if for_at_least is not None:
            expect_span("for_at_least", for_at_least)
        return self._complete(
            **_side("is_forecast_to_be", threshold), measure=measure, for_at_least=for_at_least
        )

    def _measure(self, measure: Measure) -> MeasurePhrase[T]:
        return MeasurePhrase({**self._fields, "measure": measure}, self._finish)


def metric(key: str) -> MetricPhrase[Trigger]:
    """A metric by its key in the catalogue (``ebbflow metrics``), or ``cpu``."""
    return MetricPhrase({"metric": expect("metric", key, str, 'metric("cpu")')}, lambda trigger: trigger)


def all_of(*conditions: Condition) -> AllOf:
    """All must hold."""
    return AllOf(all_of=tuple(_condition("all_of", each) for each in conditions))


def any_of(*conditions: Condition) -> AnyOf:
    """At least one must hold."""
    return AnyOf(any_of=tuple(_condition("any_of", each) for each in conditions))


def _condition(word: str, value: Any) -> Condition:
    example = f'{word}(metric("cpu").is_(above(percent(80))).for_at_least(seconds(30)))'
    found: Condition = expect(word, value, Trigger | AllOf | AnyOf, example)
    return found


def _side(word: str, threshold: Threshold) -> dict[str, Any]:
    expect(word, threshold, Threshold, f"{word}(above(rows(300)))")
    return {"above" if threshold.is_above else "below": threshold.value}


# -- rules ---------------------------------------------------------------------------------------------


class _RulePhrase(Incomplete):
    """The fields of a rule so far."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields
        self.rule_name = fields["name"]

    def _with(self, **more: Any) -> dict[str, Any]:
        return {**self._fields, **more}

    def _with_condition(self, holds: Condition) -> Ready:
        return Ready(self._with(when=(*self._fields.get("when", ()), holds)))


class RuleStart(_RulePhrase):
    """A rule with a name; the action is next."""

    continuation = ".scale_out(…) or .scale_in(…)"

    def scale_out(self, what: Scalable) -> ScaleOut:
        """Make it larger."""
        return ScaleOut(self._with(action=RuleAction.SCALE_OUT, operator=_operator("scale_out", what)))

    def scale_in(self, what: Scalable) -> ScaleIn:
        """Make it smaller, never below 1."""
        return ScaleIn(self._with(action=RuleAction.SCALE_IN, operator=_operator("scale_in", what)))


class When(_RulePhrase):
    """A rule whose action is complete; the condition is next."""

    continuation = ".when(…)"

    @overload
    def when(self, holds: MetricPhrase[Trigger]) -> MetricPhrase[Ready]: ...
    @overload
    def when(self, holds: MeasurePhrase[Trigger]) -> MeasurePhrase[Ready]: ...
    @overload
    def when(self, holds: Trigger | AllOf | AnyOf) -> Ready: ...
    def when(self, holds: MetricPhrase[Trigger] | MeasurePhrase[Trigger] | Condition) -> Any:
        """The rule fires when this condition holds."""
        if not isinstance(holds, MetricPhrase | MeasurePhrase):
            return self._with_condition(_condition("when", holds))
        phrase: Any = type(holds)
        return phrase(holds._fields, self._with_condition)


class LimitOut(When):
    """A scale-out with its step; an upper limit or the condition is next."""

    def but_never_above(self, limit: Limit) -> When:
        """A step past the limit ends there."""
        return When(self._with(never_above=_limit("but_never_above", limit)))


class LimitIn(When):
    """A scale-in with its step; a lower limit or the condition is next."""

    def but_never_below(self, limit: Limit) -> When:
        """A step past the limit ends there."""
        return When(self._with(never_below=_limit("but_never_below", limit)))


class ScaleOut(_RulePhrase):
    """A scale-out; its step is next."""

    continuation = ".by(…) or .to(…)"

    def by(self, step: StepSize | Percent) -> LimitOut:
        """By a step."""
        return LimitOut(self._with(by=_step(step)))

    def to(self, size: Limit) -> LimitOut:
        """To exactly this size, if the current one is smaller."""
        return LimitOut(self._with(to=_exact_size(size)))


class ScaleIn(_RulePhrase):
    """A scale-in; its step is next."""

    continuation = ".by(…) or .to(…)"

    def by(self, step: StepSize | Percent) -> LimitIn:
        """By a step."""
        return LimitIn(self._with(by=_step(step)))

    def to(self, size: Limit) -> LimitIn:
        """To exactly this size, if the current one is larger."""
        return LimitIn(self._with(to=_exact_size(size)))


class Guarded(_RulePhrase, Buildable):
    """A complete rule; guard times may follow."""

    def with_no_scale_out_since(self, time: Span) -> Guarded:
        """Do not fire within this time of a scale-out."""
        return Guarded(self._with(no_scale_out_since=expect_span("with_no_scale_out_since", time)))

    def with_no_scale_in_since(self, time: Span) -> Guarded:
        """Do not fire within this time of a scale-in."""
        return Guarded(self._with(no_scale_in_since=expect_span("with_no_scale_in_since", time)))

    def build(self) -> Rule:
        """The rule; ``Policy`` calls this."""
        return Rule(**self._fields)


class Ready(Guarded):
    """A complete rule; more conditions or guard times may follow."""

    @overload
    def and_when(self, holds: MetricPhrase[Trigger]) -> MetricPhrase[Ready]: ...
    @overload
    def and_when(self, holds: MeasurePhrase[Trigger]) -> MeasurePhrase[Ready]: ...
    @overload
    def and_when(self, holds: Trigger | AllOf | AnyOf) -> Ready: ...
    def and_when(self, holds: MetricPhrase[Trigger] | MeasurePhrase[Trigger] | Condition) -> Any:
        """This condition must hold as well."""
        return When(self._fields).when(holds)


def rule(name: str) -> RuleStart:
    """Start a rule; the ledger shows its name."""
    return RuleStart({"name": expect("rule", name, str, 'rule("Queue length is above 300")')})


def _operator(word: str, what: Scalable) -> str:
    found: Scalable = expect(word, what, Scalable, f'{word}(operator("enrich")) or {word}(cluster())')
    return found.operator


def _limit(word: str, limit: Limit) -> Limit:
    found: Limit = expect(word, limit, Limit, f"{word}(nodes(4))")
    return found


def _step(step: StepSize | Percent) -> StepSize:
    found = expect("by", step, StepSize | Percent, "by(absolute(1)), by(relative(2)) or by(percent(25))")
    return found if isinstance(found, StepSize) else StepSize("percent", found.amount)


def _exact_size(size: Limit) -> int:
    expect("to", size, Limit, "to(nodes(4))")
    if size.relative:
        raise PolicyError(f"to({size}) is not an exact size; write, for example, to(nodes(4))")
    return int(size.amount)


# -- bounds --------------------------------------------------------------------------------------------


class BoundsStart(Incomplete):
    """Bounds with a name; what they apply to is next."""

    continuation = ".keep(…)"

    def __init__(self, name: str) -> None:
        self._name = expect("bounds", name, str, 'bounds("office hours")')

    def keep(self, what: Scalable, *, at_least: int | None = None, at_most: int | None = None) -> Within:
        """Keep the size within these limits."""
        for size in (at_least, at_most):
            expect("keep", size, int | None, "keep(cluster(), at_least=4, at_most=12)")
        operator = _operator("keep", what)
        return Within({"name": self._name, "operator": operator, "at_least": at_least, "at_most": at_most})


class Within(Buildable):
    """Complete bounds; hours, days and a time zone may follow."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields

    def between(self, start: str, end: str) -> Within:
        """From one time of day until another; the end may be on the next day."""
        return Within({**self._fields, "from_": TimeOfDay.parse(start), "until": TimeOfDay.parse(end)})

    def on(self, *days: str) -> Within:
        """The days on which the hours start: ``weekdays``, ``weekends`` or names of days."""
        for day in days:
            expect("on", day, str, 'on("monday", "friday") or on("weekdays")')
        return Within({**self._fields, "on": days_named(days)})

    def in_timezone(self, zone: str) -> Within:
        """The time zone of the hours and days, such as ``Europe/Berlin``."""
        example = 'in_timezone("Europe/Berlin")'
        return Within({**self._fields, "timezone": expect("in_timezone", zone, str, example)})

    def build(self) -> BoundsRule:
        """The bounds; ``Policy`` calls this."""
        return BoundsRule(**self._fields)


def bounds(name: str) -> BoundsStart:
    """Start bounds that apply always or at certain hours."""
    return BoundsStart(name)
