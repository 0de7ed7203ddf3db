"""Several pipelines on the same nodes: how they share slots and cores, and separate accounts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sim_worlds import named_operator, named_query, shared_world, world

from ebbflow.core.clock import ManualClock
from ebbflow.core.layout import Layout
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Pipeline
from ebbflow.errors import InputError
from ebbflow.targets.simulator import Continuous, NodeDies, NodeKind, Scenario, Stage, Tenant, built_in_engine
from ebbflow.workloads import parse_load


def first_commits(target, clock, seconds: float = 30.0) -> dict[str, float]:
    clock.advance(seconds)
    target.observe()
    return {name: float(target.processed(name).times_s[1]) for name in target.pipelines}


# -- slots: the batch that started first has priority -------------------------------------------------


def test_a_second_query_waits_until_the_first_has_started_its_last_task() -> None:
    four = Stage(tasks=4, per_task_s=1.0)
    target, clock = shared_world(
        (named_query("a", four), "constant(10)"), (named_query("b", four), "constant(10)"), nodes=2
    )
    # Both are triggered at 5 s. Two slots: a from 5 to 7 s, b from 7 to 9 s.
    assert first_commits(target, clock) == pytest.approx({"a": 7.0, "b": 9.0})


def test_a_second_query_takes_the_slot_that_the_last_wave_leaves_free() -> None:
    three = Stage(tasks=3, per_task_s=1.0)
    target, clock = shared_world(
        (named_query("a", three), "constant(10)"), (named_query("b", three), "constant(10)"), nodes=2
    )
    # a: two tasks to 6 s, one to 7 s; b: one beside it to 7 s, two to 8 s.
    assert first_commits(target, clock) == pytest.approx({"a": 7.0, "b": 8.0})


def test_a_later_stage_of_an_older_batch_goes_first() -> None:
    two = Stage(tasks=2, per_task_s=1.0)
    target, clock = shared_world(
        (named_query("a", two, two), "constant(10)"),
        (named_query("b", Stage(tasks=4, per_task_s=1.0), driver_s=0.5), "constant(10)"),
        nodes=2,
    )
    # b is ready at 5.5 s; at 6 s the slots become free, and the second stage of a takes them.
    assert first_commits(target, clock) == pytest.approx({"a": 7.0, "b": 9.0})


def test_the_wall_time_of_a_stage_is_counted_from_its_first_task() -> None:
    four = Stage(tasks=4, per_task_s=1.0)
    target, clock = shared_world(
        (named_query("a", four), "constant(10)"), (named_query("b", four), "constant(10)"), nodes=2
    )
    clock.advance(30.0)
    batch = next(b for b in target.observe().batches if b.query == "b")
    assert batch.duration_s == pytest.approx(4.0)  # it waits for two seconds
    assert batch.stages[0].wall_s == pytest.approx(2.0)
    assert batch.stages[0].task_time_s == pytest.approx(4.0)


def test_a_lost_task_runs_again_before_the_other_query_gets_the_slot() -> None:
    two = Stage(tasks=2, per_task_s=2.0)
    target, clock = shared_world(
        (named_query("a", two), "constant(10)"),
        (named_query("b", two), "constant(10)"),
        nodes=2,
        kind=NodeKind(lead_time_s=100.0),
        faults=(NodeDies(at_s=6.0),),
    )
    # One task of a is lost at 6 s; the other ends at 7 s; the lost one runs to 9 s, then b: to 11 and 13 s.
    assert first_commits(target, clock) == pytest.approx({"a": 9.0, "b": 13.0})


def test_an_older_batch_on_a_leaving_node_gets_the_next_free_slot_of_the_one_that_stays() -> None:
    target, clock = shared_world(
        (named_query("a", Stage(tasks=2, per_task_s=2.0), Stage(tasks=1, per_task_s=1.0)), "constant(10)"),
        (named_query("b", Stage(tasks=10, per_task_s=1.0), driver_s=2.5), "constant(10)"),
        nodes=2,
        kind=NodeKind(speeds=(1.0, 0.5), drain_s=0.5),
    )
    clock.advance(6.0)
    target.observe()
    target.apply(Layout.of(1))  # the slow node goes with its task of a, at 9 s
    # b has the other from 7.5 s on; a's second stage is ready at 9 s, gets it at 9.5 s, and b goes on at 10.5 s.
    assert first_commits(target, clock) == pytest.approx({"a": 10.5, "b": 18.5})


def test_a_query_without_rows_does_not_affect_the_other() -> None:
    work = Stage(tasks=8, per_task_s=0.1, per_row_s=0.02)
    shared, clock = shared_world(
        (named_query("a", work, noise=0.2), "sine(base=10, peak=200, period=2m)"),
        (named_query("b", work), "constant(0)"),
        nodes=3,
    )
    alone, other = world(named_query("a", work, noise=0.2), "sine(base=10, peak=200, period=2m)", 3)
    for _ in range(60):
        clock.advance(10.0)
        other.advance(10.0)
        shared.observe()
        alone.observe()
    assert shared.processed("a").times_s.tolist() == alone.processed().times_s.tolist()
    assert shared.work("b").processed == 0


queries = st.lists(
    st.builds(
        lambda stages, driver_s, trigger_s, noise: (stages, driver_s, trigger_s, noise),
        st.lists(
            st.builds(
                Stage,
                tasks=st.integers(1, 12),
                per_task_s=st.floats(0.0, 0.3),
                per_row_s=st.floats(0.0, 0.004),
                skew=st.sampled_from([1.0, 2.0]),
            ),
            min_size=1,
            max_size=3,
        ),
        st.floats(0.0, 1.0),
        st.sampled_from([1.0, 3.0, 5.0]),
        st.sampled_from([0.0, 0.3]),
    ),
    min_size=2,
    max_size=3,
)


@given(
    made=queries,
    kind=st.builds(
        NodeKind,
        slots=st.integers(1, 3),
        lead_time_s=st.floats(0.0, 9.0),
        speeds=st.sampled_from([(1.0,), (1.0, 0.5)]),
    ),
    changes=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    dies_s=st.floats(5.0, 100.0),
)
@settings(max_examples=40, deadline=None)
def test_rows_and_slot_time_are_conserved_with_shared_nodes(made, kind, changes, dies_s) -> None:
    pipelines = [
        (
            named_query(f"q{n}", *stages, driver_s=driver_s, trigger_interval_s=trigger_s, noise=noise),
            "constant(60)",
        )
        for n, (stages, driver_s, trigger_s, noise) in enumerate(made)
    ]
    target, clock = shared_world(*pipelines, nodes=2, kind=kind, faults=(NodeDies(at_s=dies_s),))
    spent_s, ended_s = 0.0, {}
    for nodes in changes:
        clock.advance(25.0)
        for batch in target.observe().batches:
            spent_s += sum(stage.task_time_s for stage in batch.stages)
            assert batch.started_s >= ended_s.get(batch.query, 0.0) - 1e-9  # one batch of a query at a time
            ended_s[batch.query] = batch.ended_s
        target.apply(Layout.of(nodes))
    for name in target.pipelines:
        work, arrived = target.work(name), target.arrived(clock.now_s(), name).values[-1]
        assert work.processed + work.waiting == pytest.approx(arrived)
    paid_s = target.at_work().integral(0.0, clock.now_s()) * kind.slots
    assert spent_s <= paid_s + 1e-6


# -- cores: each instance gets the same share of what it wants -----------------------------------------


def rates(target, clock, seconds: float) -> dict[str, float]:
    target.observe()
    before = {name: target.work(name).processed for name in target.pipelines}
    clock.advance(seconds)
    return {name: (target.work(name).processed - before[name]) / seconds for name in target.pipelines}


def test_two_pipelines_that_saturate_a_core_get_half_each() -> None:
    target, clock = shared_world(
        (named_operator("a"), "constant(100)"), (named_operator("b"), "constant(100)")
    )
    assert rates(target, clock, 100.0) == pytest.approx({"a": 5.0, "b": 5.0})


def test_a_light_pipeline_keeps_up_beside_one_that_saturates_the_core() -> None:
    target, clock = shared_world((named_operator("a"), "constant(2)"), (named_operator("b"), "constant(100)"))
    clock.advance(100.0)
    assert rates(target, clock, 100.0) == pytest.approx({"a": 2.0, "b": 8.0}, rel=1e-6)


def test_assignment_continues_after_the_instances_of_the_previous_pipeline() -> None:
    """One instance each on two nodes: one per node."""
    target, clock = shared_world(
        (named_operator("a"), "constant(100)"), (named_operator("b"), "constant(100)"), nodes=2
    )
    assert rates(target, clock, 100.0) == pytest.approx({"a": 10.0, "b": 10.0})
    clock.advance(10.0)
    readings = target.observe().readings
    assert [r.value for r in readings if r.metric is Metric.NODE_CPU] == pytest.approx([1.0, 1.0])


def test_a_rebalance_of_one_pipeline_does_not_stop_the_other() -> None:
    target, clock = shared_world(
        (named_operator("a", pause_s=(6.0, 6.0)), "constant(5)"),
        (named_operator("b", pause_s=(6.0, 6.0)), "constant(5)"),
        kind=NodeKind(slots=2),
    )
    clock.advance(20.0)
    target.apply(Layout(nodes={"main": 1}, parallelism={"a/work": 2}))
    clock.advance(5.0)
    observed = target.observe()
    assert [(action.kind.value, action.note) for action in observed.under_way] == [("restart", "a")]
    assert (target.work("a").processed, target.work("b").processed) == pytest.approx((100.0, 125.0))


def test_a_node_is_released_when_the_last_pipeline_on_it_has_stopped() -> None:
    """a drains for 10 s (a long queue before its second operator), b at once; both use the leaving node."""
    slow = Continuous(
        pipeline=Pipeline.chain("a", "read", "slow"),
        row_cost_s={"read": 0.001, "slow": 1.0},
        parallelism={"slow": 2},
        pause_s=(5.0, 5.0),
    )
    target, clock = shared_world(
        (slow, "constant(10)"),
        (named_operator("b", parallelism={"work": 2}, pause_s=(5.0, 5.0)), "constant(1)"),
        nodes=2,
        kind=NodeKind(slots=4, drain_s=100.0),
    )
    clock.advance(50.0)
    target.observe()
    target.apply(Layout.of(1))
    clock.advance(60.0)
    target.observe()
    assert target.held().stepped(59.0) == 2
    assert target.held().stepped(61.0) == 1


@given(
    cost_ms=st.lists(st.floats(1.0, 60.0), min_size=2, max_size=3),
    noise=st.sampled_from([0.0, 0.2]),
    changes=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=4),
)
@settings(max_examples=40, deadline=None)
def test_cpu_and_rows_are_conserved(cost_ms, noise, changes) -> None:
    pipelines = [
        (
            named_operator(f"p{n}", ms / 1000, noise=noise, queue_bound_rows=50.0),
            "square(base=5, peak=60, period=40s)",
        )
        for n, ms in enumerate(cost_ms)
    ]
    target, clock = shared_world(*pipelines, kind=NodeKind(slots=2, lead_time_s=5.0))
    for nodes, instances in changes:
        clock.advance(30.0)
        target.observe()
        target.apply(Layout(nodes={"main": nodes}, parallelism={"p0/work": instances}))
    spent_s = 0.0
    for (engine, _), name in zip(pipelines, target.pipelines, strict=True):
        work, arrived = target.work(name), target.arrived(clock.now_s(), name).values[-1]
        assert work.processed + work.waiting + work.failed == pytest.approx(arrived)
        spent_s += work.processed * engine.row_cost_s["work"]
    most = 1.0 if not noise else 1.5
    assert spent_s <= most * target.at_work().integral(0.0, clock.now_s()) * 2 + 1e-6


# -- observations ------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["micro-batch", "continuous"])
def test_pipelines_are_read_by_name_and_together(engine: str) -> None:
    scenario = Scenario(
        engine=built_in_engine("top-words", engine),
        load=parse_load("constant(100)"),
        others=(Tenant(engine=built_in_engine("sentiment", engine), load=parse_load("constant(200)")),),
        initial_nodes=6,
        seconds=60.0,
    )
    clock = ManualClock()
    target = scenario.target(clock)
    clock.advance(60.0)
    observed = target.observe()
    assert list(observed.queries) == ["top-words", "sentiment"]
    assert observed.pipeline.name == "top-words + sentiment"
    assert {"top-words/reader", "sentiment/reader"} <= set(observed.pipeline.sources)
    assert set(observed.layout.parallelism) <= set(observed.pipeline.order)
    rate = {r.subject: r.value for r in observed.readings if r.metric is Metric.ARRIVAL_RATE}
    assert rate == pytest.approx({"top-words": 100.0, "sentiment": 200.0, "top-words + sentiment": 300.0})
    fresh = {r.subject: r.value for r in observed.readings if r.metric is Metric.FRESHNESS}
    assert fresh["top-words + sentiment"] == max(fresh["top-words"], fresh["sentiment"])
    assert [b.ended_s for b in observed.batches] == sorted(b.ended_s for b in observed.batches)
    assert target.work().processed == target.work("top-words").processed + target.work("sentiment").processed


def test_pipelines_that_cannot_share_nodes_are_refused() -> None:
    with pytest.raises(InputError, match="two pipelines are named 'a'"):
        shared_world((named_operator("a"), "constant(1)"), (named_operator("a"), "constant(1)"))
    with pytest.raises(InputError, match="Continuous and MicroBatch cannot share"):
        shared_world((named_operator("a"), "constant(1)"), (named_query("b", Stage(tasks=1)), "constant(1)"))
    target, _ = shared_world((named_operator("a"), "constant(1)"), (named_operator("b"), "constant(1)"))
    with pytest.raises(InputError, match="name one of the pipelines: a, b"):
        target.processed()
