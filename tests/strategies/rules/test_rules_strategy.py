"""The strategy ``rules``: which rules fire, what blocks them, and how both are explained."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from rule_world import HIGH, LOW, World, grow, sizes

from ebbflow.core.decision import Decision, LedgerEntry, Outcome
from ebbflow.core.layout import Layout
from ebbflow.core.limits import Limits
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Operator, Pipeline
from ebbflow.core.readings import Reading
from ebbflow.guards import guards_for
from ebbflow.policy import (
    Policy,
    above,
    absolute,
    all_operators,
    below,
    bounds,
    cluster,
    metric,
    milliseconds,
    minutes,
    nodes,
    operator,
    per_second,
    percent,
    relative,
    rule,
    seconds,
    times_original,
    tuples,
)
from ebbflow.policy.values import Span
from ebbflow.runs.simulation import run_simulation
from ebbflow.strategies import make_strategy
from ebbflow.strategies.rules import Rules
from ebbflow.targets.simulator import MicroBatch, Scenario, Stage, built_in_engine
from ebbflow.workloads import Trace, parse_load


def test_a_rule_needs_a_full_new_period_after_it_fired() -> None:
    world = World(Policy(grow().but_never_above(nodes(9)).when(HIGH)))
    assert sizes(world.run(35, enrich=301)) == [(10, 2), (21, 3), (32, 4)]


def test_a_change_without_effect_is_retried_without_a_new_period() -> None:
    world = World(Policy(grow().but_never_above(nodes(9)).when(HIGH)))
    world.obeys = False
    assert [time_s for time_s, _ in world.run(15, enrich=301)] == [10]
    assert "the change 1 → 2 had no effect after 1 attempt; next attempt in 25s" in world.decide().reason
    world.obeys = True
    assert sizes(world.run(40, enrich=301)) == [(40, 2), (51, 3)]


def test_a_change_without_effect_is_retried_with_back_off() -> None:
    world = World(Policy(grow().but_never_above(nodes(9)).when(HIGH)))
    world.obeys = False
    tried = [time_s for time_s, _ in world.run(9000, enrich=301)]
    waits = [b - a for a, b in itertools.pairwise(tried)]
    assert waits == [30, 60, 120, 240, 480, 960, 1800, 1800, 1800]
    held = world.decide()
    assert "the change 1 → 2 had no effect after 10 attempts; next attempt in" in held.reason
    assert held.bound_by[0].name == "retry"
    world.layout = Layout.of(3, enrich=2, store=1)  # someone fixed the cause
    world.obeys = True
    assert [n for _, n in sizes(world.run(30, enrich=301))][:1] == [3], "another size is not delayed"


def test_nodes_added_for_instances_that_did_not_start_are_released() -> None:
    world = World(Policy(grow().but_never_above(nodes(9)).when(HIGH)))
    world.run(10, enrich=301)
    grown = world.decide().wanted
    assert grown == Layout.of(3, enrich=2, store=1)
    world.layout = Layout.of(3, enrich=1, store=1)  # the node was granted, the parallelism was not
    world.now_s += 1
    decision = world.decide()
    assert decision.wanted == Layout.of(2, enrich=1, store=1)
    assert "releasing 1 node: its instances never started" in decision.reason
    world.now_s += 1
    assert world.decide().wanted == world.layout, "only once"


def test_bounds_without_effect_are_retried_with_back_off_too() -> None:
    world = World(Policy(bounds("b").keep(operator("enrich"), at_least=3)))
    world.obeys = False
    assert [time_s for time_s, _ in world.run(100)] == [0, 30, 90]


def test_oscillating_within_seconds_is_not_a_retry() -> None:
    short = seconds(2)
    policy = Policy(
        grow(absolute(2)).when(metric("queue-length")).is_(above(tuples(300))).for_at_least(short),
        rule("in").scale_in(operator("enrich")).by(absolute(2)).when(metric("queue-length"))
        .is_(below(tuples(1))).for_at_least(short),
    )  # fmt: skip
    world = World(policy)
    found = [n for queue in (301, 0, 301, 0) for _, n in sizes(world.run(4, enrich=queue))]
    assert found == [3, 1, 3, 1]


@pytest.mark.parametrize(
    ("by", "limit", "reached"),
    [
        (absolute(2), nodes(4), [4]),
        (absolute(9), nodes(4), [4]),
        (relative(2), nodes(16), [6, 12, 16]),
        (percent(50), nodes(7), [4, 6, 7]),
        (absolute(2), times_original(2), [5, 6]),
    ],
)
def test_steps_stop_at_their_limit(by: Any, limit: Any, reached: list[int]) -> None:
    world = World(Policy(grow(by).but_never_above(limit).when(HIGH)), Layout.of(3, enrich=3, store=1))
    assert [n for _, n in sizes(world.run(80, enrich=301))] == reached
    held = world.decide()
    assert held.reason.startswith("rule 'grow' would fire, but the size is already")
    assert held.bound_by[0].name == "limit"


def test_a_limited_step_names_its_limit() -> None:
    world = World(Policy(grow(absolute(9)).but_never_above(nodes(4)).when(HIGH)))
    world.run(10, enrich=301)
    decision = world.decide()
    assert [(c.name, c.why) for c in decision.bound_by] == [("never above", "limited to 4 instead of 10")]


def test_scale_in_never_goes_below_one() -> None:
    policy = Policy(rule("in").scale_in(operator("enrich")).by(absolute(5)).when(LOW))
    world = World(policy, Layout.of(5, enrich=4, store=1))
    assert sizes(world.run(30, enrich=0)) == [(10, 1)]


def test_an_exact_size_is_reached_in_one_step_and_only_in_its_direction() -> None:
    policy = Policy(rule("five").scale_out(operator("enrich")).to(nodes(5)).when(HIGH))
    assert sizes(World(policy).run(30, enrich=301)) == [(10, 5)]
    larger = World(policy, Layout.of(9, enrich=7, store=1))
    assert larger.run(30, enrich=301) == []


def test_guard_times_count_from_the_last_change_whoever_made_it() -> None:
    policy = Policy(
        rule("in").scale_in(operator("enrich")).by(absolute(1)).when(LOW)
        .with_no_scale_out_since(minutes(1)).with_no_scale_in_since(seconds(30))
    )  # fmt: skip
    world = World(policy, Layout.of(5, enrich=4, store=1))
    world.run(5, enrich=0)
    world.layout = Layout.of(6, enrich=5, store=1)  # a person
    changes = sizes(world.run(150, enrich=0))
    assert [n for _, n in changes[:3]] == [4, 3, 2]
    assert changes[0][0] == pytest.approx(64, abs=1)
    assert [b[0] - a[0] for a, b in itertools.pairwise(changes[:3])] == [30, 30]


def test_guard_times_continue_from_the_ledger_after_a_restart() -> None:
    policy = Policy(grow().but_never_above(nodes(9)).when(HIGH).with_no_scale_out_since(minutes(1)))
    then, layout = Layout.of(2, enrich=1, store=1), Layout.of(3, enrich=2, store=1)
    act = LedgerEntry(
        entry_id=1,
        time_s=-10.0,
        strategy="rules",
        verdict="act",
        before=then,
        decision=Decision(wanted=layout, reason="grew"),
        outcome=Outcome(requested=layout),
    )
    fresh, again = World(policy, layout), World(policy, layout)
    again.rules.recall([act, replace(act, time_s=-5.0, outcome=Outcome(requested=then))])
    assert sizes(fresh.run(55, enrich=301)) == [(10, 3)]
    assert sizes(again.run(55, enrich=301)) == [(50, 3)]


def test_a_forecast_is_explained_as_one() -> None:
    soon = metric("queue-length").is_forecast_to_be(above(tuples(300)), ahead=seconds(10))
    world = World(Policy(grow().when(soon)))
    for t in range(11):  # 10 rows more every second
        world.run(1, enrich=10.0 * t)
    world.queue["enrich"] = 110.0
    reason = world.decide().reason
    assert (
        "the forecast of queue-length in 10s is 210 rows (line through the last 10s); "
        "it must be above 300 rows in 10s"
    ) in reason
    world.now_s = 12.0
    for t in range(12, 21):
        world.run(1, enrich=10.0 * t)
    world.queue["enrich"] = 210.0
    observed = world.decide().inputs["queue-length is forecast to be above 300 rows in 10s [enrich]"]
    assert str(observed).startswith("the forecast of queue-length in 10s is 310 rows")


def test_a_forecast_shorter_than_the_interval_of_readings_reports_too_few_readings() -> None:
    soon = metric("queue-length").is_forecast_to_be(above(tuples(300)), ahead=milliseconds(500))
    world = World(Policy(grow().when(soon)))
    world.run(20, enrich=500.0)
    assert "too few readings in 500ms" in world.decide().reason


def test_a_hold_names_the_closest_rule_and_what_blocks_it() -> None:
    world = World(Policy(grow().but_never_above(nodes(9)).when(HIGH).with_no_scale_out_since(minutes(5))))
    world.run(3, enrich=150)
    assert world.decide().reason == (
        "the closest rule is 'grow': queue-length is 150 rows; it must be above 300 rows for at least 10s"
    )
    world.now_s += 1
    world.run(30, enrich=301)
    held = world.decide()
    assert "would fire, but the last scale-out was" in held.reason
    assert held.bound_by[0].name == "guard time"
    assert held.wanted == world.layout


def test_an_action_names_the_rule_that_fired_and_lists_the_readings() -> None:
    world = World(Policy(grow().but_never_above(nodes(9)).when(HIGH)))
    world.run(10, enrich=301.5)
    decision = world.decide()
    assert decision.reason == "rule 'grow' fired (main +1 node, enrich ×1→2)"
    assert decision.inputs["rule"] == "grow"
    assert decision.inputs["readings of operator-queue of enrich"].startswith("301.5, 301.5, ")  # type: ignore[union-attr]
    observed = decision.inputs["queue-length is above 300 rows for at least 10s [enrich]"]
    assert observed == "queue-length is 301.5 rows, above 300 rows for 10s (11 readings, all 301.5 rows)"


@pytest.mark.parametrize(("lasting_s", "words"), [(590, "301, 301"), (900, "of the last 10m: 301, 301")])
def test_evidence_says_if_the_window_lacks_older_readings(lasting_s: int, words: str) -> None:
    long = metric("queue-length").is_(above(tuples(300))).for_at_least(seconds(lasting_s))
    world = World(Policy(grow().when(long)))
    world.run(lasting_s, enrich=301)
    inputs = world.decide().inputs
    assert f"({lasting_s + 1} readings," in str(
        inputs[f"queue-length is above 300 rows for at least {Span(lasting_s * 1000)} [enrich]"]
    )
    assert str(inputs["readings of operator-queue of enrich"]).startswith(words)


def test_an_action_on_m_of_n_readings_lists_all_n() -> None:
    often = metric("queue-length").is_(above(tuples(300))).in_at_least(4, of=5)
    world = World(Policy(grow().but_never_above(nodes(9)).when(often)))
    for rows in (999, 0, 0, 301, 302, 0, 303):
        assert world.run(1, enrich=rows) == []
    world.queue["enrich"] = 304
    assert world.decide().inputs["readings of operator-queue of enrich"] == "301, 302, 0, 303, 304"


def test_of_several_rules_the_one_with_the_largest_size_wins_and_all_start_a_new_period() -> None:
    policy = Policy(
        rule("one").scale_out(operator("enrich")).by(absolute(1)).when(HIGH),
        rule("three").scale_out(operator("enrich")).by(absolute(3)).when(HIGH),
        rule("in").scale_in(operator("enrich")).by(absolute(1))
        .when(metric("freshness")).is_(below(seconds(9))).for_at_least(seconds(10)),
    )  # fmt: skip
    world = World(policy)
    for t in range(11):
        world.windows.add([Reading(float(t), "words", Metric.FRESHNESS, 1.0)])
    assert sizes(world.run(20, enrich=301))[0] == (10, 4)


def test_a_rule_on_each_operator_scales_only_those_that_need_it() -> None:
    world = World(Policy(rule("all").scale_out(all_operators()).by(absolute(1)).when(HIGH)))
    assert world.run(11, enrich=0, store=301)[-1][1].parallelism == {"enrich": 1, "store": 2}


@pytest.mark.parametrize(
    ("slots", "before", "after"),
    [
        (1, Layout.of(2, enrich=1, store=1), 4),  # both slots are taken
        (2, Layout.of(2, enrich=1, store=1), 2),  # two of four are free
        (4, Layout.of(1, enrich=3, store=1), 2),
        (
            1,
            Layout.of(2, enrich=5, store=5),
            4,
        ),  # slots are shared already: new instances get slots of their own
    ],
)
def test_growth_adds_nodes_when_slots_run_out(slots: int, before: Layout, after: int) -> None:
    world = World(
        Policy(grow(absolute(2)).but_never_above(nodes(9)).when(HIGH)), before, slots_per_node=slots
    )
    assert world.run(11, enrich=301)[-1][1].main_nodes == after


@pytest.mark.parametrize(
    ("queries", "before", "after"),
    [
        ({"enrich": "q", "store": "q"}, Layout.of(3, enrich=2, store=3), 4),  # the widest: 4 of 3 slots
        ({"enrich": "q", "store": "q"}, Layout.of(3, enrich=1, store=3), 3),  # store is as wide
        ({"enrich": "a", "store": "b"}, Layout.of(3, enrich=1, store=2), 5),  # at the same time: 3 + 2 of 3
        ({"enrich": "a", "store": "b"}, Layout.of(9, enrich=2, store=3), 9),
        ({}, Layout.of(3, enrich=2, store=3), 4),  # unknown: counted as one query
    ],
)
def test_the_widest_operator_of_each_query_counts_and_queries_run_at_the_same_time(
    queries: dict[str, str], before: Layout, after: int
) -> None:
    operators = tuple(Operator(name=name, query=queries.get(name, "")) for name in ("enrich", "store"))
    world = World(
        Policy(grow(absolute(2)).but_never_above(nodes(9)).when(HIGH)),
        before,
        pipeline=Pipeline(name="words", operators=operators),
    )
    world.queue = {}  # a micro-batch engine has no queues between operators
    for t in range(11):
        world.windows.add([Reading(float(t), "words", Metric.QUEUE_LENGTH, 999.0)])
    assert world.run(11)[-1][1].main_nodes == after


def test_executors_that_join_while_a_job_starts_count_as_original_and_not_as_a_scale_out() -> None:
    policy = Policy(
        rule("n").scale_out(cluster()).by(absolute(9)).but_never_above(times_original(2)).when(HIGH)
        .with_no_scale_out_since(minutes(5))
    )  # fmt: skip
    world = World(policy, Layout.of(1))
    for t, count in ((0, 1), (3, 2), (6, 3), (9, 4)):
        world.now_s, world.layout = float(t), Layout.of(count)
        world.decide()
    for t in range(10, 22):
        world.windows.add([Reading(float(t), "words", Metric.QUEUE_LENGTH, 999.0)])
    world.now_s = 10.0
    assert [layout.main_nodes for _, layout in world.run(12)] == [8], (
        "twice four, and no guard time is running"
    )


def test_nodes_that_join_after_their_number_was_stable_count_as_a_scale_out() -> None:
    policy = Policy(
        rule("n").scale_in(cluster()).by(absolute(1)).when(metric("queue-length"))
        .is_(below(tuples(1))).for_at_least(seconds(10)).with_no_scale_out_since(minutes(1))
    )  # fmt: skip
    world = World(policy, Layout.of(4))
    world.run(35)
    world.layout = Layout.of(6)  # a person
    world.windows.add(Reading(float(t), "words", Metric.QUEUE_LENGTH, 0.0) for t in range(35, 130))
    changes = world.run(90)
    assert changes[0][0] == pytest.approx(94, abs=1)
    assert changes[0][1].main_nodes == 5


def test_removed_instances_release_the_nodes_they_filled() -> None:
    policy = Policy(rule("in").scale_in(operator("enrich")).by(absolute(2)).when(LOW))
    full = World(policy, Layout.of(4, enrich=3, store=1))
    assert full.run(11, enrich=0)[-1][1].main_nodes == 2
    roomy = World(policy, Layout.of(9, enrich=3, store=1))
    assert roomy.run(11, enrich=0)[-1][1].main_nodes == 9
    more = Policy(*policy.rules, rule("n").scale_out(cluster()).by(absolute(1)).when(HIGH))
    ours = World(more, Layout.of(4, enrich=3, store=1))
    assert ours.run(11, enrich=0)[-1][1].main_nodes == 2, "no other rule would release them"
    fewer = Policy(*policy.rules, rule("n").scale_in(cluster()).by(absolute(1)).when(HIGH))
    theirs = World(fewer, Layout.of(4, enrich=3, store=1))
    assert theirs.run(11, enrich=0)[-1][1].main_nodes == 4, "rules that scale in nodes decide on nodes"


@pytest.mark.parametrize(
    ("slots", "before", "by", "after"),
    [
        (1, Layout.of(4, enrich=8, store=1), 2, 4),  # 7 instances on 4 slots: all stay full
        (1, Layout.of(4, enrich=8, store=1), 5, 4),  # 4 on 4
        (1, Layout.of(4, enrich=8, store=1), 6, 3),
        (2, Layout.of(4, enrich=9, store=2), 4, 4),  # 7 on 8 slots: no node is empty
        (2, Layout.of(4, enrich=9, store=2), 6, 3),
    ],
)
def test_instances_beyond_the_slots_release_no_node(slots: int, before: Layout, by: int, after: int) -> None:
    policy = Policy(rule("in").scale_in(operator("enrich")).by(absolute(by)).when(LOW))
    world = World(policy, before, slots_per_node=slots)
    ((_, layout),) = world.run(11, enrich=0)
    assert (layout.parallelism["enrich"], layout.main_nodes) == (before.parallelism["enrich"] - by, after)


def test_rules_about_nodes_stay_within_the_limits_of_the_loop() -> None:
    policy = Policy(rule("n").scale_out(cluster()).by(absolute(7)).but_never_above(nodes(99)).when(HIGH))
    world = World(policy, limits=Limits(min_nodes=2, max_nodes=5))
    for t in range(12):
        world.windows.add([Reading(float(t), "words", Metric.QUEUE_LENGTH, 999.0)])
    assert [layout.main_nodes for _, layout in world.run(12)] == [5]
    for t in range(12, 30):
        world.windows.add([Reading(float(t), "words", Metric.QUEUE_LENGTH, 999.0)])
    assert world.run(18) == []
    assert world.decide().reason == "rule 'n' would fire, but the size is already 5 and the limit is 5"


def test_a_rule_at_its_limit_does_not_hide_the_closest_other_rule() -> None:
    policy = Policy(grow().when(HIGH), rule("in").scale_in(operator("enrich")).by(absolute(1)).when(LOW))
    world = World(policy)
    world.run(12, enrich=0)
    assert world.decide().reason == (
        "rule 'in' would fire, but the size is already 1 and the limit is 1; no other rule is close to firing "
        "(for 'grow', queue-length is 0 rows; it must be above 300 rows for at least 10s)"
    )


def test_a_fused_operator_is_resized_with_the_nodes() -> None:
    world = World(Policy(grow().but_never_above(nodes(5)).when(HIGH)), Layout.of(3))
    assert world.run(11, enrich=301)[-1][1] == Layout.of(4)


def test_rules_on_unknown_operators_hold_and_say_so() -> None:
    world = World(Policy(grow(op="enrihc").but_never_above(nodes(5)).when(HIGH)))
    assert world.run(20, enrich=301) == []
    assert "the rules name operators enrihc; the pipeline has enrich, store" in world.decide().reason


def test_unknown_operators_are_reported_once_after_the_start_and_after_a_change() -> None:
    policy = Policy(grow(op="nope").when(HIGH), bounds("night").keep(operator("zzz"), at_least=3))
    shrink = rule("in").scale_in(operator("enrich")).by(absolute(1)).when(LOW)
    world = World(Policy(*policy.rules, shrink, *policy.bounds))
    world.now_s = 1000.0
    warnings = [
        "rule 'grow' names operator nope, but the pipeline has enrich, store; "
        "bounds 'night' name operator zzz, but the pipeline has enrich, store; "
    ]

    def reasons(seconds_: int) -> list[str]:
        found = []
        for _ in range(seconds_):
            found.append(world.decide().reason)
            world.now_s += 1.0
        return [reason[: len(warnings[0])] for reason in found if "names operator" in reason]

    assert reasons(30) == [], "the query may not have started yet"
    assert reasons(500) == warnings
    world.rules.use(policy)
    assert reasons(100) == warnings


def test_a_rule_without_readings_is_reported_once() -> None:
    heap = metric("node-heap-share").is_(above(percent(80))).for_at_least(seconds(30))
    world = World(Policy(rule("heap").scale_out(cluster()).by(absolute(1)).when(heap)))
    reasons = []
    for _ in range(400):
        reasons.append(world.decide().reason)
        world.now_s += 1.0
    warned = [(t, reason) for t, reason in enumerate(reasons) if "no readings of" in reason]
    assert [t for t, _ in warned] == [300]
    assert warned[0][1].startswith("rule 'heap' has had no readings of node-heap-share for 5m; ")


def test_missing_and_stale_readings_fire_nothing() -> None:
    world = World(Policy(grow().when(HIGH), rule("in").scale_in(cluster()).by(absolute(1)).when(LOW)))
    world.run(9, enrich=301)
    world.now_s += 60
    assert world.decide().wanted == world.layout
    blind = World(Policy(grow().when(HIGH), rule("in").scale_in(cluster()).by(absolute(1)).when(LOW)))
    blind.queue = {}
    assert blind.run(60) == []
    assert "no readings" in blind.decide().reason


def test_a_reading_from_the_future_waits_for_its_time() -> None:
    world = World(Policy(grow().when(HIGH)))
    world.queue = {}
    world.windows.add(Reading(1000.0 + t, "enrich", Metric.OPERATOR_QUEUE, 999.0) for t in range(20))
    assert world.run(30) == []


def test_series_of_nodes_that_have_left_are_forgotten() -> None:
    busy = metric("cpu").is_(above(percent(90))).for_at_least(seconds(10))
    world = World(Policy(rule("n").scale_out(cluster()).by(absolute(1)).when(busy)))
    for node in range(2000):
        world.windows.add([Reading(world.now_s, f"executor-{node}", Metric.NODE_CPU, 0.5)])
        world.windows.forget_before(world.now_s - 20.0)
        world.run(1)
    assert world.rules._router is not None
    assert len(world.rules._router) < 300


def test_bounds_need_no_readings() -> None:
    world = World(Policy(bounds("b").keep(cluster(), at_least=3)))
    world.queue = {}
    assert world.decide().wanted.main_nodes == 3


def test_readings_of_several_nodes_count_in_the_order_of_their_times() -> None:
    """Two nodes whose CPU rises by 0.01 per second each, read in turns, with a cycle every 5 s."""
    rising = metric("cpu").rate_of_change_over(seconds(20)).is_(above(per_second(percent(0.9))))
    faster = metric("cpu").rate_of_change_over(seconds(20)).is_(above(per_second(percent(1.1))))
    for trigger, fires in ((rising, True), (faster, False)):
        world = World(Policy(rule("n").scale_out(cluster()).by(absolute(1)).when(trigger)))
        world.queue = {}
        for t in range(41):
            readings = [
                Reading(t + offset_s, node, Metric.NODE_CPU, 0.01 * (t + offset_s))
                for node, offset_s in (("executor-1", 0.0), ("executor-2", 0.5))
            ]
            world.windows.add(readings)
            world.now_s = t + 0.9
            if t % 5 == 4:
                world.decide()
        assert (world.layout.main_nodes > 2) is fires


def test_bounds_apply_without_a_trigger_and_limit_the_rules() -> None:
    monday = datetime(2026, 11, 16, 7, 59, 58, tzinfo=UTC).timestamp()
    policy = Policy(
        grow(absolute(9)).when(HIGH),
        bounds("office")
        .keep(operator("enrich"), at_least=2, at_most=3)
        .between("08:00", "20:00")
        .on("weekdays"),
    )
    world = World(policy, now_s=monday)
    assert [(t - monday, n) for t, n in sizes(world.run(30, enrich=301))] == [(2, 2), (10, 3)]


def test_a_rule_blocked_by_bounds_says_so() -> None:
    limits = bounds("b").keep(operator("enrich"), at_least=2, at_most=3)
    out = World(Policy(grow().when(HIGH), limits), Layout.of(4, enrich=3, store=1))
    assert out.run(12, enrich=301) == []
    held = out.decide()
    assert held.reason == "rule 'grow' would fire, but bounds 'b' allow at most 3"
    assert [(each.name, each.why) for each in held.bound_by] == [("b", "bounds 'b' allow at most 3")]
    assert held.inputs["rule"] == "grow"
    shrink = rule("in").scale_in(operator("enrich")).by(absolute(1)).when(LOW)
    less = World(Policy(shrink, limits), Layout.of(4, enrich=2, store=1))
    assert less.run(12, enrich=0) == []
    assert less.decide().reason == "rule 'in' would fire, but bounds 'b' require at least 2"


def test_a_rule_blocked_by_bounds_is_no_evidence_for_the_action_of_another() -> None:
    policy = Policy(
        rule("all").scale_out(all_operators()).by(absolute(1)).when(HIGH),
        bounds("b").keep(operator("enrich"), at_most=2),
    )
    world = World(policy, Layout.of(3, enrich=2, store=1))
    world.run(10, enrich=301, store=301)
    decision = world.decide()
    assert decision.wanted.parallelism == {"enrich": 2, "store": 2}
    assert [key for key in decision.inputs if "enrich" in key] == []


def test_a_step_past_bounds_stops_there_even_while_that_size_waits_for_a_retry() -> None:
    world = World(Policy(grow(absolute(5)).when(HIGH), bounds("b").keep(operator("enrich"), at_most=3)))
    world.run(10, enrich=301)
    world.obeys = False
    decision = world.decide()
    assert [(each.name, each.why) for each in decision.bound_by] == [("b", "bounds 'b' allow at most 3")]
    world.now_s += 1
    assert {size for _, size in [(10, 3), *sizes(world.run(100, enrich=301))]} == {3}


def test_nodes_added_and_removed_with_instances_stay_within_the_bounds_on_nodes() -> None:
    more = World(Policy(grow().when(HIGH), bounds("b").keep(cluster(), at_most=2)))
    more.run(10, enrich=301)
    decision = more.decide()
    assert decision.wanted == Layout.of(2, enrich=2, store=1)
    assert [each.name for each in decision.bound_by] == ["b"]
    shrink = rule("in").scale_in(operator("enrich")).by(absolute(2)).when(LOW)
    fewer = World(Policy(shrink, bounds("b").keep(cluster(), at_least=3)), Layout.of(4, enrich=3, store=1))
    assert [layout for _, layout in fewer.run(30, enrich=0)] == [Layout.of(3, enrich=1, store=1)]


def test_no_limit_exceeds_what_a_cluster_can_run() -> None:
    few = {"limits": Limits(min_nodes=1, max_nodes=16)}
    world = World(Policy(grow(absolute(10**6)).but_never_above(nodes(10**9)).when(HIGH)), **few)
    world.run(10, enrich=301)
    decision = world.decide()
    assert decision.wanted == Layout.of(16, enrich=128, store=1)
    assert ("slots", "limited to 128 instead of 1000001: at most 8 instances per slot") in [
        (each.name, each.why) for each in decision.bound_by
    ]
    exact = World(Policy(rule("to").scale_out(operator("enrich")).to(nodes(10**9)).when(HIGH)), **few)
    assert sizes(exact.run(11, enrich=301)) == [(10, 16)], "without a limit, up to the slots"
    bound = World(Policy(bounds("b").keep(operator("enrich"), at_least=10**9)), **few)
    assert bound.decide().wanted.parallelism["enrich"] == 128
    wide = Policy(grow(relative(2)).but_never_above(times_original(2)).when(HIGH))
    assert sizes(World(wide, Layout.of(2, enrich=300, store=1), **few).run(11, enrich=301)) == [(10, 600)]


@given(
    st.lists(st.tuples(st.floats(0, 1000), st.booleans(), st.floats(0, 40)), min_size=5, max_size=120),
    st.integers(2, 6),
    st.integers(1, 5),
)
@settings(max_examples=60, deadline=None)
def test_sizes_stay_within_their_limits_for_any_readings(cycles: Any, most: int, by: int) -> None:
    """Never below one, never above the limit, never out and in at once, always with a reason."""
    policy = Policy(
        grow(absolute(by)).but_never_above(nodes(most)).when(metric("queue-length"))
        .is_(above(tuples(300))).in_at_least(2, of=3),
        rule("in").scale_in(operator("enrich")).by(relative(2)).when(metric("queue-length"))
        .is_(below(tuples(100))).in_at_least(2, of=3),
    )  # fmt: skip
    world = World(policy)
    for rows, has_reading, wait_s in cycles:
        world.queue = {"enrich": rows} if has_reading else {}
        decision = world.decide()
        assert 1 <= decision.wanted.parallelism["enrich"] <= most
        assert decision.wanted.parallelism["store"] == 1
        assert 1 <= decision.wanted.main_nodes <= 20
        assert decision.reason
        assert decision.formula
        world.now_s += wait_s + 0.1


def test_a_new_policy_is_used_from_the_next_cycle_and_unchanged_rules_keep_their_readings() -> None:
    world = World(Policy(grow().but_never_above(nodes(9)).when(HIGH)))
    world.run(8, enrich=301)
    same = grow().but_never_above(nodes(9)).when(HIGH)
    change = world.rules.use(Policy(same, rule("in").scale_in(operator("enrich")).by(absolute(1)).when(LOW)))
    assert (change.added, change.unchanged, change.removed) == (("in",), ("grow",), ())
    assert str(change) == "1 added (in); 1 unchanged"
    assert sizes(world.run(5, enrich=301)) == [(10, 2)], "it had been past its threshold for 8 s"
    change = world.rules.use(Policy(grow(absolute(2)).but_never_above(nodes(9)).when(HIGH)))
    assert (change.changed, change.removed) == (("grow",), ("in",))


FRESH = metric("freshness").is_(above(seconds(9))).for_at_least(seconds(10))


@pytest.mark.parametrize(
    "when", [HIGH, metric("queue-length").mean_over(seconds(10)).is_(above(tuples(300)))]
)
@pytest.mark.parametrize("first", [Policy(), Policy(grow().when(FRESH)), Policy(grow().when(HIGH))])
def test_an_added_rule_ignores_older_readings_in_the_windows(first: Policy, when: Any) -> None:
    """Whether or not another rule read the queue before, the new rule needs a full period."""
    world = World(first)
    world.obeys = False
    world.run(300, enrich=301)
    world.obeys = True
    world.rules.use(Policy(rule("new").scale_out(operator("enrich")).by(absolute(2)).when(when)))
    assert sizes(world.run(15, enrich=301)) == [(310, 3)]


def test_a_rule_that_was_removed_and_added_again_starts_fresh() -> None:
    world = World(Policy(grow().but_never_above(nodes(9)).when(HIGH)))
    world.run(9, enrich=301)
    world.rules.use(Policy(rule("other").scale_out(operator("store")).by(absolute(1)).when(HIGH)))
    world.run(100, enrich=301)
    world.rules.use(Policy(grow().but_never_above(nodes(9)).when(HIGH)))
    assert sizes(world.run(15, enrich=301)) == [(119, 2)]


def test_the_first_policy_counts_readings_from_before_the_first_cycle() -> None:
    world = World(Policy(grow().but_never_above(nodes(9)).when(HIGH)), now_s=30.0)
    world.windows.add(Reading(float(t), "enrich", Metric.OPERATOR_QUEUE, 301.0) for t in range(30))
    assert sizes(world.run(1, enrich=301)) == [(30, 2)]


def test_a_series_that_starts_later_counts_from_its_first_reading() -> None:
    world = World(Policy())
    world.queue = {}
    world.run(20)
    world.rules.use(Policy(grow().but_never_above(nodes(9)).when(HIGH)))
    world.run(20)
    assert sizes(world.run(15, enrich=301)) == [(50, 2)]


def test_an_operator_that_was_missing_for_a_cycle_needs_a_new_period() -> None:
    world = World(Policy(rule("all").scale_out(all_operators()).by(absolute(1)).when(HIGH)))
    assert sizes(world.run(11, enrich=301)) == [(10, 2)]
    world.decide(pipeline=Pipeline.chain("words", "store"))  # its query restarts
    world.now_s += 1
    assert sizes(world.run(12, enrich=301)) == [(22, 3)]


def test_a_query_with_a_read_limit_shrinks_after_its_input_ends(tmp_path: Path) -> None:
    """Its queue is its backlog, which batches report; it must also be reported when there are no batches."""
    query = MicroBatch(
        pipeline=Pipeline.chain("q", Operator(name="work", boundary=True)),
        stages=(Stage(tasks=4, per_row_s=0.001, operator="work"),),
        trigger_interval_s=1.0,
        read_limit_rows=100,
    )
    shrink = rule("in").scale_in(operator("work")).by(absolute(3)).when(metric("queue-length"))
    policy = Policy(shrink.is_(below(tuples(1))).for_at_least(seconds(30)))
    (tmp_path / "minute.csv").write_text("time,events\n0,12000\n60,0\n120,0\n180,0\n")
    load = Trace(file=str(tmp_path / "minute.csv"))  # 6,000 rows wait after a minute, gone a minute later
    run = run_simulation(Scenario(engine=query, load=load, seconds=239, cycle_s=1.0), Rules(policy)).run
    (act,) = [entry for entry in run.decisions if entry.verdict == "act"]
    assert act.decision.wanted.parallelism == {"work": 1}
    assert act.time_s == pytest.approx(150, abs=5)
    assert "readings of backlog of q" in act.decision.inputs


def test_the_default_policy_grows_and_shrinks_any_pipeline() -> None:
    for engine in ("micro-batch", "continuous"):
        scenario = Scenario(
            engine=built_in_engine("top-words", engine),
            load=parse_load("square(base=100, peak=900, period=40m)"),
            seconds=3600,
        )
        strategy = make_strategy("rules")
        run = run_simulation(scenario, strategy, guards_for(strategy)).run
        held = run.nodes.values
        assert held.max() >= 4
        assert held[-1] < held.max()
