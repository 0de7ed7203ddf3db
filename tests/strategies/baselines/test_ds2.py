"""DS2: all operators in one step, without lag."""

from __future__ import annotations

from ebbflow.core.decision import Decision
from ebbflow.core.layout import Layout
from ebbflow.strategies.baselines.ds2 import Ds2
from ebbflow.testing.snapshots import OperatorReadings, make_batch, make_snapshot, make_stage


def after_an_interval(strategy: Ds2, nodes: int, busy: float, rate: float, backlog: float = 0.0) -> Decision:
    """The decision at 60 s, on 100 rows/s done by ``nodes`` slots that are this busy."""
    for now_s in range(0, 60, 10):
        one = make_batch(
            float(now_s),
            10.0,
            make_stage(12, busy * nodes * 10),
            slots=nodes,
            arrival_rate_per_s=rate,
            backlog_rows=backlog,
        )
        assert strategy.decide(make_snapshot(float(now_s), nodes, [one])).wanted.main_nodes == nodes
    return strategy.decide(make_snapshot(60.0, nodes, [one]))


def test_a_micro_batch_size_worked_out_by_hand() -> None:
    # true rate 100 / 0.8 = 125 on 4 slots, 31.25 a slot; 200 rows/s arrive: 200 / 31.25 = 6.4: 7
    assert after_an_interval(Ds2(), 4, 0.8, 200.0).wanted.main_nodes == 7


def test_the_over_provision_factor_multiplies() -> None:
    # 6.4 · 1.25 = 8 exactly
    assert after_an_interval(Ds2(over_provision=1.25), 4, 0.8, 200.0).wanted.main_nodes == 8


def test_it_shrinks_by_the_same_rule_at_once() -> None:
    # true rate 100 / 0.2 = 500 on 8 slots; 100 arrive: 8 · 0.2 = 1.6: 2
    assert after_an_interval(Ds2(), 8, 0.2, 100.0).wanted.main_nodes == 2


def test_it_ignores_lag() -> None:
    with_lag = after_an_interval(Ds2(), 4, 0.8, 200.0, backlog=1e6)
    assert with_lag.wanted == after_an_interval(Ds2(), 4, 0.8, 200.0).wanted


def test_work_on_another_size_does_not_count() -> None:
    strategy = Ds2()
    for now_s in range(0, 50, 10):
        strategy.decide(
            make_snapshot(float(now_s), 4, [make_batch(float(now_s), 10.0, make_stage(12, 40.0))])
        )
    strategy.decide(make_snapshot(50.0, 6, [make_batch(50.0, 10.0, make_stage(12, 40.0))]))
    decision = strategy.decide(make_snapshot(60.0, 6))
    assert decision.wanted.main_nodes == 6
    assert "no data" in decision.reason


def operators_after_an_interval(layout: Layout) -> Decision:
    target, strategy = OperatorReadings(), Ds2()
    for now_s in range(0, 70, 10):
        # 150 rows/s arrive. read: 100 rows/s at 50 % of 1; 2 rows out of each. count: 200 rows/s at 80 % of 2
        target.read(now_s, rate_per_s=150, lag_rows=1e5, read=(1000, 2000, 5, 1), count=(2000, 0, 16, 2))
        decision = strategy.decide(target.snapshot(float(now_s), layout))
    return decision


def test_operators_are_sized_together_worked_out_by_hand() -> None:
    decision = operators_after_an_interval(Layout.of(3, read=1, count=2))
    # read: true 200; 150 / 200 · 1 = 0.75: 1.  count: demand 300, true 250; 2 · 300 / 250 = 2.4: 3
    assert dict(decision.wanted.parallelism) == {"read": 1, "count": 3}
    assert decision.wanted.main_nodes == 4  # each instance has a slot of its own


def test_the_second_step_finds_nothing_left_to_do() -> None:
    layout = Layout.of(4, read=1, count=3)
    target, strategy = OperatorReadings(), Ds2()
    for now_s in range(0, 70, 10):
        # the sizes found above at the full load: read 150 rows/s (75 %), count 300 rows/s (80 %)
        target.read(now_s, rate_per_s=150, lag_rows=0, read=(1500, 3000, 7.5, 1), count=(3000, 0, 24, 3))
        decision = strategy.decide(target.snapshot(float(now_s), layout))
    assert decision.wanted == layout


def test_unknown_busy_time_is_no_reason_to_move() -> None:
    strategy = Ds2()
    for now_s in range(0, 70, 10):
        decision = strategy.decide(make_snapshot(float(now_s), 4, [make_batch(float(now_s), 10.0)]))
    assert decision.wanted.main_nodes == 4
    assert "no data" in decision.reason


def test_an_interval_without_work_is_no_data() -> None:
    strategy = Ds2()
    strategy.decide(make_snapshot(0.0, 4))
    assert "no data" in strategy.decide(make_snapshot(60.0, 4)).reason
