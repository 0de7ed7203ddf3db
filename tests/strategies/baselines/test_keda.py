"""KEDA: lag over a threshold, up to the partitions, through an HPA."""

from __future__ import annotations

from ebbflow.core.layout import Layout
from ebbflow.core.metrics import Metric
from ebbflow.core.readings import Reading, Windows
from ebbflow.core.snapshot import Snapshot
from ebbflow.strategies.baselines.keda import Keda
from ebbflow.testing.snapshots import OperatorReadings, make_batch, make_snapshot, make_stage


def lagging(now_s: float, nodes: int, lag_rows: float, tasks: int = 12) -> Snapshot:
    """A query with that much lag and that many partitions."""
    windows = Windows()
    windows.add([Reading(now_s, "words", Metric.QUEUE_LENGTH, lag_rows)])
    return make_snapshot(now_s, nodes, [make_batch(now_s, 5.0, make_stage(tasks, 8.0))], windows=windows)


def test_a_size_worked_out_by_hand() -> None:
    # lag 65 / threshold 10 = 6.5, below 12 partitions: ceil = 7; up limit max(2·4, 4 + 4) = 8 allows it
    assert Keda().decide(lagging(0.0, 4, 65.0)).wanted.main_nodes == 7


def test_it_is_capped_at_the_partitions() -> None:
    # 1000 / 10 = 100, of 6 partitions: 6
    assert Keda().decide(lagging(0.0, 4, 1000.0, tasks=6)).wanted.main_nodes == 6


def test_the_tolerance_and_the_limit_up_are_those_of_the_hpa() -> None:
    assert Keda().decide(lagging(0.0, 10, 110.0)).wanted.main_nodes == 10  # 11 / 10 is within 10 %
    assert Keda().decide(lagging(0.0, 10, 111.0)).wanted.main_nodes == 12  # ceil(11.1)
    assert Keda().decide(lagging(0.0, 1, 100.0)).wanted.main_nodes == 5  # at most 4 more


def test_the_lag_is_polled_every_thirty_seconds_and_the_hpa_syncs_every_fifteen() -> None:
    strategy = Keda()
    assert strategy.decide(lagging(0.0, 4, 40.0)).wanted.main_nodes == 4
    assert strategy.decide(lagging(15.0, 4, 80.0)).inputs["lag_rows"] == 40.0  # the poll at 0 s
    assert "next sync" in strategy.decide(lagging(20.0, 4, 80.0)).reason
    polled = strategy.decide(lagging(30.0, 4, 80.0))
    assert polled.inputs["lag_rows"] == 80.0
    assert polled.wanted.main_nodes == 8


def test_several_syncs_that_are_due_at_once_are_all_made() -> None:
    strategy = Keda()
    # 120 rows of lag want 12. Up at 0 s by 4, at 15 s to 10, at 30 s to 12
    assert strategy.decide(lagging(0.0, 1, 120.0)).wanted.main_nodes == 5
    assert strategy.decide(lagging(40.0, 5, 120.0)).wanted.main_nodes == 12


def test_lag_between_two_snapshots_restarts_the_cool_down() -> None:
    strategy = Keda(down_window_s=6000.0)
    strategy.decide(lagging(0.0, 4, 40.0))
    strategy.decide(lagging(200.0, 4, 0.0))  # polls up to 150 s have the 40 rows, that at 180 s none
    assert strategy.decide(lagging(440.0, 4, 0.0)).wanted.main_nodes == 4
    assert strategy.decide(lagging(460.0, 4, 0.0)).wanted.main_nodes == 1


def test_down_waits_for_the_window_and_no_lag_at_all_for_the_cool_down() -> None:
    strategy = Keda(down_window_s=600.0)
    assert strategy.decide(lagging(0.0, 4, 40.0)).wanted.main_nodes == 4
    # lag is gone from 30 s on; last active at 0 s, so that the cool-down of 300 s ends at 300 s
    for now_s in range(15, 300, 15):
        assert strategy.decide(lagging(float(now_s), 4, 0.0)).wanted.main_nodes == 4, now_s
    decision = strategy.decide(lagging(300.0, 4, 0.0))
    assert decision.wanted.main_nodes == 1
    assert "no lag for 300 s" in decision.reason


def test_lag_that_shrinks_but_stays_is_left_to_the_window() -> None:
    strategy = Keda()
    for now_s in range(0, 300, 15):
        assert strategy.decide(lagging(float(now_s), 8, 20.0)).wanted.main_nodes == 8, now_s
    assert strategy.decide(lagging(300.0, 8, 20.0)).wanted.main_nodes == 2


def test_a_continuous_target_is_capped_by_the_parallelism_of_its_sources() -> None:
    target = OperatorReadings()
    for now_s in (0.0, 10.0):
        target.read(now_s, rate_per_s=100, lag_rows=500, read=(1000, 1000, 8, 6))
    assert Keda().decide(target.snapshot(10.0, Layout.of(4, read=6))).wanted.main_nodes == 6
    assert (
        Keda().decide(target.snapshot(10.0, Layout.of(4))).wanted.main_nodes == 8
    )  # unknown: no cap but the HPA's


def test_without_a_lag_it_holds() -> None:
    target = OperatorReadings()
    assert "no data" in Keda().decide(target.snapshot(10.0, Layout.of(4))).reason
    assert "no data" in Keda().decide(make_snapshot(10.0, 4)).reason
