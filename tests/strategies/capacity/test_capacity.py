"""The capacity strategy in closed loop with an engine whose costs are known."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from ebbflow.core.decision import Decision
from ebbflow.core.metrics import Metric
from ebbflow.core.snapshot import Snapshot
from ebbflow.papers.elysium.demo import LiveScenario
from ebbflow.strategies.capacity import Capacity
from ebbflow.testing.engine import FakeQuery, FakeStage, LoopRun, run_loop
from ebbflow.workloads import parse_load

TWELVE = (FakeStage(tasks=12, per_task_s=0.05, per_row_s=0.01),)


def constant(rate_per_s: float, *stages: FakeStage, **costs: float) -> FakeQuery:
    return FakeQuery(lambda t: rate_per_s, stages or TWELVE, **costs)  # type: ignore[arg-type]


def step(before: float, after: float, at_s: float, *stages: FakeStage, **costs: float) -> FakeQuery:
    return FakeQuery(lambda t: before if t < at_s else after, stages or TWELVE, **costs)  # type: ignore[arg-type]


def busy(rate_per_s: float, nodes: int, longest_s: float) -> float:
    """By hand for TWELVE and a trigger of 5 s: how full a batch is that lasts so long."""
    waves = math.ceil(12 / nodes)
    return (0.3 + waves * 0.05) / longest_s + waves * 0.01 * rate_per_s / 12


def fewest(rate_per_s: float) -> int:
    """Growing stops here at the latest: the budget of 5 + 0.4 · 25 s is two batches, and they do not get longer."""
    return min((n for n in (1, 2, 3, 4, 6) if busy(rate_per_s, n, 7.5) <= 1.0), default=12)


def most(rate_per_s: float) -> int:
    """Shrinking stops here: β = 0.3 and ρ = 0.9, and a growth of 4 s must still fit when β is 0.4."""
    return min(
        (n for n in (1, 2, 3, 4, 6) if busy(rate_per_s, n, 6.25) <= 0.9 and busy(rate_per_s, n, 5.5) <= 1.0),
        default=12,
    )


# -- the right size ------------------------------------------------------------------------------


@pytest.mark.parametrize("rate_per_s", [10, 80, 140, 300, 480])
@pytest.mark.parametrize("start", [1, 12])
def test_under_a_constant_load_it_settles_at_the_smallest_size_that_is_enough(
    rate_per_s: int, start: int
) -> None:
    run = run_loop(constant(rate_per_s), nodes=start, seconds=400)
    # Coming from above it may stay at a size that growing would not have taken, and at none beyond it.
    assert fewest(rate_per_s) <= run.nodes <= most(rate_per_s)
    assert len(run.acts(200.0)) <= 1
    assert run.worst_s(300.0) <= 30.0


@pytest.mark.parametrize("seed", range(3))
def test_noise_in_the_load_does_not_make_it_flap(seed: int) -> None:
    chance = random.Random(seed)
    noise = [chance.gauss(1.0, 0.15) for _ in range(601)]
    run = run_loop(FakeQuery(lambda t: 300 * noise[int(t)], TWELVE), nodes=6, seconds=600)
    assert len(run.acts(100.0)) <= 2
    assert run.late_share() == 0.0


@pytest.mark.parametrize("trigger_s", [0.0, 1.0, 5.0])
def test_a_steady_load_is_left_alone_whatever_the_trigger(trigger_s: float) -> None:
    run = run_loop(constant(50, FakeStage(tasks=200, per_task_s=0.02), trigger_s=trigger_s), seconds=400)
    assert len(run.acts(200.0)) <= 1
    assert run.late_share() == 0.0


def test_without_a_trigger_fixed_costs_alone_do_not_make_it_grow() -> None:
    shuffle = FakeStage(tasks=200, per_task_s=0.02, per_row_s=0.01)  # 4 task seconds a batch, however small
    with_trigger = run_loop(constant(50, shuffle, trigger_s=5.0))
    without = run_loop(constant(50, shuffle, trigger_s=0.0))
    assert without.nodes <= with_trigger.nodes


def test_an_objective_of_twice_the_trigger_is_kept_with_less_than_everything() -> None:
    run = run_loop(constant(100), slo_s=10.0, nodes=12)
    assert run.nodes <= 6
    assert run.late_share() == 0.0


# -- change --------------------------------------------------------------------------------------


def test_after_a_step_it_reaches_its_size_in_three_acts_and_keeps_the_objective() -> None:
    run = run_loop(step(100, 300, at_s=100.0))
    grown = [act for act in run.acts(100.0) if act.decision.wanted.main_nodes > act.before.main_nodes]
    assert 1 <= len(grown) <= 3
    assert run.late_share() == 0.0
    assert fewest(300) <= run.nodes <= most(300)


def test_after_an_unforeseeable_step_it_is_fresh_again_soon_and_stays_so() -> None:
    run = run_loop(step(50, 400, at_s=100.0))
    assert run.worst_s(170.0) <= 30.0  # its first sight of the step is at 126, when a long batch ends
    assert run.late_share() <= 0.15


def test_when_the_load_falls_it_shrinks_back_to_the_minimum() -> None:
    run = run_loop(step(300, 20, at_s=100.0), nodes=6, limits="1:20")
    assert run.nodes == 1
    assert run.late_share() == 0.0
    sizes = [nodes for requested_s, nodes in run.target.requests if requested_s >= 100.0]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("trigger_s", [1.0, 5.0, 30.0])
def test_when_nothing_arrives_the_minimum_is_enough(trigger_s: float) -> None:
    run = run_loop(step(300, 0, at_s=90.0, trigger_s=trigger_s), nodes=8, limits="2:20")
    assert run.nodes == 2


def test_a_load_that_rises_and_falls_is_followed_without_a_late_row_and_without_flapping() -> None:
    run = run_loop(FakeQuery(lambda t: 200 - 150 * math.cos(t / 300 * 2 * math.pi), TWELVE), seconds=600)
    assert run.late_share() == 0.0
    sizes = [nodes for _, nodes in run.target.requests]
    turns = [b for a, b, c in zip(sizes, sizes[1:], sizes[2:], strict=False) if (b - a) * (c - b) < 0]
    assert len(turns) <= 4  # two tops and a bottom, and no more turns than one to spare
    assert run.most_nodes == 6


def test_a_backlog_from_a_read_limit_is_worked_off_and_then_it_shrinks() -> None:
    run = run_loop(
        FakeQuery(lambda t: 400 if 60 <= t < 100 else 60, TWELVE, read_limit=1500), seconds=400, limits="1:12"
    )
    assert run.most_nodes > 2
    assert run.nodes <= 2
    assert run.worst_s(250.0) <= 30.0


# -- a source that does not report its backlog -----------------------------------------------------

MANY = FakeStage(tasks=48, per_task_s=0.1, per_row_s=0.001)
"""Mostly fixed costs: a strategy that lets batches grow would shrink under it."""


def behind(*, reports_backlog: bool) -> FakeQuery:
    """100,000 rows behind, and 500 a batch: on eight nodes it gets through more than arrives, on two through less."""
    return FakeQuery(
        lambda t: 400.0,
        (MANY,),
        trigger_s=0.5,
        read_limit=500,
        arrived=100_000.0,
        reports_backlog=reports_backlog,
    )


@pytest.mark.parametrize("reports_backlog", [True, False])
def test_no_node_is_released_while_a_query_is_hours_behind_even_if_the_backlog_is_unknown(
    reports_backlog: bool,
) -> None:
    run = run_loop(behind(reports_backlog=reports_backlog), nodes=8, limits="1:12")
    assert min(nodes for _, nodes in run.target.requests) == 8


def test_an_unknown_backlog_shows_in_the_decision() -> None:
    run = run_loop(behind(reports_backlog=False), nodes=8, limits="1:12")
    assert any("does not report its backlog" in c.why for e in run.entries for c in e.decision.bound_by)
    assert {e.decision.inputs["backlog_rows"] for e in run.entries if e.decision.inputs} == {"unknown"}


def test_a_query_with_time_left_shrinks_even_if_its_backlog_is_unknown() -> None:
    assert run_loop(FakeQuery(lambda t: 20.0, TWELVE, reports_backlog=False), nodes=4).nodes == 1


# -- what more nodes cannot help -----------------------------------------------------------------


def said(run: LoopRun, name: str) -> bool:
    return name in run.constraints()


def test_with_too_few_partitions_it_says_so_and_grows_no_further() -> None:
    run = run_loop(constant(300, FakeStage(tasks=3, per_row_s=0.012)), nodes=2)
    assert run.most_nodes == 3
    assert said(run, "partitions")


@pytest.mark.parametrize("start", [2, 6])
def test_with_one_skewed_task_it_says_so_and_does_not_grow(start: int) -> None:
    run = run_loop(constant(200, FakeStage(tasks=12, per_row_s=0.01, skew=6.0)), nodes=start)
    assert run.most_nodes == start
    assert said(run, "skew")


def test_when_the_driver_is_the_bottleneck_it_says_so_and_does_not_grow() -> None:
    run = run_loop(constant(10, driver_s=14.0))
    assert run.most_nodes <= 2
    assert said(run, "driver")


def test_when_a_read_limit_is_the_bottleneck_it_says_so_and_does_not_grow() -> None:
    run = run_loop(constant(100, read_limit=300))
    assert run.most_nodes <= 2
    assert said(run, "read limit")


def test_when_the_trigger_alone_uses_up_the_objective_it_says_so_and_does_not_grow() -> None:
    run = run_loop(constant(20, trigger_s=30.0))
    assert run.most_nodes <= 2
    assert said(run, "trigger")


def test_when_the_limits_are_too_low_it_says_so() -> None:
    run = run_loop(constant(500), limits="1:3", nodes=3)
    assert run.nodes == 3
    assert said(run, "limit")


# -- more than one query, more than one slot -----------------------------------------------------


def test_two_queries_are_sized_together() -> None:
    one, other = constant(100), FakeQuery(lambda t: 150.0, TWELVE, name="other")
    both = run_loop(one, other, nodes=4)
    alone = run_loop(constant(100), nodes=4)
    assert both.nodes > alone.nodes
    assert both.late_share() == 0.0


def catching_up(**more: float) -> FakeQuery:
    """Joins at 12 s with 20,000 rows to catch up on: its first batch takes most of a minute on four nodes."""
    return FakeQuery(lambda t: 50.0, TWELVE, name="heavy", starts_s=12.0, arrived=20_000.0, **more)  # type: ignore[arg-type]


def test_no_node_is_released_while_a_restarted_query_is_unknown() -> None:
    run = run_loop(constant(10), catching_up(), nodes=4, seconds=400)
    first_ended_s = run.target.queries[1].freshness[0][0]
    assert first_ended_s > 40.0, "its first batch is a long one"
    assert min(nodes for requested_s, nodes in run.target.requests if requested_s <= first_ended_s) == 4
    held = [e for e in run.entries if 15.0 < e.time_s < first_ended_s and e.verdict == "hold"]
    assert any("learning heavy" in entry.decision.reason for entry in held)


def test_a_long_first_batch_of_one_query_grows_even_if_others_are_known() -> None:
    run = run_loop(constant(10), catching_up(), nodes=4, seconds=400)
    first_ended_s = run.target.queries[1].freshness[0][0]
    grown = [act for act in run.acts(12.0, first_ended_s) if act.decision.wanted.main_nodes > 4]
    assert grown
    assert "a batch of heavy has run" in grown[0].decision.reason
    assert 27.0 <= grown[0].time_s <= 33.0, "15 s after it began, at the next decision"
    assert run.worst_s(200.0) <= 30.0


def test_once_all_queries_are_known_it_shrinks_to_what_they_need_together() -> None:
    run = run_loop(constant(10), catching_up(), nodes=4, seconds=500)
    assert run.nodes <= 2
    assert run.worst_s(100.0) <= 30.0


def test_a_query_without_rows_keeps_no_nodes() -> None:
    run = run_loop(constant(10), FakeQuery(lambda t: 0.0, TWELVE, name="silent"), nodes=4)
    assert run.nodes == 1


def test_fewer_nodes_are_needed_if_they_have_more_slots() -> None:
    thin, thick = run_loop(constant(300), nodes=6, slots=1), run_loop(constant(300), nodes=6, slots=3)
    assert thick.nodes == math.ceil(thin.nodes / 3)
    assert thick.late_share() == 0.0


# -- the record ----------------------------------------------------------------------------------


def test_every_decision_on_a_learned_model_has_formula_inputs_and_an_expected_effect() -> None:
    run = run_loop(step(100, 300, at_s=100.0))
    learned = [entry for entry in run.entries if "learning" not in entry.decision.reason]
    assert {entry.verdict for entry in learned} == {"act", "hold"}
    for entry in learned:
        assert entry.decision.formula
        assert entry.decision.inputs
        assert entry.decision.expected is not None
        assert entry.decision.expected.at_s > entry.time_s


def test_the_expected_effect_is_compared_with_the_achieved_one() -> None:
    run = run_loop(step(100, 300, at_s=100.0))
    due = [e for e in run.entries if e.decision.expected and e.decision.expected.at_s < 299.0]
    assert due
    assert all(entry.achieved is not None for entry in due)
    calm = [e for e in due if e.time_s > 200.0 and e.decision.expected]
    assert [e.achieved for e in calm] == [pytest.approx(e.decision.expected.value, rel=0.1) for e in calm]


def test_the_same_world_leads_to_the_same_decisions() -> None:
    def decisions() -> list[tuple[float, str, str]]:
        run = run_loop(step(80, 350, at_s=60.0), seconds=200)
        return [(e.time_s, e.verdict, e.decision.reason) for e in run.entries]

    assert decisions() == decisions()


# -- batches that are longer than their trigger ----------------------------------------------------


def test_a_short_trigger_under_a_long_objective_needs_no_more_than_a_long_one() -> None:
    shuffle = FakeStage(tasks=48, per_task_s=0.03, per_row_s=0.01)  # 1.4 task seconds a batch, however small
    often = run_loop(constant(100, shuffle, trigger_s=1.0), nodes=12, seconds=400)
    seldom = run_loop(constant(100, shuffle, trigger_s=5.0), nodes=12, seconds=400)
    assert often.nodes <= seldom.nodes
    assert often.late_share() == 0.0
    assert len(often.acts(200.0)) <= 1


def test_it_grows_for_an_overdue_batch_before_it_ends() -> None:
    # The batch of 95 s holds the first rows of the rush and takes until about 120.
    run = run_loop(step(30, 600, at_s=90.0), limits="1:12")
    ended_s = next(end_s for end_s, _, _ in run.target.queries[0].freshness if end_s > 100.0)
    grown = [act for act in run.acts(90.0) if act.decision.wanted.main_nodes > act.before.main_nodes]
    assert grown[0].time_s < ended_s - 5.0
    assert run.late_share() <= 0.2  # a third, if it waits for the batch


def test_it_grows_for_a_first_batch_that_does_not_end() -> None:
    run = run_loop(constant(500), limits="1:12", nodes=1, seconds=400)
    assert run.acts()[0].time_s <= 35.0  # the first batch alone takes half a minute
    assert run.worst_s(250.0) <= 30.0


def test_the_scenario_of_the_demo_costs_no_more_than_it_did_and_is_never_late() -> None:
    """A day in three minutes: 30 to 300 rows/s, 8 ms a row in 8 tasks, 1 to 6 executors."""
    demo = LiveScenario()
    rates = parse_load(demo.load).rate_per_s(np.arange(0.0, demo.seconds + 1.0, 0.1))
    stages = (
        FakeStage(tasks=demo.tasks, per_task_s=0.08, per_row_s=demo.lookup_wait_s),
        FakeStage(tasks=2, per_row_s=0.0001),
    )
    for driver_s, lead_time_s in ((0.5, 12.0), (1.0, 15.0), (0.8, 10.0)):
        query = FakeQuery(lambda t: float(rates[int(t * 10)]), stages, driver_s=driver_s)
        run = run_loop(query, seconds=demo.seconds, limits=str(demo.limits), lead_time_s=lead_time_s)
        node_seconds = sum(run.nodes_at(t) for t in range(int(demo.seconds)))
        assert run.late_share() == 0.0
        assert run.worst_s() <= 22.0
        assert node_seconds <= 535  # 515 to 534 before batches were allowed to outlast their trigger
        assert run.nodes == 1


@pytest.mark.parametrize("limit", [600, 800, 1000])
def test_no_node_is_released_while_the_backlog_exceeds_a_trigger_interval(limit: int) -> None:
    """A burst that a read limit lets through bit by bit: 13 shrinks in plays like these once came too early."""
    rate, left = 60.0, {}

    class Spy(Capacity):
        def decide(self, snapshot: Snapshot) -> Decision:
            left[snapshot.now_s] = snapshot.windows.of("small", Metric.BACKLOG).last or 0.0
            return super().decide(snapshot)

    query = FakeQuery(lambda t: 400.0 if 60 <= t < 100 else rate, TWELVE, read_limit=limit)
    run = run_loop(query, seconds=500, limits="1:12", strategy=Spy())
    shrinks = [a for a in run.acts(105) if a.decision.wanted.main_nodes < a.before.main_nodes]
    assert shrinks, "and they do leave in the end"
    assert max(left[a.time_s] for a in shrinks) <= rate * query.trigger_s + 1
