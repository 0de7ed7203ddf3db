"""A policy as sentences, for people who have to answer for it."""

from __future__ import annotations

from collections.abc import Iterator

from ebbflow.policy.model import (
    EACH_OPERATOR,
    NODES,
    AllOf,
    Bounds,
    Condition,
    Day,
    Policy,
    Rule,
    Trigger,
)
from ebbflow.policy.quantities import number_text
from ebbflow.policy.values import Limit, MeasureKind, Step


def policy_in_english(policy: Policy) -> str:
    """One paragraph per rule and bounds.

    >>> from ebbflow.policy import *
    >>> print(policy_in_english(Policy(
    ...     rule("grow").scale_out(operator("enrich")).by(absolute(1)).but_never_above(nodes(2))
    ...     .when(metric("queue-length")).is_(above(tuples(300))).for_at_least(seconds(30))
    ...     .with_no_scale_out_since(minutes(5)),
    ...     bounds("office hours").keep(cluster(), at_least=4, at_most=12).between("08:00", "20:00").on("weekdays"),
    ... )))
    grow
      Scale out operator enrich by 1, but never above 2,
      when queue-length is above 300 tuples for at least 30s,
      with no scale-out in the last 5m.
    <BLANKLINE>
    office hours
      From 08:00 until 20:00 on weekdays (UTC) keep 4 to 12 nodes.
    """
    if not policy.rules and not policy.bounds:
        return "Nothing is ever scaled: the policy has no rules."
    parts = [f"{_one_line(rule.name)}\n  " + ",\n  ".join(_rule_lines(rule)) + "." for rule in policy.rules]
    parts += [f"{_one_line(bounds.name)}\n  {bounds_in_english(bounds)}." for bounds in policy.bounds]
    return "\n\n".join(parts)


def rule_in_english(rule: Rule) -> str:
    """A rule as one sentence without its name."""
    return ", ".join(_rule_lines(rule))


def _rule_lines(rule: Rule) -> Iterator[str]:
    action = "Scale out" if rule.out else "Scale in"
    how = f"to exactly {rule.to}" if rule.by is None else f"by {_step(rule.by, rule.operator)}"
    limit, side = (rule.never_above, "above") if rule.out else (rule.never_below, "below")
    bound = f", but never {side} {_limit(limit, rule.operator)}" if limit is not None else ""
    yield f"{action} {subject_in_english(rule.operator)} {how}{bound}"
    yield "when " + ("\n  and ".join(_condition(condition, rule) for condition in rule.when))
    if rule.no_scale_out_since is not None:
        yield f"with no scale-out in the last {rule.no_scale_out_since}"
    if rule.no_scale_in_since is not None:
        yield f"with no scale-in in the last {rule.no_scale_in_since}"


def subject_in_english(operator: str) -> str:
    """What is scaled."""
    if operator == NODES:
        return "the nodes"
    return "each operator" if operator == EACH_OPERATOR else f"operator {operator}"


def _step(step: Step, operator: str) -> str:
    if step.kind == "relative":
        return f"a factor of {number_text(step.amount)}"
    return f"{step}" if step.kind == "absolute" else f"{step} of {_its(operator)}"


def _limit(limit: Limit, operator: str) -> str:
    return (
        f"{number_text(limit.amount)} times {_its(operator, 'original ')}" if limit.relative else str(limit)
    )


def _its(operator: str, which: str = "") -> str:
    return f"their {which}number" if operator == NODES else f"its {which}size"


def _condition(condition: Condition, rule: Rule, *, inner: bool = False) -> str:
    if isinstance(condition, Trigger):
        return trigger_in_english(condition)
    word, parts = ("and", condition.all_of) if isinstance(condition, AllOf) else ("or", condition.any_of)
    text = f" {word} ".join(_condition(part, rule, inner=True) for part in parts)
    return f"({text})" if len(parts) > 1 or inner else text


def measured_in_english(trigger: Trigger) -> str:
    """What is compared: the metric, perhaps of something, perhaps its mean or its forecast.

    >>> from ebbflow.policy import *
    >>> measured_in_english(metric("backlog").is_forecast_to_be(above(tuples(9)), ahead=minutes(2)))
    'the forecast of backlog 2m ahead'
    """
    name = _named(trigger)
    measure = trigger.measure
    if measure.kind is MeasureKind.MEAN:
        return f"the mean of {name} over {measure.span}"
    if measure.kind is MeasureKind.PERCENTILE:
        return f"p{number_text(measure.percentile)} of {name} over {measure.span}"
    if measure.kind is MeasureKind.RATE:
        return f"the rate of change of {name} over {measure.span}"
    if measure.kind is MeasureKind.FORECAST:
        return f"the forecast of {name} {measure.span} ahead"
    return name


def _one_line(name: str) -> str:
    """Names of files may have line breaks; then the next line would look like what the rule says."""
    return " ".join(name.split())


def _named(trigger: Trigger) -> str:
    return f"{trigger.metric} of {trigger.of}" if trigger.of else trigger.metric


def trigger_in_english(trigger: Trigger) -> str:
    """A condition: what, past which threshold, how long or how often."""
    side = "above" if trigger.is_above else "at or below"
    measured = f"{measured_in_english(trigger)} is"
    if trigger.measure.kind is MeasureKind.FORECAST:
        measured = f"{_named(trigger)} is forecast to be, {trigger.measure.span} ahead,"
    text = f"{measured} {side} {trigger.threshold}"
    if trigger.for_at_least is not None:
        return f"{text} for at least {trigger.for_at_least}"
    if trigger.in_at_least is not None:
        return f"{text} in at least {trigger.in_at_least} readings"
    return text


def bounds_in_english(bounds: Bounds) -> str:
    """Bounds as one sentence."""
    what = "nodes" if bounds.operator == NODES else f"instances of {subject_in_english(bounds.operator)}"
    if bounds.at_least is None:
        size = f"at most {bounds.at_most}"
    elif bounds.at_most is None:
        size = f"at least {bounds.at_least}"
    else:
        size = f"{bounds.at_least} to {bounds.at_most}"
    if bounds.from_ is None and not bounds.on:
        return f"Always keep {size} {what}"
    hours = f"From {bounds.from_} until {bounds.until}" if bounds.from_ is not None else "All day"
    days = f" {_days(bounds.on)}" if bounds.on else ""
    return f"{hours}{days} ({bounds.timezone}) keep {size} {what}"


def _days(days: tuple[Day, ...]) -> str:
    week = tuple(Day)
    if days == week[:5]:
        return "on weekdays"
    if days == week[5:]:
        return "on weekends"
    return "on " + ", ".join(day.value.capitalize() for day in days)
