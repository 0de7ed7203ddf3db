"""Dataflow: conditions that last for two minutes."""

from __future__ import annotations

import pytest

from ebbflow.core.layout import Layout
from ebbflow.core.metrics import Metric
from ebbflow.core.readings import Reading, Windows
from ebbflow.core.snapshot import Snapshot
from ebbflow.strategies.baselines.dataflow import Dataflow
from ebbflow.testing.snapshots import OperatorReadings, make_batch, make_snapshot, make_stage


def at(now_s: float, nodes: int, *, lag_rows: float, slot_seconds: float, rate: float = 100) -> Snapshot:
    """1000 rows in 10 s (100 rows/s) with that much work and lag."""
    windows = Windows()
    windows.add([Reading(now_s, "words", Metric.QUEUE_LENGTH, lag_rows)])
    one = make_batch(now_s, 10.0, make_stage(12, slot_seconds), arrival_rate_per_s=rate)
    return make_snapshot(now_s, nodes, [one], windows=windows)


def after_two_minutes(nodes: int, **condition: float) -> int:
    strategy = Dataflow()
    for now_s in range(0, 120, 10):
        assert strategy.decide(at(float(now_s), nodes, **condition)).wanted.main_nodes == nodes
    return strategy.decide(at(120.0, nodes, **condition)).wanted.main_nodes


def test_growing_worked_out_by_hand() -> None:
    # lag 3000 / 100 rows/s = 30 s of backlog; busy 36 / (4 · 10) = 90 %.
    # 4 · (150 + 3000 / 150) / 100 = 4 · 1.7 = 6.8: 7
    assert after_two_minutes(4, lag_rows=3000.0, slot_seconds=36.0, rate=150.0) == 7


def test_shrinking_worked_out_by_hand() -> None:
    # backlog 5 s; busy 12 / (8 · 10) = 15 %; 8 · 0.15 / 0.75 = 1.6: 2
    assert after_two_minutes(8, lag_rows=500.0, slot_seconds=12.0) == 2


@pytest.mark.parametrize(
    ("lag_rows", "slot_seconds", "wanted"),
    [
        (1000.0, 8.0, 4),  # backlogged for 10 s, but 20 % busy is not more than 20 %
        (1000.0, 8.4, 5),  # 21 %: 4 · (100 + 1000 / 150) / 100 = 4.27
        (999.0, 39.0, 4),  # not backlogged, and too busy to shrink
        (999.0, 30.0, 4),  # 75 % is not less than 75 %
        (999.0, 22.0, 3),  # 55 %: 4 · 0.55 / 0.75 = 2.93
    ],
)
def test_the_edges_of_backlog_and_cpu(lag_rows: float, slot_seconds: float, wanted: int) -> None:
    assert after_two_minutes(4, lag_rows=lag_rows, slot_seconds=slot_seconds) == wanted


def test_a_gap_in_the_condition_restarts_the_two_minutes() -> None:
    strategy = Dataflow()
    for now_s in range(0, 180, 10):
        lag_rows = 0.0 if now_s == 60 else 3000.0
        decision = strategy.decide(at(float(now_s), 4, lag_rows=lag_rows, slot_seconds=36.0))
        assert decision.wanted.main_nodes == 4, now_s
    decisions = [strategy.decide(at(t, 4, lag_rows=3000.0, slot_seconds=36.0)) for t in (180.0, 190.0)]
    assert decisions[-1].wanted.main_nodes > 4


def test_down_goes_to_the_largest_size_of_the_window() -> None:
    strategy = Dataflow()
    for now_s in range(0, 120, 10):
        strategy.decide(at(float(now_s), 8, lag_rows=0.0, slot_seconds=36.0 if now_s == 50 else 12.0))
    # at 50 s: busy 45 %, 8 · 0.45 / 0.75 = 4.8: 5
    assert strategy.decide(at(120.0, 8, lag_rows=0.0, slot_seconds=12.0)).wanted.main_nodes == 5


def test_a_change_of_size_restarts_both_clocks() -> None:
    strategy = Dataflow()
    for now_s in range(0, 130, 10):
        nodes = 4 if now_s < 60 else 5
        decision = strategy.decide(at(float(now_s), nodes, lag_rows=3000.0, slot_seconds=36.0))
        assert decision.wanted.main_nodes == nodes


def test_on_operators_it_uses_the_rate_and_lag_of_the_source() -> None:
    target, strategy = OperatorReadings(), Dataflow()
    for now_s in range(0, 140, 10):
        target.read(
            float(now_s), rate_per_s=150, lag_rows=3000, read=(1000, 1000, 9, 1), count=(1000, 9, 27, 3)
        )
        decision = strategy.decide(target.snapshot(float(now_s), Layout.of(4)))
    assert decision.wanted.main_nodes == 7  # the numbers of the case worked out above


def test_on_missing_data_it_holds_and_restarts() -> None:
    strategy = Dataflow()
    for now_s in range(0, 120, 10):
        strategy.decide(at(float(now_s), 4, lag_rows=3000.0, slot_seconds=36.0))
    decision = strategy.decide(make_snapshot(120.0, 4, queries={}))
    assert "no data" in decision.reason
    assert strategy.decide(at(130.0, 4, lag_rows=3000.0, slot_seconds=36.0)).wanted.main_nodes == 4
