"""Spark's legacy streaming allocation: once a minute, by how full the interval is."""

from __future__ import annotations

import pytest

from ebbflow.core.decision import Decision
from ebbflow.core.layout import Layout
from ebbflow.core.limits import Limits
from ebbflow.strategies.baselines.spark_legacy import SparkLegacy
from ebbflow.testing.snapshots import make_batch, make_snapshot, make_stage


def after_a_minute(*durations_s: float, nodes: int = 4, fewest: int = 1) -> Decision:
    """The decision at 60 s, after batches with these times on an interval of 10 s."""
    strategy = SparkLegacy()
    strategy.decide(make_snapshot(0.0, nodes))
    batches = [make_batch(10.0 * i + d, d, make_stage(4, 1.0)) for i, d in enumerate(durations_s)]
    limits = Limits(min_nodes=fewest, max_nodes=50)
    return strategy.decide(make_snapshot(60.0, nodes, batches, limits=limits))


@pytest.mark.parametrize(
    ("durations_s", "wanted"),
    [
        # mean 24 / interval 10 = 2.4; max(round(2.4), 1) = 2 more: 4 + 2
        ((20.0, 28.0), 6),
        # 2.5 rounds up as Java does, not to even as Python does: 4 + 3
        ((25.0,), 7),
        # 0.9 is the edge and counts: max(round(0.9), 1) = 1 more
        ((9.0,), 5),
        # between the ratios nothing changes
        ((8.9,), 4),
        ((3.1,), 4),
        # 0.3 is the edge and counts: one is killed
        ((3.0,), 3),
        # however empty the interval is, only one
        ((0.1,), 3),
    ],
)
def test_the_ratio_of_batch_time_and_interval_decides(durations_s: tuple[float, ...], wanted: int) -> None:
    assert after_a_minute(*durations_s).wanted.main_nodes == wanted


def test_it_acts_once_a_minute_on_the_mean_of_that_minute_only() -> None:
    strategy = SparkLegacy()
    slow, quick = make_batch(20.0, 20.0, make_stage(4, 1.0)), make_batch(80.0, 5.0, make_stage(4, 1.0))
    assert strategy.decide(make_snapshot(0.0, 4)).wanted.main_nodes == 4
    assert strategy.decide(make_snapshot(59.0, 4, [slow])).wanted.main_nodes == 4
    assert strategy.decide(make_snapshot(60.0, 4)).wanted.main_nodes == 6
    assert strategy.decide(make_snapshot(119.0, 6, [quick])).wanted.main_nodes == 6
    assert strategy.decide(make_snapshot(120.0, 6)).inputs["ratio"] == 0.5


def test_more_executors_come_on_top_of_the_observed_ones() -> None:
    strategy = SparkLegacy()
    strategy.decide(make_snapshot(0.0, 4))
    seen = make_snapshot(60.0, 8, [make_batch(20.0, 10.0, make_stage(4, 1.0))], observed=Layout.of(5))
    assert strategy.decide(seen).wanted.main_nodes == 6


def test_it_never_goes_below_the_minimum() -> None:
    assert after_a_minute(0.1, nodes=2, fewest=2).wanted.main_nodes == 2


def test_a_minute_without_a_timed_batch_changes_nothing() -> None:
    strategy = SparkLegacy()
    untimed = make_batch(20.0, 20.0, make_stage(4, 1.0), trigger_interval_s=0.0)
    strategy.decide(make_snapshot(0.0, 4))
    for now_s, batches in ((60.0, []), (120.0, [untimed])):
        decision = strategy.decide(make_snapshot(now_s, 4, batches))
        assert decision.wanted.main_nodes == 4
        assert "no data" in decision.reason
