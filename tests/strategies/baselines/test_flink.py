"""Flink's autoscaler: true rates, lag, a band, and long delays."""

from __future__ import annotations

from typing import Any

import pytest

from ebbflow.core.decision import Decision
from ebbflow.core.layout import Layout
from ebbflow.core.metrics import Metric
from ebbflow.core.readings import Reading, Windows
from ebbflow.core.snapshot import Snapshot
from ebbflow.strategies.baselines.flink import Flink
from ebbflow.testing.snapshots import OperatorReadings, make_batch, make_snapshot, make_stage

FULL_S = 1200  # 5 min of stabilisation and a window of 15 min


def at(now_s: float, nodes: int, busy: float, *, lag_rows: float = 0.0, **changes: Any) -> Snapshot:
    """100 rows/s on slots that are this busy."""
    windows = Windows()
    windows.add([Reading(now_s, "words", Metric.QUEUE_LENGTH, lag_rows)])
    one = make_batch(now_s, 10.0, make_stage(12, busy * nodes * 10), slots=nodes)
    return make_snapshot(now_s, nodes, [one], windows=windows, **changes)


def play(
    strategy: Flink, nodes: int, busy: float, *, from_s: int = 0, to_s: int = FULL_S, **signs: Any
) -> Decision:
    """The last decision of a run with a batch every 10 s; none before it may act."""
    for now_s in range(from_s, to_s, 10):
        assert strategy.decide(at(float(now_s), nodes, busy, **signs)).wanted.main_nodes == nodes, now_s
    return strategy.decide(at(float(to_s), nodes, busy, **signs))


def test_growing_without_lag_worked_out_by_hand() -> None:
    strategy = Flink()
    for now_s in range(0, FULL_S, 10):
        lag_rows = 30.0 * max(
            0, now_s - 300
        )  # since the start of the window 30 rows/s more arrive than leave
        strategy.decide(at(float(now_s), 4, 1.0, lag_rows=lag_rows))
    decision = strategy.decide(at(FULL_S, 4, 1.0, lag_rows=27_000.0))
    # true rate 100 / 1.0; demand 100 + 27000 / 900 = 130; band: 130 / 1.0 + 15 > 100, it was left.
    # capacity = 27000 / 1800 + 130 · 300 / 1800 + 130 / 0.7 = 15 + 21.67 + 185.71 = 222.38
    # p' = ceil(4 · 222.38 / 100) = ceil(8.895) = 9
    assert decision.inputs["lag_growth_per_s"] == 30.0
    assert decision.wanted.main_nodes == 9


@pytest.mark.parametrize(("busy", "wanted"), [(1.0, 4), (0.7, 4), (0.41, 4), (0.38, 4)])
def test_within_its_band_the_size_stays(busy: float, wanted: int) -> None:
    # true rate 100 / busy; the band is 100 / 1.0 to 100 · 300 / 1800 + 100 / 0.4 = 266.7 rows/s
    assert play(Flink(scale_down_delay_s=0.0), 4, busy).wanted.main_nodes == wanted


def test_shrinking_below_the_band_worked_out_by_hand() -> None:
    # busy 0.3: true rate 333.3 > 266.7. capacity = 100 · 300 / 1800 + 100 / 0.7 = 159.52
    # factor 0.4786; p' = ceil(10 · 0.4786) = 5
    assert play(Flink(scale_down_delay_s=0.0), 10, 0.3).wanted.main_nodes == 5


def test_it_shrinks_by_at_most_sixty_percent() -> None:
    # busy 0.05: factor 159.52 / 2000 = 0.08, but not less than 0.4
    assert play(Flink(scale_down_delay_s=0.0), 10, 0.05).wanted.main_nodes == 4


def test_shrinking_waits_for_an_hour_and_takes_the_largest_size_of_it() -> None:
    strategy = Flink()
    play(strategy, 10, 0.3)
    # an hour from the first evaluation that could shrink, at 1200 s; in between it could not by as much:
    # busy 0.36 for the whole of a window: true rate 277.8, factor 0.574, p' = 6
    play(strategy, 10, 0.36, from_s=1210, to_s=2400)
    decision = play(strategy, 10, 0.3, from_s=2410, to_s=FULL_S + 3600)
    assert decision.wanted.main_nodes == 6


def test_a_size_of_more_than_an_hour_ago_counts_no_more() -> None:
    strategy = Flink(window_s=60.0)
    # From 360 s on it could shrink, at first to 8 (busy 0.45: true rate 222.2 of 266.7, factor 0.718), at 2040 s to 6
    # (three batches of 0.45 and four of 0.3: 274.5, factor 0.581), then to 5. It waits while 8, at which it was
    # within its band, is the largest of the hour: until the last 8, of 1980 s, is older than that.
    play(strategy, 10, 0.45, to_s=2000)
    assert play(strategy, 10, 0.3, from_s=2010, to_s=5610).wanted.main_nodes == 10
    for now_s in range(5620, 5800, 10):
        wanted = strategy.decide(at(float(now_s), 10, 0.3)).wanted.main_nodes
        if wanted != 10:
            break
    assert (now_s, wanted) == (5640, 6)


def test_a_vertex_that_cannot_shrink_restarts_the_hour() -> None:
    strategy = Flink(window_s=60.0)
    play(strategy, 10, 0.3, to_s=2000)
    play(strategy, 10, 0.69, from_s=2010, to_s=2300)  # capacity 159.52 / 144.9: no fewer than 10
    assert play(strategy, 10, 0.3, from_s=2310, to_s=5400).wanted.main_nodes == 10


def test_lag_over_five_minutes_freezes_shrinking() -> None:
    # lag / rate: 30,100 rows / 100 rows/s = 301 s. The true rate by busy time is 1000 (0.1), but observed
    # while lagging it is 100, so the observed one is switched off here to leave only the freeze.
    calm = {"scale_down_delay_s": 0.0, "observed_lag_s": 1e9}
    assert play(Flink(**calm), 10, 0.1, lag_rows=30_100.0).wanted.main_nodes == 10
    assert play(Flink(**calm), 10, 0.1, lag_rows=29_900.0).wanted.main_nodes < 10


def test_the_true_rate_of_a_lagging_source_is_its_observed_rate() -> None:
    # lag 3100 rows / 100 = 31 s > 30 s; busy 0.5 says 200 rows/s, but it does 100 and 200 ≥ 1.15 · 100.
    # capacity = 3100 / 1800 + 100 · 300 / 1800 + 100 / 0.7 = 161.2; 100 < 1.7 + 100: p' = ceil(4 · 1.612) = 7
    assert play(Flink(), 4, 0.5, lag_rows=3100.0).wanted.main_nodes == 7
    # at 29 s of lag the busy time counts: 200 is within 101.6 to 268.3
    assert play(Flink(), 4, 0.5, lag_rows=2900.0).wanted.main_nodes == 4


def test_the_window_must_be_full_and_restarts_after_a_change() -> None:
    strategy = Flink()
    assert "full in 20m" in strategy.decide(at(0.0, 4, 1.0)).reason
    assert "full in 3m20s" in strategy.decide(at(1000.0, 4, 1.0)).reason
    assert "full in 20m" in strategy.decide(at(1010.0, 5, 1.0)).reason


def test_it_evaluates_once_a_minute() -> None:
    strategy = Flink()
    play(strategy, 4, 0.7)
    assert "next evaluation" in strategy.decide(at(1230.0, 4, 0.7)).reason
    assert "band" in strategy.decide(at(1260.0, 4, 0.7)).reason


def test_each_operator_is_sized_and_the_largest_sets_the_nodes() -> None:
    target, strategy = OperatorReadings(), Flink()
    layout = Layout.of(2, read=2, count=4)
    for now_s in range(0, FULL_S + 10, 10):
        # read takes 100 rows/s at 50 % of 2, and makes 3 of each; count takes 200 at 100 % of 4
        target.read(now_s, rate_per_s=100, lag_rows=0, read=(1000, 3000, 10, 2), count=(2000, 0, 40, 4))
        decision = strategy.decide(target.snapshot(float(now_s), layout, slots_per_node=2))
    # count: demand 100 · 3 = 300, true rate 200 < 300: left. capacity = 300 / 6 + 300 / 0.7 = 478.57
    #   p' = ceil(4 · 2.393) = 10.   read: true 200, capacity 159.52: p' = ceil(2 · 0.798) = 2
    assert dict(decision.wanted.parallelism) == {"read": 2, "count": 10}
    assert decision.wanted.main_nodes == 5  # slots are shared: ceil(10 / 2)


def test_unknown_lag_or_busy_time_is_no_reason_to_move() -> None:
    strategy, target = Flink(), OperatorReadings()
    for now_s in range(0, FULL_S + 10, 10):
        seen = make_snapshot(float(now_s), 4, [make_batch(float(now_s), 10.0)])
        decision = strategy.decide(seen)
    assert decision.wanted.main_nodes == 4
    assert "no data" in decision.reason
    assert "no data" in Flink().decide(target.snapshot(0.0, Layout.of(4))).reason


def test_a_size_computed_while_it_lagged_freezes_shrinking_while_it_is_the_largest() -> None:
    calm = {"observed_lag_s": 1e9, "window_s": 60.0, "scale_down_delay_s": 600.0}
    strategy = Flink(**calm)
    # busy 0.3 with 301 s of lag: 333.3 rows/s, capacity 16.7 + 159.5, factor 0.529, p' = 6, frozen; then 5, and free
    play(strategy, 10, 0.3, to_s=900, lag_rows=30_100.0)
    assert play(strategy, 10, 0.3, from_s=910, to_s=1490).wanted.main_nodes == 10
    sizes = [strategy.decide(at(float(s), 10, 0.3)).wanted.main_nodes for s in range(1500, 1700, 10)]
    assert next(size for size in sizes if size != 10) == 5


def test_the_lag_term_counts_for_all_operators_and_not_for_the_source_alone() -> None:
    target, strategy = OperatorReadings(), Flink(observed_lag_s=1e9)
    layout = Layout.of(2, read=2, count=4)
    for now_s in range(0, FULL_S + 10, 10):
        # 100 rows/s and 18,000 that wait; read makes 3 of each; count takes 300 at 80 % of 4: true rate 375
        target.read(now_s, rate_per_s=100, lag_rows=18_000, read=(1000, 3000, 4, 2), count=(3000, 0, 32, 4))
        decision = strategy.decide(target.snapshot(float(now_s), layout, slots_per_node=2))
    # count: the lag is 3 · 18000 / 1800 = 30 of its rows a second. 375 is within 30 + 300 and 30 + 50 + 750: it stays
    # in its band. read: 500 true, 10 + 100 to 10 + 16.7 + 250: left, could shrink, and waits its hour.
    assert decision.wanted.parallelism == layout.parallelism
    for now_s in range(FULL_S + 10, 2 * FULL_S + 10, 10):
        # now 375 rows/s are too few for 3 · 54,000 / 1800 + 300 = 390: capacity 90 + 50 + 428.6, and
        # p' = ceil(4 · 568.6 / 375) = 7; more while the lag grows within the window
        target.read(now_s, rate_per_s=100, lag_rows=54_000, read=(1000, 3000, 4, 2), count=(3000, 0, 32, 4))
        decision = strategy.decide(target.snapshot(float(now_s), layout, slots_per_node=2))
        if decision.wanted.parallelism != layout.parallelism:
            break
    assert decision.wanted.parallelism["count"] >= 7
