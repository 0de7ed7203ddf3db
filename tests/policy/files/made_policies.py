"""Hypothesis strategies for random valid policies and their parts."""

from __future__ import annotations

from hypothesis import strategies as st

from ebbflow.core.metrics import Metric
from ebbflow.policy.model import (
    DAYS,
    UNIT_NAMES,
    AllOf,
    AnyOf,
    BoundsRule,
    Policy,
    Rule,
    RuleAction,
    Trigger,
    days_named,
)
from ebbflow.policy.values import (
    Limit,
    Measure,
    MeasureKind,
    Occurrences,
    Percent,
    Quantity,
    Span,
    StepSize,
    TimeOfDay,
)

UNITS = {"rows": "rows", "s": "s", "count": "", "share of 1": "%", "bytes": "MB"}

names = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=20).filter(str.strip)
amounts = st.one_of(
    st.integers(0, 10**6).map(float), st.floats(0, 1e12, allow_nan=False), st.floats(1e-6, 1.0)
)
spans = st.one_of(st.integers(1, 10**9), st.integers(1, 600).map(lambda s: 1000 * s)).map(Span)


@st.composite
def triggers(draw: st.DrawFn) -> Trigger:
    metric = draw(
        st.sampled_from([m for m in Metric if m.about.value != "operator" and m.unit.value in UNIT_NAMES])
    )
    counted, _, rate = metric.unit.value.partition("/")
    kinds = [k for k in MeasureKind if not (rate and k is MeasureKind.RATE)]
    kind = draw(st.sampled_from(kinds))
    measure = Measure()
    if kind is MeasureKind.PERCENTILE:
        measure = Measure(kind, draw(spans), float(draw(st.integers(1, 99))))
    elif kind is not MeasureKind.EACH:
        measure = Measure(kind, draw(spans))
    per = draw(st.sampled_from(["s", "min", "h"])) if rate or kind is MeasureKind.RATE else ""
    unit, amount = UNITS[counted], draw(amounts)
    if unit == "s" and not per:
        amount = round(amount * 1000) / 1000
    value = Percent(amount, "%") if unit == "%" and not per else Quantity(amount, unit, per)
    side = draw(st.sampled_from(["above", "below"]))
    duration = draw(
        st.sampled_from(["for", "often", "none"] if kind is not MeasureKind.EACH else ["for", "often"])
    )
    return Trigger(
        metric=metric.key,
        of=draw(st.one_of(st.just(""), names)),
        measure=measure,
        **{side: value},
        for_at_least=draw(spans) if duration == "for" else None,
        in_at_least=Occurrences(2, draw(st.integers(2, 9))) if duration == "often" else None,
    )


conditions = st.recursive(
    triggers(),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: AllOf(all_of=tuple(parts))),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: AnyOf(any_of=tuple(parts))),
    ),
    max_leaves=5,
)
steps = st.one_of(
    st.integers(1, 99).map(lambda n: StepSize("absolute", float(n))),
    st.floats(1.01, 50).map(lambda f: StepSize("relative", f)),
    st.floats(0.5, 300).map(lambda p: StepSize("percent", p)),
)
limits = st.one_of(
    st.integers(1, 99).map(lambda n: Limit(float(n))),
    st.floats(0.1, 9).map(lambda f: Limit(f, relative=True)),
)


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    action = draw(st.sampled_from(RuleAction))
    exact = draw(st.booleans())
    limit = draw(st.one_of(st.none(), limits))
    out = action is RuleAction.SCALE_OUT
    return Rule(
        name=draw(names),
        action=action,
        operator=draw(st.one_of(st.just(""), st.just("*"), names)),
        by=None if exact else draw(steps),
        to=draw(st.integers(1, 50)) if exact else None,
        never_above=limit if out else None,
        never_below=None if out else limit,
        when=tuple(draw(st.lists(conditions, min_size=1, max_size=3))),
        no_scale_out_since=draw(st.one_of(st.none(), spans)),
        no_scale_in_since=draw(st.one_of(st.none(), spans)),
    )


@st.composite
def bounds(draw: st.DrawFn) -> BoundsRule:
    low = draw(st.one_of(st.none(), st.integers(1, 9)))
    start, end = draw(st.lists(st.integers(0, 1439), min_size=2, max_size=2, unique=True))
    hours = draw(st.booleans())
    return BoundsRule(
        name=draw(names),
        operator=draw(st.one_of(st.just(""), names)),
        at_least=low,
        at_most=draw(st.integers(9, 99)) if low is None or draw(st.booleans()) else None,
        from_=TimeOfDay(start) if hours else None,
        until=TimeOfDay(end) if hours else None,
        on=days_named(tuple(draw(st.lists(st.sampled_from(sorted(DAYS)), max_size=4)))),
        timezone=draw(st.sampled_from(["UTC", "Europe/Berlin"])),
    )


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    parts = draw(st.lists(st.one_of(rules(), bounds()), max_size=4, unique_by=lambda part: part.name))
    return Policy(*parts)
