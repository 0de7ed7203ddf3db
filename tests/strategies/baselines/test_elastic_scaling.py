"""Elastic-Scaling: the smoothed share of the interval, times the nodes."""

from __future__ import annotations

import pytest

from ebbflow.core.layout import Layout
from ebbflow.core.snapshot import ActionKind, ActionUnderWay
from ebbflow.strategies.baselines.elastic_scaling import ElasticScaling
from ebbflow.testing.snapshots import make_batch, make_snapshot, make_stage


def test_the_mean_of_two_batches_worked_out_by_hand() -> None:
    strategy = ElasticScaling()
    # num = 1·0.6 + 2.0 = 2.6, den = 1·0.6 + 1 = 1.6, mean = 1.625; ceil(4 · 1.625) = ceil(6.5) = 7
    first = strategy.decide(make_snapshot(20.0, 4, [make_batch(20.0, 20.0, make_stage(4, 1.0))]))
    assert first.inputs["mean"] == 1.625
    assert first.wanted.main_nodes == 7
    # num = 2.6·0.6 + 0.2 = 1.76, den = 1.6·0.6 + 1 = 1.96, mean = 0.898: within the band
    second = strategy.decide(make_snapshot(30.0, 7, [make_batch(30.0, 2.0, make_stage(4, 1.0))]))
    assert second.inputs["mean"] == 0.898
    assert second.wanted.main_nodes == 7
    # num = 1.76·0.6 + 0.2 = 1.256, den = 1.96·0.6 + 1 = 2.176, mean = 0.5772; ceil(7 · 0.5772) = ceil(4.04) = 5
    third = strategy.decide(make_snapshot(40.0, 7, [make_batch(40.0, 2.0, make_stage(4, 1.0))]))
    assert third.inputs["mean"] == 0.5772
    assert third.wanted.main_nodes == 5


@pytest.mark.parametrize(("duration_s", "wanted"), [(7.5, 4), (10.0, 4), (10.1, 5), (7.4, 3)])
def test_the_edges_of_the_dead_band_are_within_it(duration_s: float, wanted: int) -> None:
    strategy = ElasticScaling(smoothing=0.0)  # only the last batch counts: mean = duration / 10
    decision = strategy.decide(make_snapshot(20.0, 4, [make_batch(20.0, duration_s, make_stage(4, 1.0))]))
    assert decision.wanted.main_nodes == wanted


def test_it_has_no_cool_down_and_acts_at_every_batch() -> None:
    strategy, nodes = ElasticScaling(smoothing=0.0), 1
    for k in range(1, 4):
        seen = make_snapshot(20.0 * k, nodes, [make_batch(20.0 * k, 20.0, make_stage(4, 1.0))])
        nodes = strategy.decide(seen).wanted.main_nodes
    assert nodes == 8


def test_it_requests_nothing_while_the_cluster_is_scaling_but_keeps_smoothing() -> None:
    strategy = ElasticScaling()
    growing = (ActionUnderWay(kind=ActionKind.GROW, since_s=15.0, nodes=3),)
    held = strategy.decide(
        make_snapshot(20.0, 4, [make_batch(20.0, 20.0, make_stage(4, 1.0))], under_way=growing)
    )
    assert held.wanted.main_nodes == 4
    assert held.inputs["mean"] == 1.625


def test_of_several_batches_in_a_snapshot_the_first_that_leaves_the_band_decides() -> None:
    two = [make_batch(20.0, 20.0, make_stage(4, 1.0)), make_batch(22.0, 2.0, make_stage(4, 1.0))]
    # evaluated at the end of each: 1.625 after the first wants 7; the 0.898 after the second comes too late
    decision = ElasticScaling().decide(make_snapshot(30.0, 4, two))
    assert decision.inputs["mean"] == 1.625
    assert decision.wanted.main_nodes == 7


def test_batches_that_end_while_it_is_scaling_are_only_smoothed() -> None:
    strategy = ElasticScaling(smoothing=0.0)
    growing = (ActionUnderWay(kind=ActionKind.GROW, since_s=15.0, nodes=3),)
    strategy.decide(make_snapshot(20.0, 4, [make_batch(20.0, 20.0, make_stage(4, 1.0))], under_way=growing))
    two = [make_batch(30.0, 20.0, make_stage(4, 1.0)), make_batch(40.0, 9.0, make_stage(4, 1.0))]
    assert strategy.decide(make_snapshot(40.0, 4, two)).wanted.main_nodes == 4  # the last is within the band
    assert strategy.decide(make_snapshot(60.0, 4, two)).wanted.main_nodes == 8  # and now the first decides


def test_the_target_scales_the_observed_nodes() -> None:
    seen = make_snapshot(20.0, 8, [make_batch(20.0, 20.0, make_stage(4, 1.0))], observed=Layout.of(2))
    assert ElasticScaling(smoothing=0.0).decide(seen).wanted.main_nodes == 4


def test_batches_without_rows_or_without_an_interval_do_not_count() -> None:
    strategy = ElasticScaling()
    empty = make_batch(20.0, 20.0, rows=0)
    untimed = make_batch(40.0, 20.0, make_stage(4, 1.0), trigger_interval_s=0.0)
    decision = strategy.decide(make_snapshot(40.0, 4, [empty, untimed]))
    assert "no data" in decision.reason
    assert decision.wanted.main_nodes == 4


def test_the_size_stays_within_the_limits_and_the_decision_names_them() -> None:
    decision = ElasticScaling().decide(
        make_snapshot(500.0, 40, [make_batch(500.0, 200.0, make_stage(4, 1.0))])
    )
    assert decision.wanted.main_nodes == 50
    assert decision.bound_by[0].name == "limits"


def test_it_expects_a_batch_that_fills_the_interval_on_the_new_size() -> None:
    # mean 2 · interval 10 · 4 / 8 nodes = 10 s
    expected = (
        ElasticScaling(smoothing=0.0)
        .decide(make_snapshot(20.0, 4, [make_batch(20.0, 20.0, make_stage(4, 1.0))]))
        .expected
    )
    assert expected is not None
    assert expected.value == 10.0
