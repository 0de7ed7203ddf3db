"""Trigger, reconfiguration and demand points: by hand, against a naive search, and where there are none."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sweep_builders import case

from ebbflow.core.curve import Curve
from ebbflow.core.decision import Decision, LedgerEntry, Outcome
from ebbflow.core.layout import Layout
from ebbflow.core.limits import Limits
from ebbflow.core.run import Run
from ebbflow.core.slo import Slo
from ebbflow.runs.scaling_points import DemandScores, ScalingPoints, demand_scores, rises, scaling_points
from ebbflow.runs.simulation import run_simulation, strategy_for
from ebbflow.runs.stored_run import learned_capacity, read_run

PER_NODE = 100.0
"""Rows per second of a node."""


def act(time_s: float, before: int, after: int, *, got: int | None = None, entry_id: int = 0) -> LedgerEntry:
    return LedgerEntry(
        entry_id=entry_id,
        time_s=time_s,
        strategy="s",
        verdict="act",
        before=Layout.of(before),
        decision=Decision(wanted=Layout.of(after), reason="r"),
        outcome=Outcome(requested=Layout.of(after if got is None else got)),
    )


def a_run(
    load: Sequence[tuple[float, float]],
    acts: Sequence[LedgerEntry],
    working: Sequence[tuple[float, float]],
    *,
    held: Sequence[tuple[float, float]] | None = None,
    ended_s: float = 1000.0,
    freshness_s: float = 10.0,
    per_node: float = PER_NODE,
) -> Run:
    """``load``: (time, rows per second from then on)."""
    points, rows = [(0.0, 0.0)], 0.0
    for (start_s, rate), (end_s, _) in itertools.pairwise([*load, (ended_s, 0.0)]):
        rows += rate * (end_s - start_s)
        points.append((end_s, rows))
    return Run(
        strategy="s",
        pipeline="p",
        slo=Slo(freshness_s=freshness_s),
        limits=Limits(min_nodes=1, max_nodes=8),
        started_s=0.0,
        ended_s=ended_s,
        arrived=Curve.of(points),
        processed=Curve.of([]),
        nodes=Curve.of(working if held is None else held),
        nodes_working=Curve.of(working),
        decisions=acts,
        reconfigurations=len(acts),
        capacity_rows_per_s=np.arange(9) * per_node,
    )


def found(run: Run) -> list[tuple[float | None, float | None, float | None]]:
    return [(each.ready_s, each.demand_s, each.gap_s) for each in scaling_points([run])]


def test_the_scaling_events_of_the_paper_have_the_published_distances() -> None:
    # Pascal, table 5: action, TP, RP, DP, Δ = DP − RP. The load crosses the capacity of 3, 4 and 5 nodes, and falls
    # below that of 4 and 3, at the published demand points.
    table = [
        (1, 7242, 7347, 7380, 33), (1, 9399, 9492, 9540, 48), (1, 10848, 10935, 10980, 45),
        (-2, 13602, 13833, 13860, 27), (-1, 14379, 14514, 14580, 66),
    ]  # fmt: skip
    load, acts, working, nodes = [(0.0, 250.0)], [], [(0.0, 3.0)], 3
    for number, (change, trigger_s, ready_s, demand_s, _) in enumerate(table):
        acts.append(act(trigger_s, nodes, nodes + change, entry_id=number))
        nodes += change
        working.append((ready_s, nodes))
        load.append((demand_s, 100.0 * nodes - 50.0))
    run = a_run(load, acts, working, ended_s=17_280.0)
    assert found(run) == [(ready_s, demand_s, distance_s) for _, _, ready_s, demand_s, distance_s in table]
    assert DemandScores.of(scaling_points([run])) == DemandScores(
        demand_gap_s=(33 + 48 + 45 + 27 + 66) / 5, ready_before_demand=1.0, acts_without_demand=0
    )


def test_nodes_requested_when_the_load_is_there_are_late_by_reaction_and_lead_time() -> None:
    run = a_run([(0, 50), (300, 150)], [act(340, 1, 2)], [(0, 1), (352, 2)])
    assert found(run) == [(352.0, 300.0, -52.0)]
    assert demand_scores([run]).ready_before_demand == 0.0


def test_a_node_that_comes_later_is_later_by_as_much() -> None:
    """The negative control: the score follows the completion and not the decision."""
    early = a_run([(0, 50), (300, 150)], [act(200, 1, 2)], [(0, 1), (250, 2)])
    late = replace(early, nodes_working=Curve.of([(0, 1), (390, 2)]))
    (early_gap_s,), (late_gap_s,) = ([gap_s for *_, gap_s in found(run)] for run in (early, late))
    assert (early_gap_s, late_gap_s) == (50.0, -90.0)
    assert (demand_scores([early]).demand_gap_s, demand_scores([late]).demand_gap_s) == (50.0, 90.0)


def test_an_excess_that_the_slo_has_room_for_is_no_demand() -> None:
    # 50 s at 1.5 times the capacity make 25 s of work more than a node can do.
    load, acts, working = [(0, 50), (300, 150), (350, 50)], [act(200, 1, 2)], [(0, 1), (212, 2)]
    assert found(a_run(load, acts, working, freshness_s=24.0)) == [(212.0, 300.0, 88.0)]
    (tolerated,) = scaling_points([a_run(load, acts, working, freshness_s=26.0)])
    assert (tolerated.demand_s, tolerated.demanded) == (None, False)
    assert tolerated.note == "not demanded: the load stayed within the capacity of 1"


def test_demand_after_the_nodes_were_given_back_is_not_that_of_the_act() -> None:
    acts = [act(100, 1, 2), act(300, 2, 1), act(600, 1, 2)]
    run = a_run([(0, 50), (620, 150)], acts, [(0, 1), (110, 2), (300, 1), (610, 2)])
    first, back, second = scaling_points([run])
    assert (first.demand_s, first.demanded) == (None, False)
    # one node had sufficed since the second was requested for nothing
    assert (back.ready_s, back.demand_s) == (300.0, 100.0)
    assert (second.ready_s, second.demand_s) == (610.0, 620.0)
    assert demand_scores([run]) == DemandScores(
        demand_gap_s=(200 + 10) / 2, ready_before_demand=1.0, acts_without_demand=1
    )


def test_a_jump_that_is_answered_in_steps_is_one_demand_of_all_of_them() -> None:
    acts = [act(210, 1, 2), act(220, 2, 4), act(500, 4, 3), act(560, 3, 1)]
    working = [(0, 1), (222, 2), (232, 4), (503, 3), (570, 1)]
    run = a_run([(0, 50), (200, 350), (450, 80)], acts, working)
    assert found(run) == [(222, 200, -22), (232, 200, -32), (503, 450, -53), (570, 450, -120)]


def test_a_node_removed_while_it_is_needed_has_the_end_of_the_need_as_its_demand() -> None:
    early = a_run([(0, 150), (400, 50)], [act(300, 2, 1)], [(0, 2), (310, 1)])
    assert found(early) == [(310.0, 400.0, 90.0)]
    back = a_run([(0, 150), (400, 50)], [act(300, 2, 1), act(330, 1, 2)], [(0, 2), (310, 1), (342, 2)])
    removed, again = scaling_points([back])
    assert (removed.demand_s, removed.demanded) == (None, False)
    assert removed.note == "not demanded: the load stayed above the capacity of 1"
    assert again.demand_s == 0.0


def test_leaving_nodes_count_until_they_are_gone() -> None:
    run = a_run([(0, 150), (100, 50)], [act(200, 2, 1)], [(0, 2), (201, 1)], held=[(0, 2), (230, 1)])
    assert found(run) == [(230.0, 100.0, -130.0)]


def test_an_act_that_is_not_complete_has_no_reconfiguration_point() -> None:
    load, grown = [(0, 50), (300, 250)], act(310, 1, 3)
    (ended,) = scaling_points([a_run(load, [grown], [(0, 1), (322, 2)])])
    assert (ended.ready_s, ended.demand_s, ended.gap_s) == (None, 300.0, None)
    assert ended.note == "not complete when the run ended"
    taken_back, less = scaling_points([a_run(load, [grown, act(320, 3, 2)], [(0, 1), (322, 2)])])
    assert (taken_back.ready_s, taken_back.note) == (None, "taken back before it was complete")
    assert less.ready_s == 320.0
    assert demand_scores([a_run(load, [grown], [(0, 1)])]).demand_gap_s is None


def test_nodes_that_were_not_granted_are_not_waited_for() -> None:
    partly = act(310, 1, 5, got=2)
    nothing = replace(a_run([(0, 50)], [], [(0, 1)]), decisions=[act(310, 1, 5, got=1)])
    assert found(a_run([(0, 50), (300, 250)], [partly], [(0, 1), (322, 2)])) == [(322.0, 300.0, -22.0)]
    assert scaling_points([nothing]) == []


def test_an_act_that_changes_only_parallelism_has_neither_point() -> None:
    entry = LedgerEntry(
        entry_id=7, time_s=100.0, strategy="s", verdict="act", before=Layout.of(2, split=2),
        decision=Decision(wanted=Layout.of(2, split=4), reason="r"),
        outcome=Outcome(requested=Layout.of(2, split=4)),
    )  # fmt: skip
    (only,) = scaling_points([a_run([(0, 50)], [entry], [(0, 2)])])
    assert only == ScalingPoints(entry_id=7, before=2, after=2, trigger_s=100.0, note="same number of nodes")


def test_without_capacity_or_decisions_the_scores_are_unknown_and_not_zero() -> None:
    run = a_run([(0, 50), (300, 150)], [act(340, 1, 2)], [(0, 1), (352, 2)])
    (blind,) = scaling_points([replace(run, capacity_rows_per_s=None)])
    assert (blind.ready_s, blind.demand_s, blind.demanded) == (352.0, None, None)
    unknown = DemandScores(demand_gap_s=None, ready_before_demand=None, acts_without_demand=None)
    assert demand_scores([replace(run, capacity_rows_per_s=None)]) == unknown
    assert demand_scores([replace(run, decisions=[], reconfigurations=None)]) == unknown
    assert demand_scores([replace(run, decisions=[], reconfigurations=0)]).acts_without_demand == 0
    assert found(replace(run, arrived=Curve.of([]))) == [(352.0, None, None)]


def test_pipelines_on_the_same_nodes_demand_them_together() -> None:
    working = [(0, 1), (352, 2)]
    mine = a_run([(0, 60)], [act(340, 1, 2)], working)
    other = a_run([(0, 30), (300, 90)], [act(340, 1, 2)], working)
    assert [each.demand_s for each in scaling_points([mine, other])] == [300.0]
    assert [each.demanded for run in (mine, other) for each in scaling_points([run])] == [False, False]


def naive_rises(values: Sequence[float], tolerance: float) -> list[tuple[int, int]]:
    """One value at a time: the turning points of a curve with a threshold."""
    rises_found, low, high, rising = [], 0, 0, False
    for index, value in enumerate(values):
        if not rising:
            if value <= values[low]:
                low = index
            elif value - values[low] > tolerance:
                rising, high = True, index
        elif value > values[high]:
            high = index
        elif values[high] - value > tolerance:
            rises_found.append((low, high))
            rising = False
            low = high + int(np.argmin(values[high : index + 1][::-1]))
            low = index if values[index] == min(values[high : index + 1]) else low
    return [*rises_found, (low, high)] if rising else rises_found


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=60), st.integers(0, 6), st.integers(1, 40))
def test_rises_are_those_of_a_search_one_by_one(steps: list[int], tolerance: int, stretched: int) -> None:
    values = np.repeat(np.cumsum(steps).astype(np.float64), stretched)
    assert rises(values, tolerance) == naive_rises(values.tolist(), tolerance)


@given(
    st.lists(st.integers(0, 7), min_size=2, max_size=12),
    st.integers(1, 200),
    st.floats(1.0, 1e6),
    st.floats(0.0, 1e9),
)
def test_points_depend_on_load_relative_to_capacity_and_move_with_the_clock(
    levels: list[int], whole_s: int, scale: float, shift_s: float
) -> None:
    freshness_s = whole_s + 0.137  # no backlog is exactly as long
    load = [(60.0 * i, 50.0 + 100.0 * level) for i, level in enumerate(levels)]
    acts = [
        act(60.0 * i + 20.0, before + 1, after + 1, entry_id=i)
        for i, (before, after) in enumerate(itertools.pairwise(levels), start=1)
        if before != after
    ]
    working = [(0.0, levels[0] + 1.0), *((a.time_s + 15.0, a.decision.wanted.main_nodes) for a in acts)]
    run = a_run(load, acts, working, ended_s=60.0 * len(levels), freshness_s=freshness_s)
    expected = scaling_points([run])
    for each in expected:
        overloaded = each.before if each.grows else each.after
        if each.demand_s is not None:  # the load crosses the capacity there, and in the right direction
            before, after = (
                next(rate for start_s, rate in reversed(load) if start_s <= max(each.demand_s + off_s, 0.0))
                for off_s in (-1.0, 1.0)
            )
            crossed = (
                before < PER_NODE * overloaded < after
                if each.grows
                else before > PER_NODE * overloaded > after
            )
            assert crossed or each.demand_s in (0.0, *(a.time_s for a in acts))
    shifted = replace(
        a_run([(t, rate * scale) for t, rate in load], (), working, ended_s=run.ended_s, freshness_s=freshness_s),
        started_s=shift_s, ended_s=run.ended_s + shift_s,
        decisions=[msgspec.structs.replace(a, time_s=a.time_s + shift_s) for a in acts],
        nodes=Curve(run.nodes.times_s + shift_s, run.nodes.values),
        nodes_working=Curve(run.nodes.times_s + shift_s, run.nodes.values),
        arrived=Curve(run.arrived.times_s + shift_s, run.arrived.values * scale),
        capacity_rows_per_s=np.arange(9) * PER_NODE * scale,
    )  # fmt: skip
    for one, other in zip(expected, scaling_points([shifted]), strict=True):
        for mine_s, their_s in ((one.ready_s, other.ready_s), (one.demand_s, other.demand_s)):
            assert (mine_s is None) == (their_s is None)
            assert mine_s is None or math.isclose(mine_s, (their_s or 0.0) - shift_s, abs_tol=1e-3)


@pytest.mark.parametrize("engine", ["micro-batch", "continuous"])
def test_a_simulated_run_and_its_store_have_the_same_points(tmp_path: Path, engine: str) -> None:
    scenario = case("square(base=100, peak=900, period=10m)", engine=engine, seconds=1200.0).scenario
    strategy = strategy_for("capacity" if engine == "micro-batch" else "hpa", scenario)
    run = run_simulation(scenario, strategy, store=tmp_path / "run.sqlite").run
    points = scaling_points([run])
    assert any(each.grows and each.gap_s is not None for each in points)
    assert any(not each.grows and each.gap_s is not None for each in points)
    assert read_run(tmp_path / "run.sqlite").scaling_points() == points


def test_the_capacity_learned_from_batches_is_that_of_the_engine() -> None:
    scenario = case("sine(base=100, peak=900, period=10m)", seconds=1200.0, noise=0.05).scenario
    run = run_simulation(scenario, strategy_for("capacity", scenario)).run
    learned = learned_capacity(run.batches, run.nodes_working, run.limits, run.slo)
    assert learned is not None
    assert run.capacity_rows_per_s is not None
    np.testing.assert_allclose(learned[1:], run.capacity_rows_per_s[1:], rtol=0.1)
    assert learned_capacity([], run.nodes_working, run.limits, run.slo) is None
