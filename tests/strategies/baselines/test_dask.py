"""Dask: workers for the waiting work, closed at the third suggestion."""

from __future__ import annotations

from ebbflow.core.layout import Layout
from ebbflow.core.metrics import Metric
from ebbflow.core.readings import Reading, Windows
from ebbflow.core.snapshot import Snapshot
from ebbflow.strategies.baselines.dask import Dask
from ebbflow.testing.snapshots import OperatorReadings, make_batch, make_snapshot, make_stage


def waiting(now_s: float, nodes: int, lag_rows: float, tasks: int = 40) -> Snapshot:
    """Waiting rows, each of which takes 20 s / 1000 rows = 20 ms of a slot."""
    windows = Windows()
    windows.add([Reading(now_s, "words", Metric.QUEUE_LENGTH, lag_rows)])
    return make_snapshot(now_s, nodes, [make_batch(now_s, 5.0, make_stage(tasks, 20.0))], windows=windows)


def test_a_size_worked_out_by_hand() -> None:
    # 1600 rows · 0.02 s = 32 s of work; / 5 s = 6.4: 7 workers
    decision = Dask().decide(waiting(0.0, 4, 1600.0))
    assert decision.inputs["occupancy_s"] == 32.0
    assert decision.wanted.main_nodes == 7


def test_there_are_never_more_workers_than_tasks() -> None:
    assert Dask().decide(waiting(0.0, 4, 1600.0, tasks=6)).wanted.main_nodes == 6


def test_a_worker_closes_after_three_consecutive_suggestions() -> None:
    strategy = Dask()
    # 500 rows: 10 s / 5 s = 2; 700 rows: 14 / 5 = 3. Workers named three times: all but the largest target.
    assert strategy.decide(waiting(0.0, 8, 500.0)).wanted.main_nodes == 8
    assert strategy.decide(waiting(1.0, 8, 700.0)).wanted.main_nodes == 8
    assert strategy.decide(waiting(2.0, 8, 500.0)).wanted.main_nodes == 3


def test_a_suggestion_not_to_shrink_restarts_the_count() -> None:
    strategy = Dask()
    sizes = [
        strategy.decide(waiting(float(t), 8, lag)).wanted.main_nodes
        for t, lag in enumerate([500.0, 500.0, 2000.0, 500.0, 500.0])  # 2000 rows want exactly the 8
    ]
    assert sizes == [8] * 5
    assert strategy.decide(waiting(5.0, 8, 500.0)).wanted.main_nodes == 2


def test_snapshots_within_its_second_are_no_suggestions() -> None:
    strategy = Dask()
    for k in range(9):
        assert strategy.decide(waiting(0.2 * k, 8, 500.0)).wanted.main_nodes == 8
    assert strategy.decide(waiting(2.0, 8, 500.0)).wanted.main_nodes == 2


def test_seconds_between_snapshots_repeat_the_suggestion_of_the_earlier_one() -> None:
    strategy = Dask()
    assert strategy.decide(waiting(0.0, 8, 700.0)).wanted.main_nodes == 8
    # at 8 s and 9 s it would have seen 700 rows (3 workers), now 500 (2): the largest of the three
    assert strategy.decide(waiting(10.0, 8, 500.0)).wanted.main_nodes == 3


def test_a_snapshot_without_a_suggestion_is_repeated_too() -> None:
    strategy = Dask()
    sizes = [
        strategy.decide(waiting(10.0 * k, 8, lag)).wanted.main_nodes
        for k, lag in enumerate([2000.0, 500.0, 500.0])  # as many as there are, up to 9 s
    ]
    assert sizes == [8, 8, 2]


def test_seconds_without_data_suggest_nothing() -> None:
    strategy = Dask()
    strategy.decide(waiting(0.0, 8, 500.0))
    strategy.decide(make_snapshot(10.0, 8, queries={}))
    assert strategy.decide(waiting(20.0, 8, 500.0)).wanted.main_nodes == 8
    assert strategy.decide(waiting(30.0, 8, 500.0)).wanted.main_nodes == 2


def test_growing_does_not_wait() -> None:
    strategy = Dask()
    assert strategy.decide(waiting(0.0, 1, 1000.0)).wanted.main_nodes == 4
    assert strategy.decide(waiting(1.0, 4, 2000.0)).wanted.main_nodes == 8


def test_an_empty_queue_leaves_one_worker() -> None:
    strategy = Dask()
    sizes = [strategy.decide(waiting(float(t), 4, 0.0)).wanted.main_nodes for t in range(3)]
    assert sizes == [4, 4, 1]


def test_on_operators_a_row_costs_what_all_of_them_spend_on_it() -> None:
    target = OperatorReadings()
    for now_s in (0.0, 10.0):
        target.read(now_s, rate_per_s=100, lag_rows=600, read=(1000, 3000, 5, 1), count=(3000, 3000, 15, 2))
    # (5 + 15) s per 1000 source rows = 20 ms; 600 rows = 12 s; / 5 s: 3
    assert Dask().decide(target.snapshot(10.0, Layout.of(1))).wanted.main_nodes == 3


def test_without_a_lag_or_a_cost_it_holds() -> None:
    uncounted = make_snapshot(10.0, 4, [make_batch(10.0, 5.0)])
    silent = OperatorReadings().snapshot(10.0, Layout.of(4))
    for seen in (make_snapshot(0.0, 4), uncounted, silent):
        decision = Dask().decide(seen)
        assert decision.wanted.main_nodes == 4
        assert "no data" in decision.reason
