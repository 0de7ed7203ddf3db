"""The cost of a rate equals a linear program over all shares of time of every stage and size."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from ebbflow.core.limits import Limits
from ebbflow.runs.oracle import price_of_rate


@st.composite
def stages(draw: st.DrawFn, sizes: int) -> list[list[float]]:
    """Rates that rise or stand still, from 0 nodes on: also such as are not concave."""
    steps = st.lists(st.sampled_from([0.0, 1.0, 10.0, 37.0, 100.0]), min_size=sizes, max_size=sizes)
    lines = draw(st.lists(steps, min_size=1, max_size=3))
    return [np.cumsum([0.0, *line]).tolist() for line in lines]


def fewest_nodes(
    stages: list[list[float]], limits: Limits, rate: float, *, side_by_side: bool = False
) -> float | None:
    """The program itself; None if no shares of time keep the rate up. ``side_by_side``: nodes beside ``max_nodes``
    others are as good as those after them, so that shares may come to more than all of the time."""
    sizes = np.arange(limits.min_nodes, limits.max_nodes + 1)
    count, width = len(stages), len(sizes)
    costs = np.append(np.tile(sizes, count), limits.min_nodes)
    through = np.zeros((count, count * width + 1))
    for i, line in enumerate(stages):
        through[i, i * width : (i + 1) * width] = np.array(line)[sizes]
    time = np.ones((1, len(costs)))
    if side_by_side:
        answer = linprog(costs, A_ub=-np.vstack((through, time)), b_ub=np.append(np.full(count, -rate), -1.0))
    else:
        answer = linprog(costs, A_ub=-through, b_ub=np.full(count, -rate), A_eq=time, b_eq=[1.0])
    return float(answer.fun) if answer.status == 0 else None


@settings(max_examples=150, deadline=None)
@given(data=st.data(), fewest=st.integers(1, 3), more=st.integers(0, 5), share=st.floats(0.0, 1.0))
def test_it_equals_the_optimum_over_all_shares_of_time(data, fewest: int, more: int, share: float) -> None:
    limits = Limits(min_nodes=fewest, max_nodes=fewest + more)
    lines = data.draw(stages(limits.max_nodes))
    nodes, rates = price_of_rate(lines, limits)
    assert np.all(np.diff(rates) > 0)
    assert np.all(np.diff(nodes) >= 0)
    rate = share * float(rates[-1])
    cheapest = fewest_nodes(lines, limits, rate, side_by_side=len(lines) > 1)
    assert cheapest is not None
    assert np.interp(rate, rates, nodes) == pytest.approx(cheapest, rel=1e-6, abs=1e-6)
    assert fewest_nodes(lines, limits, 1.001 * float(rates[-1]) + 0.001) is None, (
        "no layout within the limits is faster"
    )


def test_the_stage_with_the_largest_gain_per_node_moves_first_and_time_has_no_price() -> None:
    # By hand: stage 0 moves to four nodes at μ = −3/2, stage 1 to three at −1; it would move to four at 3.
    nodes, rates = price_of_rate([[0, 10, 20, 60, 100], [0, 10, 30, 60, 70]], Limits.parse("2:4"))
    sizes = [(2, 2), (4, 2), (4, 3)]
    speed = [{2: 20, 4: 100}, {2: 30, 3: 60, 4: 70}]
    row_s = [1 / speed[0][a] + 1 / speed[1][b] for a, b in sizes]
    row_node_s = [a / speed[0][a] + b / speed[1][b] for a, b in sizes]
    highest = 1 / (1 / 100 + 1 / 70)
    assert rates.tolist() == pytest.approx([*(1 / seconds for seconds in row_s), highest])
    assert nodes.tolist() == pytest.approx(
        [*(n / seconds for n, seconds in zip(row_node_s, row_s, strict=True)), highest * row_node_s[-1]]
    )
    slopes = np.diff(nodes) / np.diff(rates)
    assert np.all(np.diff(slopes) > -1e-12), "an unsteady rate is never cheaper than a steady one"


def test_a_single_stage_moves_at_any_price_of_time() -> None:
    nodes, rates = price_of_rate([0, 100, 150, 160], Limits.parse("1:3"))
    assert (nodes.tolist(), rates.tolist()) == ([1.0, 2.0, 3.0], [100.0, 150.0, 160.0])
