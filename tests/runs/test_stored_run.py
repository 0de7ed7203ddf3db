"""A run is read back from its store, scored and drawn."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest

from ebbflow.core.batches import Batch
from ebbflow.core.clock import ManualClock
from ebbflow.core.curve import Curve
from ebbflow.core.decision import Decision, LedgerEntry, Outcome
from ebbflow.core.layout import MAIN, Layout
from ebbflow.core.metrics import Metric
from ebbflow.core.readings import Reading
from ebbflow.errors import InputError, NoStoreError
from ebbflow.monitoring import store as store_module
from ebbflow.monitoring.store import PRUNE_EVERY_S, Store
from ebbflow.runs import stored_run
from ebbflow.runs.score import score
from ebbflow.runs.simulation import oracle_of, run_simulation
from ebbflow.runs.stored_run import ARRIVED, LOST, PROCESSED, arrivals, node_changes, read_run
from ebbflow.strategies import make_strategy
from ebbflow.targets.simulator import Scenario, Tenant, built_in_engine
from ebbflow.workloads import parse_load

TERMS = {"slo": "freshness p95 <= 30s", "nodes": "1:2", "target": "spark", "strategy": "s", "name": "job"}


class Recorder:
    """Writes a store as the loop does: observations, batches and decisions at their times."""

    def __init__(self, path: Path, started_s: float = 100.0, **terms: str) -> None:
        self.path = path
        self.store = Store(path, ManualClock(started_s))
        self.store.begin_run({**TERMS, "started_s": repr(started_s), **terms})

    def observe(
        self, time_s: float, working: int, held: int, *batches: Batch, first: Sequence[Batch] = ()
    ) -> None:
        readings = [
            Reading(time_s, MAIN, Metric.NODES, float(working)),
            Reading(time_s, MAIN, Metric.NODES_HELD, float(held)),
        ]
        self.store.add(readings, batches, first)

    def decide(self, time_s: float, nodes: int, before: int = 1) -> None:
        decision = Decision(wanted=Layout.of(nodes), reason="r")
        verdict = "hold" if nodes == before else "act"
        entry = LedgerEntry(
            entry_id=0, time_s=time_s, strategy="capacity", verdict=verdict, before=Layout.of(before),
            decision=decision, outcome=Outcome(requested=Layout.of(nodes)),
        )  # fmt: skip
        self.store.append_ledger(time_s, verdict, entry.to_json())

    def read(self, ended_s: float | None = 130.0) -> stored_run.StoredRun:
        if ended_s is not None:
            self.store.set_terms({"ended_s": repr(ended_s)})
        self.store.flush()
        return read_run(self.path)


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    made = Recorder(tmp_path / "run.sqlite")
    with contextlib.closing(made.store):
        yield made


def batch(number: int, started_s: float, rows: int, *, query: str = "q", waited_s: float = 10.0) -> Batch:
    return Batch(
        query=query, batch_id=number, started_s=started_s, duration_s=2.0, rows=rows, slots=1,
        trigger_interval_s=10.0, arrival_rate_per_s=rows / 10, backlog_rows=0.0,
        oldest_arrival_s=started_s - waited_s,
    )  # fmt: skip


@pytest.fixture
def two_batches(recorder: Recorder) -> Recorder:
    recorder.observe(103.0, 1, 1)
    recorder.observe(112.5, 1, 2, batch(1, 110.0, 50))
    recorder.observe(120.0, 2, 2)
    recorder.observe(122.5, 2, 2, batch(2, 120.0, 70))
    return recorder


def test_nodes_are_held_from_the_start_and_paid_for_from_the_request(two_batches: Recorder) -> None:
    run = two_batches.read().run
    assert node_changes(run) == [[0.0, 1.0], [20.0, 2.0]]
    assert run.nodes.integral(100.0, 130.0) == pytest.approx(12.5 * 1 + 17.5 * 2)


def test_older_stores_without_held_nodes_use_those_requested(recorder: Recorder) -> None:
    for time_s, working, requested in ((103.0, 1, 1), (112.5, 1, 2), (120.0, 2, 2), (125.0, 2, 1)):
        recorder.store.add(
            [
                Reading(time_s, MAIN, Metric.NODES, float(working)),
                Reading(time_s, MAIN, Metric.NODES_REQUESTED, float(requested)),
            ]
        )
    assert recorder.read().run.nodes.integral(100.0, 130.0) == pytest.approx(12.5 * 1 + 17.5 * 2)


def test_rows_and_their_waits_come_from_the_batches(two_batches: Recorder) -> None:
    scores = two_batches.read().scores()
    assert (scores.rows_in, scores.rows_out) == (120, 120)
    assert scores.latency_max_s == pytest.approx(12.0, abs=0.01)
    assert scores.violation == 0.0
    assert two_batches.read().score_values()["rows_repeated"] is None, "nothing compared source and sink"


def test_rows_a_query_began_with_count_and_waited_at_least_for_their_batch(recorder: Recorder) -> None:
    recorder.observe(112.5, 1, 1, first=[batch(0, 110.0, 40, waited_s=0.0)])
    recorder.observe(122.5, 1, 1, batch(1, 120.0, 60))
    stored = recorder.read()
    scores = stored.scores()
    assert (scores.rows_in, scores.rows_out) == (100, 100)
    assert scores.latency_max_s == pytest.approx(12.0), "of the second batch"
    assert scores.latency_p50_s == pytest.approx(2 + 10 / 6), "40 that waited 2 s, then those from 2 to 12 s"
    assert len(stored.run.batches) == 1
    assert len(Store.read_batches(recorder.path).batches) == 1, "profiles and replays do not learn from it"


def test_a_first_batch_that_took_longer_than_the_slo_was_late(recorder: Recorder) -> None:
    slow = msgspec.structs.replace(batch(0, 110.0, 40, waited_s=0.0), duration_s=31.0)
    recorder.observe(141.5, 1, 1, first=[slow])
    assert recorder.read(150.0).scores().violation == 1.0


def test_a_late_small_query_does_not_hide_behind_a_fresh_large_one(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "two.sqlite", started_s=60.0)
    recorder.observe(103.0, 1, 1)
    for k in range(1, 3):
        recorder.observe(102.5 + 10 * k, 1, 1, batch(k, 100.0 + 10 * k, 500))
    # Ten rows that came from 70 to 130, evenly, and are done at 132: 32 of their 60 s are later than the SLO.
    recorder.observe(132.5, 1, 1, batch(0, 130.0, 10, query="small", waited_s=60.0))
    stored = recorder.read(140.0)
    recorder.store.close()
    scores = stored.scores()
    assert (scores.rows_in, scores.rows_out) == (1010, 1010)
    assert scores.latency_max_s == pytest.approx(62.0, abs=0.01)
    assert scores.violation == pytest.approx(10 * 32 / 60 / 1010, rel=0.01)
    assert scores.node_seconds == pytest.approx(80.0), "nodes are paid for once"
    big, small = stored.query_scores()
    assert (big["query"], small["query"]) == ("q", "small")
    assert big["violation"] == 0.0
    assert small["violation"] == pytest.approx(32 / 60, rel=0.01)


def test_one_query_scores_the_same_as_all_rows_together(two_batches: Recorder) -> None:
    stored = two_batches.read()
    assert stored.scores() == score(stored.run, oracle_node_seconds=None)


def test_only_the_last_run_of_a_store_is_read(two_batches: Recorder) -> None:
    two_batches.decide(110.0, 2)
    two_batches.store.set_curves({(ARRIVED, "job"): Curve.of([(100.0, 0.0), (130.0, 999.0)])})
    two_batches.store.begin_run({**TERMS, "strategy": "other", "started_s": "500.0"})
    two_batches.observe(503.0, 2, 2)
    two_batches.observe(512.5, 2, 2, batch(1, 510.0, 30))
    two_batches.decide(512.0, 2, before=2)
    stored = two_batches.read(520.0)
    assert stored.run.strategy == "other"
    assert stored.scores().rows_in == 30
    assert [entry.verdict for entry in stored.run.decisions] == ["hold"]
    assert stored.run.nodes.integral(500.0, 520.0) == 40.0


def test_every_act_is_read_and_only_the_newest_holds(
    two_batches: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_run, "NEWEST_DECISIONS", 2)
    two_batches.decide(104.0, 2)
    for time_s in (105.0, 106.0, 107.0, 108.0):
        two_batches.decide(time_s, 2, before=2)
    stored = two_batches.read()
    assert [entry.time_s for entry in stored.run.decisions] == [104.0, 107.0, 108.0]
    assert stored.holds_left_out == 2
    assert stored.run.reconfigurations == 1


def test_a_run_without_an_end_ends_with_its_last_reading(two_batches: Recorder) -> None:
    stored = two_batches.read(ended_s=None)
    assert (stored.run.ended_s, stored.ended) == (122.5, False)


def test_an_end_from_a_clock_that_was_set_back_is_the_last_reading(two_batches: Recorder) -> None:
    assert two_batches.read(ended_s=40.0).run.ended_s == 122.5
    assert two_batches.read(ended_s=122.0).run.ended_s == 122.0, "the loop may cycle once more while it ends"


def test_a_run_whose_start_was_pruned_is_scored_over_the_rest(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "long.sqlite", started_s=100.0)
    late_s = 100.0 + PRUNE_EVERY_S * 30
    recorder.observe(late_s, 1, 1)
    recorder.observe(late_s + 12.5, 1, 1, batch(1, late_s + 10.0, 50))
    stored = recorder.read(late_s + 20.0)
    recorder.store.close()
    assert stored.pruned_s == PRUNE_EVERY_S * 30
    assert stored.scores().node_seconds == pytest.approx(20.0)


def test_known_arrivals_and_an_audited_sink_replace_what_was_observed(two_batches: Recorder) -> None:
    came = arrivals(parse_load("constant(10)"), 100.0, 130.0)
    assert float(came.interpolated(130.0)) == 300.0
    done = Curve.of([(100.0, 0.0), (112.0, 110.0), (130.0, 280.0)])
    lost = Curve(came.times_s, np.minimum(came.values, 20.0))
    two_batches.store.set_curves({(ARRIVED, "job"): came, (PROCESSED, "job"): done, (LOST, "job"): lost})
    two_batches.store.set_terms({"rows_repeated": "3", "oracle_node_seconds": "30.0"})
    values = two_batches.read().score_values()
    assert (values["rows_in"], values["rows_out"], values["rows_lost"], values["rows_repeated"]) == (
        300,
        280,
        20,
        3,
    )
    assert values["cost_ratio"] == pytest.approx(47.5 / 30.0)


def test_a_store_without_observations_has_no_rows_and_no_nodes(recorder: Recorder) -> None:
    stored = recorder.read()
    assert stored.queries == []
    assert node_changes(stored.run) == []
    assert stored.scores().rows_in == 0
    assert stored.scores().node_seconds is None


def test_a_damaged_batch_is_counted_and_the_rest_is_read(two_batches: Recorder) -> None:
    two_batches.store.flush()
    two_batches.store._fast.execute("UPDATE batches SET body = '{' WHERE time_s = 112.0")
    two_batches.store._fast.commit()
    stored = two_batches.read()
    assert stored.damaged_batches == 1
    assert stored.scores().rows_in == 70


def test_what_is_not_a_store_or_has_no_terms_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoStoreError, match="there is no store"):
        read_run(tmp_path / "none.sqlite")
    with contextlib.closing(Store(tmp_path / "bare.sqlite", ManualClock(0.0))):
        pass
    with pytest.raises(InputError, match="does not say which SLO"):
        read_run(tmp_path / "bare.sqlite")


@pytest.mark.parametrize("engine", ["micro-batch", "continuous"])
def test_a_simulated_run_scores_the_same_from_its_store(tmp_path: Path, engine: str) -> None:
    scenario = Scenario(
        engine=built_in_engine("top-words", engine), load=parse_load("sine(base=50, peak=600, period=5m)"),
        seconds=600.0,
    )  # fmt: skip
    run = run_simulation(scenario, make_strategy("capacity"), store=tmp_path / "run.sqlite").run
    stored = read_run(tmp_path / "run.sqlite")
    assert stored.scores() == score(run, oracle_node_seconds=None)
    assert [(e.time_s, e.decision.reason) for e in stored.run.decisions] == [
        (e.time_s, e.decision.reason) for e in run.decisions
    ]
    assert oracle_of(scenario, stored.run) is not None


def test_pipelines_that_share_nodes_score_the_same_from_their_store(tmp_path: Path) -> None:
    from ebbflow.runs.score import score_together

    scenario = Scenario(
        engine=built_in_engine("top-words"), load=parse_load("constant(200)"), seconds=300.0,
        others=(Tenant(engine=built_in_engine("sentiment"), load=parse_load("constant(50)")),),
    )  # fmt: skip
    simulation = run_simulation(scenario, make_strategy("capacity"), store=tmp_path / "run.sqlite")
    stored = read_run(tmp_path / "run.sqlite")
    assert [run.pipeline for run in stored.queries] == ["top-words", "sentiment"]
    assert stored.scores() == score_together(simulation.runs)


def test_a_simulation_does_not_wait_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two days of cycles are 50,000 transactions. A running job waits for each ledger entry."""
    modes = []
    connect = store_module._connect

    def remember(path: Path, *, synchronous: str, wait_s: float) -> sqlite3.Connection:
        modes.append(synchronous)
        return connect(path, synchronous=synchronous, wait_s=wait_s)

    monkeypatch.setattr(store_module, "_connect", remember)
    scenario = Scenario(engine=built_in_engine("top-words"), load=parse_load("constant(300)"), seconds=60)
    run_simulation(scenario, make_strategy("capacity"), store=tmp_path / "simulated.sqlite")
    Store(tmp_path / "job.sqlite", ManualClock()).close()
    assert modes == ["OFF", "OFF", "NORMAL", "FULL"]
