"""A profile from a store equals that of a learner in the loop, and covers one query only."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ebbflow.control.loop import CycleReport
from ebbflow.core.batches import Batch, OperatorRun, StageRun
from ebbflow.core.clock import ManualClock
from ebbflow.core.limits import Limits
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.readings import Reading
from ebbflow.errors import InputError, ProfileError
from ebbflow.monitoring.store import Store
from ebbflow.profiling.estimator import Estimator, estimators_for
from ebbflow.profiling.fitting import QUICK
from ebbflow.profiling.profile import Profile, Spread
from ebbflow.profiling.profile_learner import ProfileLearner
from ebbflow.runs.profiling import LayoutSchedule
from ebbflow.runs.profiling.from_store import learn_from_store
from ebbflow.runs.profiling.simulated import SimulatedProfiling
from ebbflow.runs.simulation import run_simulation
from ebbflow.targets.simulator import NodeKind, Scenario
from ebbflow.targets.simulator.catalogue import costed_pipeline
from ebbflow.targets.simulator.engine import with_qualified_names
from ebbflow.targets.simulator.scenario import Tenant
from ebbflow.workloads import parse_load

# -- whole runs ------------------------------------------------------------------------------------

TOP_WORDS, SENTIMENT = costed_pipeline("top-words"), costed_pipeline("sentiment")
SCENARIO = Scenario(
    engine=TOP_WORDS.micro_batch(noise=0.05),
    load=parse_load("sine(base=50, peak=400, period=4m)"),
    seconds=600.0,
    limits=Limits(min_nodes=1, max_nodes=9),
    nodes=NodeKind(slots=4),
    initial_nodes=4,
)


def played(scenario: Scenario, path: Path, on_cycle: Callable[[CycleReport], None]) -> Path:
    """A simulated run with a restart and a new node in it, that keeps a store."""
    halves = {s.operator: max(1, s.tasks // 2) for s in SCENARIO.engine.stages if s.operator}
    if scenario.others:
        halves = {f"top-words/{name}": tasks for name, tasks in halves.items()}
    run_simulation(scenario, LayoutSchedule([(300.0, halves, 5)]), guards=(), on_cycle=on_cycle, store=path)
    return path


class Beside:
    """Learns of one query what a loop sees, while it runs."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._query, self._last_s = pipeline.name, -1.0
        self._learner = ProfileLearner(pipeline, kinds=QUICK, target="simulator")

    def hear(self, report: CycleReport) -> None:
        seen = report.observation
        if seen is not None and seen.time_s > self._last_s:
            self._last_s = seen.time_s
            batches = [batch for batch in seen.batches if batch.query == self._query]
            self._learner.learn(seen.readings, batches)

    @property
    def profile(self) -> Profile:
        return self._learner.profile()


def test_costs_and_selectivities_match_those_of_a_learner_in_the_loop(tmp_path: Path) -> None:
    beside = Beside(TOP_WORDS.pipeline)
    found = learn_from_store(played(SCENARIO, tmp_path / "run.sqlite", beside.hear), kinds=QUICK)
    profile, direct = found.profile, beside.profile
    assert direct.costs is not None
    assert len(direct.costs.stages) == 4
    assert direct.costs.reconfiguration is not None
    assert direct.costs.lead_time_s is not None
    assert profile.costs == direct.costs
    streams = {(stream.source, stream.target) for stream in TOP_WORDS.pipeline.streams}
    assert set(profile.selectivity) == {*streams, ("top-words", "reader")}
    for ends, spread in direct.selectivity.items():
        assert profile.selectivity[ends].mean == pytest.approx(spread.mean, rel=1e-3)
    assert (profile.pipeline, profile.target, found.notes) == ("top-words", "simulator", ())


def test_two_queries_in_one_store_have_separate_costs_and_operators(tmp_path: Path) -> None:
    other = Tenant(
        engine=SENTIMENT.micro_batch(noise=0.05), load=parse_load("sine(base=20, peak=80, period=3m)")
    )
    besides = {
        costed.pipeline.name: Beside(with_qualified_names(costed.pipeline))
        for costed in (TOP_WORDS, SENTIMENT)
    }

    def hear(report: CycleReport) -> None:
        for beside in besides.values():
            beside.hear(report)

    path = played(replace(SCENARIO, others=(other,)), tmp_path / "run.sqlite", hear)
    with pytest.raises(InputError, match="has top-words, sentiment; choose one with --pipeline"):
        learn_from_store(path)
    for query in besides:
        profile, direct = learn_from_store(path, query, kinds=QUICK).profile, besides[query].profile
        assert profile.costs is not None
        assert direct.costs is not None
        assert profile.costs.stages == direct.costs.stages
        assert profile.costs.driver_s == direct.costs.driver_s
        # A stored profile names operators as if their pipeline ran alone, so that any strategy can use it.
        bare = {
            tuple(end.removeprefix(f"{query}/") for end in ends): s for ends, s in direct.selectivity.items()
        }
        assert set(profile.selectivity) == set(bare)
        for ends, spread in bare.items():
            assert profile.selectivity[ends].mean == pytest.approx(spread.mean, rel=1e-3)
        # Only the first was restarted; that says nothing about the other.
        assert (profile.costs.reconfiguration is not None) is (query == "top-words")


def test_a_strategy_for_batches_accepts_it_but_not_one_of_an_older_store(
    tmp_path: Path,
) -> None:
    path = played(SCENARIO, tmp_path / "run.sqlite", lambda _: None)
    profile = Profile.from_text(learn_from_store(path, kinds=QUICK).profile.to_text())
    assert list(estimators_for({"it": profile}, [TOP_WORDS.pipeline], in_batches=True)) == ["top-words"]
    older = learn_from_store(without_batches(path), kinds=QUICK).profile
    with pytest.raises(ProfileError, match="no costs of batches"):
        estimators_for({"it": older}, [TOP_WORDS.pipeline], in_batches=True)


def without_batches(path: Path) -> Path:
    """As a version before batches and pipelines were kept wrote it."""
    with contextlib.closing(sqlite3.connect(path)) as file, file:
        file.execute("DROP TABLE batches")
        file.execute("DELETE FROM terms WHERE name = 'pipeline'")
    return path


def test_an_older_store_gives_what_its_readings_contain_and_notes_the_rest(tmp_path: Path) -> None:
    beside = Beside(TOP_WORDS.pipeline)
    path = without_batches(played(SCENARIO, tmp_path / "run.sqlite", beside.hear))
    found, direct = learn_from_store(path, kinds=QUICK), beside.profile.costs
    assert found.profile.costs is not None
    assert direct is not None
    assert found.profile.costs.stages == ()
    assert found.profile.costs.reconfiguration == direct.reconfiguration
    assert len(found.profile.selectivity) == len(TOP_WORDS.pipeline.order)
    assert len(found.notes) == 1
    assert "no batches with their stages" in found.notes[0]


FLOW = replace(SCENARIO, engine=TOP_WORDS.continuous(instances=4), seconds=120.0)


def test_an_engine_without_batches_gives_the_profile_of_a_profiling_run(tmp_path: Path) -> None:
    beside = Beside(TOP_WORDS.pipeline)
    path = tmp_path / "run.sqlite"
    run_simulation(FLOW, LayoutSchedule([]), guards=(), on_cycle=beside.hear, store=path)
    learned_at = datetime(2026, 11, 16, tzinfo=UTC)
    found = learn_from_store(path, kinds=QUICK, learned_at=learned_at)
    assert set(found.profile.cpu) == set(TOP_WORDS.pipeline.order)
    assert len(found.profile.selectivity) == len(TOP_WORDS.pipeline.streams)
    for ends, spread in beside.profile.selectivity.items():
        assert found.profile.selectivity[ends].mean == pytest.approx(spread.mean)
    assert (found.profile.pipeline, found.profile.learned_at, found.notes) == ("top-words", learned_at, ())
    with pytest.raises(InputError, match="has top-words, not 'sentiment'; choose with --pipeline"):
        learn_from_store(path, "sentiment")


def test_two_pipelines_without_batches_have_separate_profiles_usable_alone_and_together(
    tmp_path: Path,
) -> None:
    other = Tenant(engine=SENTIMENT.continuous(instances=4), load=parse_load("constant(40)"))
    run_simulation(
        replace(FLOW, others=(other,)), LayoutSchedule([]), guards=(), store=tmp_path / "run.sqlite"
    )
    pipelines = [TOP_WORDS.pipeline, SENTIMENT.pipeline]
    for pipeline in pipelines:
        profile = learn_from_store(tmp_path / "run.sqlite", pipeline.name, kinds=QUICK).profile
        assert set(profile.cpu) == set(pipeline.order)
        assert set(profile.selectivity) == {(stream.source, stream.target) for stream in pipeline.streams}
        for there in (pipelines, [pipeline]):
            assert list(estimators_for({"it": profile}, there, in_batches=False)) == [pipeline.name]


def test_the_lead_time_does_not_depend_on_the_cycle(tmp_path: Path) -> None:
    """Polled every 10 s, a node that takes 12 s appears in the second observation."""
    path = tmp_path / "run.sqlite"
    run_simulation(replace(FLOW, cycle_s=10.0), LayoutSchedule([(50.0, {}, 5)]), guards=(), store=path)
    costs = learn_from_store(path, kinds=QUICK).profile.costs
    assert costs is not None
    assert costs.lead_time_s == Spread(mean=12.0, deviation=0.0, samples=1)


def test_a_pipeline_term_of_an_incompatible_version_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    run_simulation(FLOW, LayoutSchedule([]), guards=(), store=path)
    with contextlib.closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE terms SET value = '{\"name\": 7}' WHERE name = 'pipeline'")
    found = learn_from_store(path, kinds=QUICK).profile
    assert (found.pipeline, found.selectivity, set(found.cpu)) == ("run", {}, set(TOP_WORDS.pipeline.order))


def test_invalid_readings_are_left_out_and_counted(tmp_path: Path) -> None:
    """Text, infinity and counts below 0, in a store that had none of them before."""
    sound, path = on_spark(tmp_path / "sound.sqlite", "q"), on_spark(tmp_path / "run.sqlite", "q")
    with contextlib.closing(sqlite3.connect(path)) as file, file:
        (series,) = file.execute(
            "SELECT id FROM series WHERE subject = 'reader' AND metric = 'rows-in'"
        ).fetchone()
        bad = [(115.0, "many"), (125.0, float("inf")), (135.0, -1e6), (145.0, b"\0"), (float("inf"), 1.0)]
        file.executemany(f"INSERT INTO readings VALUES ({series}, ?, ?)", bad)
    found = learn_from_store(path, kinds=QUICK)
    assert found.profile == learn_from_store(sound, kinds=QUICK).profile
    assert found.notes[-1] == "5 readings were left out: readings must be numbers of 0 or more"


BAD = {
    "tasks = 0": "json_set(body, '$.stages[0].tasks', 0)",
    "tasks below 0": "json_set(body, '$.stages[0].tasks', -3)",
    "task time below 0": "json_set(body, '$.stages[0].task_time_s', -5)",
    "another index": "json_set(body, '$.stages[0].index', 3)",
    "rows below 0": "json_set(body, '$.rows', -100)",
    "longer than all time": "json_set(body, '$.duration_s', 1e308)",
    "garbage": "'moon'",
}


@pytest.mark.parametrize("body", BAD.values(), ids=BAD)
def test_invalid_batches_are_left_out_and_counted(tmp_path: Path, body: str) -> None:
    own = {"a": ("parse",), "b": ("join",)}
    sound, path = (two_queries(tmp_path / f"{name}.sqlite", app="the job", own=own) for name in ("s", "run"))
    with contextlib.closing(sqlite3.connect(sound)) as file, file:
        file.execute("DELETE FROM batches WHERE query = 'a' AND time_s IN (200, 400)")
    with contextlib.closing(sqlite3.connect(path)) as file, file:
        file.execute(f"UPDATE batches SET body = {body} WHERE query = 'a' AND time_s IN (200, 400)")
    found = learn_from_store(path, "a", kinds=QUICK)
    assert found.profile == learn_from_store(sound, "a", kinds=QUICK).profile
    assert found.notes == ("2 batches were left out: unreadable or invalid",)


def test_a_store_with_invalid_batches_only_is_not_taken_for_an_older_one(tmp_path: Path) -> None:
    path = two_queries(tmp_path / "run.sqlite", app="a", own={"a": ("parse",), "b": ("join",)})
    with contextlib.closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE batches SET body = 'moon'")
    notes = learn_from_store(path, "a", kinds=QUICK).notes
    assert [note.split(":")[0] for note in notes] == [
        "it is unknown which operators belong to which of a, b",
        "120 batches were left out",
    ]


def test_an_impossible_date_is_a_one_line_error(tmp_path: Path) -> None:
    with contextlib.closing(Store(tmp_path / "run.sqlite", ManualClock())) as store:
        store.add([Reading(1e15, "main", Metric.NODES, 1.0)])
    with pytest.raises(InputError, match="which is not a date"):
        learn_from_store(tmp_path / "run.sqlite")


def test_the_store_of_an_earlier_run_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a simulated run reads, kept in a real store and learned from later."""
    store, learn = Store(tmp_path / "run.sqlite", ManualClock()), ProfileLearner.learn

    def kept(self: ProfileLearner, readings: list, batches: tuple = ()) -> None:
        readings = list(readings)
        store.add(readings)
        learn(self, readings, batches)

    monkeypatch.setattr(ProfileLearner, "learn", kept)
    direct = SimulatedProfiling(pipeline="sentiment", steps=2, hold_s=60.0, kinds=QUICK).run().profile
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


# -- jobs with several queries -------------------------------------------------------------------------


def a_batch(query: str, ended_s: float, rows: int, operators: Iterable[str], *, per_row_s: float) -> Batch:
    """Of one stage with four tasks of 10 ms and so much a row, and 0.3 s of the driver."""
    task_time_s = 0.04 + per_row_s * rows
    stage = StageRun(
        index=0, tasks=4, task_time_s=task_time_s, cpu_time_s=task_time_s, wall_s=task_time_s / 4,
        longest_task_s=task_time_s / 4,
    )  # fmt: skip
    took_s = 0.3 + stage.wall_s
    return Batch(
        query=query, batch_id=int(ended_s), started_s=ended_s - took_s, duration_s=took_s, rows=rows, slots=4,
        trigger_interval_s=10.0, arrival_rate_per_s=rows / 10, backlog_rows=0.0, oldest_arrival_s=ended_s - 10.0,
        stages=(stage,), operators=tuple(OperatorRun(name=n, rows_in=rows, rows_out=rows) for n in operators),
    )  # fmt: skip


def two_queries(path: Path, *, app: str, own: dict[str, tuple[str, ...]]) -> Path:
    """A job of queries a and b on two nodes of a core; a row costs b's operators twice the CPU that it costs a's."""
    with contextlib.closing(Store(path, ManualClock())) as store:
        for k in range(1, 61):
            now_s, each = 10.0 * k, {"a": 1000 + 10 * k, "b": 4000 - 30 * k}
            batches = [
                a_batch(query, now_s, rows, own[query], per_row_s=1e-4 if query == "a" else 5e-4)
                for query, rows in each.items()
            ]
            readings = [Reading(b.ended_s, b.query, Metric.BATCH_ROWS, float(b.rows)) for b in batches]
            used = 0.0
            for query, names in own.items():
                for name in names:
                    cpu = 1e-4 * each[query] * (1 if query == "a" else 2) / 10
                    used += cpu
                    readings += [
                        Reading(now_s, name, Metric.ROWS_IN, 2.0 * each[query]),
                        Reading(now_s, name, Metric.INSTANCES, 1.0),
                        Reading(now_s, name, Metric.INSTANCE_CPU, cpu),
                    ]
            readings += [
                Reading(now_s, app, Metric.BATCH_ROWS, float(sum(each.values()))),
                Reading(now_s, app, Metric.STATE_ROWS, 77.0),
                Reading(now_s, "main", Metric.SLOTS, 2.0),
                Reading(now_s, "main", Metric.NODES, 2.0),
                *(Reading(now_s, f"executor-{n}", Metric.NODE_CPU, used / 2) for n in (1, 2)),
            ]
            store.add(readings, batches)
        store.add([
            Reading(300.0, "b", Metric.RESTART_STOP, 1.0),
            Reading(300.0, "b", Metric.RESTART_STATE, 0.0),
            Reading(300.0, "b", Metric.RESTART_START, 2.0),
        ])  # fmt: skip
    return path


@pytest.mark.parametrize("app", ["the job", "a"])
def test_a_query_is_distinguished_from_others_and_from_an_application_of_the_same_name(
    tmp_path: Path, app: str
) -> None:
    path = two_queries(tmp_path / "run.sqlite", app=app, own={"a": ("parse",), "b": ("join", "count")})
    a, b = (learn_from_store(path, query, kinds=QUICK).profile for query in "ab")
    assert a.costs is not None
    assert b.costs is not None
    assert (a.costs.per_row_s, b.costs.per_row_s) == pytest.approx((1e-4, 5e-4), rel=0.01)
    assert (a.costs.driver_s, b.costs.driver_s) == pytest.approx((0.3, 0.3), rel=0.01)
    assert (set(a.cpu), set(b.cpu)) == ({"parse"}, {"join", "count"})
    assert {ends: s.mean for ends, s in a.selectivity.items()} == pytest.approx({("a", "parse"): 2.0})
    assert {ends: s.mean for ends, s in b.selectivity.items()} == pytest.approx(
        {("b", "count"): 2.0, ("b", "join"): 2.0}
    )
    assert (a.costs.restart_s, b.costs.restart_s) == (None, 3.0)
    assert a.costs.state_rows is None, "what is read of all queries together is of none of them"


def test_the_cpu_of_a_node_is_that_of_all_queries_on_it(tmp_path: Path) -> None:
    path = two_queries(tmp_path / "run.sqlite", app="the job", own={"a": ("parse",), "b": ("join", "count")})
    node = learn_from_store(path, "a", kinds=QUICK).profile.node
    assert node.estimate(node.high).value == pytest.approx(node.high, rel=0.01), "no overhead, as it was made"


def test_an_operator_name_used_by_two_queries_is_left_out_with_a_note(tmp_path: Path) -> None:
    path = two_queries(tmp_path / "run.sqlite", app="the job", own={"a": ("parse", "x"), "b": ("join", "x")})
    found = learn_from_store(path, "a", kinds=QUICK)
    assert set(found.profile.cpu) == {"parse"}
    assert set(found.profile.selectivity) == {("a", "parse")}
    assert found.notes == ("operator x exists in a and b: nothing is learned about it",)


# -- readings alone: stores of versions that kept no batches -------------------------------------------

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
    assert found.costs is None
    rates = Estimator(found.graph, found).input_rates({"sentiment": 10.0})
    assert rates == pytest.approx({name: 10.0 * number for number, name in enumerate(OPERATORS, start=1)})
    assert Profile.from_text(found.to_text()) == found


def test_with_several_queries_one_must_be_chosen_and_operators_are_not_guessed(tmp_path: Path) -> None:
    path = on_spark(tmp_path / "run.sqlite", "a", "b")
    with pytest.raises(InputError, match="has batches of a, b; choose one with --pipeline"):
        learn_from_store(path)
    with pytest.raises(InputError, match="no batches of 'c', but of a, b"):
        learn_from_store(path, "c")
    phase = learn_from_store(path, "b", kinds=QUICK)
    assert (phase.profile.pipeline, phase.profile.selectivity) == ("b", {})
    assert set(phase.profile.cpu) == set(OPERATORS)
    assert "which operators belong to which of a, b: they are taken together" in phase.notes[1]


def test_a_store_without_readings_is_an_error(tmp_path: Path) -> None:
    Store(tmp_path / "empty.sqlite", ManualClock()).close()
    with pytest.raises(InputError, match="no readings"):
        learn_from_store(tmp_path / "empty.sqlite")
    with pytest.raises(InputError, match="there is no store"):
        learn_from_store(tmp_path / "none.sqlite", "p")
