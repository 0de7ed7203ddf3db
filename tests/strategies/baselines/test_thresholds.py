"""Four thresholds: the outer one starts a period, the inner one ends it."""

from __future__ import annotations

import pytest

from ebbflow.core.decision import Decision
from ebbflow.core.snapshot import Snapshot
from ebbflow.errors import InputError
from ebbflow.strategies.baselines.thresholds import FourThresholds
from ebbflow.testing.snapshots import make_batch, make_snapshot, make_stage


def busy(now_s: float, share: float, nodes: int = 4) -> Snapshot:
    """A batch of a trigger of 10 s just ended, and kept this share of the slots busy."""
    stage = make_stage(12, 10.0 * nodes * share)
    return make_snapshot(now_s, nodes, [make_batch(now_s, 5.0, stage, slots=nodes)])


def acts(strategy: FourThresholds, shares: dict[int, float]) -> dict[int, int]:
    """Times at which another size than 4 was wanted, with that size. A share holds until the next."""
    made: dict[int, int] = {}
    share = 0.0
    for now_s in range(min(shares), max(shares) + 10, 10):
        share = shares.get(now_s, share)
        nodes = strategy.decide(busy(float(now_s), share)).wanted.main_nodes
        if nodes != 4:
            made[now_s] = nodes
    return made


def test_it_scales_out_when_the_load_stays_above_the_inner_threshold() -> None:
    # above 0.8 at 10 s; between 0.7 and 0.8 does not end the period; DurU of 30 s is over at 40 s
    assert acts(FourThresholds(), {0: 0.6, 10: 0.85, 20: 0.75, 60: 0.75}) == {40: 5}


def test_the_inner_threshold_alone_starts_no_period() -> None:
    assert acts(FourThresholds(), {0: 0.75, 600: 0.75}) == {}
    assert acts(FourThresholds(), {0: 0.45, 900: 0.45}) == {}


def test_falling_below_the_inner_threshold_ends_the_period() -> None:
    assert acts(FourThresholds(), {0: 0.85, 30: 0.7, 40: 0.75, 100: 0.75}) == {}


def test_it_scales_in_by_its_step_after_the_longer_period() -> None:
    assert acts(FourThresholds(step_in=2), {0: 0.6, 10: 0.35, 20: 0.45, 320: 0.45}) == {310: 2}


def test_nothing_changes_in_the_grace_period_and_a_new_period_is_needed_after_an_action() -> None:
    # out at 30 s, although 4 stay planned here; the next period starts at 40 s, grace ends at 90 s
    assert acts(FourThresholds(step_out=2), {0: 0.9, 90: 0.9}) == {30: 6, 90: 6}
    assert acts(FourThresholds(grace_s=0.0), {0: 0.9, 80: 0.9}) == {30: 5, 70: 5}


def test_a_time_without_data_ends_the_period() -> None:
    strategy = FourThresholds()
    strategy.decide(busy(0.0, 0.9))
    without: Decision = strategy.decide(make_snapshot(20.0, 4, queries={}))
    assert "no data" in without.reason
    assert strategy.decide(busy(30.0, 0.9)).wanted.main_nodes == 4
    assert strategy.decide(busy(60.0, 0.9)).wanted.main_nodes == 5


def test_thresholds_out_of_order_are_refused() -> None:
    with pytest.raises(InputError, match=r"below_upper is 0\.9 and upper is 0\.8"):
        FourThresholds(below_upper=0.9)
    with pytest.raises(InputError, match=r"above_lower is 0\.75 and below_upper is 0\.7"):
        FourThresholds(lower=0.6)
