"""The hindsight optimum: examples by hand, its laws, and that no schedule that keeps the SLO is cheaper."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ebbflow.core.curve import Curve, Floats
from ebbflow.core.limits import Limits
from ebbflow.core.run import Run
from ebbflow.core.slo import Slo
from ebbflow.errors import InputError, LimitsError
from ebbflow.runs.oracle import Oracle, cheapest_schedule
from ebbflow.runs.score import score

HUNDRED_A_NODE = 100.0 * np.arange(31, dtype=np.float64)
PULSE = Curve.of([(0, 0), (100, 0), (160, 24_000), (300, 24_000)])


def the_oracle(
    arrived: Curve,
    *,
    limits: str = "1:30",
    slo: str = "freshness <= 20s",
    capacity: Floats = HUNDRED_A_NODE,
    lead_time_s: float = 0.0,
    step_s: float = 1.0,
    started_s: float | None = None,
    ended_s: float | None = None,
) -> Oracle:
    return cheapest_schedule(
        arrived,
        capacity,
        limits=Limits.parse(limits),
        slo=Slo.parse(slo),
        lead_time_s=lead_time_s,
        step_s=step_s,
        started_s=started_s,
        ended_s=ended_s,
    )


# By hand


def test_a_constant_load_is_processed_at_a_constant_rate_until_its_last_deadline() -> None:
    # 300 rows/s for 600 s; those of the last 30 s need not be done: 300·570 rows in 600 s = 285 rows/s.
    oracle = the_oracle(Curve.of([(0, 0), (600, 180_000)]), slo="freshness <= 30s", lead_time_s=60.0)
    assert oracle.node_seconds == pytest.approx(2.85 * 600)
    assert oracle.schedule.values == pytest.approx([2.85, 2.85])
    assert oracle.feasible


def test_a_pulse_is_stretched_by_the_slack_of_the_slo() -> None:
    oracle = the_oracle(PULSE)
    assert oracle.node_seconds == pytest.approx(3 * 80 + 1 * 220)
    assert oracle.schedule.stepped(np.array([50.0, 130.0, 250.0])).tolist() == [1.0, 3.0, 1.0]
    assert oracle.processed.interpolated(140.0).item() == pytest.approx(12_000)


def test_nodes_are_paid_while_they_start() -> None:
    oracle = the_oracle(PULSE, lead_time_s=30.0)
    assert oracle.node_seconds == pytest.approx(460 + 2 * 30)
    assert oracle.schedule.stepped(np.array([69.0, 71.0, 181.0])).tolist() == [1.0, 3.0, 1.0]


def test_nodes_are_kept_over_a_gap_that_is_shorter_than_their_start() -> None:
    two = Curve.of([(0, 0), (100, 0), (160, 24_000), (200, 24_000), (260, 48_000), (400, 48_000)])
    # 3 nodes in [100, 180] and [200, 280]; the 20 s between them are cheaper to hold than a start of 30 s.
    assert the_oracle(two, lead_time_s=30.0).node_seconds == pytest.approx(400 + 2 * (160 + 20 + 30))
    assert the_oracle(two, lead_time_s=5.0).node_seconds == pytest.approx(400 + 2 * (160 + 5 + 5))


def test_initial_nodes_have_no_lead_time() -> None:
    early = Curve.of([(0, 0), (10, 0), (70, 24_000), (300, 24_000)])
    assert the_oracle(early, lead_time_s=30.0).node_seconds == pytest.approx(460 + 2 * 10)


def test_no_load_costs_the_minimum_of_nodes() -> None:
    assert the_oracle(Curve.of([(0, 0), (600, 0)]), limits="2:30").node_seconds == 1200.0


def test_a_run_without_length_or_rows_costs_the_minimum_of_nodes() -> None:
    assert the_oracle(Curve.of([(5, 0)])).node_seconds == 0.0
    assert the_oracle(Curve.of([])).node_seconds == 0.0
    assert the_oracle(Curve.of([]), started_s=10.0, ended_s=20.0).node_seconds == 10.0


def test_rows_that_may_be_late_cost_nothing() -> None:
    # Half of the rows: 12,000 by 180 s, 150 rows/s from 100 s on.
    assert the_oracle(PULSE, slo="freshness p50 <= 20s").node_seconds == pytest.approx(1.5 * 80 + 220)


def test_rows_waiting_at_the_start_have_deadlines_too() -> None:
    waiting = Curve.of([(0, 0), (0, 8_000), (100, 8_000)])
    assert the_oracle(waiting).node_seconds == pytest.approx(4 * 20 + 80)


def test_time_after_the_last_arrival_counts() -> None:
    # All 24,000 rows fall due once the run is long enough to see it.
    burst = Curve.of([(0, 0), (60, 24_000)])
    assert the_oracle(burst).node_seconds == pytest.approx(160.0)
    assert the_oracle(burst, ended_s=200.0).node_seconds == pytest.approx(3 * 80 + 120)


def test_a_part_of_a_curve_counts_its_own_rows_only() -> None:
    long = Curve.of([(0, 0), (1000, 1_000_000), (1600, 1_180_000), (1700, 1_500_000)])
    part = the_oracle(long, started_s=1000.0, ended_s=1600.0, slo="freshness <= 30s")
    assert part.node_seconds == pytest.approx(2.85 * 600)


def test_sizes_that_save_no_wave_become_time_shares() -> None:
    waves = np.array([0.0, 100, 200, 200, 400])
    # 300 rows/s is half of the time 200 (2 nodes) and half 400 (4 nodes).
    assert the_oracle(PULSE, limits="1:4", capacity=waves).node_seconds == pytest.approx(3 * 80 + 220)


def test_too_much_load_is_a_best_effort_marked_infeasible() -> None:
    oracle = the_oracle(PULSE, limits="1:2")
    assert not oracle.feasible
    assert oracle.node_seconds == pytest.approx(2 * 120 + 180)
    assert the_oracle(PULSE, limits="1:3").feasible


def test_without_capacity_the_minimum_of_nodes_is_the_best_effort() -> None:
    oracle = the_oracle(PULSE, limits="1:3", capacity=np.zeros(4))
    assert (oracle.feasible, oracle.node_seconds) == (False, 300.0)


def test_wrong_input_is_explained() -> None:
    with pytest.raises(LimitsError, match="pass 6 values, for 0 to 5 nodes"):
        the_oracle(PULSE, limits="1:5", capacity=np.array([0.0, 100.0]))
    with pytest.raises(InputError, match="must not decrease with more nodes"):
        the_oracle(PULSE, limits="1:2", capacity=np.array([0.0, 200.0, 100.0]))
    with pytest.raises(InputError, match="above 0 s"):
        the_oracle(PULSE, step_s=0.0)
    with pytest.raises(InputError, match="0 s or more"):
        the_oracle(PULSE, lead_time_s=-1.0)


# Laws


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Rows per step of a second; capacity by nodes."""

    rows: tuple[int, ...]
    capacity: tuple[float, ...]
    slo: Slo
    lead_steps: int

    @property
    def limits(self) -> Limits:
        return Limits(min_nodes=1, max_nodes=len(self.capacity) - 1)

    @property
    def arrived(self) -> Curve:
        return Curve(np.arange(len(self.rows) + 1.0), np.concatenate(([0.0], np.cumsum(self.rows))))

    def oracle(
        self, *, scale: float = 1.0, extra_s: float = 0.0, lead_s: float = 0.0, step_s: float = 1.0
    ) -> Oracle:
        return cheapest_schedule(
            Curve(self.arrived.times_s, scale * self.arrived.values),
            self.capacity,
            limits=self.limits,
            slo=Slo(freshness_s=self.slo.freshness_s + extra_s, quantile=self.slo.quantile),
            lead_time_s=self.lead_steps + lead_s,
            step_s=step_s,
        )


@st.composite
def scenarios(
    draw: st.DrawFn,
    *,
    most_steps: int = 24,
    most_nodes: int = 5,
    quantiles: tuple[float, ...] = (1.0, 0.9, 0.6),
    concave: bool = False,
) -> Scenario:
    rows = draw(st.lists(st.sampled_from([0, 0, 1, 3, 7, 12, 20]), min_size=2, max_size=most_steps))
    gains = draw(st.lists(st.integers(1 if concave else 0, 8), min_size=1, max_size=most_nodes))
    gains = sorted(gains, reverse=True) if concave else gains
    return Scenario(
        rows=tuple(rows),
        capacity=(0.0, *np.cumsum(gains, dtype=float).tolist()),
        slo=Slo(
            freshness_s=draw(st.sampled_from([1.0, 2.0, 3.0, 5.0])), quantile=draw(st.sampled_from(quantiles))
        ),
        lead_steps=draw(st.integers(0, 4)),
    )


@given(scenario=scenarios(), extra_s=st.floats(0.0, 4.0), lead_s=st.floats(0.0, 4.0))
@settings(max_examples=60, deadline=None)
def test_bounds_and_monotonicity(scenario: Scenario, extra_s: float, lead_s: float) -> None:
    oracle, duration_s = scenario.oracle(), len(scenario.rows)
    eps = 1e-6
    assert scenario.limits.min_nodes * duration_s - eps <= oracle.node_seconds
    assert oracle.node_seconds <= scenario.limits.max_nodes * duration_s + eps
    assert oracle.node_seconds == pytest.approx(oracle.schedule.integral(0.0, duration_s))
    assert scenario.oracle(extra_s=extra_s).node_seconds <= oracle.node_seconds + eps
    assert scenario.oracle(lead_s=lead_s).node_seconds >= oracle.node_seconds - eps
    assert scenario.oracle(step_s=3.0).node_seconds <= oracle.node_seconds + eps or not oracle.feasible


@given(scenario=scenarios(), scale=st.floats(1.0, 3.0))
@settings(max_examples=100, deadline=None)
def test_more_load_never_costs_less(scenario: Scenario, scale: float) -> None:
    more = scenario.oracle(scale=scale)
    assume(more.feasible)
    assert more.node_seconds >= scenario.oracle().node_seconds - 1e-6


@given(scenario=scenarios(quantiles=(1.0, 0.9)))
@settings(max_examples=100, deadline=None)
def test_processed_rows_stay_within_the_corridor(scenario: Scenario) -> None:
    oracle = scenario.oracle()
    assume(oracle.feasible)
    times_s = np.arange(len(scenario.rows) + 1.0)
    done, arrived = oracle.processed.interpolated(times_s), scenario.arrived
    late = (1.0 - scenario.slo.quantile) * arrived.values[-1]
    assert np.all(done <= arrived.interpolated(times_s) + 1e-9)
    assert np.all(done >= arrived.interpolated(times_s - scenario.slo.freshness_s) - late - 1e-9)
    assert np.all(np.diff(done) <= scenario.capacity[-1] + 1e-9)


# Nothing that keeps the SLO is cheaper

SLICES = 8
"""Commits per step of the simulated runs: nearly continuous."""


def simulated(scenario: Scenario, held: tuple[int, ...]) -> Run:
    """First come, first served at the capacity of the nodes that have been held for the lead time."""
    done, processed = 0.0, [(0.0, 0.0)]
    for step in range(len(held)):
        working = min(held[max(step - scenario.lead_steps, 0) : step + 1])
        for part in range(1, SLICES + 1):
            now_s = step + part / SLICES
            there = float(scenario.arrived.interpolated(now_s))
            done = min(done + scenario.capacity[working] / SLICES, there)
            processed.append((now_s, done))
    return Run(
        strategy="random",
        pipeline="fluid",
        slo=scenario.slo,
        limits=scenario.limits,
        started_s=0.0,
        ended_s=float(len(held)),
        arrived=scenario.arrived,
        processed=Curve.of(processed),
        nodes=Curve.of([(float(step), float(nodes)) for step, nodes in enumerate(held)]),
        nodes_working=Curve.of([(0.0, 1.0)]),
    )


@given(data=st.data(), scenario=scenarios(most_steps=16, most_nodes=4))
@settings(max_examples=80, deadline=None)
def test_no_schedule_that_keeps_the_slo_costs_less(data: st.DataObject, scenario: Scenario) -> None:
    steps, most = len(scenario.rows), scenario.limits.max_nodes
    oracle = scenario.oracle()
    schedule = list(data.draw(st.lists(st.integers(1, most), min_size=steps, max_size=steps), label="held"))
    # Then shed nodes while the SLO is kept, to come as near to the bound as one step at a time leads.
    for step in (*range(steps), None):
        run = simulated(scenario, tuple(schedule))
        scores = score(run, oracle_node_seconds=oracle.node_seconds)
        kept = (scores.violation or 0.0) <= 1.0 - scenario.slo.quantile + 1e-9
        if kept:
            assert oracle.feasible
            assert scores.node_seconds >= oracle.node_seconds - 1e-6
        if step is not None:
            schedule[step] = max(schedule[step] - 1, 1) if kept else min(schedule[step] + 1, most)


def keeps_every_row_in_time(scenario: Scenario, held: tuple[int, ...]) -> bool:
    """In the fluid model, exactly: both curves are lines within a step, so its ends decide."""
    done, total = 0.0, scenario.arrived.values
    slack = round(scenario.slo.freshness_s)
    for step in range(len(held)):
        working = min(held[max(step - scenario.lead_steps, 0) : step + 1])
        done = min(done + scenario.capacity[working], total[step + 1])
        if done < total[max(step + 1 - slack, 0)] - 1e-9:
            return False
    return True


@given(scenario=scenarios(most_steps=6, most_nodes=3, quantiles=(1.0,), concave=True))
@settings(max_examples=80, deadline=None)
def test_the_best_integer_schedule_is_within_rounding_of_the_bound(scenario: Scenario) -> None:
    oracle, steps = scenario.oracle(), len(scenario.rows)
    sizes = range(1, scenario.limits.max_nodes + 1)
    in_time = (
        held for held in itertools.product(sizes, repeat=steps) if keeps_every_row_in_time(scenario, held)
    )
    best = min((sum(held) for held in in_time), default=None)
    if best is None:
        assert not oracle.feasible
        return
    rounded_up = np.ceil(oracle.schedule.stepped(np.arange(0.5, steps, dtype=np.float64)) - 1e-9)
    assert oracle.feasible
    assert oracle.node_seconds - 1e-6 <= best <= rounded_up.sum() + 1e-6


def test_a_day_in_steps_of_a_second_is_fast() -> None:
    seconds = np.arange(86_401.0)
    rate = 1200.0 * (1.0 + 0.8 * np.sin(seconds[1:] / 86_400.0 * 2.0 * np.pi))
    arrived = Curve(seconds, np.concatenate(([0.0], np.cumsum(rate))))
    began_s = time.perf_counter()
    oracle = the_oracle(arrived, slo="freshness p95 <= 30s", lead_time_s=60.0)
    assert time.perf_counter() - began_s < 3.0  # 0.2 s on an idle machine
    assert 0.9 * arrived.values[-1] / 100.0 < oracle.node_seconds < arrived.values[-1] / 100.0
