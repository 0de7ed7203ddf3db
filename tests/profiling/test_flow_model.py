"""What rows cost on an engine without batches, learned from what was read."""

from __future__ import annotations

from typing import Any

import pytest

from ebbflow.profiling.flow import PAUSE_S, FlowInterval, FlowModel


def stretch(
    rows: float = 1000.0, *, slots: float = 2.0, cost_s: float = 0.005, **changes: Any
) -> FlowInterval:
    """10 s of a flow: 2/5 of the cost in ``a`` with 4 instances, the rest in ``b`` with 2."""
    usual: dict[str, Any] = {
        "span_s": 10.0,
        "rows": rows,
        "cpu_s": {"a": 0.4 * cost_s * rows, "b": 0.6 * cost_s * rows},
        "done": {"a": rows, "b": rows},
        "sent": {"a": rows, "b": rows},
        "instances": {"a": 4.0, "b": 2.0},
        "slots": slots,
        "changes": 0,
        "steady": True,
        "backlogged": False,
    }
    return FlowInterval(**{**usual, **changes})


def taught(*stretches: FlowInterval) -> FlowModel:
    model = FlowModel()
    for each in stretches:
        model.learn(each)
    return model


def test_without_rows_the_model_is_not_ready() -> None:
    assert not taught().ready
    assert not taught(stretch(0.0)).ready
    assert taught(stretch()).ready


def test_what_was_learned_on_two_slots_holds_on_ten() -> None:
    model = taught(*[stretch(rows) for rows in (300.0, 2000.0, 900.0)])
    assert model.nodes_per_s(2) == pytest.approx(400.0)
    assert model.nodes_per_s(10) == pytest.approx(2000.0)
    assert model.operator_per_s("a", 4) == pytest.approx(2000.0)
    assert model.operator_per_s("b", 2) == pytest.approx(2 / 0.003)


def test_idle_time_erases_nothing() -> None:
    model = taught(stretch(), *[stretch(0.0) for _ in range(50)])
    assert model.nodes_per_s(2) == pytest.approx(400.0)


def test_a_cost_that_changes_is_followed() -> None:
    model = taught(*[stretch() for _ in range(30)], *[stretch(cost_s=0.01) for _ in range(30)])
    assert model.row_cpu_s == pytest.approx(0.01, rel=0.05)


def test_slow_nodes_show_when_the_flow_is_saturated() -> None:
    slow = stretch(2000.0, backlogged=True)  # 10 s of CPU in 10 s on 2 slots: half of what they should give
    assert taught(*[slow for _ in range(10)]).slot_cpu == pytest.approx(0.5, abs=0.01)


def test_slow_nodes_are_forgotten_while_unobserved() -> None:
    model = taught(*[stretch(2000.0, backlogged=True) for _ in range(10)], *[stretch() for _ in range(300)])
    assert model.slot_cpu == pytest.approx(1.0, abs=0.05)


def test_fast_nodes_show_by_what_they_do() -> None:
    assert taught(*[stretch(8000.0) for _ in range(10)]).slot_cpu == pytest.approx(2.0, abs=0.05)


def test_queued_rows_count_with_their_future_cost() -> None:
    # The source took in 1000 rows; b was sent all of them, finished 400 and used 1.2 s for those.
    piling = stretch(cpu_s={"a": 2.0, "b": 1.2}, done={"a": 1000.0, "b": 400.0})
    assert taught(piling).row_cpu_s == pytest.approx(0.005)


def test_an_operator_with_a_queue_is_at_its_capacity() -> None:
    # Each of its 2 instances got 0.6 of a core, beside others on a crowded node.
    crowded = stretch(4000.0, slots=8.0, backlogged=True, waits_for="b")
    model = taught(*[crowded for _ in range(10)])
    assert model.operator_per_s("b", 2) == pytest.approx(400.0, rel=0.01)
    assert model.slot_cpu == 1.0


def test_where_instances_limit_the_flow_nodes_are_not_called_slow() -> None:
    # Both instances of b are at it all the time, and 8 slots are not.
    limited = stretch(10 * 2 / 0.003, slots=8.0, backlogged=True)
    assert taught(*[limited for _ in range(10)]).slot_cpu > 0.95


def test_the_stop_of_a_change_is_the_time_the_flow_did_not_use() -> None:
    # 400 rows/s on 2 slots: 800 rows in 10 s are 2 s of work, so 8 s were lost.
    stop = stretch(800.0, changes=1, steady=False)
    model = taught(stretch(), *[s for _ in range(6) for s in (stop, stretch(4000.0, backlogged=True))])
    assert model.pause_s == pytest.approx(8.0, abs=0.2)


def test_two_changes_in_a_row_are_two_stops() -> None:
    stop = stretch(800.0, changes=1, steady=False)
    model = taught(stretch(), *[s for _ in range(6) for s in (stop, stop, stretch(4000.0, backlogged=True))])
    assert model.pause_s == pytest.approx(8.0, abs=0.2)


def test_a_stop_without_a_queue_after_it_does_not_count() -> None:
    model = taught(stretch(), stretch(100.0, changes=1, steady=False), stretch(100.0))
    assert model.pause_s == PAUSE_S
