"""The phase in the simulator: what it must show is that estimates are within 3 % on a load it never saw."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from ebbflow.bench.profiling.from_store import learn_from_store
from ebbflow.bench.profiling.phase import Phase
from ebbflow.bench.profiling.simulated import SimulatedPhase
from ebbflow.core.clock import ManualClock
from ebbflow.core.metrics import Metric
from ebbflow.core.readings import Reading
from ebbflow.errors import InputError
from ebbflow.monitoring.store import Store
from ebbflow.profiling.estimator import Estimator
from ebbflow.profiling.fitting import QUICK
from ebbflow.profiling.profile import Profile
from ebbflow.targets.simulator.catalogue import PIPELINES, costed_pipeline


@pytest.fixture(scope="module", params=sorted(PIPELINES))
def phase(request: pytest.FixtureRequest) -> Phase:
    return SimulatedPhase(pipeline=request.param, steps=5).run()


def test_cpu_estimates_are_within_three_percent_on_a_sine(phase: Phase) -> None:
    assert phase.accuracy is not None
    assert set(phase.accuracy.cpu) == set(costed_pipeline(phase.profile.pipeline).pipeline.order)
    assert max(phase.accuracy.cpu.values()) < 0.03
    assert phase.accuracy.node is not None
    assert phase.accuracy.node < 0.03
    assert phase.accuracy.outside < 0.05


def test_costs_and_selectivities_are_found_as_they_are(phase: Phase) -> None:
    costed = costed_pipeline(phase.profile.pipeline)
    for stream in costed.pipeline.streams:
        found = phase.profile.selectivity[stream.source, stream.target]
        assert found.mean == pytest.approx(stream.selectivity, rel=0.02)
    for name, cpu in phase.profile.cpu.items():
        middle = (cpu.low + cpu.high) / 2
        assert cpu.estimate(middle).value == pytest.approx(costed.row_cost_s[name] * middle, rel=0.03)


def test_operators_are_seen_over_most_of_a_core_and_not_only_the_one_that_holds_the_others_back(
    phase: Phase,
) -> None:
    busy = {name: cpu.estimate(cpu.high).value for name, cpu in phase.profile.cpu.items()}
    if phase.profile.pipeline == "top-words":
        busy.pop("final-ranker")  # has next to nothing to do, and one instance
    assert min(busy.values()) > 0.3


def test_what_a_reconfiguration_and_a_node_take_is_measured_on_the_way(phase: Phase) -> None:
    costs = phase.profile.costs
    assert costs is not None
    assert costs.reconfiguration is not None
    assert 5.0 <= costs.reconfiguration.restart_s.mean <= 8.0  # the engine's, after Elysium
    keeps_state = bool(costed_pipeline(phase.profile.pipeline).state_mb)
    assert (costs.reconfiguration.state_s.mean > 0) is keeps_state
    assert costs.reconfiguration.drain_s.samples
    assert costs.lead_time_s is not None
    assert costs.lead_time_s.mean == pytest.approx(12.0, abs=1.0)


def test_the_profile_survives_its_file(phase: Phase) -> None:
    assert Profile.from_text(phase.profile.to_text()) == phase.profile


def test_the_same_seed_gives_the_same_profile() -> None:
    made = SimulatedPhase(pipeline="top-words", steps=2, hold_s=30.0, kinds=QUICK)
    assert made.run().profile == made.run().profile


def test_on_batches_the_costs_of_stages_are_found() -> None:
    found = SimulatedPhase(pipeline="top-words", engine="micro-batch", noise=0.0, steps=4, kinds=QUICK).run()
    costs = found.profile.costs
    engine = costed_pipeline("top-words").micro_batch()
    assert costs is not None
    assert costs.reconfiguration is not None
    assert costs.driver_s == pytest.approx(engine.driver_s, rel=0.05)
    assert costs.per_row_s == pytest.approx(sum(stage.per_row_s for stage in engine.stages), rel=0.02)
    assert costs.reconfiguration.restart_s.mean == engine.restart_s
    assert found.accuracy is None


def test_a_store_of_an_earlier_run_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a simulated run reads, kept in a real store and learned from later."""
    from ebbflow.profiling.learner import ProfileLearner

    store, learn = Store(tmp_path / "run.sqlite", ManualClock()), ProfileLearner.learn

    def kept(self: ProfileLearner, readings: list, batches: tuple = ()) -> None:
        readings = list(readings)
        store.add(readings)
        learn(self, readings, batches)

    monkeypatch.setattr(ProfileLearner, "learn", kept)
    direct = SimulatedPhase(pipeline="sentiment", steps=2, hold_s=60.0, kinds=QUICK).run().profile
    store.close()
    monkeypatch.undo()
    stored = learn_from_store(tmp_path / "run.sqlite", kinds=QUICK).profile
    assert stored.pipeline == "run"  # a store without batches does not tell of whom it is
    for name, cpu in direct.cpu.items():
        assert stored.cpu[name].estimate(cpu.high).value == pytest.approx(
            cpu.estimate(cpu.high).value, rel=0.02
        )
    assert stored.costs is not None
    assert direct.costs is not None
    assert stored.costs.reconfiguration == direct.costs.reconfiguration


OPERATORS = ("reader", "tokeniser", "preprocessing", "features", "classifier")


def on_spark(path: Path, *queries: str) -> Path:
    """The store of a job whose operators take in 1, 2, 3 … rows for each at the source."""
    with contextlib.closing(Store(path, ManualClock())) as store:
        for k in range(60):
            now_s, rows = 10.0 * k, 10.0 * (100 + k)
            store.add([Reading(now_s, query, Metric.BATCH_ROWS, rows) for query in queries])
            for number, name in enumerate(OPERATORS, start=1):
                store.add([
                    Reading(now_s, name, Metric.ROWS_IN, number * rows),
                    Reading(now_s, name, Metric.ROWS_OUT, (number + 1) * rows),
                    Reading(now_s, name, Metric.INSTANCES, 2.0),
                    Reading(now_s, name, Metric.INSTANCE_CPU, 1e-4 * rows),
                ])  # fmt: skip
    return path


def test_operators_and_name_are_those_of_the_store(tmp_path: Path) -> None:
    """The simulator has a pipeline of this name too, with other operators."""
    found = learn_from_store(on_spark(tmp_path / "run.sqlite", "sentiment"), kinds=QUICK).profile
    assert (found.pipeline, found.target) == ("sentiment", "spark")
    assert set(found.cpu) == set(OPERATORS)
    assert {ends: round(s.mean, 6) for ends, s in found.selectivity.items()} == {
        ("sentiment", name): number for number, name in enumerate(OPERATORS, start=1)
    }
    assert found.costs is None  # a store has no stages
    rates = Estimator(found.graph, found).input_rates({"sentiment": 10.0})
    assert rates == pytest.approx({name: 10.0 * number for number, name in enumerate(OPERATORS, start=1)})
    assert Profile.from_text(found.to_text()) == found


def test_of_several_queries_one_is_chosen_and_whose_the_operators_are_is_not_guessed(tmp_path: Path) -> None:
    path = on_spark(tmp_path / "run.sqlite", "a", "b")
    with pytest.raises(InputError, match="has batches of a, b; choose one with --pipeline"):
        learn_from_store(path)
    with pytest.raises(InputError, match="no batches of 'c', but of a, b"):
        learn_from_store(path, "c")
    found = learn_from_store(path, "b", kinds=QUICK).profile
    assert (found.pipeline, found.selectivity) == ("b", {})
    assert set(found.cpu) == set(OPERATORS)


def test_a_store_without_readings_is_told(tmp_path: Path) -> None:
    Store(tmp_path / "empty.sqlite", ManualClock()).close()
    with pytest.raises(InputError, match="no readings"):
        learn_from_store(tmp_path / "empty.sqlite")
    with pytest.raises(InputError, match="there is no store"):
        learn_from_store(tmp_path / "none.sqlite", "p")
