"""The HPA: proportional, tolerant, quick up, slow down."""

from __future__ import annotations

import pytest

from ebbflow.core.layout import Layout
from ebbflow.core.snapshot import Snapshot
from ebbflow.strategies.baselines.hpa import Hpa
from ebbflow.testing.snapshots import OperatorReadings, make_batch, make_snapshot, make_stage


def busy(now_s: float, nodes: int, slot_seconds: float, **changes: object) -> Snapshot:
    """A batch just ended that used this many slot-seconds of its 10 s."""
    return make_snapshot(
        now_s, nodes, [make_batch(now_s, 10.0, make_stage(12, slot_seconds), slots=nodes)], **changes
    )


def test_a_size_worked_out_by_hand() -> None:
    # 38 slot-seconds in 10 s on 4 slots: busy 3.8 / 4 = 0.95; ceil(4 · 0.95 / 0.7) = ceil(5.43) = 6
    decision = Hpa().decide(busy(10.0, 4, 38.0))
    assert decision.inputs["busy"] == 0.95
    assert decision.wanted.main_nodes == 6


@pytest.mark.parametrize(
    ("slot_seconds", "recommended"),
    [
        # target 0.7 of 10 nodes = 70 slot-seconds; 10 % tolerance: 63 to 77 leave it alone
        (77.0, 10),
        (77.1, 12),  # ceil(10 · 0.771 / 0.7) = ceil(11.01)
        (63.0, 10),
        (62.9, 9),  # ceil(8.99)
    ],
)
def test_the_tolerance_is_ten_percent_on_both_sides(slot_seconds: float, recommended: int) -> None:
    assert Hpa().decide(busy(10.0, 10, slot_seconds)).inputs["recommended"] == recommended


def test_it_syncs_every_fifteen_seconds_and_no_sooner() -> None:
    strategy = Hpa()
    assert strategy.decide(busy(0.0, 4, 38.0)).wanted.main_nodes == 6
    assert strategy.decide(busy(14.0, 4, 38.0)).wanted.main_nodes == 4
    assert strategy.decide(busy(15.0, 4, 38.0)).wanted.main_nodes == 6


def test_with_a_cycle_of_ten_seconds_it_syncs_every_fifteen_on_average() -> None:
    strategy = Hpa()
    synced = [
        t for t in range(0, 3601, 10) if "waiting" not in strategy.decide(busy(float(t), 10, 70.0)).reason
    ]
    assert synced[:5] == [0, 20, 30, 50, 60]
    assert (synced[-1] - synced[0]) / (len(synced) - 1) == 15.0


def test_several_syncs_that_are_due_at_once_are_all_made() -> None:
    strategy = Hpa()
    # 14 busy slots want 20. Up at 0 s by 4; at 15 s to 10, at 30 s to 20, on the load of 0 s
    assert strategy.decide(busy(0.0, 1, 140.0)).wanted.main_nodes == 5
    assert strategy.decide(busy(60.0, 5, 140.0)).wanted.main_nodes == 20


def test_syncs_without_data_do_nothing() -> None:
    strategy = Hpa()
    assert strategy.decide(busy(0.0, 1, 140.0)).wanted.main_nodes == 5
    strategy.decide(make_snapshot(5.0, 5, queries={}))
    assert strategy.decide(busy(60.0, 5, 140.0)).wanted.main_nodes == 10


@pytest.mark.parametrize(("nodes", "wanted"), [(1, 5), (4, 8), (10, 20)])
def test_up_goes_by_at_most_double_or_four_pods(nodes: int, wanted: int) -> None:
    # 40 busy slots want ceil(40 / 0.7) = 58; the limit is max(2n, n + 4)
    assert Hpa().decide(busy(10.0, nodes, 400.0)).wanted.main_nodes == wanted


def test_down_goes_to_the_highest_recommendation_of_five_minutes() -> None:
    strategy = Hpa()
    # 14 slot-seconds: ceil(1.4 / 0.7) = 2; at 30 s a recommendation of 35 / 7 = 5 comes between
    for now_s in range(0, 300, 15):
        seen = busy(float(now_s), 8, 35.0 if now_s == 30 else 14.0)
        assert strategy.decide(seen).wanted.main_nodes == 8, now_s
    assert strategy.decide(busy(300.0, 8, 14.0)).wanted.main_nodes == 5  # the size at the start is forgotten
    assert strategy.decide(busy(315.0, 5, 14.0)).wanted.main_nodes == 5
    assert strategy.decide(busy(330.0, 5, 14.0)).wanted.main_nodes == 2  # and now the 5


def test_pods_that_have_not_joined_count_as_idle() -> None:
    # 3.8 busy slots on 2 observed; planned 6: 3.8 / 6 / 0.7 = 0.905, within the tolerance
    seen = busy(10.0, 6, 38.0, observed=Layout.of(2))
    assert Hpa().decide(seen).wanted.main_nodes == 6


def test_an_idle_query_is_a_measured_zero() -> None:
    strategy = Hpa(down_window_s=0.0)
    strategy.decide(busy(10.0, 4, 28.0))
    decision = strategy.decide(make_snapshot(60.0, 4, queries={"q": None}))
    assert decision.inputs["busy"] == 0.0
    assert decision.wanted.main_nodes == 1


def test_it_holds_without_data() -> None:
    uncounted = make_snapshot(10.0, 4, [make_batch(10.0, 10.0)])
    for seen in (make_snapshot(0.0, 4), uncounted):
        decision = Hpa().decide(seen)
        assert decision.wanted.main_nodes == 4
        assert "no data" in decision.reason


def test_on_operators_the_busy_time_of_all_of_them_counts() -> None:
    target = OperatorReadings()
    for now_s in (0.0, 10.0):
        target.read(now_s, rate_per_s=100, lag_rows=0, read=(1000, 1000, 8, 2), count=(1000, 1000, 20, 4))
    # (8 + 20) s in 10 s = 2.8 busy slots of 2 · 2: 0.7, exactly the target
    decision = Hpa().decide(target.snapshot(10.0, Layout.of(2), slots_per_node=2))
    assert decision.inputs["busy"] == 0.7
    assert decision.wanted.main_nodes == 2
