"""The language: what reads like English is the rule that is meant; what cannot be meant is refused."""

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
from ebbflow.policy.model import Action, AllOf, AnyOf, Rule, Trigger
from ebbflow.policy.quantities import Quantity, Span
from ebbflow.policy.values import Limit, Often, Step

ROOT = Path(__file__).parents[2]
START = rule("a").scale_out(operator("e"))
WHEN = START.by(absolute(1)).when(metric("queue-length"))


def test_the_first_policy_of_the_seed_is_the_rule_it_says() -> None:
    policy = Policy(
        rule("Queue length is above 300 for 30 seconds")
        .scale_out(operator("enrich")).by(absolute(1)).but_never_above(nodes(2))
        .when(metric("queue-length")).is_(above(tuples(300))).for_at_least(seconds(30))
        .with_no_scale_out_since(minutes(5)),
    )  # fmt: skip
    assert policy.rules == (
        Rule(
            name="Queue length is above 300 for 30 seconds",
            action=Action.SCALE_OUT,
            operator="enrich",
            by=Step("absolute", 1.0),
            never_above=Limit(2.0),
            when=(
                Trigger(metric="queue-length", above=Quantity(300.0, "tuples"), for_at_least=Span(30_000)),
            ),
            no_scale_out_since=Span(300_000),
        ),
    )


def test_conditions_nest_and_several_must_all_hold() -> None:
    busy = metric("cpu").is_(above(percent(80))).in_at_least(4, of=5)
    late = metric("freshness").percentile(95, over=minutes(5)).is_(above(seconds(20)))
    full = metric("queue-length").mean_over(minutes(1)).is_(above(tuples(1000)), for_at_least=seconds(10))
    built = (
        rule("nested").scale_out(cluster()).by(percent(25))
        .when(any_of(busy, all_of(late, full)))
        .and_when(metric("arrival-rate")).is_forecast_to_be(above(per_second(tuples(100))), ahead=minutes(5))
        .and_when(metric("queue-length").rate_of_change_over(minutes(1))).is_(above(per_minute(tuples(60))))
        .build()
    )  # fmt: skip
    first, second, third = built.when
    assert isinstance(first, AnyOf)
    assert isinstance(first.any_of[1], AllOf)
    assert busy.in_at_least == Often(4, 5)
    assert isinstance(second, Trigger)
    assert str(second.measure) == "forecast 5m ahead"
    assert isinstance(third, Trigger)
    assert third.threshold.base == 1.0
    assert built.by == Step("percent", 25.0)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (lambda: metric("queue-length").is_(above(percent(50))).for_at_least(seconds(5)), "does not fit queue-length"),
        (lambda: metric("cpu").is_(above(tuples(50))).for_at_least(seconds(5)), "write it like 80%"),
        (lambda: metric("freshness").is_(above(megabytes(5))).for_at_least(seconds(5)), "30s or 500ms"),
        (lambda: metric("state-size").is_(above(milliseconds(5))).for_at_least(seconds(5)), "64MB"),
        (lambda: metric("nodes").is_(above(tuples(5))).for_at_least(seconds(5)), "which counts count"),
        (lambda: metric("arrival-rate").is_(above(tuples(5))).for_at_least(seconds(5)), "300 tuples/s"),
        (lambda: metric("queue-length").rate_of_change_over(minutes(1)).is_(above(tuples(5))), "tuples/min"),
        (
            lambda: metric("arrival-rate").rate_of_change_over(minutes(1)).is_(above(per_second(tuples(5)))),
            "is a rate already",
        ),
        (lambda: metric("queue-lenght").is_(above(tuples(5))).for_at_least(seconds(5)), "did you mean 'queue-length'"),
        (lambda: absolute(0), "whole number from 1 on"),
        (lambda: relative(1), "changes nothing"),
        (lambda: nodes(0), "must be above 0"),
        (lambda: seconds(0), "1ms to 366d"),
        (lambda: seconds(float("nan")), "whole milliseconds"),
        (lambda: tuples(float("inf")), "not a number"),
        (lambda: metric("cpu").is_(above(percent(5))).in_at_least(6, of=5), "6 of 5"),
        (lambda: metric("cpu").percentile(100, over=minutes(1)), "below 100"),
        (lambda: operator("*"), "all_operators"),
        (any_of, "at least one"),
        (lambda: per_second(per_second(tuples(1))), "rate already"),
        (lambda: bounds("b").keep(cluster(), at_least=5, at_most=2).build(), "did you mean 2 to 5?"),
        (lambda: bounds("b").keep(cluster()).build(), "bound nothing"),
        (lambda: bounds("b").keep(cluster(), at_least=1).between("9", "10:00"), "time of day"),
        (lambda: bounds("b").keep(cluster(), at_least=1).on("weekday"), "did you mean 'weekdays'"),
        (lambda: rule("x").scale_out(cluster()).to(times_original(2)), "exact size"),
        (
            lambda: Policy(
                rule("x").scale_out(cluster()).by(absolute(1))
                .when(metric("operator-queue")).is_(above(tuples(5))).for_at_least(seconds(5))
            ),
            "say of which one",
        ),
        (lambda: Policy("x"), "'x' is no part of a policy; write rule(…) or bounds(…)"),  # type: ignore[arg-type]
        (lambda: Policy(None), "None is no part of a policy"),  # type: ignore[arg-type]
        (lambda: Policy(rule("a")), "rule 'a' is not finished; go on with .scale_out(…)"),  # type: ignore[arg-type]
        (lambda: Policy(START), "rule 'a' is not finished; go on with .by(…) or .to(…)"),  # type: ignore[arg-type]
        (lambda: Policy(START.by(absolute(1))), "go on with .when(…)"),  # type: ignore[arg-type]
        (lambda: Policy(WHEN), "this sentence is not finished; go on with .is_(…)"),  # type: ignore[arg-type]
        (lambda: Policy(WHEN.is_(above(tuples(1)))), "go on with .for_at_least(…)"),  # type: ignore[arg-type]
        (lambda: Policy(bounds("b")), "go on with .keep(…)"),  # type: ignore[arg-type]
        (lambda: rule(5), 'write it like rule("Queue'),  # type: ignore[arg-type]
        (lambda: rule("a").scale_out("e"), 'write it like scale_out(operator("enrich"))'),  # type: ignore[arg-type]
        (lambda: START.by(1), "by(1) does not fit; write it like by(absolute(1))"),  # type: ignore[arg-type]
        (lambda: START.to(4), "to(4) does not fit; write it like to(nodes(4))"),  # type: ignore[arg-type]
        (lambda: START.by(absolute(1)).but_never_above(2), "but_never_above(nodes(4))"),  # type: ignore[arg-type]
        (lambda: START.by(absolute(1)).when(5), 'when(5) does not fit; write it like when(metric("cpu")'),  # type: ignore[call-overload]
        (lambda: above(5), "above(5) does not fit; write it like above(tuples(300))"),  # type: ignore[arg-type]
        (lambda: WHEN.is_(5), "is_(5) does not fit; write it like is_(above(tuples(300)))"),  # type: ignore[arg-type]
        (lambda: WHEN.is_(above(tuples(1))).for_at_least(30), "write it like for_at_least(seconds(30))"),  # type: ignore[arg-type]
        (lambda: WHEN.mean_over(30), "write it like mean_over(seconds(30))"),  # type: ignore[arg-type]
        (lambda: any_of(metric("cpu")), "any_of(…): the sentence in it is not finished; go on with .is_(…)"),  # type: ignore[arg-type]
        (lambda: all_of(5), "all_of(5) does not fit"),  # type: ignore[arg-type]
        (lambda: tuples("x"), "tuples('x') does not fit; write it like tuples(5)"),  # type: ignore[arg-type]
        (lambda: absolute(True), "absolute(True) does not fit; write it like absolute(5)"),
        (lambda: seconds("30s"), "seconds('30s') does not fit"),  # type: ignore[arg-type]
        (lambda: operator(5), "operator(5) does not fit"),  # type: ignore[arg-type]
        (lambda: bounds("b").keep("e", at_least=1), 'keep(operator("enrich"))'),  # type: ignore[arg-type]
        (lambda: bounds("b").keep(cluster(), at_least="1"), "at_least=4, at_most=12"),  # type: ignore[arg-type]
        (lambda: bounds("b").keep(cluster(), at_least=True), "at_least=4, at_most=12"),
        (lambda: bounds(" ").keep(cluster(), at_least=1).build(), "bounds need a name"),
        (lambda: bounds("b").keep(cluster(), at_least=1).in_timezone(5), 'in_timezone("Europe/Berlin")'),  # type: ignore[arg-type]
        (lambda: bounds("b").keep(cluster(), at_least=1).on(["monday"]), 'on("monday", "friday")'),  # type: ignore[arg-type]
        (lambda: metric("cpu").is_(above(percent(5))).in_at_least(True, of=5), "in_at_least(4, of=5)"),
        (lambda: metric("cpu").percentile(True, over=minutes(1)), "percentile(95"),
        (lambda: tuples(10**400), "more than 300 digits"),
        # too large: the upper end is named
        (lambda: relative(2000), "a factor of 2000; it must be above 1 and at most 1000, like x2"),
        (lambda: START.by(percent(2000)), "a step of 2000%; it must be above 0% and at most 1000%"),
        (lambda: nodes(2 * 10**9), "a limit of 2e+09; it must be above 0 and at most a billion"),
        (lambda: times_original(2 * 10**9), "at most a billion"),
        (lambda: metric("cpu").is_(above(percent(5))).in_at_least(6, of=5), "6 of 5 readings; write at most 5 of 5"),
        (lambda: metric("cpu").is_(above(percent(5))).in_at_least(0, of=5), "write at least 1 of them"),
        (lambda: metric("cpu").is_(above(percent(5))).in_at_least(1, of=10**6), "write some of at most 100000"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused_when_it_is_built(words, complaint: str) -> None:
    with pytest.raises(InputError, match=re.escape(complaint)):
        words()


def test_two_rules_of_one_name_are_refused() -> None:
    one = rule("x").scale_out(cluster()).by(absolute(1)).when(metric("cpu"))
    whole = one.is_(above(percent(5))).for_at_least(seconds(5))
    with pytest.raises(PolicyError, match="two parts"):
        Policy(whole, whole)


def test_no_module_hides_a_word_whatever_is_imported() -> None:
    for module in pkgutil.iter_modules(ebbflow.policy.__path__):
        importlib.import_module(f"ebbflow.policy.{module.name}")
    hidden = [name for name in ebbflow.policy.__all__ if inspect.ismodule(getattr(ebbflow.policy, name))]
    assert hidden == []


def test_a_policy_does_not_change() -> None:
    with pytest.raises(AttributeError):
        Policy().rules = ()  # type: ignore[misc]


def test_a_name_of_two_lines_is_one_in_english() -> None:
    text = policy_in_english(Policy(bounds("office\n  hours").keep(cluster(), at_least=2)))
    assert text.splitlines() == ["office hours", "  Always keep at least 2 nodes."]


def test_english_tells_everything() -> None:
    text = policy_in_english(
        Policy(
            rule("back").scale_in(all_operators()).by(relative(2)).but_never_below(times_original(0.5))
            .when(metric("cpu")).is_(below(percent(20))).in_at_least(9, of=10)
            .and_when(metric("queue-length").of("store")).is_(below(tuples(1))).for_at_least(minutes(1))
            .with_no_scale_out_since(minutes(5)).with_no_scale_in_since(seconds(90)),
            bounds("night").keep(operator("enrich"), at_most=2).between("22:00", "06:00").on("friday"),
            bounds("ever").keep(cluster(), at_least=2),
        )
    )  # fmt: skip
    assert text == (
        "back\n"
        "  Scale in each operator by a factor of 2, but never below 0.5 times its original size,\n"
        "  when cpu is at or below 20% in at least 9 of 10 readings\n"
        "  and queue-length of store is at or below 1 tuples for at least 1m,\n"
        "  with no scale-out in the last 5m,\n"
        "  with no scale-in in the last 1m30s.\n\n"
        "night\n"
        "  From 22:00 until 06:00 on Friday (UTC) keep at most 2 instances of operator enrich.\n\n"
        "ever\n"
        "  Always keep at least 2 nodes."
    )
    assert "no rules" in policy_in_english(Policy())
    shrink = rule("n").scale_in(cluster()).by(percent(25)).but_never_below(times_original(0.5))
    text = policy_in_english(Policy(shrink.when(metric("cpu").is_(below(percent(5))).for_at_least(hours(1)))))
    assert (
        "Scale in the nodes by 25% of their number, but never below 0.5 times their original number" in text
    )


SNIPPETS = """\
from ebbflow.policy import *
start = rule("x").scale_out(operator("enrich"))
limited = start.by(absolute(1)).but_never_above(nodes(2))
asked = limited.when(metric("queue-length"))
ready = asked.is_(above(tuples(300))).for_at_least(seconds(30))
Policy(ready, ready.with_no_scale_out_since(minutes(5)), bounds("b").keep(cluster(), at_least=1))  # right
start.by(percent(25)).when(any_of(metric("cpu").is_(above(percent(80))).in_at_least(4, of=5)))  # right
start.when(metric("cpu"))  # wrong: by how much?
rule("x").by(absolute(1))  # wrong: what?
start.by(1)  # wrong: not a step
start.by(absolute(1)).but_never_below(nodes(1))  # wrong: a scale-out has no lower limit
limited.but_never_above(nodes(3))  # wrong: twice
limited.when("queue-length")  # wrong: not a metric
asked.for_at_least(seconds(30))  # wrong: past which threshold?
asked.is_(tuples(300))  # wrong: above or below?
asked.is_(above(300))  # wrong: of what?
asked.is_(above(tuples(300))).with_no_scale_out_since(minutes(5))  # wrong: for how long?
asked.is_(above(tuples(300))).for_at_least(30)  # wrong: of what?
ready.when(metric("cpu"))  # wrong: and_when
ready.with_no_scale_in_since(minutes(5)).and_when(metric("cpu"))  # wrong: guard times come last
Policy(asked)  # wrong: not whole
any_of(metric("cpu"))  # wrong: not whole
metric("cpu").mean_over(minutes(1)).for_at_least(seconds(5))  # wrong: past which threshold?
"""


def test_a_wrong_order_does_not_type_check(tmp_path, monkeypatch) -> None:
    (tmp_path / "snippets.py").write_text(SNIPPETS)
    monkeypatch.chdir(ROOT)  # with the settings and the cache of `make lint`: seconds, not half a minute
    told, _, _ = mypy.api.run(["--no-error-summary", str(tmp_path / "snippets.py")])
    found = {int(line.split(":")[1]) for line in told.splitlines() if ": error:" in line}
    lines = SNIPPETS.splitlines()
    assert found == {number for number, line in enumerate(lines, start=1) if "# wrong" in line}, told
