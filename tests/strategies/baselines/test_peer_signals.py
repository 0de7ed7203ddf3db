"""What the peers measure, and what they do not take for a measurement."""

from __future__ import annotations

import pytest
from peer_worlds import Operators, batch, stage, world

from ebbflow.core.layout import Layout
from ebbflow.core.limits import Limits
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Operator, Pipeline, Stream
from ebbflow.core.readings import Reading
from ebbflow.core.signals import Signals
from ebbflow.strategies.baselines.vertices import Vertex, demands, deployable, layout_for, vertices


def test_a_batch_is_spread_over_its_trigger_or_over_its_own_time_if_that_is_longer() -> None:
    signals = Signals()
    signals.look(world(10.0, 4, [batch(10.0, 4.0, stage(8, 12.0), stage(4, 8.0, index=1))]))
    assert signals.busy_slots == 2.0  # (12 + 8) / max(4, 10)
    assert signals.most_tasks == 8
    signals.look(world(50.0, 4, [batch(50.0, 40.0, stage(8, 20.0))]))
    assert signals.busy_slots == 0.5  # 20 / 40


def test_queries_add_up_and_one_that_ended_is_forgotten() -> None:
    signals = Signals()
    two = [batch(10.0, 4.0, stage(8, 10.0 * k), query=name) for k, name in ((1, "a"), (2, "b"))]
    signals.look(world(10.0, 4, two, queries={"a": 10.0, "b": 10.0}))
    assert signals.busy_slots == 3.0
    signals.look(world(20.0, 4, queries={"b": 10.0}))
    assert signals.busy_slots == 2.0
    assert signals.look(world(30.0, 4, queries={})).startswith("no data")


def test_a_query_past_its_trigger_without_a_batch_is_idle_but_a_running_one_is_not() -> None:
    signals = Signals()
    signals.look(world(10.0, 4, [batch(10.0, 4.0, stage(8, 20.0))]))
    signals.look(world(60.0, 4, queries={"q": 55.0}))
    assert (signals.busy_slots, signals.rate_per_s) == (2.0, 100.0)
    signals.look(world(60.0, 4, queries={"q": None}))
    assert (signals.busy_slots, signals.rate_per_s, signals.lag_rows) == (0.0, 0.0, 0.0)


def test_a_batch_that_outlasts_the_one_before_keeps_as_large_a_share_of_the_slots_busy() -> None:
    signals = Signals()
    signals.look(world(10.0, 4, [batch(10.0, 4.0, stage(8, 12.0))]))
    signals.look(world(31.0, 6, queries={"q": 20.0}))
    assert signals.busy_slots == 4.5  # 12 / (4 slots · 4 s) = 75 % of the 6 that are there now
    assert signals.done_slots == 1.2  # 12 / 10
    signals.look(world(31.0, 20, queries={"q": 20.0}))
    assert signals.busy_slots == 6.0  # 75 % of 8: there are no more tasks


def test_without_a_queue_length_the_lag_is_what_was_left_and_what_came_since() -> None:
    signals = Signals()
    signals.look(world(10.0, 4, [batch(10.0, 4.0, stage(8, 20.0), backlog_rows=70.0)]))
    assert signals.lag_rows == 470.0  # 70 + 100 rows/s · 4 s


def test_a_source_that_does_not_tell_what_waits_has_no_lag_rather_than_none() -> None:
    signals = Signals()
    assert signals.look(world(10.0, 4, [batch(10.0, 4.0, stage(8, 20.0), backlog_rows=None)])) == ""
    assert signals.lag_rows is None


def test_operators_need_two_readings_and_busy_time_in_every_one() -> None:
    target, signals = Operators(), Signals()
    target.read(0.0, rate_per_s=10, lag_rows=0, read=(10, 10, 1, 1))
    assert signals.look(target.world(0.0, Layout.of(2))).startswith("no data")
    target.read(2.0, rate_per_s=10, lag_rows=0, read=(10, 10, 1, 1))
    target.read(4.0, rate_per_s=10, lag_rows=0, read=(30, 10, 3, 1))
    assert signals.look(target.world(4.0, Layout.of(2))) == ""
    assert (signals.busy_slots, signals.processed_per_s) == (1.0, 10.0)  # 4 s and 40 rows in 4 s
    target.windows.add([Reading(6.0, "read", Metric.ROWS_IN, 30.0)])
    signals.look(target.world(6.0, Layout.of(2)))
    assert signals.busy_slots is None


def test_the_share_of_an_instance_is_busy_time_where_nobody_counts_it_in_seconds() -> None:
    target, signals = Operators(), Signals()
    for time_s, share in ((0.0, 0.9), (10.0, 0.25), (20.0, 0.75)):
        for metric, value in ((Metric.ROWS_IN, 100.0), (Metric.INSTANCE_CPU, share), (Metric.INSTANCES, 4.0)):
            target.windows.add([Reading(time_s, "read", metric, value)])
    # such an engine names what runs, and yet there are no batches to wait for
    assert signals.look(target.world(20.0, Layout.of(2), queries={"words": None})) == ""
    assert not signals.micro_batch
    assert signals.busy_slots == 2.0  # 4 instances · (0.25 + 0.75) · 10 s in 20 s


def test_busy_counts_the_wait_for_a_core_and_the_cpu_does_not() -> None:
    target, signals, layout = Operators(), Signals(), Layout.of(1, read=16)
    metrics = (Metric.ROWS_IN, Metric.INSTANCE_CPU, Metric.INSTANCE_BUSY, Metric.INSTANCES)
    for time_s in (0.0, 10.0):
        # 16 instances on one core that they fill: each has a 16th of it, and waits for the rest
        target.windows.add(
            Reading(time_s, "read", metric, value)
            for metric, value in zip(metrics, (1000.0, 1 / 16, 1.0, 16.0), strict=True)
        )
    seen = target.world(10.0, layout)
    assert signals.look(seen) == ""
    assert signals.busy_slots == 1.0
    (vertex,) = vertices(signals.new, seen, micro_batch=False).values()
    assert (vertex.busy, vertex.true_rate_per_s) == (1.0, 100.0)  # and not 1600 rows/s


def test_demand_follows_what_was_measured_and_declared_where_streams_part() -> None:
    pipeline = Pipeline(
        name="p",
        operators=tuple(Operator(name=n) for n in "abc"),
        streams=(Stream(source="a", target="b", selectivity=0.5), Stream(source="a", target="c")),
    )
    seen = {n: Vertex(name=n, parallelism=1, rate_per_s=10.0, busy=0.5, ratio=9.0) for n in "abc"}
    assert demands(pipeline, seen, 100.0) == {"a": 100.0, "b": 50.0, "c": 100.0}
    chain = Pipeline.chain("p", "a", "b")
    assert demands(chain, seen, 100.0) == {"a": 100.0, "b": 900.0}


@pytest.mark.parametrize(("slot_sharing", "nodes"), [(True, 3), (False, 4)])
def test_shared_slots_count_the_largest_operator_and_own_slots_the_sum(
    slot_sharing: bool, nodes: int
) -> None:
    seen = world(0.0, 1, planned=Layout.of(1, a=1, b=1), slots_per_node=2)
    found, layout = layout_for({"a": 2, "b": 5}, seen, slot_sharing=slot_sharing)
    assert found == nodes
    assert dict(layout.parallelism) == {"a": 2, "b": 5}


@pytest.mark.parametrize(
    ("layout", "shared", "apart"),
    [
        (Layout.of(1, a=16, b=16), Layout.of(1, a=1, b=1), Layout.of(2, a=1, b=1)),
        (Layout.of(8, a=16, b=16), Layout.of(8, a=8, b=8), Layout.of(8, a=4, b=4)),
        (Layout.of(16, a=16, b=16), None, Layout.of(16, a=8, b=8)),
        (Layout.of(1, a=1, b=1), None, Layout.of(2, a=1, b=1)),
        (Layout.of(3, a=2, b=1), None, None),
        (Layout.of(1), None, None),
    ],
)
def test_more_instances_than_slots_are_not_deployed(
    layout: Layout, shared: Layout | None, apart: Layout | None
) -> None:
    seen = world(0.0, layout.main_nodes, planned=layout)
    assert deployable(seen, slot_sharing=True) == shared
    assert deployable(seen, slot_sharing=False) == apart


def test_who_may_not_have_the_slots_runs_with_those_it_gets() -> None:
    planned = Layout.of(2, a=2, b=2, unread=40)
    seen = world(0.0, 2, planned=planned, limits=Limits(min_nodes=1, max_nodes=4))
    found, layout = layout_for({"a": 9, "b": 2}, seen, slot_sharing=True)
    assert found == 9  # said, and then bound by the limits
    assert dict(layout.parallelism) == {"a": 4, "b": 2, "unread": 40}
