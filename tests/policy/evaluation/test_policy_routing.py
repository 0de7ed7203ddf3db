"""Readings reach the triggers that need them once, from the best source that has readings; bounds follow the clock."""

from __future__ import annotations

from datetime import datetime

import pytest

from ebbflow.core.metrics import Metric
from ebbflow.core.readings import Reading
from ebbflow.policy import (
    Policy,
    above,
    absolute,
    all_operators,
    bounds,
    cluster,
    metric,
    operator,
    percent,
    rows,
    rule,
    seconds,
)
from ebbflow.policy.evaluation.calendar import applies
from ebbflow.policy.evaluation.routing import Need, Router, needs
from ebbflow.policy.language.words import Scalable
from ebbflow.policy.model import Trigger

QUEUE = metric("queue-length").is_(above(rows(300))).for_at_least(seconds(10))
BUSY = metric("cpu").is_(above(percent(80))).for_at_least(seconds(10))


def grow(what: Scalable, when: Trigger = QUEUE, name: str = "grow"):
    return rule(name).scale_out(what).by(absolute(1)).when(when)


def fires(router: Router, now_s: float) -> list[tuple[str, str]]:
    return [(state.rule.name, state.operator) for state in router.states if state.fires(now_s)]


def feed(router: Router, subject: str, kind: Metric, value: float, seconds_: range = range(0, 11)) -> None:
    for t in seconds_:
        router.add(Reading(float(t), subject, kind, value))


def test_a_rule_on_each_operator_fires_for_the_operator_whose_readings_hold() -> None:
    router = Router(Policy(grow(all_operators())), "p", ["a", "b"])
    feed(router, "a", Metric.OPERATOR_QUEUE, 0.0)
    feed(router, "b", Metric.OPERATOR_QUEUE, 999.0)
    assert fires(router, 10.0) == [("grow", "b")]


def test_the_queue_of_an_operator_is_its_own_or_else_that_of_the_pipeline() -> None:
    whole = Router(Policy(grow(operator("a"))), "p", ["a"])
    feed(whole, "p", Metric.QUEUE_LENGTH, 999.0)
    assert fires(whole, 10.0)
    both = Router(Policy(grow(operator("a"))), "p", ["a"])
    feed(both, "p", Metric.QUEUE_LENGTH, 999.0)
    feed(both, "a", Metric.OPERATOR_QUEUE, 0.0, range(11, 12))
    feed(both, "p", Metric.QUEUE_LENGTH, 999.0, range(11, 40))
    assert not fires(both, 20.0), (
        "the operator has readings of its own, so those of the pipeline do not count"
    )


@pytest.mark.parametrize(
    ("read_limited", "source"),
    [
        (("a", "p"), ("a", Metric.BACKLOG)),
        (("p",), ("a", Metric.QUEUE_LENGTH)),  # its own query has no limit
        ((), ("a", Metric.QUEUE_LENGTH)),
    ],
)
def test_the_queue_of_a_query_with_a_read_limit_is_its_backlog(
    read_limited: tuple[str, ...], source: tuple[str, Metric]
) -> None:
    router = Router(Policy(grow(operator("a"))), "p", ["a"], read_limited)
    series = [(subject, kind) for subject in ("p", "a") for kind in (Metric.QUEUE_LENGTH, Metric.BACKLOG)]
    for subject, kind in series:
        feed(router, subject, kind, 999.0 if (subject, kind) == source else 0.0)
    (trigger,) = router.states[0].triggers
    assert router.series_of(trigger) == [source]
    for t in range(11, 30):
        for subject, kind in series:
            value = 999.0 if (subject, kind) == source else 0.0
            router.add(Reading(float(t), subject, kind, value))
    assert fires(router, 29.0)


def test_without_a_query_of_the_operators_name_the_backlog_is_that_of_the_pipeline() -> None:
    router = Router(Policy(grow(operator("a"))), "p", ["a"], ["p"])
    feed(router, "p", Metric.QUEUE_LENGTH, 0.0)
    feed(router, "p", Metric.BACKLOG, 999.0, range(11, 22))
    assert fires(router, 21.0)


def test_for_a_rule_on_nodes_the_queue_is_all_unprocessed_rows() -> None:
    router = Router(Policy(grow(cluster())), "p", [], ["p"])
    feed(router, "p", Metric.BACKLOG, 0.0)
    feed(router, "p", Metric.QUEUE_LENGTH, 999.0)
    assert fires(router, 10.0)


def test_readings_of_several_nodes_are_merged_by_time() -> None:
    router = Router(Policy(grow(cluster(), BUSY)), "p", [])
    order: list[tuple[float, float]] = []
    router.waits_for("node-1", Metric.NODE_CPU)
    router.waits_for("node-2", Metric.NODE_CPU)
    router.states[0].triggers[0].add = lambda t, v: order.append((t, v))  # type: ignore[method-assign]
    router.add_merged(
        [("node-1", [(0.0, 0.1), (2.0, 0.3)]), ("node-2", [(1.0, 0.2), (3.0, 0.4)])], Metric.NODE_CPU
    )
    assert order == [(0.0, 0.1), (1.0, 0.2), (2.0, 0.3), (3.0, 0.4)]


def test_a_rule_on_nodes_reads_all_nodes() -> None:
    router = Router(Policy(grow(cluster(), BUSY)), "p", [])
    for t in range(11):
        router.add(Reading(float(t), "node-1", Metric.NODE_CPU, 0.9))
        router.add(Reading(float(t) - 0.3, "node-2", Metric.NODE_CPU, 0.9))
    assert fires(router, 10.0)
    router.add(Reading(11.0, "node-2", Metric.NODE_CPU, 0.1))
    assert not fires(router, 11.0)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_invalid_duplicate_and_late_readings_change_nothing(value: float) -> None:
    router = Router(Policy(grow(operator("a"))), "p", ["a"])
    for t in range(11):
        router.add(Reading(float(t), "a", Metric.OPERATOR_QUEUE, 999.0))
        router.add(Reading(float(t), "a", Metric.OPERATOR_QUEUE, 0.0))  # a duplicate
        router.add(Reading(float(t) - 5, "a", Metric.OPERATOR_QUEUE, 0.0))  # from the past
        router.add(Reading(float(t) + 0.1, "a", Metric.OPERATOR_QUEUE, value))
    assert fires(router, 10.0)


def test_unchanged_rules_keep_their_readings_when_the_policy_changes() -> None:
    router = Router(Policy(grow(operator("a")), grow(operator("a"), name="old")), "p", ["a"])
    feed(router, "a", Metric.OPERATOR_QUEUE, 999.0)
    router.use(Policy(grow(operator("a")), grow(operator("a"), name="new")))
    assert fires(router, 10.0) == [("grow", "a")]
    feed(router, "a", Metric.OPERATOR_QUEUE, 999.0, range(11, 22))
    assert fires(router, 21.0) == [("grow", "a"), ("new", "a")]


def test_operators_that_appear_later_are_followed_from_then_on() -> None:
    policy = Policy(grow(all_operators()))
    router = Router(policy, "p", ["a"])
    feed(router, "a", Metric.OPERATOR_QUEUE, 999.0)
    router.operators = ("a", "b")
    router.use(policy)
    feed(router, "b", Metric.OPERATOR_QUEUE, 999.0, range(5, 20))
    assert fires(router, 19.0) == [("grow", "a"), ("grow", "b")]


def test_needs_are_exactly_the_series_that_rules_may_read() -> None:
    elsewhere = metric("freshness").of("q2").is_(above(seconds(9))).for_at_least(seconds(5))
    policy = Policy(
        grow(operator("a")),
        grow(all_operators(), BUSY, "busy"),
        grow(cluster(), BUSY, "nodes"),
        grow(cluster(), elsewhere, "q2"),
        grow(all_operators(), metric("batch-time").is_(above(seconds(9))).for_at_least(seconds(5)), "slow"),
    )
    assert needs(policy, "p") == {
        Need(Metric.OPERATOR_QUEUE, "a"),
        Need(Metric.BACKLOG, "a"),
        Need(Metric.BACKLOG, "p"),
        Need(Metric.QUEUE_LENGTH, "a"),
        Need(Metric.QUEUE_LENGTH, "p"),
        Need(Metric.INSTANCE_CPU),
        Need(Metric.NODE_CPU),
        Need(Metric.FRESHNESS, "q2"),
        Need(Metric.BATCH_TIME),
        Need(Metric.BATCH_TIME, "p"),
    }
    router = Router(policy, "p", ["a", "b"])
    for subject in ("a", "b", "p", "q2", "node-1"):
        for kind in Metric:
            needed = any(need.matches(subject, kind) for need in needs(policy, "p"))
            assert needed or not router.waits_for(subject, kind)
    assert needs(Policy()) == frozenset()


def test_bounds_follow_their_time_zone_through_the_change_to_summer_time() -> None:
    office = bounds("o").keep(cluster(), at_least=4).between("08:00", "20:00").on("weekdays")
    berlin = office.in_timezone("Europe/Berlin").build()

    def at(text: str) -> bool:
        return applies(berlin, datetime.fromisoformat(text).timestamp())

    assert at("2026-03-27T07:00:00+00:00")  # Friday, winter: 08:00 there
    assert not at("2026-03-27T06:59:00+00:00")
    assert at("2026-03-30T06:00:00+00:00")  # Monday, summer: 08:00 there
    assert not at("2026-03-30T18:00:00+00:00")
    assert not at("2026-03-28T12:00:00+00:00")  # Saturday


def test_hours_past_midnight_belong_to_the_day_they_started_on() -> None:
    night = bounds("n").keep(cluster(), at_most=2).between("22:00", "06:00").on("sunday").build()
    at = [
        applies(night, datetime.fromisoformat(f"2026-11-{text}+00:00").timestamp())
        for text in ("15T21:59:00", "15T22:00:00", "16T05:59:00", "16T06:00:00", "16T23:00:00")
    ]
    assert at == [False, True, True, False, False]
