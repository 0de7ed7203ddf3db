"""Clusters of different nodes, streams between them, and the cost of moving operators."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sim_worlds import named_query, shared_world, world

from ebbflow.core.layout import Layout
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Pipeline
from ebbflow.errors import InputError, TargetError
from ebbflow.targets.simulator import (
    Cluster,
    Continuous,
    Link,
    MicroBatch,
    NodeDies,
    NodeKind,
    SlowNode,
    Stage,
)

WIDE = Link(mb_per_s=1e6)


def chain(*costs_s: float, **more) -> Continuous:
    """Operators a → b → … with the given costs."""
    names = "abcd"[: len(costs_s)]
    more = {"pause_s": (5.0, 5.0), **more}
    return Continuous(
        pipeline=Pipeline.chain("p", *names), row_cost_s=dict(zip(names, costs_s, strict=True)), **more
    )


def rate(target, clock, seconds: float = 50.0) -> float:
    before = target.work().processed
    clock.advance(seconds)
    return (target.work().processed - before) / seconds


def test_each_cluster_has_the_cores_and_speed_of_its_own_nodes() -> None:
    west = {"west": Cluster(nodes=NodeKind(speeds=(0.5,)))}
    for placement, expected in (({}, 5.0), ({"b": "west"}, 5.0), ({"a": "west", "b": "west"}, 2.5)):
        target, clock = world(chain(0.1, 0.1), "constant(100)", clusters=west, placement=placement, link=WIDE)
        clock.advance(200.0)
        # on one core of speed 1 each gets half; apart, b has its own core of half the speed
        assert rate(target, clock) == pytest.approx(expected, rel=0.02)


def test_a_stream_between_clusters_is_limited_by_the_link() -> None:
    """10 kB/s at 1 kB per row: 10 of 40 rows/s; the rest waits before the link."""
    target, clock = world(
        chain(0.001, 0.001), "constant(40)", clusters={"west": Cluster()}, placement={"b": "west"},
        link=Link(mb_per_s=0.01),
    )  # fmt: skip
    clock.advance(100.0)
    work = target.work()
    assert (work.processed, work.waiting) == pytest.approx((1000.0, 3000.0))


def test_rows_are_delayed_by_the_latency_of_the_link() -> None:
    target, clock = world(
        chain(0.001, 0.001, 0.001), "constant(10)", clusters={"west": Cluster()}, placement={"b": "west"},
        link=Link(mb_per_s=10.0, latency_s=2.5),
    )  # fmt: skip
    clock.advance(60.0)
    target.observe()
    # there and back, three whole steps each
    assert target.processed().values[:9].tolist() == pytest.approx([0, 0, 0, 0, 0, 0, 0, 10, 20])
    assert target.work().waiting == pytest.approx(60.0)


def test_moving_an_operator_stops_the_pipeline_for_the_transfer_of_its_state() -> None:
    def stop_s(move: bool) -> float:
        engine = chain(0.01, 0.01, state_mb={"b": 125.0})
        target, clock = world(engine, "constant(10)", clusters={"west": Cluster()}, kind=NodeKind(slots=2))
        clock.advance(20.0)
        target.observe()
        layout = Layout(nodes={"main": 1, "west": 1}, placement={"b": "west"} if move else {})
        target.apply(layout)
        clock.advance(40.0)
        observed = target.observe()
        assert dict(observed.layout.placement) == dict(layout.placement)
        left = target.processed().values
        return sum(b - a == 0 for a, b in itertools.pairwise(left[20:]))

    assert stop_s(False) == 0
    assert stop_s(True) == pytest.approx(5.0 + 125.0 / 12.5)


def test_with_an_instance_on_every_node_an_operator_follows_the_nodes_of_its_cluster() -> None:
    """S4 (DoDo, §6.2). One node does 10 rows/s; six do 60, and three after a resize 30."""
    engine = chain(0.001, 0.1, on_every_node=True)
    target, clock = world(
        engine, "constant(100)", 6, clusters={"small": Cluster()}, placement={"b": "small"}, link=WIDE,
        kind=NodeKind(slots=2),
    )  # fmt: skip
    clock.advance(20.0)
    assert rate(target, clock) == pytest.approx(10.0)
    for nodes, placement, expected in ((6, {}, 60.0), (3, {}, 30.0)):
        target.apply(Layout(nodes={"main": nodes}, placement=placement))
        clock.advance(30.0)
        assert rate(target, clock) == pytest.approx(expected)
    assert dict(target.observe().layout.parallelism) == {}


def test_overload_slows_an_operator_down_until_its_queue_is_gone_but_not_a_source() -> None:
    """100 rows/s at most; 50 arrive, but 150 from 480 s to 600 s. At 80 % of the speed, 80 rows/s are left."""
    load = "square(base=50, peak=150, period=600s, duty=0.2)"
    for costs, overloaded in (((0.001, 0.01), 80.0), ((0.01, 0.001), 100.0)):
        target, clock = world(chain(*costs, overload_speed=0.8), load, kind=NodeKind(slots=2))
        clock.advance(500.0)
        assert rate(target, clock, 50.0) == pytest.approx(overloaded, rel=0.01)
        target.observe()
        clock.advance(10.0)
        busy = {r.subject: r.value for r in target.observe().readings if r.metric is Metric.INSTANCE_CPU}
        assert max(busy.values()) == pytest.approx(1.0), "it is busy all the same"
        clock.advance(440.0)
        assert rate(target, clock) == pytest.approx(50.0)
    with pytest.raises(InputError, match="an overload speed of 0; it must be above 0"):
        chain(0.1, overload_speed=0.0)


def test_operators_report_the_rate_and_cost_of_events_where_they_may_move() -> None:
    """200 rows/s arrive at a, which passes 100 on: half of what arrives waits."""
    target, clock = world(
        chain(0.01, 0.002, state_mb={"b": 3.0}), "constant(200)", clusters={"west": Cluster()}, placement={"b": "west"},
        link=WIDE,
    )  # fmt: skip
    clock.advance(60.0)
    target.observe()
    clock.advance(10.0)
    wanted = (Metric.EVENT_RATE, Metric.TIME_PER_EVENT, Metric.STATE_SIZE)
    readings = {(r.subject, r.metric): r.value for r in target.observe().readings if r.metric in wanted}
    assert readings == {
        ("a", Metric.EVENT_RATE): pytest.approx(200.0),
        ("a", Metric.TIME_PER_EVENT): pytest.approx(0.01),
        ("b", Metric.EVENT_RATE): pytest.approx(100.0),
        ("b", Metric.TIME_PER_EVENT): pytest.approx(0.002),
        ("b", Metric.STATE_SIZE): 3e6,
    }
    alone, clock = world(chain(0.01, 0.002), "constant(200)")
    clock.advance(60.0)
    assert not [r for r in alone.observe().readings if r.metric in wanted], "one cluster: nothing can move"


def test_nodes_are_requested_and_paid_by_cluster() -> None:
    west = {"west": Cluster(nodes=NodeKind(slots=3, lead_time_s=30.0), initial_nodes=0)}
    target, clock = world(chain(0.01), "constant(10)", 2, clusters=west)
    clock.advance(10.0)
    target.observe()
    outcome = target.apply(Layout(nodes={"west": 2}))
    assert dict(outcome.requested.nodes) == {"main": 2, "west": 2}, (
        "a cluster that is not named stays unchanged"
    )
    clock.advance(20.0)
    observed = target.observe()
    assert dict(observed.layout.nodes) == {"main": 2, "west": 0}
    assert [(a.kind.value, a.cluster, a.nodes) for a in observed.under_way] == [("grow", "west", 2)]
    assert observed.held_nodes == 4
    clock.advance(20.0)
    observed = target.observe()
    assert dict(observed.layout.nodes) == {"main": 2, "west": 2}
    assert {r.subject: r.value for r in observed.readings if r.metric is Metric.SLOTS} == {
        "main": 2,
        "west": 6,
    }
    assert target.held().integral(0.0, 50.0) == 2 * 50 + 2 * 40
    assert target.held("west").integral(0.0, 50.0) == 2 * 40


def test_a_cluster_without_operators_can_be_released() -> None:
    target, clock = world(
        chain(0.01, 0.01), "constant(10)", clusters={"west": Cluster()}, placement={"b": "west"}
    )
    clock.advance(10.0)
    target.apply(Layout(nodes={"main": 1, "west": 0}))
    clock.advance(30.0)
    assert dict(target.observe().layout.nodes) == {"main": 1, "west": 0}
    assert target.held().stepped(clock.now_s()) == 1


def test_rows_wait_for_an_operator_whose_cluster_has_no_nodes() -> None:
    target, clock = world(
        chain(0.01, 0.01), "constant(10)", clusters={"west": Cluster()}, placement={"b": "west"}
    )
    clock.advance(20.0)
    target.apply(Layout(nodes={"main": 1, "west": 0}, placement={"b": "west"}))
    clock.advance(30.0)
    assert dict(target.observe().layout.nodes) == {"main": 1, "west": 0}
    assert target.work().processed == pytest.approx(200.0, abs=10.0)
    target.apply(Layout(nodes={"main": 1, "west": 1}, placement={"b": "west"}))
    clock.advance(60.0)
    assert target.work().waiting == pytest.approx(0.0, abs=1e-6)


def test_faults_affect_the_cluster_they_name() -> None:
    faults = (NodeDies(at_s=10.0, cluster="west"), SlowNode(from_s=0.0, until_s=100.0, factor=0.5))
    target, clock = world(
        chain(0.1), "constant(100)", clusters={"west": Cluster(initial_nodes=2)}, faults=faults
    )
    clock.advance(15.0)
    assert dict(target.observe().layout.nodes) == {"main": 1, "west": 1}
    assert rate(target, clock) == pytest.approx(5.0)


@given(
    moves=st.lists(
        st.dictionaries(st.sampled_from("abc"), st.sampled_from(["main", "west", "east"])),
        min_size=1,
        max_size=5,
    ),
    latency_s=st.sampled_from([0.0, 1.7]),
    bound=st.sampled_from([None, 30.0]),
)
@settings(max_examples=40, deadline=None)
def test_no_row_is_lost_when_operators_move(moves, latency_s, bound) -> None:
    target, clock = world(
        chain(0.02, 0.03, 0.01, queue_bound_rows=bound), "square(base=5, peak=60, period=1m)",
        clusters={"west": Cluster(), "east": Cluster(nodes=NodeKind(slots=2))},
        link=Link(mb_per_s=0.03, latency_s=latency_s),
    )  # fmt: skip
    for placement in moves:
        clock.advance(23.0)
        target.observe()
        target.apply(Layout(nodes={"main": 1}, placement=placement))
    clock.advance(23.0)
    work, arrived, flow = target.work(), target.arrived(clock.now_s()).values[-1], target._world.flow
    assert work.processed + work.waiting + work.failed == pytest.approx(arrived)
    for i, vertex in enumerate(flow.vertices):
        entered = 0.0 if vertex.streams else arrived
        for j, selectivity in vertex.streams:
            entered += flow.done[j] * selectivity
            entered -= flow.wires[(j, i)].rows if (j, i) in flow.wires else 0.0
        assert flow.done[i] + flow.queue[i] + flow.failed[i] == pytest.approx(entered)


# -- micro-batch: a query as a whole ---------------------------------------------------------------


def test_a_query_moves_at_a_batch_boundary_and_continues_from_its_checkpoint() -> None:
    fast = {"west": Cluster(nodes=NodeKind(slots=4, speeds=(2.0,)))}
    engine = named_query("q", Stage(tasks=4, per_task_s=1.0), restart_s=7.0, state_mb=50.0)
    target, clock = world(engine, "constant(10)", clusters=fast, kind=NodeKind(slots=2))
    clock.advance(11.0)
    target.observe()  # the batch of 10 s runs till 12 s
    assert "in west" in target.apply(Layout(nodes={"main": 1, "west": 1}, placement={"read": "west"})).note
    clock.advance(60.0)
    observed = target.observe()
    assert dict(observed.layout.placement) == {"read": "west"}
    assert [(b.started_s, round(b.duration_s, 6), b.slots) for b in observed.batches[:3]] == [
        (10.0, 2.0, 2),  # two waves on two slots
        (12.0 + 7.0 + 50.0 / 12.5, 0.5, 4),  # one wave on four slots, twice as fast
        (25.0, 0.5, 4),
    ]
    assert sum(b.rows for b in observed.batches) + 50 == target.work().processed  # none lost, none twice


def test_queries_in_different_clusters_do_not_wait_for_each_other() -> None:
    four = Stage(tasks=4, per_task_s=1.0)
    target, clock = shared_world(
        (named_query("a", four), "constant(10)"), (named_query("b", four), "constant(10)"), nodes=2,
        clusters={"west": Cluster(initial_nodes=2)}, placement={"b/read": "west"},
    )  # fmt: skip
    clock.advance(30.0)
    target.observe()
    assert [target.processed(name).times_s[1] for name in ("a", "b")] == pytest.approx([7.0, 7.0])


def test_a_query_cannot_be_split_across_clusters() -> None:
    engine = MicroBatch(pipeline=Pipeline.chain("two", "read", "count"), stages=(Stage(tasks=1),))
    target, _ = world(engine, "constant(1)", clusters={"west": Cluster()})
    with pytest.raises(TargetError, match="cannot be split across main and west"):
        target.apply(Layout(nodes={"main": 1}, placement={"count": "west"}))
    with pytest.raises(TargetError, match="no cluster 'north'; there are: main, west"):
        target.apply(Layout(nodes={"north": 1}))
    with pytest.raises(InputError, match="split across"):
        world(engine, "constant(1)", clusters={"west": Cluster()}, placement={"count": "west"})


def test_unknown_clusters_and_operators_are_refused() -> None:
    with pytest.raises(InputError, match="'north'; there are: main, west"):
        world(chain(0.1), "constant(1)", clusters={"west": Cluster()}, placement={"a": "north"})
    with pytest.raises(InputError, match="the placement names 'z'"):
        world(chain(0.1), "constant(1)", clusters={"west": Cluster()}, placement={"z": "west"})
    with pytest.raises(InputError, match="a fault affects cluster 'west'"):
        world(chain(0.1), "constant(1)", faults=(NodeDies(at_s=1.0, cluster="west"),))
    with pytest.raises(InputError, match="bandwidth must be above 0"):
        Link(mb_per_s=0.0)
    with pytest.raises(InputError, match="the minimum is 0"):
        Cluster(initial_nodes=-1)
