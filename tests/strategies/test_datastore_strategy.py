"""Algorithm 2 and ours: nodes are complete when they are needed, one change at a time, within α and N."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from ebbflow.core.decision import Decision
from ebbflow.core.layout import Layout
from ebbflow.core.limits import Limits
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.readings import Reading, Windows
from ebbflow.core.run import Run
from ebbflow.core.slo import Slo
from ebbflow.core.snapshot import ActionKind, ActionUnderWay, Snapshot
from ebbflow.errors import InputError
from ebbflow.forecasting import LEVELS, Forecast, Forecaster, make_forecaster
from ebbflow.profiling.datastore.profile import paper_profile
from ebbflow.runs.scaling_points import ScalingPoints, scaling_points
from ebbflow.runs.simulation import run_simulation
from ebbflow.strategies import make_strategy
from ebbflow.strategies.datastore import Datastore, DatastoreCosts
from ebbflow.targets.simulator import DataNodes, Scenario
from ebbflow.targets.simulator import Datastore as Engine
from ebbflow.testing import check_strategy
from ebbflow.workloads import Load, parse_load

PROFILE = paper_profile()
"""X_B is 64,733, 74,108, 82,625 and 91,984 requests/s for 3 to 6 nodes; T_add 155 s, T_rem 160 s."""
LIMITS = Limits(min_nodes=1, max_nodes=6)


class Line(Forecaster):
    """Continues the line through the last two steps, with certainty."""

    name = "line"

    def __init__(self, step_s: float) -> None:
        self._step_s = step_s
        self._steps: list[tuple[float, float]] = []

    def learn(self, time_s: float, value: float) -> None:
        self._steps = [*self._steps[-1:], (time_s, value)]

    def forecast(self, steps: int, levels: Sequence[float] = LEVELS) -> Forecast:
        (_, before), (end_s, last) = self._steps
        ahead = last + (last - before) * np.arange(1, steps + 1)
        values = np.tile(np.maximum(ahead, 0.0), (len(levels), 1))
        return Forecast(
            start_s=end_s, step_s=self._step_s, levels=tuple(levels), values=values, basis="a line"
        )


@pytest.fixture
def certain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forecasts continue the line."""

    def make(name: str, step_s: float, seed: int = 0) -> Forecaster:
        return make_forecaster(name, step_s, seed) if name == "last-value" else Line(step_s)

    monkeypatch.setattr("ebbflow.strategies.datastore.ahead.make_forecaster", make)


class Ramp:
    """A load that rises or falls in a straight line, read every 10 s, and a forecaster that continues the line."""

    def __init__(self, strategy: Datastore, *, now_per_s: float, slope_per_s: float, nodes: int) -> None:
        self.strategy, self.windows, self.nodes = strategy, Windows(span_s=3600.0), nodes
        self.now_s = 3000.0
        for k in range(301):
            time_s = 10.0 * k
            rate = now_per_s + slope_per_s * (time_s - self.now_s)
            self.windows.add([Reading(time_s, PROFILE.cluster, Metric.ARRIVAL_RATE, rate)])

    def snapshot(self, **changes: object) -> Snapshot:
        made = Snapshot(
            now_s=self.now_s,
            pipeline=Pipeline.chain(PROFILE.cluster, "serve"),
            planned=Layout.of(self.nodes),
            requested=Layout.of(self.nodes),
            observed=Layout.of(self.nodes),
            windows=self.windows,
            batches=(),
            under_way=(),
            limits=LIMITS,
            slo=Slo(freshness_s=10.0, quantile=0.95),
            slots_per_node=1,
            lead_time_s=95.0,
            data_age_s=0.0,
        )
        return msgspec.structs.replace(made, **changes)

    def decide(self, **changes: object) -> Decision:
        return self.strategy.decide(self.snapshot(**changes))


def strategy(**named: object) -> Datastore:
    return Datastore(profile=PROFILE, percentile_over_s=0.0, **named)  # type: ignore[arg-type]


@pytest.mark.parametrize("make", [Datastore, DatastoreCosts])
def test_it_keeps_the_contract(make: type[Datastore]) -> None:
    check_strategy(make)


@pytest.mark.usefixtures("certain")
@pytest.mark.parametrize(
    ("to_bound_s", "wanted"),
    [(175.0, 3), (130.0, 4)],
    ids=["the load reaches the bound after T_add", "it reaches the bound within T_add"],
)
def test_a_node_is_added_when_the_load_exceeds_the_bound_within_the_time_to_add_it(
    to_bound_s: float, wanted: int
) -> None:
    slope = 20.0
    now_per_s = PROFILE.bounded_per_s(3) - slope * to_bound_s
    decision = Ramp(strategy(), now_per_s=now_per_s, slope_per_s=slope, nodes=3).decide()
    assert decision.wanted.main_nodes == wanted
    assert decision.inputs["horizon_s"] == 155.0


@pytest.mark.usefixtures("certain")
def test_the_farthest_horizon_comes_first_and_at_most_m_nodes_at_once() -> None:
    # in 465 s the load needs six nodes
    steep = {"now_per_s": 60_000.0, "slope_per_s": 60.0, "nodes": 3}
    assert Ramp(strategy(), **steep).decide().wanted.main_nodes == 6  # type: ignore[arg-type]
    assert Ramp(strategy(most_at_once=2), **steep).decide().wanted.main_nodes == 5  # type: ignore[arg-type]


@pytest.mark.usefixtures("certain")
@pytest.mark.parametrize(("to_bound_s", "wanted"), [(190.0, 4), (135.0, 3)])
def test_a_node_leaves_so_that_it_is_gone_when_the_load_has_fallen(to_bound_s: float, wanted: int) -> None:
    slope = -20.0
    now_per_s = PROFILE.bounded_per_s(3) - slope * to_bound_s
    decision = Ramp(strategy(), now_per_s=now_per_s, slope_per_s=slope, nodes=4).decide()
    assert decision.wanted.main_nodes == wanted


@pytest.mark.usefixtures("certain")
def test_never_below_the_replication_factor_and_never_above_the_limit() -> None:
    idle = Ramp(strategy(), now_per_s=1000.0, slope_per_s=0.0, nodes=4).decide()
    assert idle.wanted.main_nodes == 3  # although the limits allow one
    full = Ramp(strategy(), now_per_s=200_000.0, slope_per_s=0.0, nodes=6).decide()
    assert full.wanted.main_nodes == 6
    assert full.bound_by[0].name == "limit"


@pytest.mark.usefixtures("certain")
def test_nothing_is_decided_while_nodes_join_or_without_recent_readings() -> None:
    late = Ramp(strategy(), now_per_s=90_000.0, slope_per_s=0.0, nodes=4)
    assert late.decide().wanted.main_nodes > 4
    joining = ActionUnderWay(kind=ActionKind.GROW, since_s=2900.0, nodes=1)
    held = late.decide(under_way=[joining])
    assert held.wanted.main_nodes == 4
    assert "1 node still to join" in held.reason
    assert late.decide(observed=Layout.of(3)).wanted.main_nodes == 4
    assert "no recent reading" in late.decide(now_s=3100.0).reason


@pytest.mark.usefixtures("certain")
def test_a_node_that_would_come_after_the_peak_is_not_added() -> None:
    # it has just left: the load is a little above the bound of three nodes, and falls
    falling = Ramp(strategy(), now_per_s=PROFILE.bounded_per_s(3) + 600.0, slope_per_s=-20.0, nodes=3)
    assert falling.decide().wanted.main_nodes == 3


@pytest.mark.usefixtures("certain")
def test_reactive_waits_until_the_load_is_there() -> None:
    slope = 20.0
    early = {"now_per_s": PROFILE.bounded_per_s(3) - 10 * slope, "slope_per_s": slope, "nodes": 3}
    reactive = strategy(forecaster="last-value")
    assert Ramp(reactive, **early).decide().wanted.main_nodes == 3  # type: ignore[arg-type]
    late = {**early, "now_per_s": PROFILE.bounded_per_s(3) + 50 * slope}
    assert Ramp(strategy(forecaster="last-value"), **late).decide().wanted.main_nodes == 4  # type: ignore[arg-type]


@pytest.mark.usefixtures("certain")
def test_more_data_needs_an_earlier_start() -> None:
    slope = 20.0
    ramp = Ramp(strategy(), now_per_s=PROFILE.bounded_per_s(3) - 250 * slope, slope_per_s=slope, nodes=3)
    assert ramp.decide().wanted.main_nodes == 3
    ramp.windows.add([Reading(3000.0, PROFILE.cluster, Metric.DATA_SIZE, 2e9)])
    assert ramp.decide().wanted.main_nodes == 4  # T_add is 310 s


@pytest.mark.usefixtures("certain")
def test_ours_starts_when_the_node_must_join_not_when_its_cleanup_must_end() -> None:
    slope = 20.0

    def costs(to_bound_s: float) -> int:
        made = DatastoreCosts(profile=PROFILE, percentile_over_s=0.0, late_cost=1.0)
        now_per_s = PROFILE.bounded_per_s(3) - slope * to_bound_s
        return Ramp(made, now_per_s=now_per_s, slope_per_s=slope, nodes=3).decide().wanted.main_nodes

    assert costs(115.0) == 3  # joining takes 95 s
    assert costs(75.0) == 4


@pytest.mark.usefixtures("certain")
def test_ours_adds_two_at_once_if_the_cleanup_would_delay_the_second() -> None:
    made = DatastoreCosts(profile=PROFILE, percentile_over_s=0.0, late_cost=1.0)
    slope = (
        PROFILE.bounded_per_s(4) - PROFILE.bounded_per_s(3)
    ) / 140.0  # the second is due 140 s after the first
    ramp = Ramp(made, now_per_s=PROFILE.bounded_per_s(3) - 85.0 * slope, slope_per_s=slope, nodes=3)
    assert ramp.decide().wanted.main_nodes == 5
    # without a cleanup the second can follow in time
    quick = tuple(msgspec.structs.replace(row, cleanup_s=0.0) for row in PROFILE.times)
    made = DatastoreCosts(
        profile=msgspec.structs.replace(PROFILE, times=quick), percentile_over_s=0.0, late_cost=1.0
    )
    ramp = Ramp(made, now_per_s=PROFILE.bounded_per_s(3) - 85.0 * slope, slope_per_s=slope, nodes=3)
    assert ramp.decide().wanted.main_nodes == 4


def test_a_profile_of_another_cluster_or_none_changes_nothing_and_says_why(tmp_path: Path) -> None:
    other = msgspec.structs.replace(PROFILE, cluster="users")
    made = Datastore(profile=other, percentile_over_s=0.0)
    decision = Ramp(made, now_per_s=90_000.0, slope_per_s=0.0, nodes=3).decide()
    assert decision.wanted.main_nodes == 3
    assert "of the cluster 'users', not of 'pascal'" in decision.reason
    assert "no profile" in Ramp(Datastore(), now_per_s=9e4, slope_per_s=0.0, nodes=3).decide().reason
    path = tmp_path / "store.toml"
    path.write_text(PROFILE.to_text())
    read = make_strategy(f"datastore(profile={path}, bound=0.5)")
    assert isinstance(read, Datastore)
    with pytest.raises(InputError, match="cannot read the profile"):
        make_strategy("datastore(profile=none.toml)")


# -- through the loop --------------------------------------------------------------------------------------


def points_of(made: Datastore, load: Load, seconds: float) -> tuple[Run, list[ScalingPoints]]:
    scenario = Scenario(
        engine=Engine.of(PROFILE),
        load=load,
        limits=Limits(min_nodes=3, max_nodes=6),
        slo=Slo(freshness_s=10.0, quantile=0.95),
        nodes=DataNodes.of(PROFILE, noise=0.05),
        seconds=seconds,
        cycle_s=10.0,
    )
    run = run_simulation(scenario, made).run
    bounded = np.array([0.0, 0.0, 0.0, *(PROFILE.bounded_per_s(n) for n in PROFILE.sizes)])
    run = replace(run, capacity_rows_per_s=bounded)
    return run, scaling_points([run])


def test_on_a_day_that_repeats_nodes_are_ready_before_they_are_needed_and_reactive_is_late() -> None:
    load = parse_load("sine(base=40000, peak=90000, period=2h)")
    past = [
        (30.0 * k, 65_000.0 - 25_000.0 * np.cos(2 * np.pi * (30.0 * k - 15.0) / 7200.0))
        for k in range(-720, 1)
    ]
    gaps = {}
    for name, made in (
        ("costs", DatastoreCosts(profile=PROFILE, percentile_over_s=0.0, speed=12.0)),
        ("reactive", strategy(forecaster="last-value")),
    ):
        made.learn_past(past)
        run, points = points_of(made, load, 7200.0)
        gaps[name] = [point.gap_s for point in points if point.grows and point.gap_s is not None]
        assert len(gaps[name]) >= 2
        assert run.processed.values[-1] == pytest.approx(run.arrived.values[-1], rel=1e-3)
    assert all(0 <= gap <= 60 for gap in gaps["costs"]), gaps
    assert all(gap < 0 for gap in gaps["reactive"]), gaps
