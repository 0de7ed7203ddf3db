"""Batches follow the formula, read only rows that have arrived, and lose none."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sim_worlds import inflow, pool, query, world

from ebbflow.core.layout import Layout
from ebbflow.core.pipeline import Operator, Pipeline
from ebbflow.errors import InputError
from ebbflow.targets.simulator import MicroBatch, NodeDies, NodeKind, SlowNode, Stage
from ebbflow.targets.simulator.micro_batch.slots import RunningStage, Slots
from ebbflow.targets.simulator.nodes import Node

costs = st.floats(0.0, 0.05)
stages = st.lists(
    st.builds(Stage, tasks=st.integers(1, 40), per_task_s=costs, per_row_s=costs), min_size=1, max_size=4
)


@given(stages=stages, slots=st.integers(1, 30), rate=st.integers(1, 500), driver_s=st.floats(0.0, 2.0))
@settings(max_examples=60, deadline=None)
def test_a_batch_takes_as_long_as_the_formula_says(
    stages: list[Stage], slots: int, rate: int, driver_s: float
) -> None:
    engine = query(*stages, driver_s=driver_s)
    target, clock = world(engine, f"constant({rate})", slots)
    clock.advance(200.0)
    for batch in target.observe().batches:
        expected_s = driver_s + sum(
            -(-s.tasks // slots) * (s.per_task_s + s.per_row_s * batch.rows / s.tasks) for s in stages
        )
        assert batch.duration_s == pytest.approx(expected_s, rel=1e-9)
        assert engine.batch_s(batch.rows, slots) == pytest.approx(expected_s, rel=1e-9)


def end_of_stage(start_s: float, tasks_s: list[float], nodes: int, joins_s: list[float] = ()) -> float:
    """The end of a stage on single-slot nodes, some of which join later."""
    there = pool(nodes)
    for number, join_s in enumerate(joins_s):
        there._alive.append(Node(number=nodes + number, requested_s=0.0, join_s=join_s, speed=1.0))
    slots, stage = Slots(there), RunningStage((start_s, 0), [(seconds, 1) for seconds in tasks_s])
    slots.submit(start_s, stage)
    at_s = start_s
    while not stage.done:
        at_s = slots.next_event_s()
        slots.end_tasks(at_s)
        slots.assign_tasks(at_s)
    return at_s


@given(task_s=st.floats(0.01, 5.0), tasks=st.integers(1, 30), slots=st.integers(1, 12))
def test_tasks_one_by_one_take_as_long_as_the_formula_says(task_s: float, tasks: int, slots: int) -> None:
    end_s = end_of_stage(3.0, [task_s] * tasks, slots)
    assert end_s == pytest.approx(3.0 + -(-tasks // slots) * task_s)


@given(
    tasks=st.integers(1, 40),
    joins_s=st.lists(st.floats(0.0, 10.0), min_size=1, max_size=10),
    join_s=st.floats(0.0, 10.0),
)
def test_one_more_node_never_makes_equal_tasks_end_later(
    tasks: int, joins_s: list[float], join_s: float
) -> None:
    there_s = end_of_stage(0.0, [1.0] * tasks, 0, joins_s)
    assert end_of_stage(0.0, [1.0] * tasks, 0, [*joins_s, join_s]) <= there_s + 1e-9


@given(stages=stages, rows=st.integers(1, 10_000))
def test_more_slots_never_make_a_batch_longer(stages: list[Stage], rows: int) -> None:
    times_s = [query(*stages).batch_s(rows, slots) for slots in range(1, 45)]
    assert all(b <= a + 1e-9 for a, b in itertools.pairwise(times_s))


@given(
    load=st.sampled_from(
        ["constant(90)", "sine(base=0, peak=300, period=2m)", "square(base=0, peak=400, period=1m)"]
    ),
    nodes=st.integers(1, 4),
    limit=st.sampled_from([None, 100, 1000]),
    noise=st.sampled_from([0.0, 0.3]),
    intervals_s=st.lists(st.floats(0.1, 40.0), min_size=1, max_size=12),
)
@settings(max_examples=60, deadline=None)
def test_rows_are_conserved_and_never_taken_before_they_arrive(
    load: str, nodes: int, limit: int | None, noise: float, intervals_s: list[float]
) -> None:
    engine = query(Stage(tasks=8, per_task_s=0.01, per_row_s=0.01), noise=noise, read_limit_rows=limit)
    target, clock = world(engine, load, nodes)
    arrivals, taken = inflow(load).arrivals, 0
    for seconds in intervals_s:
        clock.advance(seconds)
        observed, work = target.observe(), target.work()
        assert work.processed + work.waiting + work.failed == pytest.approx(
            target.arrived(clock.now_s()).values[-1]
        )
        for batch in observed.batches:
            assert batch.oldest_arrival_s <= batch.started_s + 1e-6
    left = target.processed()
    for ended_s, rows in zip(left.times_s, left.values, strict=True):
        assert taken <= rows <= arrivals.rows_by(ended_s)
        taken = rows


def test_a_stage_never_gets_more_than_its_maximum_of_tasks() -> None:
    pipeline = Pipeline.chain("q", "read", Operator(name="rank", boundary=True))
    stages = (Stage(tasks=8, per_row_s=0.001), Stage(tasks=1, per_row_s=0.001, operator="rank", max_tasks=2))
    target, clock = world(MicroBatch(pipeline=pipeline, stages=stages), "constant(100)", 4)
    clock.advance(20.0)
    outcome = target.apply(Layout.of(4, rank=9))
    assert outcome.requested.parallelism == {"rank": 2}
    clock.advance(60.0)
    observed = target.observe()
    assert (observed.batches[-1].stages[1].tasks, observed.layout.parallelism) == (2, {"rank": 2})
    assert target.apply(Layout.of(4, rank=9)).note == "", "no restart is needed"
    with pytest.raises(InputError, match="exceeds its maximum of 2"):
        Stage(tasks=3, operator="rank", max_tasks=2)


def test_results_do_not_depend_on_how_often_the_target_is_observed() -> None:
    def commits(every_s: float) -> list[float]:
        target, clock = world(query(Stage(tasks=8, per_row_s=0.03), noise=0.4), "constant(100)", 3)
        while clock.now_s() < 300:
            clock.advance(every_s)
            target.observe()
        return target.processed().times_s.tolist()

    assert commits(1.0) == commits(10.0) == commits(300.0)


def test_a_batch_starts_at_its_trigger_or_at_once_after_a_late_one() -> None:
    target, clock = world(query(Stage(tasks=1, per_row_s=0.011), driver_s=0.0), "constant(100)")
    clock.advance(60.0)
    starts = [b.started_s for b in target.observe().batches]
    assert starts[0] == pytest.approx(5.0 + 500 * 0.011)  # 5.5 s for the first: late, so at once
    on_time, clock = world(query(Stage(tasks=1, per_row_s=0.001), driver_s=0.0), "constant(100)")
    clock.advance(60.0)
    assert [b.started_s for b in on_time.observe().batches] == [10.0, 15.0, 20.0, 25.0, 30.0, 35.0, 40.0,
                                                                45.0, 50.0, 55.0]  # fmt: skip


def test_no_batch_runs_while_nothing_arrives() -> None:
    target, clock = world(query(Stage(tasks=1, per_row_s=0.001)), "step(base=0, peak=10, at=1h)")
    clock.advance(3600.0)
    assert target.observe().queries == {"q": None}
    clock.advance(21.0)
    assert [b.started_s for b in target.observe().batches] == [3610.0, 3615.0, 3620.0]


def test_a_node_that_joins_during_a_batch_takes_tasks() -> None:
    target, clock = world(
        query(Stage(tasks=10, per_task_s=1.0), driver_s=0.0), "constant(10)", kind=NodeKind(lead_time_s=3.0)
    )
    clock.advance(5.0)
    target.observe()
    target.apply(Layout.of(2))  # joins at 8 s: three tasks are done, four waves of two for the rest
    clock.advance(20.0)
    target.observe()
    assert target.processed().times_s[1] == pytest.approx(12.0)


def test_a_read_limit_leaves_a_backlog_that_is_reported() -> None:
    target, clock = world(query(Stage(tasks=1, per_row_s=0.001), read_limit_rows=200), "constant(100)")
    clock.advance(21.0)
    batches = target.observe().batches
    assert [b.rows for b in batches] == [200, 200, 200]
    assert [b.backlog_rows for b in batches] == [600.0, 900.0, 1200.0]


def test_a_skewed_stage_is_no_shorter_than_its_longest_task() -> None:
    skewed = query(Stage(tasks=10, per_task_s=1.0, skew=4.0), driver_s=0.0)
    target, clock = world(skewed, "constant(10)", nodes=10)
    clock.advance(30.0)
    batch = target.observe().batches[0]
    assert batch.duration_s == pytest.approx(4.0)
    assert batch.stages[0].task_time_s == pytest.approx(10.0)
    assert batch.stages[0].longest_task_s == pytest.approx(4.0)


def test_a_restart_stops_the_query_and_loses_no_row() -> None:
    pipeline = Pipeline.chain("q", "read", Operator(name="count", boundary=True))
    engine = MicroBatch(
        pipeline=pipeline,
        stages=(Stage(tasks=4, per_row_s=0.004), Stage(tasks=2, per_row_s=0.004, operator="count")),
        restart_s=7.0,
    )
    target, clock = world(engine, "constant(100)", nodes=4)
    clock.advance(24.0)
    target.observe()
    outcome = target.apply(Layout.of(4, count=4))
    assert "checkpoint" in outcome.note
    clock.advance(36.0)
    observed = target.observe()
    assert observed.layout.parallelism == {"count": 4}
    assert observed.batches[0].started_s == pytest.approx(31.0)
    assert {b.stages[1].tasks for b in observed.batches} == {4}
    assert sum(b.rows for b in observed.batches) == target.processed().values[-1] - 2000


def test_a_node_that_dies_loses_its_task_and_is_replaced() -> None:
    dying = (NodeDies(at_s=7.5),)
    target, clock = world(
        query(Stage(tasks=4, per_task_s=2.0), driver_s=0.0), "constant(10)", 2, faults=dying
    )
    clock.advance(8.0)
    observed = target.observe()
    assert (observed.layout.main_nodes, observed.requested.main_nodes, observed.held_nodes) == (1, 2, 2)
    clock.advance(30.0)
    # Four tasks of 2 s on two nodes from 5 s on; at 7.5 s one of the second pair is lost, and runs from 9 s.
    assert target.observe().layout.main_nodes == 2
    assert target.processed().times_s[1] == pytest.approx(11.0)


def test_a_slow_node_is_given_fewer_tasks() -> None:
    slow = (SlowNode(from_s=0.0, until_s=1000.0, factor=0.25),)
    target, clock = world(query(Stage(tasks=5, per_task_s=1.0), driver_s=0.0), "constant(10)", 2, faults=slow)
    clock.advance(12.0)
    target.observe()
    assert target.processed().times_s[1] == pytest.approx(9.0)  # four on the fast one, one on the slow
