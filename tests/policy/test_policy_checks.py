"""Policies that can be read and yet cannot be meant."""

# ruff: noqa: F403, F405 - the star is the way the language is meant to be used
from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbflow.errors import PolicyError
from ebbflow.policy import *
from ebbflow.policy.checks import findings
from ebbflow.policy.files import parse_policy
from ebbflow.policy.model import Condition
from ebbflow.policy.model import Policy as AnyPolicy
from ebbflow.strategies import Rules

HIGH = metric("cpu").is_(above(percent(80))).for_at_least(seconds(30))
LOW = metric("cpu").is_(below(percent(20))).for_at_least(seconds(30))


def grow(*when: Condition, name: str = "grow", op: str = "enrich", most: int = 8):
    return rule(name).scale_out(operator(op)).by(absolute(1)).but_never_above(nodes(most)).when(all_of(*when))


def shrink(*when: Condition, name: str = "shrink", op: str = "enrich", least: int = 1):
    return rule(name).scale_in(operator(op)).by(absolute(1)).but_never_below(nodes(least)).when(all_of(*when))


def low(share: float):
    return metric("cpu").is_(below(percent(share))).for_at_least(seconds(60))


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (Policy(grow(HIGH, LOW)), "never fires: its conditions exclude each other"),
        (Policy(grow(HIGH, low(80))), "exclude each other"),
        (Policy(grow(any_of(HIGH, HIGH), any_of(LOW, low(10)))), "exclude each other"),
        (Policy(grow(metric("instance-cpu").is_(above(percent(100))).for_at_least(seconds(5)))), "less than 100%"),
        (Policy(grow(metric("queue-length").is_(below(tuples(-1))).for_at_least(seconds(5)))), "the least is 0"),
        (Policy(grow(HIGH, most=1)), "every size is at least 1"),
        (
            Policy(rule("x").scale_out(cluster()).to(nodes(9)).but_never_above(nodes(4)).when(HIGH)),
            "to 9 is past never-above 4",
        ),
        (Policy(rule("x").scale_out(cluster()).to(nodes(1)).when(HIGH)), "nothing is smaller than 1"),
        (
            Policy(rule("x").scale_out(cluster()).by(absolute(1)).but_never_above(times_original(1)).when(HIGH)),
            "more than x1",
        ),
        (Policy(grow(HIGH), shrink(low(90))), "fight each other: both hold at once where instance-cpu"),
        (Policy(grow(HIGH, op="enrich"), rule("s").scale_in(all_operators()).by(absolute(1)).when(low(90))), "fight"),
        (Policy(grow(any_of(HIGH, low(5))), shrink(LOW)), "fight"),
        (Policy(grow(HIGH, most=3), shrink(LOW, least=5)), "never-below 5 of rule 'shrink' contradicts never-above 3"),
        (
            Policy(grow(HIGH, most=3), bounds("b").keep(operator("enrich"), at_least=5)),
            "never-above 3 of rule 'grow' contradicts at-least 5",
        ),
        (
            Policy(shrink(LOW, least=7), bounds("b").keep(operator("enrich"), at_most=5)),
            "never-below 7 of rule 'shrink' contradicts at-most 5",
        ),
        (
            Policy(
                bounds("day").keep(cluster(), at_least=5).between("08:00", "20:00"),
                bounds("noon").keep(cluster(), at_most=4).between("12:00", "13:00").on("monday"),
            ),
            "contradict each other where both hold: at least 5 and at most 4",
        ),
        (
            Policy(
                bounds("late").keep(cluster(), at_least=5).between("22:00", "02:00").on("sunday"),
                bounds("early").keep(cluster(), at_most=4).between("01:00", "03:00").on("monday"),
            ),
            "contradict each other",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_found_and_refused(policy: AnyPolicy, words: str) -> None:
    assert any(words in problem.text for problem in findings(policy)), findings(policy)
    with pytest.raises(PolicyError):
        Rules(policy)


@pytest.mark.parametrize(
    "policy",
    [
        Policy(),
        Policy(grow(HIGH), shrink(LOW)),
        # the seed's: above 10 % out, at or below 10 % in
        Policy(grow(metric("cpu").is_(above(percent(10))).for_at_least(seconds(30))), shrink(low(10))),
        Policy(grow(HIGH), shrink(low(90), op="store")),
        Policy(grow(HIGH), rule("n").scale_in(cluster()).by(absolute(1)).when(low(90))),
        # different things are compared: nobody can tell
        Policy(grow(HIGH), shrink(metric("queue-length").is_(below(tuples(1))).for_at_least(seconds(5)))),
        Policy(grow(HIGH), shrink(metric("cpu").mean_over(minutes(1)).is_(below(percent(90))))),
        # one keeps them apart
        Policy(
            grow(HIGH, metric("queue-length").is_(above(tuples(9))).for_at_least(seconds(5))),
            shrink(low(90), metric("queue-length").is_(below(tuples(1))).for_at_least(seconds(5))),
        ),
        Policy(
            bounds("day").keep(cluster(), at_least=5).between("08:00", "20:00").on("weekdays"),
            bounds("night").keep(cluster(), at_most=4).between("20:00", "08:00").on("weekdays"),
            bounds("weekend").keep(cluster(), at_most=4).on("sunday"),
        ),
    ],
)  # fmt: skip
def test_sound_policies_are_left_alone(policy: AnyPolicy) -> None:
    assert findings(policy) == []
    Rules(policy)


@given(st.integers(1, 99), st.integers(1, 99))
@settings(max_examples=60, deadline=None)
def test_rules_fight_exactly_where_a_reading_is_past_both(up: int, down: int) -> None:
    policy = Policy(grow(metric("cpu").is_(above(percent(up))).for_at_least(seconds(30))), shrink(low(down)))
    both = any(share > up and share <= down for share in (x / 2 for x in range(201)))
    assert bool(findings(policy)) is both


def test_findings_have_their_places_in_the_file() -> None:
    text = """\
rule:
- name: grow
  action: scale-out
  by: 1
  when:
  - {metric: freshness, above: 10s, for-at-least: 30s}
- name: shrink
  action: scale-in
  by: 1
  when:
  - {metric: freshness, below: 20s, for-at-least: 1m}
"""
    with pytest.raises(PolicyError) as error:
        parse_policy(text, "p.yaml")
    assert [line.split(": ")[0] for line in error.value.problems] == ["p.yaml:10:3"]
