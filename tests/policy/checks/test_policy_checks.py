"""Checks find policies that are well-formed but cannot work, and leave sound ones alone."""

# ruff: noqa: F403, F405 - the star is the way the language is meant to be used
from __future__ import annotations

import time

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbflow.errors import PolicyError
from ebbflow.policy import *
from ebbflow.policy.checks import find_problems
from ebbflow.policy.evaluation.states import TriggerState
from ebbflow.policy.files import parse_policy
from ebbflow.policy.model import Condition, Trigger
from ebbflow.policy.model import Policy as AnyPolicy
from ebbflow.policy.values import Measure, Span
from ebbflow.strategies.rules import Rules

HIGH = metric("cpu").is_(above(percent(80))).for_at_least(seconds(30))
LOW = metric("cpu").is_(below(percent(20))).for_at_least(seconds(30))


def grow(*when: Condition, name: str = "grow", op: str = "enrich", most: int = 8):
    return rule(name).scale_out(operator(op)).by(absolute(1)).but_never_above(nodes(most)).when(all_of(*when))


def shrink(*when: Condition, name: str = "shrink", op: str = "enrich", least: int = 1):
    return rule(name).scale_in(operator(op)).by(absolute(1)).but_never_below(nodes(least)).when(all_of(*when))


def busy(share: float, key: str = "cpu", of: str = ""):
    compared = metric(key).of(of) if of else metric(key)
    return compared.is_(above(percent(share))).for_at_least(seconds(30))


def often(side, rows_: float, times: int, of: int):
    return metric("queue-length").is_(side(rows(rows_))).in_at_least(times, of=of)


def queue(side, rows_: float, of: str = ""):
    compared = metric("queue-length").of(of) if of else metric("queue-length")
    return compared.is_(side(rows(rows_))).for_at_least(seconds(30))


def operator_queue(side, rows_: float, of: str = ""):
    compared = metric("operator-queue").of(of) if of else metric("operator-queue")
    return compared.is_(side(rows(rows_))).for_at_least(seconds(30))


def lasting(measure: str, side, rows_: float, time: str):
    return msgspec.structs.replace(measured(measure, side, rows_), for_at_least=Span.parse(time))


def measured(measure: str, side, rows_: float):
    value = side(rows(rows_)).value
    return Trigger(
        metric="queue-length",
        measure=Measure.parse(measure),
        above=value if side is above else None,
        below=value if side is below else None,
    )


def changing(side, rows_per_s: float, over: str = "1m"):
    span = Span.parse(over)
    return metric("queue-length").rate_of_change_over(span).is_(side(per_second(rows(rows_per_s))))


def low(share: float):
    return metric("cpu").is_(below(percent(share))).for_at_least(seconds(60))


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (Policy(grow(HIGH, LOW)), "never fires: its conditions exclude each other"),
        (Policy(grow(HIGH, low(80))), "exclude each other"),
        (Policy(grow(any_of(HIGH, HIGH), any_of(LOW, low(10)))), "exclude each other"),
        (Policy(grow(metric("instance-cpu").is_(above(percent(100))).for_at_least(seconds(5)))), "less than 100%"),
        (Policy(grow(metric("queue-length").is_(below(rows(-1))).for_at_least(seconds(5)))), "its minimum is 0"),
        # always past the threshold
        (Policy(grow(queue(above, -5))),
         "is always above -5 rows, so this condition has no effect; its minimum is 0"),
        (Policy(grow(metric("queue-length").mean_over(minutes(1)).is_(above(rows(-5))))), "always above"),
        (Policy(shrink(low(100))),
         "cpu is always at or below 100%, so this condition has no effect; write less than 100%"),
        (Policy(grow(any_of(HIGH, queue(above, -1)))), "always above -1 row"),
        (Policy(grow(HIGH, most=1)), "every size is at least 1"),
        (
            Policy(rule("x").scale_out(cluster()).to(nodes(9)).but_never_above(nodes(4)).when(HIGH)),
            "to 9 is above never-above 4; write 4 or less",
        ),
        (Policy(rule("x").scale_out(cluster()).to(nodes(1)).when(HIGH)),
         "every size is at least 1; scale out to 2 or more"),
        (
            Policy(rule("x").scale_out(cluster()).by(absolute(1)).but_never_above(times_original(1)).when(HIGH)),
            "more than x1",
        ),
        (Policy(grow(HIGH), shrink(low(90))), "conflict: both hold when instance-cpu"),
        (Policy(grow(HIGH, op="enrich"), rule("s").scale_in(all_operators()).by(absolute(1)).when(low(90))),
         "conflict: both hold"),
        (Policy(grow(any_of(HIGH, low(5))), shrink(LOW)), "conflict: both hold"),
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
            "contradict each other when both apply: at least 5 and at most 4",
        ),
        (
            Policy(
                bounds("late").keep(cluster(), at_least=5).between("22:00", "02:00").on("sunday"),
                bounds("early").keep(cluster(), at_most=4).between("01:00", "03:00").on("monday"),
            ),
            "contradict each other",
        ),
        # m of n
        (Policy(grow(often(above, 100, 4, 5)), shrink(often(below, 300, 4, 5))), "conflict: both hold"),
        (Policy(grow(often(above, 100, 4, 5)), shrink(queue(below, 300))), "conflict: both hold"),
        (Policy(grow(often(above, 300, 5, 5), often(below, 100, 5, 5))), "exclude each other"),
        (Policy(grow(often(above, 300, 3, 5), often(below, 100, 3, 5))), "exclude each other"),
        (Policy(grow(often(above, 300, 2, 2), often(below, 100, 5, 6))), "exclude each other"),
        (Policy(grow(often(above, 300, 5, 5), queue(below, 100))), "exclude each other"),
        # one series with two names
        (Policy(grow(busy(120))), "cpu is never above 120%; write less than 100%"),
        (Policy(grow(busy(120, of="enrich"))), "cpu is never above 120%"),
        (Policy(rule("x").scale_out(all_operators()).by(absolute(1)).when(busy(120))), "never above 120%"),
        (
            Policy(
                rule("out").scale_out(cluster()).by(absolute(1)).when(busy(60)),
                rule("in").scale_in(cluster()).by(absolute(1)).when(
                    metric("node-cpu").is_(below(percent(90))).for_at_least(seconds(5))
                ),
            ),
            "conflict: both hold when node-cpu",
        ),
        (Policy(grow(queue(above, 10)), shrink(queue(below, 90, of="enrich"))), "conflict: both hold"),
        (
            Policy(
                grow(queue(above, 10)),
                rule("s").scale_in(all_operators()).by(absolute(1)).when(queue(below, 90, of="enrich")),
            ),
            "conflict: both hold",
        ),
        (Policy(grow(queue(above, 90), queue(below, 10, of="enrich"))), "exclude each other"),
        (Policy(grow(operator_queue(above, 300)), shrink(queue(below, 1000))), "conflict: both hold"),
        (Policy(grow(queue(above, 300)), shrink(operator_queue(below, 1000, of="enrich"))), "conflict: both hold"),
        (Policy(grow(queue(above, 300), operator_queue(below, 100))), "exclude each other"),
        # percentiles of the same readings are ordered, and a long mean consists of short ones
        (Policy(grow(measured("p95 over 5m", below, 100), measured("p50 over 5m", above, 300))), "exclude"),
        (Policy(grow(lasting("mean over 1m", above, 300, "10m"), measured("mean over 5m", below, 100))), "exclude"),
        (Policy(grow(lasting("mean over 1m", below, 100, "10m"), measured("mean over 5m", above, 300))), "exclude"),
        # there is at least one node
        (Policy(grow(metric("nodes").is_(above(count(0))).for_at_least(seconds(5)))), "always above 0"),
        (Policy(grow(metric("nodes").is_(below(count(0))).for_at_least(seconds(5)))), "never at or below 0"),
        # under a constant load a reading equals its mean, percentile and forecast, and its rate of change is 0
        (Policy(grow(queue(above, 300)), shrink(measured("mean over 30s", below, 1000))), "conflict: both hold"),
        (Policy(grow(measured("p95 over 5m", above, 300)), shrink(queue(below, 301))), "conflict: both hold"),
        (Policy(grow(measured("forecast 5m ahead", above, 300)), shrink(measured("p50 over 1m", below, 400))),
         "conflict: both hold"),
        (Policy(grow(measured("mean over 1m", above, 300)), shrink(measured("mean over 5m", below, 400))),
         "conflict: both hold"),
        (Policy(grow(HIGH), shrink(metric("cpu").mean_over(minutes(1)).is_(below(percent(90))))),
         "conflict: both hold"),
        (
            Policy(grow(queue(above, 300)), shrink(changing(below, 1))),
            "both hold when queue-length is constant and past the threshold",
        ),
        (Policy(grow(changing(above, 5)), shrink(changing(below, 10, "5m"))), "conflict: both hold"),
        (Policy(grow(queue(above, 300), changing(above, 5)), shrink(queue(below, 999))), "conflict: both hold"),
        # every reading of the mean is past the other threshold
        (Policy(grow(measured("mean over 30s", above, 300), queue(below, 100))), "exclude each other"),
        (Policy(grow(measured("p95 over 10s", below, 100), queue(above, 300))), "exclude each other"),
        # bounds that always apply
        (Policy(grow(HIGH), bounds("b").keep(operator("enrich"), at_most=1)),
         "always apply, and at-most 1 leaves no other size"),
        (
            Policy(
                grow(HIGH, most=4), bounds("b").keep(operator("enrich"), at_least=9).between("00:00", "24:00")
            ),
            "never-above 4 of rule 'grow' contradicts at-least 9 of bounds 'b', which always apply",
        ),
        (Policy(grow(HIGH), bounds("b").keep(all_operators(), at_least=3, at_most=3)),
         "always apply, and at-most 3 leaves no other size"),
        (Policy(shrink(LOW), bounds("b").keep(operator("enrich"), at_least=3, at_most=3)),
         "always apply, and at-least 3 leaves no other size"),
        (
            Policy(
                rule("x").scale_out(cluster()).to(nodes(4)).when(HIGH), bounds("b").keep(cluster(), at_most=2)
            ),
            "to 4 of rule 'x' contradicts at-most 2 of bounds 'b'; write 2 or less",
        ),
        (
            Policy(
                rule("x").scale_out(cluster()).to(nodes(4)).when(HIGH), bounds("b").keep(cluster(), at_least=4)
            ),
            "to 4 of rule 'x' contradicts at-least 4 of bounds 'b', which always apply; write more than 4",
        ),
        (
            Policy(
                rule("x").scale_in(cluster()).to(nodes(2)).when(LOW), bounds("b").keep(cluster(), at_least=3)
            ),
            "to 2 of rule 'x' contradicts at-least 3 of bounds 'b'; write 3 or more",
        ),
        # one part of any-of
        (Policy(grow(any_of(all_of(HIGH, LOW), queue(above, 5)))), "this part of any-of never holds"),
        (Policy(grow(HIGH, any_of(LOW, queue(above, 5)))), "this part of any-of never holds"),
        # two time zones, overlapping in summer time only
        (
            Policy(
                bounds("b").keep(cluster(), at_least=5).between("08:00", "09:00").in_timezone("Europe/Berlin"),
                bounds("u").keep(cluster(), at_most=4).between("06:00", "06:30"),
            ),
            "contradict each other",
        ),
    ],
)  # fmt: skip
def test_a_policy_that_cannot_work_is_reported_and_refused(policy: AnyPolicy, words: str) -> None:
    assert any(words in problem.text for problem in find_problems(policy)), find_problems(policy)
    with pytest.raises(PolicyError):
        Rules(policy)


@pytest.mark.parametrize(
    "policy",
    [
        Policy(),
        Policy(grow(HIGH), shrink(LOW)),
        # from the Rules thesis: out above 10 %, in at or below 10 %
        Policy(grow(metric("cpu").is_(above(percent(10))).for_at_least(seconds(30))), shrink(low(10))),
        Policy(grow(HIGH), shrink(low(90), op="store")),
        Policy(grow(HIGH), rule("n").scale_in(cluster()).by(absolute(1)).when(low(90))),
        # different metrics are not compared
        Policy(grow(HIGH), shrink(metric("queue-length").is_(below(rows(1))).for_at_least(seconds(5)))),
        # under a constant load only one of them holds
        Policy(grow(queue(above, 300)), shrink(measured("mean over 5m", below, 300))),
        Policy(grow(queue(above, 300)), shrink(changing(below, -1))),
        Policy(grow(changing(above, 0)), shrink(measured("mean over 5m", below, 300))),
        Policy(grow(measured("mean over 10m", above, 300), queue(below, 100)), shrink(queue(below, 90))),
        # the mean over ten minutes may be high while the last half minute is low
        Policy(grow(measured("mean over 10m", above, 300), queue(below, 100))),
        Policy(grow(measured("mean over 31s", above, 300), queue(below, 100))),
        Policy(grow(measured("forecast 10s ahead", above, 300), queue(below, 100))),
        # a forecast may be below 0, a rate of change as well
        Policy(grow(changing(above, -5), measured("forecast 1m ahead", above, -1))),
        Policy(grow(measured("p95 over 5m", above, 300), measured("p50 over 5m", below, 100))),
        Policy(grow(measured("p95 over 5m", below, 100), measured("p50 over 1m", above, 300))),
        Policy(grow(lasting("mean over 1m", above, 300, "4m"), measured("mean over 5m", below, 100))),
        Policy(grow(lasting("mean over 1m", above, 300, "10m"), measured("mean over 5m", below, 290))),
        Policy(grow(metric("nodes").is_(above(count(1))).for_at_least(seconds(5)))),
        # the size settles where both stop
        Policy(grow(queue(above, 300), most=4), shrink(queue(below, 1000), least=4)),
        Policy(
            rule("o").scale_out(cluster()).to(nodes(4)).when(queue(above, 300)),
            rule("i").scale_in(cluster()).to(nodes(4)).when(queue(below, 1000)),
        ),
        # other queues than the operator's
        Policy(grow(operator_queue(above, 300)), shrink(queue(below, 1000, of="store"))),
        # one condition keeps them apart
        Policy(
            grow(HIGH, metric("queue-length").is_(above(rows(9))).for_at_least(seconds(5))),
            shrink(low(90), metric("queue-length").is_(below(rows(1))).for_at_least(seconds(5))),
        ),
        Policy(
            bounds("day").keep(cluster(), at_least=5).between("08:00", "20:00").on("weekdays"),
            bounds("night").keep(cluster(), at_most=4).between("20:00", "08:00").on("weekdays"),
            bounds("weekend").keep(cluster(), at_most=4).on("sunday"),
        ),
        # three of five may be high and the other two low
        Policy(grow(often(above, 300, 3, 5), often(below, 100, 2, 5))),
        Policy(grow(often(above, 300, 4, 5), queue(below, 100))),
        # a constant load is past one of them only
        Policy(grow(often(above, 300, 3, 5)), shrink(often(below, 100, 2, 5))),
        # a node may use more than one core; a name alone does not say whether it is a node
        Policy(rule("x").scale_out(cluster()).by(absolute(1)).when(busy(120))),
        Policy(grow(busy(120, of="executor-1"))),
        Policy(grow(queue(above, 10)), shrink(queue(below, 90, of="store"))),
        # at night up to 3 by this rule, in office hours 4 to 12
        Policy(
            rule("x").scale_out(cluster()).by(absolute(1)).but_never_above(nodes(3)).when(HIGH),
            bounds("office").keep(cluster(), at_least=4, at_most=12).between("08:00", "20:00").on("weekdays"),
        ),
        Policy(
            rule("x").scale_in(cluster()).by(absolute(1)).but_never_below(nodes(8)).when(LOW),
            bounds("night").keep(cluster(), at_most=4).between("20:00", "08:00"),
        ),
        Policy(grow(HIGH), bounds("b").keep(operator("enrich"), at_most=1).on("sunday")),
        # 08:00 in Berlin is 02:00 or 03:00 in New York
        Policy(
            bounds("b").keep(cluster(), at_least=4).between("08:00", "12:00").in_timezone("Europe/Berlin"),
            bounds("n").keep(cluster(), at_most=2).between("20:00", "23:00").in_timezone("America/New_York"),
        ),
        Policy(grow(any_of(HIGH, queue(above, 5)), any_of(LOW, queue(above, 9)))),
    ],
)  # fmt: skip
def test_a_sound_policy_has_no_problems(policy: AnyPolicy) -> None:
    assert find_problems(policy) == []
    Rules(policy)


@given(st.integers(1, 99), st.integers(1, 99))
@settings(max_examples=60, deadline=None)
def test_rules_conflict_exactly_if_some_reading_is_past_both_thresholds(up: int, down: int) -> None:
    policy = Policy(grow(metric("cpu").is_(above(percent(up))).for_at_least(seconds(30))), shrink(low(down)))
    both = any(share > up and share <= down for share in (x / 2 for x in range(201)))
    assert bool(find_problems(policy)) is both


MEASURES = ["each reading", "mean over 30s", "p90 over 20s", "forecast 30s ahead"]


@given(st.integers(0, 9), st.integers(0, 9), st.sampled_from(MEASURES), st.sampled_from(MEASURES))
@settings(max_examples=60, deadline=None)
def test_rules_conflict_exactly_if_some_constant_load_makes_both_fire(
    up: int, down: int, out: str, in_: str
) -> None:
    """The check agrees with feeding readings to both triggers."""
    duration = {"for_at_least": Span.parse("5s")}
    one = Trigger(metric="queue-length", measure=Measure.parse(out), above=rows(up), **duration)
    other = Trigger(metric="queue-length", measure=Measure.parse(in_), below=rows(down), **duration)

    def both_hold(rows_: float) -> bool:
        states = [TriggerState(one), TriggerState(other)]
        for t in range(70):
            for state in states:
                state.add(float(t), rows_)
        return all(state.holds(69.0) for state in states)

    conflict = any(
        "conflict: both hold" in problem.text for problem in find_problems(Policy(grow(one), shrink(other)))
    )
    assert conflict is any(both_hold(rows_ / 2) for rows_ in range(25))


def test_bounds_cannot_start_at_the_end_of_a_day() -> None:
    with pytest.raises(PolicyError, match="24:00 is the end of a day; to start at midnight, write 00:00"):
        bounds("b").keep(cluster(), at_most=3).between("24:00", "00:00").build()


def plain(index: int, op: str):
    name, trigger = str(index), queue(above, 5000) if index % 2 else queue(below, 100)
    return grow(trigger, name=name, op=op) if index % 2 else shrink(trigger, name=name, op=op)


def many_ways(index: int):
    side, rows_ = (above, 5000) if index % 2 else (below, 100)
    when = [any_of(queue(side, rows_), queue(above, 3, of=f"{index}-{k}")) for k in range(8)]
    return grow(*when, name=str(index)) if index % 2 else shrink(*when, name=str(index))


@pytest.mark.parametrize(
    "policy",
    [
        Policy(*(plain(i, "e") for i in range(1000))),
        Policy(*(plain(i, f"e{i // 2}") for i in range(4000))),
        Policy(*(many_ways(i) for i in range(8))),
        Policy(*(many_ways(i) for i in range(80))),
    ],
    ids=["one operator", "many operators", "many ways", "many rules of many ways"],
)
def test_checking_a_large_policy_takes_seconds_at_most(policy: AnyPolicy) -> None:
    """Measured in CPU time. Without limits it took 9 s, 23 s, 12 s and 25 s."""
    started_s = time.process_time()
    assert find_problems(policy) == []
    assert time.process_time() - started_s < 2.5
    again_s = time.process_time()
    Rules(policy)
    assert time.process_time() - again_s < 0.5, "the result is cached"


def test_the_number_of_reported_conflicts_is_limited() -> None:
    many = [grow(queue(above, 9), name=f"g{i}") for i in range(60)]
    assert len(find_problems(Policy(shrink(queue(below, 100)), *many))) == 50


def test_a_part_of_any_of_that_never_holds_is_reported_at_its_position() -> None:
    text = """\
[[rule]]
name = "grow"
action = "scale-out"
by = 1
when = [
  { metric = "freshness", above = "10s", for-at-least = "30s" },
  { any-of = [
    { metric = "backlog", above = "9 rows", for-at-least = "30s" },
    { metric = "freshness", below = "5s", for-at-least = "30s" },
  ] },
]
"""
    with pytest.raises(PolicyError) as error:
        parse_policy(text, "p.toml")
    assert [line.split(": ")[0] for line in error.value.problems] == ["p.toml:9:5"]


def test_conflicts_are_reported_at_their_position() -> None:
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
