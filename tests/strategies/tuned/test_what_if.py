"""What thresholds would have cost, worked out by hand."""

from __future__ import annotations

import pytest

from ebbflow.core.limits import Limits
from ebbflow.strategies.baselines.thresholds import Thresholds
from ebbflow.strategies.tuned.what_if import Costs, RecentLoad, Tuning, WhatIf

NEVER = Tuning(
    thresholds=Thresholds(
        upper=2.0, below_upper=2.0, lower=0.0, above_lower=0.0, upper_s=0.0, lower_s=0.0, grace_s=0.0
    ),
    target=0.5,
)
OUT = Tuning(
    thresholds=Thresholds(
        upper=0.5, below_upper=0.5, lower=0.0, above_lower=0.0, upper_s=0.0, lower_s=0.0, grace_s=0.0
    ),
    target=0.5,
)


def what_if(*rates: float, nodes: int, lead_time_s: float = 20.0) -> WhatIf:
    """Rates of 10 s each. A row takes 0.1 s on a slot, batches start every 10 s, and the limit is 0.8 · 25 s."""
    arrived = [0.0]
    for rate in rates:
        arrived.append(arrived[-1] + 10.0 * rate)
    return WhatIf(
        load=RecentLoad(step_s=10.0, arrived=tuple(arrived), nodes=nodes),
        costs=Costs.of_flow(0.1, 10.0),
        limits=Limits(min_nodes=1, max_nodes=8),
        slots_per_node=1,
        lead_time_s=lead_time_s,
        freshness_s=25.0,
        late_price=10.0,
    )


def test_a_size_that_suffices_costs_its_nodes() -> None:
    assert what_if(*[8.0] * 30, nodes=2).cost(NEVER) == 2.0


def test_late_rows_cost_their_price() -> None:
    # At 20 rows/s on one node, which holds 10: batches start at 10, 30 and 70 s and take 20, 40 and 80 s.
    # The first has the rows of 0 to 10 s and ends at 30 s: those before 30 − 20 = 10 s are late, all 200.
    # The others take longer than 20 s: all late. 1 node + 10 · 8 nodes · 1.
    assert what_if(*[20.0] * 10, nodes=1).cost(NEVER) == pytest.approx(1.0 + 10.0 * 8.0)


def test_only_the_rows_beyond_the_limit_are_late() -> None:
    # 15 rows/s on one node: the batch at 10 s has 150 rows, takes 15 s and ends at 25 s. Those of the first 25 − 20 =
    # 5 s are late: 75 of 150. The load ends at 20 s, before the next batch.
    assert what_if(15.0, 15.0, nodes=1).cost(NEVER) == pytest.approx(1.0 + 10.0 * 8.0 * 0.5)


def test_nodes_are_paid_for_when_requested_and_work_after_the_lead_time() -> None:
    # 8 rows/s on one node: the batch at 10 s takes 8 s, 80 % busy: at 20 s ceil(1 · 0.8 / 0.5) = 2.
    # The one at 20 s still runs on one node, so that 2 · 0.8 / 0.5 = 4 are requested at 30 s, due at 50 s.
    # The one at 30 s, on one node still, requests 4 · 1.6 = 7 at 40 s; then 8, the maximum, from 50 s on.
    # (1 + 1 + 2 + 4 + 7 + 8 + 8 + …) over 10 intervals
    assert what_if(*[8.0] * 10, nodes=1, lead_time_s=1000.0).cost(OUT) == pytest.approx(
        (1 + 1 + 2 + 4 + 7 + 5 * 8) / 10
    )
    # With two nodes from the second batch on, half as long each: 40 % busy, and nothing more is wanted.
    assert what_if(*[8.0] * 10, nodes=1, lead_time_s=0.0).cost(OUT) == pytest.approx((1 + 1 + 8 * 2) / 10)
