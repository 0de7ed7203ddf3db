"""Vertices of Flink and DS2: true rates, demands, and layouts that can be deployed."""

from __future__ import annotations

import pytest

from ebbflow.core.layout import Layout
from ebbflow.core.limits import Limits
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Operator, Pipeline, Stream
from ebbflow.core.readings import Reading
from ebbflow.core.signals import Signals
from ebbflow.strategies.baselines.vertices import Vertex, demands, deployable, layout_for, vertices
from ebbflow.testing.snapshots import OperatorReadings, make_snapshot


def test_busy_counts_the_wait_for_a_core_and_the_cpu_does_not() -> None:
    target, signals, layout = OperatorReadings(), Signals(), Layout.of(1, read=16)
    metrics = (Metric.ROWS_IN, Metric.INSTANCE_CPU, Metric.INSTANCE_BUSY, Metric.INSTANCES)
    for time_s in (0.0, 10.0):
        # 16 instances on one core that they fill: each has a 16th of it, and waits for the rest
        target.windows.add(
            Reading(time_s, "read", metric, value)
            for metric, value in zip(metrics, (1000.0, 1 / 16, 1.0, 16.0), strict=True)
        )
    seen = target.snapshot(10.0, layout)
    assert signals.update(seen) == ""
    assert signals.busy_slots == 1.0
    (vertex,) = vertices(signals.new, seen, micro_batch=False).values()
    assert (vertex.busy, vertex.true_rate_per_s) == (1.0, 100.0)  # and not 1600 rows/s


def test_demand_follows_the_measured_ratio_or_the_declared_one_where_streams_part() -> None:
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
    seen = make_snapshot(0.0, 1, planned=Layout.of(1, a=1, b=1), slots_per_node=2)
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
def test_a_layout_with_more_instances_than_slots_is_reduced(
    layout: Layout, shared: Layout | None, apart: Layout | None
) -> None:
    seen = make_snapshot(0.0, layout.main_nodes, planned=layout)
    assert deployable(seen, slot_sharing=True) == shared
    assert deployable(seen, slot_sharing=False) == apart


def test_parallelism_is_capped_by_the_slots_that_the_limits_allow() -> None:
    planned = Layout.of(2, a=2, b=2, unread=40)
    seen = make_snapshot(0.0, 2, planned=planned, limits=Limits(min_nodes=1, max_nodes=4))
    found, layout = layout_for({"a": 9, "b": 2}, seen, slot_sharing=True)
    assert found == 9  # bound by the limits later
    assert dict(layout.parallelism) == {"a": 4, "b": 2, "unread": 40}
