"""Profiles given to the symbiotic strategy on batches: they start its models, and drift is detected."""

from __future__ import annotations

import logging
import random
from dataclasses import replace
from functools import lru_cache
from typing import Any

import msgspec
import pytest
from made_forecasts import Foreseen
from made_snapshots import made_batch, made_snapshot

from ebbflow.control.loop import ControlLoop
from ebbflow.core.batches import Batch, OperatorRun, StageRun
from ebbflow.core.clock import ManualClock
from ebbflow.core.decision import Decision
from ebbflow.core.layout import Layout
from ebbflow.core.pipeline import Pipeline
from ebbflow.guards import guards_for
from ebbflow.monitoring.store import MemoryStore
from ebbflow.profiling.estimator import Estimator
from ebbflow.profiling.fitting import QUICK
from ebbflow.profiling.profile import Profile, Range, SparkCosts, StageCosts
from ebbflow.runs.profiling.simulated import SimulatedProfiling
from ebbflow.strategies.symbiotic import Symbiotic, SymbioticProactive
from ebbflow.targets.simulator import Scenario
from ebbflow.targets.simulator.catalogue import costed_pipeline
from ebbflow.workloads import parse_load

PIPELINE = Pipeline.chain("words", "read", "count")


def known(
    *tasks: int, query: str = "q", per_row_s: float = 0.01, seen: Range | None = None
) -> dict[str, Estimator]:
    """A profile of the batches of ``made_snapshots``: 0.3 s of the driver, 50 ms a task and 10 ms a row."""
    stages = [StageCosts(tasks=count, per_task_s=0.05, per_row_s=per_row_s, error=0.03) for count in tasks]
    costs = SparkCosts(driver_s=0.3, stages=tuple(stages), batch_rows=seen)
    return {query: Estimator(PIPELINE, Profile(pipeline=query, costs=costs))}


def decide(strategy: Symbiotic, *batches: Batch, nodes: int = 2, **changes: Any) -> Decision:
    return strategy.decide(made_snapshot(batches, nodes=nodes, pipeline=PIPELINE, **changes))


def assessed(strategy: Symbiotic, *batches: Batch, nodes: int = 2) -> Decision:
    """The decision of the first assessment, a minute after the first snapshot, with these batches."""
    decide(strategy, now_s=5.0, nodes=nodes, queries={"q": None})
    return decide(strategy, *batches, nodes=nodes)


def slower(batch: Batch, stage: int, factor: float) -> Batch:
    """The same batch, with a stage that took ``factor`` times as long."""

    def changed(run: StageRun) -> StageRun:
        return StageRun(
            index=run.index, tasks=run.tasks, task_time_s=factor * run.task_time_s, cpu_time_s=0.0,
            wall_s=factor * run.wall_s, longest_task_s=factor * run.longest_task_s,
        )  # fmt: skip

    runs = [changed(run) if run.index == stage else run for run in batch.stages]
    took_s = 0.3 + sum(run.wall_s for run in runs)
    return Batch(**{f: getattr(batch, f) for f in batch.__struct_fields__} | {
        "stages": tuple(runs), "duration_s": took_s,
    })  # fmt: skip


# -- the first decision --------------------------------------------------------------------------------


def test_with_a_profile_one_batch_is_enough_to_decide() -> None:
    """200 rows/s need 0.6 + 10 s of work in 5 s, and three slots."""
    batch = made_batch(13, 200.0, [12], slots=2)
    assert "learning" in assessed(Symbiotic(), batch).reason
    decision = assessed(Symbiotic(known(12)), batch)
    assert decision.wanted == Layout.of(3)
    two = [made_batch(12, 200.0, [12], slots=2), batch]
    assert assessed(Symbiotic(), *two).wanted.main_nodes == 3


def test_a_profile_separates_the_costs_of_tasks_and_rows_before_the_load_has_varied() -> None:
    """Tasks of 50 ms and 4 ms of rows. At 5 times the rows they take 70 ms, and not 5 times as long."""
    needed = {}
    for name, strategy in (("learned", Symbiotic()), ("profiled", Symbiotic(known(12, per_row_s=0.0005)))):
        for number in range(1, 30):
            batch = made_batch(number, 20.0, [12], slots=2)
            cheap = slower(batch, 0, (12 * 0.05 + 0.0005 * batch.rows) / batch.stages[0].task_time_s)
            decide(strategy, cheap)
        model = strategy._known._batches.known()["q"].model
        needed[name] = model.on(2).of(500)
    assert needed["profiled"] == pytest.approx(0.3 + 6 * (0.05 + 0.0005 * 500 / 12), rel=0.01)
    assert needed["learned"] > 2 * needed["profiled"]


# -- profiles that cannot be used --------------------------------------------------------------------------


def test_a_profile_of_another_plan_is_ignored_and_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    strategy, plain = Symbiotic(known(12, 12, 4)), Symbiotic()
    with caplog.at_level(logging.WARNING, "ebbflow"):
        decisions = [
            [decide(each, made_batch(number, 150.0, [12, 12], slots=2)) for number in range(1, 40)]
            for each in (strategy, plain)
        ]
    why = "the profile of 'q' has 3 stages, but a batch has 2: it is of another plan"
    assert [record.getMessage() for record in caplog.records] == [
        f"{why}, and is not used; learn one with `ebbflow profile`"
    ]
    reported = [decision for decision in decisions[0] if decision.inputs]
    assert reported
    assert all(decision.inputs["profile"] == why for decision in reported)
    assert [d.wanted for d in decisions[0]] == [d.wanted for d in decisions[1]]


def test_a_profile_of_a_query_that_is_not_running_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    strategy = Symbiotic(known(12, query="other"))
    with caplog.at_level(logging.WARNING, "ebbflow"):
        for number in range(1, 40):
            decide(strategy, made_batch(number, 150.0, [12], slots=2))
    assert [r.getMessage() for r in caplog.records] == [
        "the profile of 'other' is not used yet: only q runs so far"
    ]


def test_a_profile_without_costs_of_batches_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    strategy = Symbiotic({"q": Estimator(PIPELINE, Profile(pipeline="q"))})
    with caplog.at_level(logging.WARNING, "ebbflow"):
        for number in range(1, 40):
            decide(strategy, made_batch(number, 150.0, [12], slots=2))
    assert [r.getMessage() for r in caplog.records] == [
        "the profile of 'q' has no costs of batches; they are learned from the run"
    ]


# -- extrapolation --------------------------------------------------------------------------


def test_a_decision_names_batches_with_more_or_fewer_rows_than_profiled() -> None:
    seen = Range(low=210.0, high=3900.0)
    decision = assessed(Symbiotic(known(12, seen=seen)), made_batch(13, 1040.0, [12], slots=12), nodes=12)
    assert decision.inputs["extrapolated"] == "a batch of q of 5200 rows (measured: 210 to 3900)"
    assert "; extrapolated: a batch of q of 5200 rows (measured: 210 to 3900)" in decision.reason
    inside = assessed(Symbiotic(known(12, seen=seen)), made_batch(13, 700.0, [12], slots=12), nodes=12)
    assert "extrapolated" not in inside.inputs
    below = assessed(Symbiotic(known(12, seen=seen)), made_batch(13, 20.0, [12], slots=12), nodes=12)
    assert below.inputs["extrapolated"] == "a batch of q of 100 rows (measured: 210 to 3900)"


def test_without_a_profile_the_measured_range_is_that_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    steady = [made_batch(number, 100.0 + number % 3, [12], slots=3) for number in range(1, 14)]
    assert "extrapolated" not in assessed(Symbiotic(), *steady, nodes=3).inputs
    made = "ebbflow.strategies.symbiotic.strategy.make_forecaster"
    monkeypatch.setattr(made, lambda name, step_s: Foreseen(300.0, step_s=step_s))
    ahead = assessed(SymbioticProactive(), *steady, nodes=3)
    assert ahead.inputs["extrapolated"] == "a batch of q of 1500 rows (measured: 500 to 510)"


def test_proactive_assesses_at_once_if_the_present_load_is_too_high(monkeypatch: pytest.MonkeyPatch) -> None:
    """The forecast misses a jump right after an assessment. Reactive scaling waits for the next one."""
    made = "ebbflow.strategies.symbiotic.strategy.make_forecaster"
    monkeypatch.setattr(made, lambda name, step_s: Foreseen(100.0, step_s=step_s))
    steady = [made_batch(number, 100.0 + number % 3, [12], slots=3) for number in range(1, 14)]
    found = {}
    for strategy in (SymbioticProactive(), Symbiotic()):
        before = assessed(strategy, *steady, nodes=3)
        assert before.wanted.main_nodes <= 3
        found[strategy.name] = decide(strategy, made_batch(14, 900.0, [12], slots=3))
    assert found["symbiotic-proactive"].wanted.main_nodes > 3
    assert found["symbiotic"].reason == "waiting for the next assessment"


# -- drift -----------------------------------------------------------------------------------------------


def test_drift_names_the_stage_and_the_operators_in_it(caplog: pytest.LogCaptureFixture) -> None:
    strategy = Symbiotic(known(12, 12))
    runs = tuple(
        OperatorRun(name=name, rows_in=1, rows_out=1, stage=at) for name, at in (("split", 0), ("enrich", 1))
    )
    decision = None
    with caplog.at_level(logging.WARNING, "ebbflow"):
        for number in range(1, 60):
            batch = made_batch(number, 100.0 + number % 3, [12, 12], slots=6, operators=runs)
            seen = decide(strategy, slower(batch, 1, 1.3) if number > 21 else batch, nodes=6)
            decision = seen if seen.inputs else decision
    (reported,) = [record.getMessage() for record in caplog.records]
    assert (
        reported == "stage 2 of q (enrich) costs 30 % more task time than its profile says; learning it again"
    )
    assert decision is not None
    assert decision.inputs["drift"] == reported.removesuffix("; learning it again")


def test_a_restarted_query_continues_from_what_was_learned(caplog: pytest.LogCaptureFixture) -> None:
    strategy = Symbiotic(known(12))
    with caplog.at_level(logging.WARNING, "ebbflow"):
        for number in range(1, 101):
            decide(strategy, slower(made_batch(number, 60.0 + number % 7, [12], slots=6), 0, 1.5), nodes=6)
        decide(strategy, now_s=510.0, nodes=6, queries={})
        decide(strategy, slower(made_batch(103, 60.0, [12], slots=6), 0, 1.5), nodes=6)
        model = strategy._known._batches.known()["q"].model
        assert model.stages[0].costs[1] == pytest.approx(0.015, rel=0.1)
        for number in range(104, 160):
            decide(strategy, slower(made_batch(number, 60.0 + number % 7, [12], slots=6), 0, 1.5), nodes=6)
    assert len([r for r in caplog.records if "than its profile says" in r.getMessage()]) == 1


# -- in the simulator ------------------------------------------------------------------------------------


@lru_cache
def profile_of_top_words(noise: float) -> Profile:
    phase = SimulatedProfiling(pipeline="top-words", engine="micro-batch", noise=noise, steps=4, kinds=QUICK)
    return Profile.from_text(phase.run().profile.to_text())


def reported_drift(
    load: str, seconds: int, *, noise: float, slower_at_s: int | None = None, stage: int = 0
) -> list[tuple[int, str]]:
    """When a run on the micro-batch engine with its profile reports drift, and which. A stage gets 40 % slower."""
    engine = costed_pipeline("top-words").micro_batch(noise=noise)
    scenario = Scenario(engine=engine, load=parse_load(load), seed=3)
    clock = ManualClock(0.0)
    strategy = Symbiotic({"top-words": Estimator(engine.pipeline, profile_of_top_words(noise))})
    target = scenario.target(clock)
    loop = ControlLoop(
        target=target, strategy=strategy, guards=guards_for(strategy), store=MemoryStore(),
        clock=clock, limits=scenario.limits, slo=scenario.slo,
    )  # fmt: skip
    reported = [(0, "")]
    for second in range(seconds):
        if second == slower_at_s:
            stages = target._world.runs[0].stages
            was = stages[stage]
            stages[stage] = replace(was, per_task_s=1.4 * was.per_task_s, per_row_s=1.4 * was.per_row_s)
        loop.cycle()
        clock.advance(1.0)
        if (drift := str(strategy._known.inputs().get("drift", ""))) != reported[-1][1]:
            reported.append((second, drift))
    return reported[1:]


@pytest.mark.parametrize("stage", [0, 1])
@pytest.mark.parametrize("load", ["constant(400)", "sine(base=200, peak=900, period=20m)"])
@pytest.mark.parametrize(("noise", "batches"), [(0.05, 10), (0.1, 12), (0.2, 40)])
def test_a_stage_that_gets_slower_is_detected_sooner_with_less_noise(
    load: str, stage: int, noise: float, batches: int
) -> None:
    (second, drift), *later = reported_drift(load, 1200, noise=noise, slower_at_s=600, stage=stage)
    assert len(later) <= 1, "what was relearned from a few batches may be corrected once"
    assert 600 < second <= 600 + 5 * batches
    assert drift.startswith(f"stage {stage + 1} of top-words")
    assert "more task time than its profile says" in drift


@pytest.mark.parametrize("noise", [0.05, 0.1])
@pytest.mark.parametrize("load", ["constant(400)", "sine(base=200, peak=900, period=1h)"])
def test_hours_of_noise_report_no_drift(load: str, noise: float) -> None:
    assert reported_drift(load, 3 * 3600, noise=noise) == []


@pytest.mark.parametrize("level", [0.5, 1.0, 1.6])
def test_a_node_that_warms_up_is_no_drift_after_an_earlier_drift(
    level: float, caplog: pytest.LogCaptureFixture
) -> None:
    """A stage costs ``level`` times its profile, which is detected. Then a node joins and warms up for 8 batches."""
    strategy, noise = Symbiotic(known(12)), random.Random(3)

    def batch(number: int, factor: float) -> Batch:
        return slower(made_batch(number, 100.0, [12], slots=2), 0, level * factor * noise.gauss(1.0, 0.03))

    for n in range(1, 140):
        decide(strategy, batch(n, 1.0))
    assert ("learning it again" in caplog.text) == (level != 1.0)
    caplog.clear()
    decide(strategy, msgspec.structs.replace(batch(140, 1.8), steady=False))
    for n in range(141, 200):
        decide(strategy, batch(n, 1.0 + 0.8 * max(0.0, 1.0 - (n - 140) / 8)))
    assert "learning it again" not in caplog.text


# -- a query not learned yet -----------------------------------------------------------------------------------


@pytest.mark.parametrize("profiled", [True, False])
def test_no_node_is_released_while_a_query_is_not_learned_yet(profiled: bool) -> None:
    """One task of `a` is too slow at any size; `b` is at its first batch."""
    strategy = Symbiotic(known(1, query="a") if profiled else None)
    for n in range(1, 40):
        batch = made_batch(n, 150.0, [1], slots=10, query="a")
        queries = {"a": None, "b": 20.0 if n >= 4 else None}
        decision = decide(strategy, batch, nodes=10, queries=queries)
        assert decision.wanted.main_nodes == 10, decision.reason
    strategy = Symbiotic(known(1, query="a") if profiled else None)
    sizes = [
        decide(strategy, made_batch(n, 150.0, [1], slots=10, query="a"), nodes=10, queries={"a": None})
        for n in range(1, 40)
    ]
    assert min(each.wanted.main_nodes for each in sizes) == 1, "alone it may"
