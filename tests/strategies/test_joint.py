"""The joint baseline: one instance and one node at a time."""

from __future__ import annotations

from typing import Any

import pytest
from made_flows import chain

from ebbflow.core.batches import Batch, OperatorRun, StageRun
from ebbflow.core.decision import Decision
from ebbflow.core.layout import Layout
from ebbflow.core.limits import Limits
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.readings import Reading, Windows
from ebbflow.core.snapshot import Snapshot
from ebbflow.strategies.joint import Joint
from ebbflow.testing import make_snapshot

PIPELINE = chain("app", 1.0)


def snapshot(now_s: float, layout: Layout, **changes: Any) -> Snapshot:
    """A snapshot of nodes with four slots, limited to 1 to 6."""
    usual: dict[str, Any] = {
        "pipeline": PIPELINE, "planned": layout, "requested": layout, "observed": layout, "windows": Windows(),
        "limits": Limits(min_nodes=1, max_nodes=6), "slots_per_node": 4, "lead_time_s": 0.0, "queries": {},
    }  # fmt: skip
    return make_snapshot(now_s, layout.main_nodes, **{**usual, **changes})


def assessed(layout: Layout, *, a: float, b: float, nodes: list[float], **changes: Any) -> Decision:
    """Its first decision, with instances and nodes this busy."""
    strategy, windows, decision = Joint(), Windows(), None
    for k in range(13):
        now_s = 10.0 * k
        readings = [
            Reading(now_s, "app", Metric.ARRIVAL_RATE, 100.0),
            Reading(now_s, "app", Metric.QUEUE_LENGTH, 0.0),
        ]
        for name, used in (("a", a), ("b", b)):
            readings += [
                Reading(now_s, name, Metric.INSTANCE_CPU, used),
                Reading(now_s, name, Metric.ROWS_IN, 1000.0),
                Reading(now_s, name, Metric.INSTANCES, float(layout.parallelism.get(name, 1))),
            ]
        readings += [Reading(now_s, f"node-{n}", Metric.NODE_CPU, used) for n, used in enumerate(nodes)]
        windows.add(readings)
        decision = strategy.decide(snapshot(now_s, layout, windows=windows, **changes))
        if k < 6:
            assert decision.wanted == layout, "waits for its assessment"
        elif k == 6:
            return decision
    raise AssertionError


@pytest.mark.parametrize(
    ("a", "b", "nodes", "wanted"),
    [
        (0.9, 0.5, [0.5, 0.5], Layout.of(3, a=3, b=2)),  # scaled out: exactly one node more
        (0.9, 0.9, [0.5, 0.5], Layout.of(3, a=3, b=3)),  # two of them: still one
        (0.9, 0.1, [0.5, 0.5], Layout.of(3, a=3, b=1)),  # one out, one in: one node more
        (0.1, 0.5, [0.9, 0.9], Layout.of(2, a=1, b=2)),  # scaled in: nodes stay, however busy
        (0.5, 0.5, [0.9, 0.5], Layout.of(3, a=2, b=2)),  # no operator: by the nodes
        (0.5, 0.5, [0.4, 0.3], Layout.of(1, a=2, b=2)),  # 0.7 on one
        (0.5, 0.5, [0.5, 0.5], Layout.of(2, a=2, b=2)),  # 1.0 on one
        (0.65, 0.25, [0.8, 0.1], Layout.of(2, a=2, b=2)),  # at a threshold is not past it
    ],
)
def test_a_step_by_hand(a: float, b: float, nodes: list[float], wanted: Layout) -> None:
    decision = assessed(Layout.of(2, a=2, b=2), a=a, b=b, nodes=nodes)
    assert decision.wanted == wanted
    assert decision.reason
    assert decision.formula


def on_batches(age_s: float, running_s: float, **changes: Any) -> Decision:
    """Its decision a minute after a batch that kept half of two nodes busy. The next batch had run for ``running_s`` at
    the observation, which is ``age_s`` old."""
    strategy, layout = Joint(), Layout.of(2)
    stages = (StageRun(index=0, tasks=8, task_time_s=40.0, cpu_time_s=40.0, wall_s=5.0, longest_task_s=5.0),)
    done = Batch(
        query="app", batch_id=0, started_s=0.0, duration_s=9.0, rows=100, slots=8, trigger_interval_s=10.0,
        arrival_rate_per_s=10.0, backlog_rows=0.0, oldest_arrival_s=-10.0, stages=stages,
    )  # fmt: skip

    def decide(now_s: float, **shown: Any) -> Decision:
        return strategy.decide(snapshot(now_s, layout, **shown))

    decide(9.5, batches=(done,), queries={"app": None})
    return decide(70.0, data_age_s=age_s, queries={"app": 70.0 - age_s - running_s}, **changes)


@pytest.mark.parametrize(("running_s", "nodes"), [(4.0, 2), (12.0, 3)])
@pytest.mark.parametrize("age_s", [0.0, 9.0])
def test_whether_a_batch_outlasts_its_interval_is_judged_at_the_observation(
    age_s: float, running_s: float, nodes: int
) -> None:
    assert on_batches(age_s, running_s).wanted.main_nodes == nodes, "it may have ended since"


@pytest.mark.parametrize("age_s", [0.0, 9.0])
def test_a_node_counts_if_it_was_read_shortly_before_the_observation(age_s: float) -> None:
    windows, seen_s = Windows(), 70.0 - age_s
    windows.add([Reading(seen_s - 40.0, "node-0", Metric.NODE_CPU, 0.9)])  # it left
    windows.add([Reading(seen_s - 10.0, "node-1", Metric.NODE_CPU, 0.6)])
    decision = on_batches(age_s, 4.0, windows=windows)
    assert decision.inputs["nodes_cpu"] == 0.6, "and its slots are half busy"


def test_the_limits_hold_for_joint_as_well() -> None:
    decision = assessed(Layout.of(6, a=2, b=2), a=0.9, b=0.5, nodes=[0.5] * 6)
    assert decision.wanted.main_nodes == 6
    assert [bound.name for bound in decision.bound_by] == ["limits"]


def test_an_operator_at_its_most_instances_adds_no_node() -> None:
    strategy = assessed(Layout.of(1, a=24, b=2), a=0.9, b=0.5, nodes=[0.5])  # 6 nodes of 4 slots
    assert strategy.wanted == Layout.of(1, a=24, b=2)


# -- operators whose tasks wait, on batches ----------------------------------------------------------------


def waiting(
    tasks: int,
    task_s: float,
    *,
    nodes: int = 1,
    reported: bool = True,
    duration_s: float = 4.0,
    left: float = 0.0,
    slow_first_s: float | None = None,
    node_cpu: float | None = None,
) -> Decision:
    """Its decision after a minute of batches every 5 s, whose lookups use 2 % of a core and hold a slot for ``task_s``.

    ``reported``: whether batches have the number of instances, and so the stage of the operator. ``slow_first_s``: time
    of the tasks of the last batch but one, the first on a new node. ``node_cpu``: of each node."""
    strategy, windows, decision = Joint(most_instances=4), Windows(), None
    layout = Layout.of(nodes, enrich=tasks)
    for k in range(1, 14):
        now_s, steady = 5.0 * k, slow_first_s is None or k != 12
        each_s = task_s if steady or slow_first_s is None else slow_first_s
        stage = StageRun(
            index=0, tasks=tasks, task_time_s=tasks * each_s, cpu_time_s=0.1, wall_s=duration_s, longest_task_s=each_s
        )  # fmt: skip
        run = OperatorRun(
            name="enrich", rows_in=100, rows_out=100, cpu_s=0.1, instances=tasks if reported else None
        )
        batch = Batch(
            query="app", batch_id=k, started_s=now_s - duration_s, duration_s=duration_s, rows=100, slots=nodes,
            trigger_interval_s=5.0, arrival_rate_per_s=20.0, backlog_rows=left, oldest_arrival_s=now_s - 10.0,
            stages=(stage,), operators=(run,), steady=steady,
        )  # fmt: skip
        windows.add([Reading(now_s, "enrich", Metric.INSTANCE_CPU, 0.02)])
        if node_cpu is not None:
            windows.add([Reading(now_s, f"node-{n}", Metric.NODE_CPU, node_cpu) for n in range(nodes)])
        seen = snapshot(
            now_s, layout, pipeline=Pipeline.chain("app", "enrich"), windows=windows, batches=(batch,),
            limits=Limits(min_nodes=1, max_nodes=4), slots_per_node=1, queries={"app": None},
        )  # fmt: skip
        decision = strategy.decide(seen)
    assert decision is not None
    return decision


@pytest.mark.parametrize("reported", [True, False])
@pytest.mark.parametrize(
    ("task_s", "left"),
    [(1.2, 0.0), (0.5, 9999.0)],
    ids=["the slots are busy", "a backlog remains"],
)
def test_an_operator_whose_tasks_wait_loses_no_instance_under_overload(
    reported: bool, task_s: float, left: float
) -> None:
    decision = waiting(4, task_s, reported=reported, left=left)
    assert decision.wanted.parallelism == {"enrich": 4}


def test_an_operator_whose_tasks_wait_is_judged_by_how_long_they_run() -> None:
    decision = waiting(2, 3.6, nodes=2)
    assert decision.inputs["enrich core"] == pytest.approx(0.72)
    assert decision.wanted == Layout.of(3, enrich=3)


def test_an_underused_operator_is_scaled_in_on_batches_too() -> None:
    assert waiting(2, 0.5, nodes=2).wanted == Layout.of(2, enrich=1)
    assert waiting(2, 0.5, nodes=2, reported=False).wanted == Layout.of(2, enrich=1)


def test_the_first_tasks_on_a_new_node_do_not_count() -> None:
    assert waiting(2, 3.0, nodes=2, slow_first_s=40.0).wanted == Layout.of(2, enrich=2)  # 0.6 of the time


def test_rows_that_have_just_arrived_are_no_backlog() -> None:
    assert waiting(2, 0.5, nodes=2, left=40.0).wanted == Layout.of(2, enrich=1)


def test_a_node_whose_tasks_wait_is_not_idle() -> None:
    assert waiting(2, 3.0, nodes=2, node_cpu=0.05).wanted == Layout.of(2, enrich=2)
    assert waiting(2, 3.0, nodes=2, node_cpu=0.85).wanted == Layout.of(3, enrich=2)
    assert waiting(2, 1.5, nodes=2, node_cpu=0.05).wanted == Layout.of(1, enrich=2)
