"""Queues, rebalances, drains and failed rows of the continuous engine."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sim_worlds import one_operator, world

from ebbflow.core.layout import Layout
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Operator, Pipeline, Stream
from ebbflow.core.placement import even
from ebbflow.core.ring import state_moved
from ebbflow.errors import InputError
from ebbflow.targets.simulator import Continuous, NodeDies, NodeKind


def queue_after(seconds: float, target, clock) -> float:
    clock.advance(seconds)
    target.observe()
    return target.work().waiting


def test_the_queue_grows_by_the_rows_that_are_not_served() -> None:
    target, clock = world(one_operator(5.0), "constant(10)", kind=NodeKind(slots=4))
    assert [queue_after(20.0, target, clock) for _ in range(4)] == pytest.approx([100, 200, 300, 400])


def test_scale_out_as_in_the_rules_thesis() -> None:
    """Rules §5.2: λ 10, μ 5; the queue passes 300 at 60 s; with two instances it stays level."""
    target, clock = world(one_operator(5.0), "constant(10)", kind=NodeKind(slots=4))
    assert queue_after(60.0, target, clock) == pytest.approx(300.0)
    assert queue_after(30.0, target, clock) == pytest.approx(450.0)
    target.apply(Layout.of(1, work=2))
    assert queue_after(30.0, target, clock) == pytest.approx(450.0)


def test_extra_capacity_drains_the_queue_as_in_the_rules_thesis() -> None:
    target, clock = world(one_operator(5.0), "constant(10)", kind=NodeKind(slots=4))
    queue_after(90.0, target, clock)
    target.apply(Layout.of(1, work=3))
    assert queue_after(30.0, target, clock) == pytest.approx(450.0 - 5 * 30)


def test_only_the_slow_one_of_two_operators_has_a_queue() -> None:
    engine = Continuous(
        pipeline=Pipeline.chain("p", "quick", "slow"), row_cost_s={"quick": 1 / 20, "slow": 1 / 5}
    )
    target, clock = world(engine, "constant(10)", kind=NodeKind(slots=4))
    clock.advance(60.0)
    queues = {r.subject: r.value for r in target.observe().readings if r.metric is Metric.OPERATOR_QUEUE}
    assert queues == pytest.approx({"quick": 0.0, "slow": 300.0})


def test_a_rebalance_stops_the_world_for_five_to_eight_seconds() -> None:
    target, clock = world(one_operator(50.0, pause_s=(5.0, 8.0)), "constant(10)", kind=NodeKind(slots=4))
    clock.advance(20.0)
    target.observe()
    target.apply(Layout.of(1, work=2))
    clock.advance(4.0)
    assert [action.kind.value for action in target.observe().under_way] == ["restart"]
    clock.advance(30.0)
    assert target.observe().under_way == []
    left = target.processed()
    stopped = [b - a == 0 for a, b in zip(left.values[20:40], left.values[21:41], strict=True)]
    assert 5 <= sum(stopped) <= 9
    assert left.values[-1] == pytest.approx(540.0)


@pytest.mark.parametrize("cycle_s", [10.0, 10.5, 3.5, 0.75])
@pytest.mark.parametrize("plan", [Layout.of(2, work=2), Layout.of(3), Layout.of(1)])
def test_a_rebalance_begins_with_the_first_second_after_the_request(plan: Layout, cycle_s: float) -> None:
    kind = NodeKind(slots=4, lead_time_s=0.0)
    target, clock = world(one_operator(100.0, pause_s=(5.0, 5.0)), "constant(10)", nodes=2, kind=kind)
    while clock.now_s() < 10.0:
        clock.advance(cycle_s)
        target.observe()
    requested_s = clock.now_s()
    target.apply(plan)
    while clock.now_s() < 25.0:
        clock.advance(cycle_s)
        target.observe()
    stops_s = math.ceil(requested_s)
    done = target.processed().values
    assert done[stops_s] == done[stops_s + 5] == 10.0 * stops_s
    assert done[stops_s + 6] == 10.0 * (stops_s + 6)
    paid_for = 2 * stops_s + plan.main_nodes * (25 - stops_s)
    from_request = max(0, plan.main_nodes - 2) * (stops_s - requested_s)
    assert target.held().integral(0.0, 25.0) == paid_for + from_request


def test_a_rebalance_includes_the_transfer_of_state() -> None:
    def stop_s(state_mb: float) -> float:
        engine = one_operator(50.0, state_mb={"work": state_mb}, transfer_mb_per_s=10.0)
        target, clock = world(engine, "constant(10)", kind=NodeKind(slots=4))
        clock.advance(20.0)
        target.observe()
        target.apply(Layout.of(1, work=2))
        clock.advance(60.0)
        target.observe()
        values = target.processed().values
        return sum(a == b for a, b in itertools.pairwise(values[20:]))

    # About half of 200 MB at 10 MB/s, in whole steps of a second.
    assert stop_s(200.0) - stop_s(0.0) == pytest.approx(20.0 * state_moved(1, 2), abs=1.0)


def test_instances_share_the_cores_of_their_node() -> None:
    pipeline = Pipeline.chain("p", "work")
    engine = Continuous(pipeline=pipeline, row_cost_s={"work": 0.1}, parallelism={"work": 4})
    for cores, rate in ((1, 10.0), (2, 20.0), (4, 40.0), (8, 40.0)):
        target, clock = world(engine, "constant(100)", kind=NodeKind(slots=cores))
        clock.advance(100.0)
        target.observe()
        assert target.processed().values[-1] / 100 == pytest.approx(rate)


def test_new_nodes_are_used_after_a_rebalance() -> None:
    engine = Continuous(
        pipeline=Pipeline.chain("p", "work"),
        row_cost_s={"work": 0.1},
        parallelism={"work": 4},
        pause_s=(5.0, 5.0),
    )
    target, clock = world(engine, "constant(100)", kind=NodeKind(lead_time_s=10.0))
    clock.advance(20.0)
    target.observe()
    target.apply(Layout.of(4))
    clock.advance(100.0)
    observed = target.observe()
    assert observed.layout.main_nodes == 4
    left = target.processed().values
    assert left[20] - left[10] == pytest.approx(100.0)
    assert left[120] - left[110] == pytest.approx(400.0)


def test_rows_beyond_the_bound_of_a_queue_fail() -> None:
    engine = Continuous(
        pipeline=Pipeline.chain("p", "quick", "slow"),
        row_cost_s={"quick": 0.01, "slow": 0.2},
        queue_bound_rows=50.0,
    )
    target, clock = world(engine, "constant(10)", kind=NodeKind(slots=2))
    clock.advance(100.0)
    target.observe()
    work = target.work()
    assert (work.processed, work.waiting, work.failed) == pytest.approx((500.0, 50.0, 450.0))
    # From the tenth second on the queue is full: the first five of the ten rows of each second get in.
    lost = target.lost(100.0)
    assert lost.interpolated(np.array([10.0, 10.5, 11.0, 11.5, 12.0])).tolist() == pytest.approx(
        [0, 0, 5, 5, 10]
    )


def test_a_row_that_one_of_two_sinks_lost_is_not_processed() -> None:
    engine = Continuous(
        pipeline=Pipeline(
            name="fork",
            operators=tuple(Operator(name=n) for n in ("read", "quick", "slow")),
            streams=(Stream(source="read", target="quick"), Stream(source="read", target="slow")),
        ),
        row_cost_s={"read": 0.001, "quick": 0.01, "slow": 0.2},
        queue_bound_rows=50.0,
    )
    target, clock = world(engine, "constant(10)", kind=NodeKind(slots=4))
    clock.advance(100.0)
    work = target.work()
    assert (work.processed, work.waiting, work.failed) == pytest.approx((500.0, 50.0, 450.0))
    assert target.lost(100.0).values[-1] == pytest.approx(450.0)


@pytest.mark.parametrize(
    ("bound", "expected"), [(None, (5000.0, 5000.0, 0.0)), (100.0, (5000.0, 100.0, 4900.0))]
)
@pytest.mark.parametrize("selectivity", [1.0, 10.0])
def test_a_row_passes_a_join_with_its_slowest_branch(bound, expected, selectivity) -> None:
    # 100 rows/s; slow processes 50 of them, fast all, with one or ten output rows for each
    engine = Continuous(
        pipeline=Pipeline(
            name="join",
            operators=tuple(Operator(name=n) for n in ("read", "fast", "slow", "sink")),
            streams=(
                Stream(source="read", target="fast"),
                Stream(source="read", target="slow"),
                Stream(source="fast", target="sink", selectivity=selectivity),
                Stream(source="slow", target="sink"),
            ),
        ),
        row_cost_s={"read": 1e-5, "fast": 1e-5, "slow": 0.02, "sink": 1e-5},
        queue_bound_rows=bound,
    )
    target, clock = world(engine, "constant(100)", kind=NodeKind(slots=4))
    clock.advance(100.0)
    work = target.work()
    assert (work.processed, work.waiting, work.failed) == pytest.approx(expected)
    assert target.processed().values.tolist() == pytest.approx([50.0 * s for s in range(101)])
    assert target.lost(100.0).values[-1] == pytest.approx(expected[2])


def test_a_slow_join_determines_the_processed_rows() -> None:
    # 10 source rows/s make 20 rows/s at the sink, which processes 10
    engine = Continuous(
        pipeline=diamond_of(1.0, 1.0), row_cost_s={"a": 0.001, "b": 0.001, "c": 0.001, "d": 0.1}
    )
    target, clock = world(engine, "constant(10)", kind=NodeKind(slots=4))
    clock.advance(100.0)
    assert target.work().processed == pytest.approx(500.0)


def test_the_slow_one_of_two_sources_determines_the_processed_rows() -> None:
    engine = Continuous(
        pipeline=Pipeline(
            name="two",
            operators=tuple(Operator(name=n) for n in ("left", "right", "sink")),
            streams=(Stream(source="left", target="sink"), Stream(source="right", target="sink")),
        ),
        row_cost_s={"left": 0.001, "right": 0.2, "sink": 0.001},
    )
    target, clock = world(engine, "constant(10)", kind=NodeKind(slots=4))
    clock.advance(100.0)
    work = target.work()
    assert (work.processed, work.waiting) == pytest.approx((500.0, 500.0))


def test_a_dead_node_takes_its_instances_with_it_until_the_rebalance() -> None:
    engine = Continuous(
        pipeline=Pipeline.chain("p", "work"),
        row_cost_s={"work": 0.1},
        parallelism={"work": 2},
        pause_s=(5.0, 5.0),
    )
    target, clock = world(engine, "constant(100)", 2, faults=(NodeDies(at_s=50.0),))
    for _ in range(120):
        clock.advance(1.0)
        target.observe()
    left = target.processed().values
    assert left[50] - left[40] == pytest.approx(200.0)
    assert left[52] - left[50] <= 20.0
    assert left[120] - left[110] == pytest.approx(200.0)  # the replacement has joined


def diamond_of(left: float, right: float) -> Pipeline:
    return Pipeline(
        name="diamond",
        operators=tuple(Operator(name=n) for n in "abcd"),
        streams=(
            Stream(source="a", target="b", selectivity=left),
            Stream(source="a", target="c", selectivity=right),
            Stream(source="b", target="d"),
            Stream(source="c", target="d"),
        ),
    )


diamond = diamond_of(2.0, 0.5)


@given(
    pipeline=st.sampled_from([Pipeline.chain("p", "a", "b", "c", "d"), diamond]),
    cost_ms=st.lists(st.floats(1.0, 40.0), min_size=4, max_size=4),
    bound=st.sampled_from([None, 20.0]),
    pending=st.sampled_from([None, 300.0]),
    changes=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=6),
)
@settings(max_examples=50, deadline=None)
def test_rows_are_conserved_under_any_changes(pipeline, cost_ms, bound, pending, changes) -> None:
    engine = Continuous(
        pipeline=pipeline, row_cost_s={n: ms / 1000 for n, ms in zip("abcd", cost_ms, strict=True)},
        queue_bound_rows=bound, max_pending_rows=pending, noise=0.1,
    )  # fmt: skip
    target, clock = world(engine, "sine(base=5, peak=80, period=1m)", kind=NodeKind(slots=2, lead_time_s=7.0))
    for nodes, instances in changes:
        clock.advance(25.0)
        target.observe()
        target.apply(Layout.of(nodes, b=instances, d=instances))
    clock.advance(25.0)
    target.observe()
    flow, work = target._world.flow, target.work()
    arrived = target.arrived(clock.now_s()).values[-1]
    assert work.processed + work.waiting + work.failed == pytest.approx(arrived)
    # no operator has done less than its share of the processed rows
    for done, vertex in zip(flow.done, flow.vertices, strict=True):
        assert done >= work.processed * vertex.per_source_row - 1e-6
    # at every operator, the rows that entered are done, waiting or failed
    for i, vertex in enumerate(flow.vertices):
        entered = sum(flow.done[j] * selectivity for j, selectivity in vertex.streams)
        entered += 0.0 if vertex.streams else arrived
        assert flow.done[i] + flow.queue[i] + flow.failed[i] == pytest.approx(entered)
    # lost rows had arrived, and processed rows are among the others
    done, lost = target.processed(), target.lost(clock.now_s())
    survived = target.arrived(clock.now_s()).minus(lost)
    assert done.values[-1] == pytest.approx(work.processed)
    assert lost.values[-1] == pytest.approx(work.failed, abs=1e-6)
    assert (np.diff(done.values) >= 0).all()
    assert (np.diff(lost.values) >= -1e-6).all()
    assert (np.diff(survived.values) >= -1e-6).all()
    assert (done.values <= survived.interpolated(done.times_s) + 1e-6).all()


def test_instances_are_assigned_evenly() -> None:
    placement = even([5, 3, 4], 4)
    assert [sum(row) for row in placement] == [5, 3, 4]
    per_node = [sum(row[n] for row in placement) for n in range(4)]
    assert max(per_node) - min(per_node) <= 1


def test_an_operator_without_a_cost_is_an_error() -> None:
    with pytest.raises(InputError, match="'b' has no cost"):
        Continuous(pipeline=Pipeline.chain("p", "a", "b"), row_cost_s={"a": 0.1})
