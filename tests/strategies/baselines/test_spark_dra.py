"""Spark's dynamic allocation: doubling while tasks wait, and executors that never idle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from ebbflow.core.layout import Layout
from ebbflow.core.limits import Limits
from ebbflow.strategies.baselines.spark_dra import SparkDra
from ebbflow.testing.snapshots import OperatorReadings, make_batch, make_snapshot, make_stage


def after(wall_s: float, tasks: int, *, nodes: int = 1, most: int = 50, slots_per_node: int = 1) -> int:
    """Nodes wanted after one batch with one stage of that length on ``nodes``."""
    slots = nodes * slots_per_node
    one = make_batch(wall_s, wall_s, make_stage(tasks, wall_s * slots, wall_s), slots=slots)
    limits = Limits(min_nodes=1, max_nodes=most)
    seen = make_snapshot(
        wall_s, nodes, [one], limits=limits, slots_per_node=slots_per_node, queries={"q": None}
    )
    return SparkDra().decide(seen).wanted.main_nodes


@pytest.mark.parametrize(
    ("wall_s", "wanted"),
    [
        # 400 tasks on 1 slot: 400 waves of wall / 400 s; the last task starts at 399/400 of the wall time.
        (1.0, 1),  # pending for 0.9975 s: less than a second
        (1.2, 2),  # until 1.197 s: one step, 1 + 1
        (2.2, 4),  # until 2.195 s: steps at 1 s and 2 s, 1 + 1 + 2
        (3.3, 8),  # until 3.292 s: 1 + 1 + 2 + 4; at 3 s 400 − 363 = 37 tasks are left, enough for 8
    ],
)
def test_the_target_doubles_with_every_second_of_backlog(wall_s: float, wanted: int) -> None:
    assert after(wall_s, 400) == wanted


def test_no_more_executors_are_requested_than_tasks_are_left() -> None:
    # 40 tasks in 3.3 s: at 3 s floor(3 / 0.0825) = 36 are done, and 4 executors are enough for the other 4.
    assert after(3.3, 40) == 4


def test_a_long_backlog_worked_out_by_hand() -> None:
    # 100 tasks, 1 slot, 50 s: 0.5 s a task. 1 s: 1 + 1 = 2; 2 s: 4; 3 s: 8; 4 s: 16; 5 s: 32;
    # 6 s: 64, needed 100 − 12 = 88; 7 s: 64 + 64, needed 100 − 14 = 86. The limit is 1000.
    assert after(50.0, 100, most=1000) == 86
    assert after(50.0, 100, most=20) == 20


def test_needed_counts_the_slots_of_an_executor() -> None:
    # 100 tasks on 4 slots of one executor, 25 waves of 2 s. 7 s on (3 waves, 12 tasks done): ceil(88 / 4) = 22.
    # 1 s: 2; 2 s: 4; 3 s: 8; 4 s: 16; 5 s: min(32, ceil(92 / 4) = 23) = 23
    assert after(50.0, 100, slots_per_node=4) == 23


def test_tasks_that_all_have_a_slot_are_not_pending() -> None:
    assert after(30.0, 4, nodes=4) == 4


def test_a_running_batch_is_assumed_to_be_like_the_previous_one() -> None:
    strategy = SparkDra()
    quick = make_batch(10.0, 0.5, make_stage(8, 0.5, 0.5), slots=1)
    assert strategy.decide(make_snapshot(10.0, 1, [quick], queries={"q": None})).wanted.main_nodes == 1
    # The next began at 20 s and outlasts it: half of its 8 tasks are assumed to be left.
    # 1 s: 1 + 1 = 2; 2 s: 2 + 2 = 4; 3 s: 4 + 4, but 4 are all that is needed.
    assert strategy.decide(make_snapshot(21.0, 1, queries={"q": 20.0})).wanted.main_nodes == 2
    assert strategy.decide(make_snapshot(22.0, 2, queries={"q": 20.0})).wanted.main_nodes == 4
    assert strategy.decide(make_snapshot(23.0, 4, queries={"q": 20.0})).wanted.main_nodes == 4


def test_a_step_is_taken_once_however_often_it_is_evaluated() -> None:
    strategy = SparkDra()
    first = make_batch(10.0, 3.0, make_stage(8, 3.0, 3.0), slots=1)
    strategy.decide(make_snapshot(10.0, 8, [first], queries={"q": None}))
    assert strategy.decide(make_snapshot(21.5, 1, queries={"q": 20.0})).wanted.main_nodes == 2
    assert strategy.decide(make_snapshot(21.8, 2, queries={"q": 20.0})).wanted.main_nodes == 2


def sizes(batches: Mapping[int, Sequence[int]], *, shuffle_tracking: bool = True) -> list[int]:
    """Sizes at 10, 20 … 130 s, from 8 nodes. Batches by the second at which they end, as the task counts of their
    stages; the query has nothing to do in between."""
    strategy, nodes, found = SparkDra(shuffle_tracking=shuffle_tracking), 8, []
    for now_s in range(10, 140, 10):
        stages = [make_stage(tasks, 0.1, 0.1, i) for i, tasks in enumerate(batches.get(now_s, ()))]
        ended = [make_batch(float(now_s), 0.5, *stages, slots=8)] if stages else []
        nodes = strategy.decide(
            make_snapshot(float(now_s), nodes, ended, queries={"q": None})
        ).wanted.main_nodes
        found.append(nodes)
    return found


def idle_after(*stages_of_a_batch: int, shuffle_tracking: bool = True) -> list[int]:
    """The same with such a batch every 30 s."""
    batches = dict.fromkeys(range(10, 140, 30), stages_of_a_batch)
    return sizes(batches, shuffle_tracking=shuffle_tracking)


def test_executors_without_a_task_for_a_minute_leave() -> None:
    # From 10 s on: at 70 s a minute has been watched. In (10, 70] batches came at 40 and 70 s: 2 · 2 tasks
    # touched 4 of the 8 executors.
    assert idle_after(2) == [8] * 6 + [4] * 7


def test_batches_that_use_every_executor_within_the_minute_keep_all() -> None:
    assert idle_after(4) == [8] * 13


def test_shuffle_tracking_pins_the_executors_of_a_shuffle_for_good() -> None:
    # One batch of 4 tasks, which write shuffle data, and 1 that reads it; then 1 task every 30 s. At 70 s a minute has
    # been watched, in which 2 tasks touched 2 of the 8: without tracking 6 go, with it the 4 that hold data stay.
    batches = {10: (4, 1), 40: (1,), 70: (1,), 100: (1,), 130: (1,)}
    assert sizes(batches, shuffle_tracking=False) == [8] * 6 + [2] * 7
    assert sizes(batches) == [8] * 6 + [4] * 7


def test_each_shuffle_pins_one_more_and_the_last_stage_none() -> None:
    # Four batches of 1 + 1 tasks, then nothing to do. Touched in the last minute: 6 at 70 s, 4 at 80 s, 2 at 90 s, none
    # at 100 s. Each first stage pinned one executor, so that 4 stay for good; without tracking all go but one.
    batches = dict.fromkeys((10, 20, 30, 40), (1, 1))
    assert sizes(batches) == [8] * 6 + [6, 4, 4, 4, 4, 4, 4]
    assert sizes(batches, shuffle_tracking=False) == [8] * 6 + [6, 4, 2, 1, 1, 1, 1]


def test_a_batch_without_a_shuffle_pins_no_executor() -> None:
    assert idle_after(1) == idle_after(1, shuffle_tracking=False) == [8] * 6 + [2] * 7


def test_it_holds_without_data() -> None:
    unknown = make_snapshot(100.0, 4, queries={"q": 10.0})
    continuous = OperatorReadings()
    for now_s in (0.0, 10.0):
        continuous.read(now_s, rate_per_s=100, lag_rows=1e6, read=(1000, 1000, 10, 1))
    for seen in (unknown, continuous.snapshot(10.0, Layout.of(4)), make_snapshot(0.0, 4, queries={})):
        decision = SparkDra().decide(seen)
        assert decision.wanted.main_nodes == 4
        assert "no data" in decision.reason
