"""A policy as English sentences: for ``ebbflow policy show`` and for the reasons in the ledger."""

from __future__ import annotations

from collections.abc import Iterator

from ebbflow.policy.model import (
    DAYS,
    EACH_OPERATOR,
    NODES,
    AllOf,
    BoundsRule,
    Condition,
    Policy,
    Rule,
    Trigger,
    Weekday,
)
from ebbflow.policy.values import Limit, MeasureKind, StepSize, number_text


def policy_in_english(policy: Policy) -> str:
    """One paragraph for each rule and bounds.

    >>> from ebbflow.policy import *
    >>> print(policy_in_english(Policy(
    ...     rule("grow").scale_out(operator("enrich")).by(absolute(1)).but_never_above(nodes(2))
    ...     .when(metric("queue-length")).is_(above(rows(300))).for_at_least(seconds(30))
    ...     .with_no_scale_out_since(minutes(5)),
    ...     bounds("office hours").keep(cluster(), at_least=4, at_most=12).between("08:00", "20:00").on("weekdays"),
    ... )))
    grow
      Scale out operator enrich by 1 instance, but never above 2 instances,
      when queue-length is above 300 rows for at least 30s,
      but not within 5m of a scale-out.
    <BLANKLINE>
    office hours
      Keep 4 to 12 nodes from 08:00 to 20:00 on weekdays (UTC).
    """
    if not policy.rules and not policy.bounds:
        return "The policy has no rules and no bounds; it never scales anything."
    parts = [f"{_one_line(rule.name)}\n  " + ",\n  ".join(_rule_lines(rule)) + "." for rule in policy.rules]
    parts += [f"{_one_line(bounds.name)}\n  {bounds_in_english(bounds)}." for bounds in policy.bounds]
    return "\n\n".join(parts)


def _one_line(name: str) -> str:
    """A name without line breaks, which would make its second line look like part of the rule."""
    return " ".join(name.split())


# -- rules ---------------------------------------------------------------------------------------------


def rule_in_english(rule: Rule) -> str:
    """A rule as one sentence, without its name."""
    return ", ".join(_rule_lines(rule))


def _rule_lines(rule: Rule) -> Iterator[str]:
    yield f"{_action(rule)}{_limit(rule)}"
    yield "when " + ("\n  and ".join(_condition(condition) for condition in rule.when))
    guards = [
        f"{span} of a {action}"
        for action, span in (("scale-out", rule.no_scale_out_since), ("scale-in", rule.no_scale_in_since))
        if span is not None
    ]
    if guards:
        yield f"but not within {' or '.join(guards)}"


def _action(rule: Rule) -> str:
    word = "out" if rule.out else "in"
    if rule.by is None:
        assert rule.to is not None
        return f"Scale {word} {_subject(rule.operator)} to exactly {_counted(rule.to, rule.operator)}"
    return f"Scale {word} {_subject(rule.operator)} by {_step(rule.by, rule.operator)}"


def _limit(rule: Rule) -> str:
    limit, side = (rule.never_above, "above") if rule.out else (rule.never_below, "below")
    if limit is None:
        return ""
    return f", but never {side} {_limit_size(limit, rule.operator)}"


def _limit_size(limit: Limit, operator: str) -> str:
    if limit.relative:
        return f"{number_text(limit.amount)} times its original size"
    return _counted(int(limit.amount), operator)


def _subject(operator: str) -> str:
    if operator == NODES:
        return "the cluster"
    return "each operator" if operator == EACH_OPERATOR else f"operator {operator}"


def _step(step: StepSize, operator: str) -> str:
    if step.kind == "relative":
        return f"a factor of {number_text(step.amount)}"
    return str(step) if step.kind == "percent" else _counted(int(step.amount), operator)


def _counted(size: int, operator: str) -> str:
    noun = "node" if operator == NODES else "instance"
    return f"{size} {noun}{'' if size == 1 else 's'}"


# -- conditions ----------------------------------------------------------------------------------------


def _condition(condition: Condition, *, inner: bool = False) -> str:
    if isinstance(condition, Trigger):
        return trigger_in_english(condition)
    word, parts = ("and", condition.all_of) if isinstance(condition, AllOf) else ("or", condition.any_of)
    text = f" {word} ".join(_condition(part, inner=True) for part in parts)
    return f"({text})" if len(parts) > 1 or inner else text


def trigger_in_english(trigger: Trigger) -> str:
    """The measure, the threshold, and for how long or how often.

    >>> from ebbflow.policy import *
    >>> trigger_in_english(metric("backlog").is_forecast_to_be(above(rows(9)), ahead=minutes(2)))
    'backlog is forecast to be above 9 rows in 2m'
    """
    if trigger.measure.kind is MeasureKind.FORECAST:
        return f"{_named(trigger)} is forecast to be {requirement_in_english(trigger)}"
    return f"{measured_in_english(trigger)} is {requirement_in_english(trigger)}"


def requirement_in_english(trigger: Trigger) -> str:
    """The threshold, and for how long or how often.

    >>> from ebbflow.policy import *
    >>> requirement_in_english(metric("backlog").is_(above(rows(9))).in_at_least(4, of=5))
    'above 9 rows in at least 4 of the last 5 readings'
    """
    text = compared_in_english(trigger)
    if trigger.measure.kind is MeasureKind.FORECAST:
        text += f" in {trigger.measure.span}"
    if trigger.for_at_least is not None:
        return f"{text} for at least {trigger.for_at_least}"
    if trigger.in_at_least is not None:
        times, of = trigger.in_at_least.times, trigger.in_at_least.of
        return f"{text} in at least {times} of the last {of} readings"
    return text


def compared_in_english(trigger: Trigger) -> str:
    """The threshold.

    >>> from ebbflow.policy import *
    >>> compared_in_english(metric("backlog").is_(below(rows(9))).for_at_least(seconds(5)))
    'at or below 9 rows'
    """
    return f"{'above' if trigger.is_above else 'at or below'} {trigger.threshold}"


def measured_in_english(trigger: Trigger) -> str:
    """What is compared with the threshold: a metric or a statistic of it.

    >>> from ebbflow.policy import *
    >>> measured_in_english(metric("backlog").is_forecast_to_be(above(rows(9)), ahead=minutes(2)))
    'the forecast of backlog in 2m'
    """
    name, measure = _named(trigger), trigger.measure
    if measure.kind is MeasureKind.MEAN:
        return f"the mean of {name} over {measure.span}"
    if measure.kind is MeasureKind.PERCENTILE:
        return f"the p{number_text(measure.percentile)} of {name} over {measure.span}"
    if measure.kind is MeasureKind.RATE:
        return f"the rate of change of {name} over {measure.span}"
    if measure.kind is MeasureKind.FORECAST:
        return f"the forecast of {name} in {measure.span}"
    return name


def _named(trigger: Trigger) -> str:
    return f"{trigger.metric} of {trigger.of}" if trigger.of else trigger.metric


# -- bounds --------------------------------------------------------------------------------------------


def bounds_in_english(bounds: BoundsRule) -> str:
    """Bounds as one sentence."""
    what = "nodes" if bounds.operator == NODES else f"instances of {_subject(bounds.operator)}"
    if bounds.at_least is None:
        size = f"at most {bounds.at_most}"
    elif bounds.at_most is None:
        size = f"at least {bounds.at_least}"
    else:
        size = f"{bounds.at_least} to {bounds.at_most}"
    if bounds.from_ is None and not bounds.on:
        return f"Keep {size} {what} at all times"
    hours = f"from {bounds.from_} to {bounds.until}" if bounds.from_ is not None else "all day"
    days = f" on {_days(bounds.on)}" if bounds.on else ""
    return f"Keep {size} {what} {hours}{days} ({bounds.timezone})"


def _days(days: tuple[Weekday, ...]) -> str:
    for name in ("weekdays", "weekends"):
        if days == DAYS[name]:
            return name
    return ", ".join(day.value.capitalize() for day in days)
