"""What each number of nodes would bring to queries that run in batches."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_batches import TrueStage, made_batch

from ebbflow.core.layout import Layout
from ebbflow.core.limits import Limits
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.readings import Windows
from ebbflow.core.slo import Slo
from ebbflow.core.snapshot import ActionKind, ActionUnderWay, Snapshot
from ebbflow.profiling.batch.model import BatchModel
from ebbflow.profiling.batch.outlook import QueryState
from ebbflow.strategies.capacity.sizing import NEARLY, BatchSizing

MAP = TrueStage(tasks=12, per_task_s=0.05, per_row_s=0.01)


def model_of(*stages: TrueStage) -> BatchModel:
    model = BatchModel()
    for rows in (100, 500, 2000, 1000, 3000):
        model.learn(made_batch(rows, stages, driver_s=0.3))
    return model


def state(rate_per_s: float = 100.0, **changes: Any) -> QueryState:
    usual: dict[str, Any] = {
        "now_s": 100.0,
        "offsets_taken_s": 95.0,
        "free_at_s": 99.0,
        "trigger_interval_s": 5.0,
        "backlog_rows": 0.0,
        "rows_per_batch_limit": math.inf,
        "rate_per_s": rate_per_s,
    }
    return QueryState(**{**usual, **changes})


def snapshot(nodes: int = 1, **changes: Any) -> Snapshot:
    usual: dict[str, Any] = {
        "now_s": 100.0,
        "pipeline": Pipeline.chain("p", "a"),
        "planned": Layout.of(nodes),
        "requested": Layout.of(nodes),
        "observed": Layout.of(nodes),
        "windows": Windows(),
        "batches": (),
        "under_way": (),
        "limits": Limits(min_nodes=1, max_nodes=20),
        "slo": Slo(freshness_s=30.0),
        "slots_per_node": 1,
        "lead_time_s": 12.0,
        "data_age_s": 0.0,
    }
    return Snapshot(**{**usual, **changes})


def sizing(
    *states: QueryState, stage: TrueStage = MAP, nodes: int = 1, budget: float = 0.4, **changes: Any
) -> BatchSizing:
    names = [f"q{i}" for i in range(len(states))]
    return BatchSizing(
        {name: model_of(stage) for name in names},
        dict(zip(names, states, strict=True)),
        snapshot(nodes, **changes),
        budget=budget,
        busy_limit=0.8,
    )


def test_only_sizes_that_save_a_wave_are_considered() -> None:
    assert sizing(state()).sizes() == [1, 2, 3, 4, 6, 12]
    assert sizing(state(), slots_per_node=4).sizes() == [1, 2, 3]
    assert sizing(state(), limits=Limits(min_nodes=2, max_nodes=5)).sizes() == [2, 3, 4]


def test_if_the_minimum_is_more_than_useful_it_is_the_only_size() -> None:
    assert sizing(state(), limits=Limits(min_nodes=15, max_nodes=20)).sizes() == [15]


def test_for_two_queries_sizes_in_between_count_too() -> None:
    assert sizing(state(), state()).sizes() == list(range(1, 21))


def test_busy_is_the_load_of_the_longest_batch_that_the_budget_allows() -> None:
    # The budget is 5 + 0.4 · 25 = 15 s: one batch of 7.5 s to wait for and one to be in. On 4 nodes it takes
    # 0.3 s in the driver and 3 waves of 0.05 s and 750/12 rows of 10 ms each.
    assert sizing(state()).predict(4).busy == pytest.approx((0.3 + 3 * (0.05 + 0.01 * 750 / 12)) / 7.5)
    # A trigger that is longer than half the budget is the shortest batch there is.
    slow = sizing(state(trigger_interval_s=20.0)).predict(4)
    assert slow.busy == pytest.approx((0.3 + 3 * (0.05 + 0.01 * 2000 / 12)) / 20.0)


def test_a_short_trigger_does_not_raise_busy_if_the_objective_allows_long_batches() -> None:
    shuffle = replace(MAP, tasks=200, per_task_s=0.02)  # 4 task seconds a batch, however small
    often = sizing(state(trigger_interval_s=1.0), stage=shuffle).predict(4)
    seldom = sizing(state(trigger_interval_s=5.0), stage=shuffle).predict(4)
    assert often.busy == pytest.approx(seldom.busy, rel=0.1)


def test_two_queries_are_busy_together_and_slow_each_other_down() -> None:
    one, both = sizing(state(), nodes=4).predict(4), sizing(state(), state(), nodes=4).predict(4)
    assert both.busy > one.busy
    assert both.freshness_s > one.freshness_s


def test_the_budget_is_the_wait_for_the_trigger_and_a_share_of_what_it_leaves() -> None:
    assert sizing(state()).budget_s == pytest.approx(5 + 0.4 * 25)
    assert sizing(state(trigger_interval_s=0.0)).budget_s == pytest.approx(12.0)
    assert sizing(state(trigger_interval_s=60.0)).budget_s == pytest.approx(30.0)


def test_the_smallest_size_that_fits_is_found() -> None:
    there = sizing(state(300.0), nodes=12)
    fitting = [n for n in there.sizes() if there.fits(there.predict(n))]
    assert there.smallest().nodes == fitting[0]


@settings(max_examples=40, deadline=None)
@given(rate=st.floats(1, 2000), nodes=st.integers(1, 20), queries=st.integers(1, 2))
def test_skipping_the_simulation_of_busy_sizes_does_not_change_what_fits(
    rate: float, nodes: int, queries: int
) -> None:
    there = sizing(*[state(rate)] * queries, nodes=nodes)
    for n in range(1, 21):
        kept = there.is_enough(n)
        assert there.busy(n) == there.predict(n).busy
        assert kept == there.fits(there.predict(n))


def test_if_none_fits_it_is_the_smallest_that_does_nearly_as_well_as_the_largest() -> None:
    there = sizing(state(20.0, trigger_interval_s=30.0), nodes=12)
    best = there.predict(12)
    chosen = there.smallest()
    assert not there.fits(chosen)
    assert chosen.nodes < 12
    assert chosen.freshness_s <= NEARLY * best.freshness_s


def test_a_size_beyond_the_objective_is_not_nearly_as_good_as_one_within_it() -> None:
    """Between the budget and the objective, 15 % of freshness may go for nodes, but not the objective."""
    for rate in range(20, 700, 20):
        there = sizing(state(float(rate)), nodes=12)
        best, chosen = there.predict(12), there.smallest()
        if best.final_s <= 30.0:
            assert chosen.final_s <= 30.0, rate
        else:
            spared = 12 / chosen.nodes - 1
            assert chosen.final_s <= (1.03 + 0.2 * spared) * best.final_s, rate


def test_a_backlog_beyond_the_budget_gets_more_nodes_than_keeping_up_needs() -> None:
    late = state(300.0, offsets_taken_s=0.0, free_at_s=99.0, now_s=100.0)  # 100 s of rows are waiting
    there = sizing(late, nodes=12)
    chosen = there.smallest()
    assert not there.fits(chosen)
    assert chosen.final_s <= max(there.budget_s, NEARLY * there.predict(12).final_s)


def test_nodes_requested_earlier_are_expected_earlier() -> None:
    late = state(300.0, offsets_taken_s=40.0, free_at_s=99.0)  # 59 s of rows are waiting
    grow = ActionUnderWay(kind=ActionKind.GROW, since_s=90.0, nodes=11)
    asked = sizing(late, requested=Layout.of(12), under_way=(grow,))
    unasked = sizing(late)
    assert asked.predict(12).freshness_s < unasked.predict(12).freshness_s


@settings(max_examples=60, deadline=None)
@given(
    rate_per_s=st.floats(1, 400),
    tasks=st.integers(1, 40),
    nodes=st.integers(1, 12),
    interval_s=st.sampled_from([0.0, 1.0, 5.0]),
)
def test_more_nodes_are_never_busier_nor_less_fresh_if_fewer_keep_up(
    rate_per_s: float, tasks: int, nodes: int, interval_s: float
) -> None:
    stage = replace(MAP, tasks=tasks)
    there = sizing(state(rate_per_s, trigger_interval_s=interval_s), stage=stage, nodes=nodes)
    sizes = [there.predict(n) for n in range(1, 21)]
    for fewer, more in itertools.pairwise(sizes):
        assert more.busy <= fewer.busy + 1e-9
        if fewer.busy <= 0.8:
            assert more.freshness_s <= fewer.freshness_s + interval_s + 1e-6
