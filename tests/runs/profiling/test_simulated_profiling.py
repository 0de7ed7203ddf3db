"""Profiling in the simulator: estimates are within 3 % on a load it has not seen."""

from __future__ import annotations

import pytest

from ebbflow.profiling.fitting import QUICK
from ebbflow.profiling.profile import Profile
from ebbflow.runs.profiling import ProfilingResult
from ebbflow.runs.profiling.simulated import SimulatedProfiling
from ebbflow.targets.simulator.catalogue import PIPELINES, costed_pipeline


@pytest.fixture(scope="module", params=sorted(PIPELINES))
def phase(request: pytest.FixtureRequest) -> ProfilingResult:
    return SimulatedProfiling(pipeline=request.param, steps=5).run()


def test_cpu_estimates_are_within_three_percent_on_a_sine(phase: ProfilingResult) -> None:
    assert phase.accuracy is not None
    assert set(phase.accuracy.cpu) == set(costed_pipeline(phase.profile.pipeline).pipeline.order)
    assert max(phase.accuracy.cpu.values()) < 0.03
    assert phase.accuracy.node is not None
    assert phase.accuracy.node < 0.03
    assert phase.accuracy.outside < 0.05


def test_costs_and_selectivities_are_recovered(phase: ProfilingResult) -> None:
    costed = costed_pipeline(phase.profile.pipeline)
    for stream in costed.pipeline.streams:
        found = phase.profile.selectivity[stream.source, stream.target]
        assert found.mean == pytest.approx(stream.selectivity, rel=0.02)
    for name, cpu in phase.profile.cpu.items():
        middle = (cpu.low + cpu.high) / 2
        assert cpu.estimate(middle).value == pytest.approx(costed.row_cost_s[name] * middle, rel=0.03)


def test_all_operators_are_measured_over_most_of_a_core(
    phase: ProfilingResult,
) -> None:
    busy = {name: cpu.estimate(cpu.high).value for name, cpu in phase.profile.cpu.items()}
    if phase.profile.pipeline == "top-words":
        busy.pop("final-ranker")  # has next to nothing to do, and one instance
    assert min(busy.values()) > 0.3


def test_reconfigurations_and_new_nodes_are_measured(phase: ProfilingResult) -> None:
    costs = phase.profile.costs
    assert costs is not None
    assert costs.reconfiguration is not None
    assert 5.0 <= costs.reconfiguration.restart_s.mean <= 8.0  # the engine's, after Elysium
    keeps_state = bool(costed_pipeline(phase.profile.pipeline).state_mb)
    assert (costs.reconfiguration.state_s.mean > 0) is keeps_state
    assert costs.reconfiguration.drain_s.samples
    assert costs.lead_time_s is not None
    assert costs.lead_time_s.mean == pytest.approx(12.0, abs=1.0)


def test_the_profile_survives_its_file(phase: ProfilingResult) -> None:
    assert Profile.from_text(phase.profile.to_text()) == phase.profile


def test_the_same_seed_gives_the_same_profile() -> None:
    made = SimulatedProfiling(pipeline="top-words", steps=2, hold_s=30.0, kinds=QUICK)
    assert made.run().profile == made.run().profile


def test_on_batches_the_costs_of_stages_are_learned() -> None:
    found = SimulatedProfiling(
        pipeline="top-words", engine="micro-batch", noise=0.0, steps=4, kinds=QUICK
    ).run()
    costs = found.profile.costs
    engine = costed_pipeline("top-words").micro_batch()
    assert costs is not None
    assert costs.reconfiguration is not None
    assert costs.driver_s == pytest.approx(engine.driver_s, rel=0.05)
    assert costs.per_row_s == pytest.approx(sum(stage.per_row_s for stage in engine.stages), rel=0.02)
    assert costs.reconfiguration.restart_s.mean == engine.restart_s
    assert found.accuracy is None
