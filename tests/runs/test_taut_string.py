"""The shortest path through a corridor, and the oracle compared with a linear program."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from ebbflow.core.curve import Curve, Floats
from ebbflow.core.limits import Limits
from ebbflow.core.slo import Slo
from ebbflow.runs.oracle import cheapest_schedule, taut_string

# The law: a path is the shortest if it bends up only where it touches the upper edge, down only at the lower one.


@st.composite
def corridors(draw: st.DrawFn) -> tuple[Floats, Floats, Floats]:
    """Times, lower and upper edge; some gates are points, the first and the last always."""
    count = draw(st.integers(2, 30))
    gaps_s = draw(st.lists(st.sampled_from([0.5, 1.0, 3.0]), min_size=count - 1, max_size=count - 1))
    middle = draw(st.lists(st.integers(-20, 20), min_size=count, max_size=count))
    width = draw(st.lists(st.sampled_from([0, 1, 5, 30]), min_size=count, max_size=count))
    width[0] = width[-1] = 0
    lower = np.array(middle, np.float64)
    return np.concatenate(([0.0], np.cumsum(gaps_s))), lower, lower + width


@given(corridor=corridors())
@settings(max_examples=80, deadline=None)
def test_it_bends_only_at_an_edge(corridor: tuple[Floats, Floats, Floats]) -> None:
    times_s, lower, upper = corridor
    knots_s, rows = taut_string(times_s, lower, upper)
    assert (knots_s[0], knots_s[-1], rows[0], rows[-1]) == (0.0, times_s[-1], lower[0], lower[-1])
    assert np.all(np.diff(knots_s) > 0)
    path = np.interp(times_s, knots_s, rows)
    assert np.all(path >= lower - 1e-9)
    assert np.all(path <= upper + 1e-9)
    for (before, after), at_s, at in zip(
        pairwise(np.diff(rows) / np.diff(knots_s)), knots_s[1:-1], rows[1:-1], strict=True
    ):
        gate = np.searchsorted(times_s, at_s)
        if after > before + 1e-9:
            assert at == upper[gate]
        elif after < before - 1e-9:
            assert at == lower[gate]


def test_a_corridor_that_allows_a_straight_line_gets_one() -> None:
    times_s = np.arange(6.0)
    knots_s, rows = taut_string(times_s, np.array([0.0, 1, 2, 3, 4, 10]), np.array([0.0, 9, 9, 9, 9, 10]))
    assert (knots_s.tolist(), rows.tolist()) == ([0.0, 5.0], [0.0, 10.0])


# The whole problem: how long each stage runs on how many nodes in each second, and who is held


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Rows that come in each second; the rates of each stage on 0, 1, 2 … nodes."""

    rows: tuple[int, ...]
    stages: tuple[tuple[float, ...], ...]
    limits: Limits
    slo: Slo
    lead_s: int

    @property
    def arrived(self) -> Floats:
        return np.concatenate(([0.0], np.cumsum(self.rows)))

    def cheapest(self, *, side_by_side: bool) -> float | None:
        """Node-seconds by the linear program; None if the SLO cannot be kept.

        In each second: τ of each stage on each size, idle on the fewest, and the nodes held. ``side_by_side``: nodes
        beside ``max_nodes`` others are as good as those after them, so that a second may hold more than one.
        """
        seconds, lead_s, fewest = len(self.rows), self.lead_s, self.limits.min_nodes
        sizes = np.arange(fewest, self.limits.max_nodes + 1, dtype=np.float64)
        count, width = len(self.stages), len(sizes)
        each = count * width + 2
        working, time = np.zeros((seconds, seconds * each)), np.zeros((seconds, seconds * each))
        held = np.zeros((seconds, seconds * each))
        through = np.zeros((count, seconds, seconds * each))
        for t in range(seconds):
            own = slice(t * each, (t + 1) * each)
            working[t, own] = [*np.tile(sizes, count), fewest, 0.0]
            time[t, own] = [*np.ones(count * width + 1), 0.0]
            held[t, own.stop - 1] = 1.0
            for i, rates in enumerate(self.stages):
                first = t * each + i * width
                through[i, t, first : first + width] = np.array(rates)[fewest:]
        done = np.cumsum(through, axis=1).reshape(count * seconds, -1)
        arrived, late = self.arrived, (1.0 - self.slo.quantile) * self.arrived[-1]
        slack_s = round(self.slo.freshness_s)
        due = [max(0.0, arrived[max(t + 1 - slack_s, 0)] - late) for t in range(seconds)]
        paid = [working[u] - held[t] for t in range(seconds) for u in range(t, min(t + lead_s + 1, seconds))]
        below = [np.array(paid), done, -done]
        most = [np.zeros(len(paid)), np.tile(arrived[1:], count), -np.tile(due, count)]
        if side_by_side:
            below, most = [*below, -time], [*most, -np.ones(seconds)]
        answer = linprog(
            held.sum(axis=0),
            A_ub=np.vstack(below),
            b_ub=np.concatenate(most),
            A_eq=None if side_by_side else time,
            b_eq=None if side_by_side else np.ones(seconds),
        )
        assert answer.status in (0, 2), answer.message
        return float(answer.fun) if answer.status == 0 else None


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    fewest = draw(st.integers(1, 2))
    most = fewest + draw(st.integers(0, 4))
    gains = st.lists(st.sampled_from([0.0, 1.0, 5.0, 10.0, 30.0]), min_size=most, max_size=most)
    return Problem(
        rows=tuple(draw(st.lists(st.sampled_from([0, 0, 1, 5, 20, 40]), min_size=3, max_size=20))),
        stages=tuple(
            tuple(np.cumsum([0.0, *gained]).tolist())
            for gained in draw(st.lists(gains, min_size=1, max_size=3))
        ),
        limits=Limits(min_nodes=fewest, max_nodes=most),
        slo=Slo(
            freshness_s=draw(st.sampled_from([1.0, 2.0, 5.0, 9.0])), quantile=draw(st.sampled_from([1.0, 0.9, 0.6]))
        ),
        lead_s=draw(st.sampled_from([0, 1, 2, 4, 11])),
    )  # fmt: skip


@given(problem=problems())
@settings(max_examples=80, deadline=None)
def test_a_linear_program_finds_the_same_cost(problem: Problem) -> None:
    oracle = cheapest_schedule(
        Curve(np.arange(len(problem.rows) + 1.0), problem.arrived),
        problem.stages,
        limits=problem.limits,
        slo=problem.slo,
        lead_time_s=float(problem.lead_s),
    )
    within_limits = problem.cheapest(side_by_side=False)
    assert oracle.feasible == (within_limits is not None)
    if within_limits is None:
        return
    assert oracle.node_seconds <= within_limits + 1e-6
    best = problem.cheapest(side_by_side=True) if len(problem.stages) > 1 else within_limits
    assert oracle.node_seconds == pytest.approx(best, rel=1e-6, abs=1e-6)
