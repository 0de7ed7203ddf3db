"""The policy language builds the rules it reads like, rejects invalid input, and prints policies as English."""

# ruff: noqa: F403, F405 - the star is the way the language is meant to be used
from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import mypy.api
import pytest

import ebbflow.policy
from ebbflow.errors import InputError, PolicyError
from ebbflow.policy import *
from ebbflow.policy.language.english import policy_in_english
from ebbflow.policy.model import AllOf, AnyOf, Rule, RuleAction, Trigger
from ebbflow.policy.values import Limit, Occurrences, Quantity, Span, StepSize

ROOT = Path(__file__).parents[3]
START = rule("a").scale_out(operator("e"))
WHEN = START.by(absolute(1)).when(metric("queue-length"))


def test_the_first_policy_of_the_rules_thesis_builds_its_rule() -> None:
    policy = Policy(
        rule("Queue length is above 300 for 30 seconds")
        .scale_out(operator("enrich")).by(absolute(1)).but_never_above(nodes(2))
        .when(metric("queue-length")).is_(above(rows(300))).for_at_least(seconds(30))
        .with_no_scale_out_since(minutes(5)),
    )  # fmt: skip
    assert policy.rules == (
        Rule(
            name="Queue length is above 300 for 30 seconds",
            action=RuleAction.SCALE_OUT,
            operator="enrich",
            by=StepSize("absolute", 1.0),
            never_above=Limit(2.0),
            when=(Trigger(metric="queue-length", above=Quantity(300.0, "rows"), for_at_least=Span(30_000)),),
            no_scale_out_since=Span(300_000),
        ),
    )


def test_tuples_the_word_of_the_thesis_means_rows() -> None:
    assert Quantity.parse("300 tuples/s") == Quantity.parse("300 rows/s") == per_second(tuples(300))
    assert str(Quantity.parse("1 tuple")) == "1 row"


def test_conditions_nest_and_several_must_all_hold() -> None:
    busy = metric("cpu").is_(above(percent(80))).in_at_least(4, of=5)
    late = metric("freshness").percentile(95, over=minutes(5)).is_(above(seconds(20)))
    full = metric("queue-length").mean_over(minutes(1)).is_(above(rows(1000)), for_at_least=seconds(10))
    built = (
        rule("nested").scale_out(cluster()).by(percent(25))
        .when(any_of(busy, all_of(late, full)))
        .and_when(metric("arrival-rate")).is_forecast_to_be(above(per_second(rows(100))), ahead=minutes(5))
        .and_when(metric("queue-length").rate_of_change_over(minutes(1))).is_(above(per_minute(rows(60))))
        .build()
    )  # fmt: skip
    first, second, third = built.when
    assert isinstance(first, AnyOf)
    assert isinstance(first.any_of[1], AllOf)
    assert busy.in_at_least == Occurrences(4, 5)
    assert isinstance(second, Trigger)
    assert str(second.measure) == "forecast 5m ahead"
    assert isinstance(third, Trigger)
    assert third.threshold.base == 1.0
    assert built.by == StepSize("percent", 25.0)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (lambda: metric("queue-length").is_(above(percent(50))).for_at_least(seconds(5)), "does not fit queue-length"),
        (lambda: metric("cpu").is_(above(rows(50))).for_at_least(seconds(5)),
         "measured in percent; write, for example, 80%"),
        (lambda: metric("freshness").is_(above(megabytes(5))).for_at_least(seconds(5)), "30s or 500ms"),
        (lambda: metric("state-size").is_(above(milliseconds(5))).for_at_least(seconds(5)), "64MB"),
        (lambda: metric("nodes").is_(above(rows(5))).for_at_least(seconds(5)), "which is measured in plain numbers"),
        (lambda: metric("arrival-rate").is_(above(rows(5))).for_at_least(seconds(5)), "300 rows/s"),
        (lambda: metric("queue-length").rate_of_change_over(minutes(1)).is_(above(rows(5))), "rows/min"),
        (
            lambda: metric("arrival-rate").rate_of_change_over(minutes(1)).is_(above(per_second(rows(5)))),
            "is already a rate",
        ),
        (lambda: metric("queue-lenght").is_(above(rows(5))).for_at_least(seconds(5)), "did you mean 'queue-length'"),
        (lambda: absolute(0), "invalid step 0; write a whole number of at least 1"),
        (lambda: relative(1), "invalid factor 1; it must be above 1"),
        (lambda: nodes(0), "must be above 0"),
        (lambda: seconds(0), "1ms to 366d"),
        (lambda: seconds(float("nan")), "whole milliseconds"),
        (lambda: rows(float("inf")), "invalid number inf"),
        (lambda: metric("cpu").is_(above(percent(5))).in_at_least(6, of=5), "6 of 5"),
        (lambda: metric("cpu").percentile(100, over=minutes(1)), "below 100"),
        (lambda: operator("*"), "all_operators"),
        (any_of, "at least one"),
        (lambda: per_second(per_second(rows(1))), "already a rate"),
        (lambda: bounds("b").keep(cluster(), at_least=5, at_most=2).build(), "did you mean at-least 2 and at-most 5?"),
        (lambda: bounds("b").keep(cluster()).build(), "have no size; add at-least or at-most"),
        (lambda: bounds("b").keep(cluster(), at_least=1).between("9", "10:00"), "time of day"),
        (lambda: bounds("b").keep(cluster(), at_least=1).on("weekday"), "did you mean 'weekdays'"),
        (lambda: rule("x").scale_out(cluster()).to(times_original(2)), "exact size"),
        (
            lambda: Policy(
                rule("x").scale_out(cluster()).by(absolute(1))
                .when(metric("operator-queue")).is_(above(rows(5))).for_at_least(seconds(5))
            ),
            "operator-queue belongs to an operator; name the operator with of",
        ),
        (lambda: Policy("x"), "'x' is not part of a policy; write rule(…) or bounds(…)"),  # type: ignore[arg-type]
        (lambda: Policy(None), "None is not part of a policy"),  # type: ignore[arg-type]
        (lambda: Policy(rule("a")), "rule 'a' is incomplete; continue with .scale_out(…)"),  # type: ignore[arg-type]
        (lambda: Policy(START), "rule 'a' is incomplete; continue with .by(…) or .to(…)"),  # type: ignore[arg-type]
        (lambda: Policy(START.by(absolute(1))), "continue with .when(…)"),  # type: ignore[arg-type]
        (lambda: Policy(WHEN), "this phrase is incomplete; continue with .is_(…)"),  # type: ignore[arg-type]
        (lambda: Policy(WHEN.is_(above(rows(1)))), "continue with .for_at_least(…)"),  # type: ignore[arg-type]
        (lambda: Policy(bounds("b")), "continue with .keep(…)"),  # type: ignore[arg-type]
        (lambda: rule(5), 'write, for example, rule("Queue'),  # type: ignore[arg-type]
        (lambda: rule("a").scale_out("e"), 'write, for example, scale_out(operator("enrich"))'),  # type: ignore[arg-type]
        (lambda: START.by(1), "invalid argument in by(1); write, for example, by(absolute(1))"),  # type: ignore[arg-type]
        (lambda: START.to(4), "invalid argument in to(4); write, for example, to(nodes(4))"),  # type: ignore[arg-type]
        (lambda: START.by(absolute(1)).but_never_above(2), "but_never_above(nodes(4))"),  # type: ignore[arg-type]
        (lambda: START.by(absolute(1)).when(5), 'invalid argument in when(5); write, for example, when(metric("cpu")'),  # type: ignore[call-overload]
        (lambda: above(5), "invalid argument in above(5); write, for example, above(rows(300))"),  # type: ignore[arg-type]
        (lambda: WHEN.is_(5), "invalid argument in is_(5); write, for example, is_(above(rows(300)))"),  # type: ignore[arg-type]
        (lambda: WHEN.is_(above(rows(1))).for_at_least(30), "write, for example, for_at_least(seconds(30))"),  # type: ignore[arg-type]
        (lambda: WHEN.mean_over(30), "write, for example, mean_over(seconds(30))"),  # type: ignore[arg-type]
        (lambda: any_of(metric("cpu")), "any_of(…) contains an incomplete phrase; continue it with .is_(…)"),  # type: ignore[arg-type]
        (lambda: all_of(5), "invalid argument in all_of(5)"),  # type: ignore[arg-type]
        (lambda: rows("x"), "invalid argument in rows('x'); write, for example, rows(5)"),  # type: ignore[arg-type]
        (lambda: absolute(True), "invalid argument in absolute(True); write, for example, absolute(5)"),
        (lambda: seconds("30s"), "invalid argument in seconds('30s')"),  # type: ignore[arg-type]
        (lambda: operator(5), "invalid argument in operator(5)"),  # type: ignore[arg-type]
        (lambda: bounds("b").keep("e", at_least=1), 'keep(operator("enrich"))'),  # type: ignore[arg-type]
        (lambda: bounds("b").keep(cluster(), at_least="1"), "at_least=4, at_most=12"),  # type: ignore[arg-type]
        (lambda: bounds("b").keep(cluster(), at_least=True), "at_least=4, at_most=12"),
        (lambda: bounds(" ").keep(cluster(), at_least=1).build(), "the bounds have no name"),
        (lambda: bounds("b").keep(cluster(), at_least=1).in_timezone(5), 'in_timezone("Europe/Berlin")'),  # type: ignore[arg-type]
        (lambda: bounds("b").keep(cluster(), at_least=1).on(["monday"]), 'on("monday", "friday")'),  # type: ignore[arg-type]
        (lambda: metric("cpu").is_(above(percent(5))).in_at_least(True, of=5), "in_at_least(4, of=5)"),
        (lambda: metric("cpu").percentile(True, over=minutes(1)), "percentile(95"),
        (lambda: rows(10**400), "more than 300 digits"),
        # too large: the message has the maximum
        (lambda: relative(2000), "invalid factor 2000; it must be above 1 and at most 1000, for example x2"),
        (lambda: START.by(percent(2000)), "invalid step 2000%; it must be above 0% and at most 1000%"),
        (lambda: nodes(2 * 10**9), "invalid limit 2e+09; it must be above 0 and at most 1000000000"),
        (lambda: times_original(2 * 10**9), "at most 1000000000"),
        (lambda: metric("cpu").is_(above(percent(5))).in_at_least(6, of=5), "6 of 5; write at most 5 of 5"),
        (lambda: metric("cpu").is_(above(percent(5))).in_at_least(0, of=5),
         "0 of 5; the first number must be at least 1"),
        (lambda: metric("cpu").is_(above(percent(5))).in_at_least(1, of=10**6),
         "the second number must be at most 100000"),
    ],
)  # fmt: skip
def test_invalid_phrases_are_refused_when_they_are_built(words, complaint: str) -> None:
    with pytest.raises(InputError, match=re.escape(complaint)):
        words()


def test_two_rules_with_one_name_are_refused() -> None:
    one = rule("x").scale_out(cluster()).by(absolute(1)).when(metric("cpu"))
    whole = one.is_(above(percent(5))).for_at_least(seconds(5))
    with pytest.raises(PolicyError, match="duplicate name 'x'"):
        Policy(whole, whole)


def test_no_module_shadows_a_word_of_the_language() -> None:
    for module in pkgutil.iter_modules(ebbflow.policy.__path__):
        importlib.import_module(f"ebbflow.policy.{module.name}")
    hidden = [name for name in ebbflow.policy.__all__ if inspect.ismodule(getattr(ebbflow.policy, name))]
    assert hidden == []


def test_a_policy_is_immutable() -> None:
    with pytest.raises(AttributeError):
        Policy().rules = ()  # type: ignore[misc]


def test_a_name_with_a_line_break_is_printed_on_one_line() -> None:
    text = policy_in_english(Policy(bounds("office\n  hours").keep(cluster(), at_least=2)))
    assert text.splitlines() == ["office hours", "  Keep at least 2 nodes at all times."]


def test_english_includes_every_part_of_a_policy() -> None:
    text = policy_in_english(
        Policy(
            rule("back").scale_in(all_operators()).by(relative(2)).but_never_below(times_original(0.5))
            .when(metric("cpu")).is_(below(percent(20))).in_at_least(9, of=10)
            .and_when(metric("queue-length").of("store")).is_(below(rows(1))).for_at_least(minutes(1))
            .with_no_scale_out_since(minutes(5)).with_no_scale_in_since(seconds(90)),
            bounds("night").keep(operator("enrich"), at_most=2).between("22:00", "06:00").on("friday"),
            bounds("ever").keep(cluster(), at_least=2),
        )
    )  # fmt: skip
    assert text == (
        "back\n"
        "  Scale in each operator by a factor of 2, but never below 0.5 times its original size,\n"
        "  when cpu is at or below 20% in at least 9 of the last 10 readings\n"
        "  and queue-length of store is at or below 1 row for at least 1m,\n"
        "  but not within 5m of a scale-out or 1m30s of a scale-in.\n\n"
        "night\n"
        "  Keep at most 2 instances of operator enrich from 22:00 to 06:00 on Friday (UTC).\n\n"
        "ever\n"
        "  Keep at least 2 nodes at all times."
    )
    assert "no rules" in policy_in_english(Policy())
    shrink = rule("n").scale_in(cluster()).by(percent(25)).but_never_below(times_original(0.5))
    text = policy_in_english(Policy(shrink.when(metric("cpu").is_(below(percent(5))).for_at_least(hours(1)))))
    assert "Scale in the cluster by 25%, but never below 0.5 times its original size" in text


SNIPPETS = """\
from ebbflow.policy import *
start = rule("x").scale_out(operator("enrich"))
limited = start.by(absolute(1)).but_never_above(nodes(2))
compared = limited.when(metric("queue-length"))
ready = compared.is_(above(rows(300))).for_at_least(seconds(30))
Policy(ready, ready.with_no_scale_out_since(minutes(5)), bounds("b").keep(cluster(), at_least=1))  # right
start.by(percent(25)).when(any_of(metric("cpu").is_(above(percent(80))).in_at_least(4, of=5)))  # right
start.when(metric("cpu"))  # wrong: by how much?
rule("x").by(absolute(1))  # wrong: what?
start.by(1)  # wrong: not a step
start.by(absolute(1)).but_never_below(nodes(1))  # wrong: a scale-out has no lower limit
limited.but_never_above(nodes(3))  # wrong: twice
limited.when("queue-length")  # wrong: not a metric
compared.for_at_least(seconds(30))  # wrong: past which threshold?
compared.is_(rows(300))  # wrong: above or below?
compared.is_(above(300))  # wrong: of what?
compared.is_(above(rows(300))).with_no_scale_out_since(minutes(5))  # wrong: for how long?
compared.is_(above(rows(300))).for_at_least(30)  # wrong: of what?
ready.when(metric("cpu"))  # wrong: and_when
ready.with_no_scale_in_since(minutes(5)).and_when(metric("cpu"))  # wrong: guard times come last
Policy(compared)  # wrong: not whole
any_of(metric("cpu"))  # wrong: not whole
metric("cpu").mean_over(minutes(1)).for_at_least(seconds(5))  # wrong: past which threshold?
"""


def test_an_invalid_order_of_words_does_not_type_check(tmp_path, monkeypatch) -> None:
    (tmp_path / "snippets.py").write_text(SNIPPETS)
    monkeypatch.chdir(ROOT)  # uses the settings and the cache of `make lint`, which saves half a minute
    output, _, _ = mypy.api.run(["--no-error-summary", str(tmp_path / "snippets.py")])
    found = {int(line.split(":")[1]) for line in output.splitlines() if ": error:" in line}
    lines = SNIPPETS.splitlines()
    assert found == {number for number, line in enumerate(lines, start=1) if "# wrong" in line}, output
