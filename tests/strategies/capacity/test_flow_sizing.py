"""What each number of nodes would bring to a flow."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbflow.core.layout import Layout
from ebbflow.core.limits import Limits
from ebbflow.core.pipeline import Operator, Pipeline
from ebbflow.core.readings import Windows
from ebbflow.core.slo import Slo
from ebbflow.core.snapshot import ActionKind, ActionUnderWay, Snapshot
from ebbflow.profiling.flow import FlowInterval, FlowModel, FlowState
from ebbflow.strategies.capacity.sizing import FlowSizing

PIPELINE = Pipeline.chain("p", "split", Operator(name="rank", stateful=True))


def model() -> FlowModel:
    """A node does 100 rows/s; an instance of split 125, one of rank 500."""
    made = FlowModel()
    made.learn(
        FlowInterval(
            span_s=10.0, rows=100.0, cpu_s={"split": 0.8, "rank": 0.2},
            done={"split": 100.0, "rank": 100.0}, sent={"split": 100.0, "rank": 100.0},
            instances={"split": 16, "rank": 1},
            slots=4.0, changes=0, steady=True, backlogged=False,
        )
    )  # fmt: skip
    return made


def sizing(
    rate_per_s: float = 250.0, *, nodes: int = 4, split: int = 16, waiting_s: float = 0.0, slope: float = 0.0,
    budget: float = 0.4, **changes: Any,
) -> FlowSizing:  # fmt: skip
    layout = Layout.of(nodes, split=split, rank=1)
    usual: dict[str, Any] = {
        "now_s": 100.0,
        "pipeline": PIPELINE,
        "planned": layout,
        "requested": layout,
        "observed": layout,
        "windows": Windows(),
        "batches": (),
        "under_way": (),
        "limits": Limits(min_nodes=1, max_nodes=20),
        "slo": Slo(freshness_s=30.0),
        "slots_per_node": 1,
        "lead_time_s": 12.0,
        "data_age_s": 0.0,
    }
    state = FlowState(
        now_s=100.0, queue_rows=waiting_s * rate_per_s, freshness_s=waiting_s, rate_per_s=rate_per_s,
        slope_per_s2=slope, slope_for_s=30.0,
    )  # fmt: skip
    snapshot = Snapshot(**{**usual, **changes})
    return FlowSizing(model(), state, {"split": split, "rank": 1}, snapshot, budget=budget, busy_limit=0.95)


def test_the_smallest_size_processes_what_arrives() -> None:
    assert sizing(250.0).smallest().nodes == 3
    assert sizing(280.0).smallest().nodes == 3
    assert sizing(290.0).smallest().nodes == 4


def test_a_rising_rate_is_sized_for_its_future_value() -> None:
    assert sizing(250.0, slope=5.0).smallest().nodes == 5  # 400 rows/s in half a minute


def test_the_budget_is_the_stop_of_a_change_and_a_share_of_what_it_leaves() -> None:
    there = sizing()
    assert there.budget_s == pytest.approx(6.5 + 0.4 * 23.5)
    assert there.predict(4).reserve_s == pytest.approx(6.5)
    assert there.predict(3).freshness_s >= 6.5  # leaving stops the flow now
    assert there.predict(3).reserve_s == 0.0


def test_waiting_rows_keep_nodes() -> None:
    assert sizing(250.0, waiting_s=12.0).smallest().nodes > sizing(250.0).smallest().nodes


def test_a_backlog_that_no_size_can_clear_in_time_gets_a_size_that_ends_within_the_budget() -> None:
    there = sizing(250.0, nodes=3, waiting_s=120.0)
    chosen = there.smallest()
    assert not there.fits(chosen)
    assert chosen.nodes == 5  # three keep up, and more than five have no use
    assert chosen.final_s <= max(there.budget_s, 1.15 * there.predict(there.sizes()[-1]).final_s)


def test_nodes_beyond_what_instances_can_use_are_not_considered() -> None:
    there = sizing(600.0)  # one instance of rank takes in 500 rows/s: five nodes
    assert there.sizes() == [1, 2, 3, 4, 5]
    assert there.limit == ("rank", pytest.approx(500.0))
    assert there.raised == {}


def test_an_operator_that_can_be_split_gets_half_as_many_instances_again_as_it_needs() -> None:
    there = sizing(250.0, split=2)  # two instances take in 250 rows/s, and 250 / 0.95 are wanted
    assert there.raised == {"split": 4}
    assert there.layout(4).parallelism == {"split": 4, "rank": 1}


def test_instances_that_are_enough_stay_as_they_are() -> None:
    there = sizing(250.0, split=3)
    assert there.raised == {}
    assert there.layout(4) == there.snapshot.planned


def grown(asked_s: float, nodes: int) -> dict[str, Any]:
    return {
        "requested": Layout.of(nodes, split=16, rank=1),
        "planned": Layout.of(nodes, split=16, rank=1),
        "under_way": (ActionUnderWay(kind=ActionKind.GROW, since_s=asked_s, nodes=nodes - 2),),
    }


def test_while_enough_nodes_are_under_way_no_more_are_requested() -> None:
    """They would all be put to work together, so asking for more would put off those that nearly are there."""
    assert sizing(290.0, nodes=2, slope=1.0, **grown(90.0, 3)).smallest().nodes == 3
    assert sizing(310.0, nodes=2, slope=1.0, **grown(90.0, 3)).smallest().nodes > 3


def test_a_stop_under_way_is_part_of_the_prediction() -> None:
    stop = ActionUnderWay(kind=ActionKind.RESTART, since_s=99.0)
    still, going = sizing(250.0, nodes=3, under_way=(stop,)), sizing(250.0, nodes=3)
    assert still.predict(2).freshness_s > going.predict(2).freshness_s


@settings(max_examples=60, deadline=None)
@given(rate=st.floats(10, 490), nodes=st.integers(1, 20), waiting_s=st.floats(0, 60), slope=st.floats(0, 5))
def test_more_nodes_are_never_busier_and_never_end_up_later(
    rate: float, nodes: int, waiting_s: float, slope: float
) -> None:
    there = sizing(rate, nodes=nodes, waiting_s=waiting_s, slope=slope)
    for fewer, more in itertools.pairwise([there.predict(n) for n in range(1, 21)]):
        assert more.busy <= fewer.busy + 1e-9
        if more.nodes < nodes or fewer.nodes > nodes:  # to stay costs no stop, to leave or to come does
            assert more.final_s <= fewer.final_s + 1e-6


@settings(max_examples=60, deadline=None)
@given(rate=st.floats(10, 450), nodes=st.integers(1, 20), waiting_s=st.floats(0, 60))
def test_whatever_is_chosen_is_within_the_limits_and_keeps_up(
    rate: float, nodes: int, waiting_s: float
) -> None:
    there = sizing(rate, nodes=nodes, waiting_s=waiting_s)
    chosen = there.smallest()
    assert 1 <= chosen.nodes <= 20
    assert there.capacity_per_s(chosen.nodes) >= rate


@settings(max_examples=40, deadline=None)
@given(rate=st.floats(10, 600), nodes=st.integers(1, 20), waiting_s=st.floats(0, 60), slope=st.floats(0, 5))
def test_skipping_the_simulation_of_a_busy_flow_does_not_change_what_fits(
    rate: float, nodes: int, waiting_s: float, slope: float
) -> None:
    there = sizing(rate, nodes=nodes, waiting_s=waiting_s, slope=slope)
    for n in range(1, 21):
        kept = there.is_enough(n)
        assert there.busy(n) == there.predict(n).busy
        assert kept == there.fits(there.predict(n))
