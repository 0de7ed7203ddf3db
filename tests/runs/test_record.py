"""What a loop saw becomes a run that can be scored."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from ebbflow.control.loop import CycleReport
from ebbflow.core.batches import Batch
from ebbflow.core.decision import Decision, LedgerEntry
from ebbflow.core.layout import Layout
from ebbflow.core.limits import Limits
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.ports import Observation
from ebbflow.core.slo import Slo
from ebbflow.runs.record import RunRecorder
from ebbflow.runs.score import score
from ebbflow.workloads import parse_load


def seen(time_s: float, nodes: int, held: int, *batches: Batch, first: tuple[Batch, ...] = ()) -> CycleReport:
    observation = Observation(
        time_s=time_s,
        pipeline=Pipeline(name="p", operators=()),
        layout=Layout.of(nodes),
        requested=Layout.of(nodes),
        slots_per_node=1,
        lead_time_s=10.0,
        held_nodes=held,
        batches=batches,
        first_batches=first,
    )
    return CycleReport(observation=observation, entry=None, planned=None)


def batch(number: int, started_s: float, rows: int, *, query: str = "q", waited_s: float = 10.0) -> Batch:
    return Batch(
        query=query, batch_id=number, started_s=started_s, duration_s=2.0, rows=rows, slots=1,
        trigger_interval_s=10.0, arrival_rate_per_s=rows / 10, backlog_rows=0.0,
        oldest_arrival_s=started_s - waited_s,
    )  # fmt: skip


def decided(time_s: float) -> LedgerEntry:
    held = Layout.of(1)
    return LedgerEntry(
        entry_id=1, time_s=time_s, strategy="s", verdict="hold", before=held,
        decision=Decision(wanted=held, reason="r"),
    )  # fmt: skip


def recorded() -> RunRecorder:
    recorder = RunRecorder()
    recorder(seen(103.0, 1, 1))
    recorder(seen(112.5, 1, 2, batch(1, 110.0, 50)))
    recorder(seen(120.0, 2, 2))
    recorder(seen(122.5, 2, 2, batch(2, 120.0, 70)))
    return recorder


def as_run(recorder: RunRecorder):
    return recorder.run(
        strategy="s", pipeline="p", slo=Slo(freshness_s=30.0), limits=Limits(min_nodes=1, max_nodes=2),
        started_s=100.0, ended_s=130.0, decisions=[],
    )  # fmt: skip


def test_nodes_are_held_from_the_start_and_paid_for_from_being_asked_for() -> None:
    run = as_run(recorded())
    assert recorded().executors(100.0) == [[0.0, 1.0], [20.0, 2.0]]
    assert run.nodes.integral(100.0, 130.0) == pytest.approx(12.5 * 1 + 17.5 * 2)


def test_rows_and_their_waits_come_from_the_batches() -> None:
    scores = score(as_run(recorded()), oracle_node_seconds=None)
    assert (scores.rows_in, scores.rows_out) == (120, 120)
    assert scores.latency_max_s == pytest.approx(12.0, abs=0.01)
    assert scores.violation == 0.0


def test_rows_that_a_query_began_with_are_counted_and_waited_at_least_for_their_batch() -> None:
    recorder = RunRecorder()
    recorder(seen(112.5, 1, 1, first=(batch(0, 110.0, 40, waited_s=0.0),)))
    recorder(seen(122.5, 1, 1, batch(1, 120.0, 60)))
    scores = recorder.score(as_run(recorder))
    assert (scores.rows_in, scores.rows_out) == (100, 100)
    assert scores.latency_max_s == pytest.approx(12.0), "of the second batch"
    assert scores.latency_p50_s == pytest.approx(2 + 10 / 6), "40 that waited 2 s, then those from 2 to 12 s"
    assert len(as_run(recorder).batches) == 1


def test_a_first_batch_that_took_longer_than_the_objective_was_late() -> None:
    recorder = RunRecorder()
    slow = msgspec.structs.replace(batch(0, 110.0, 40, waited_s=0.0), duration_s=31.0)
    recorder(seen(141.5, 1, 1, first=(slow,)))
    run = recorder.run(
        strategy="s", pipeline="p", slo=Slo(freshness_s=30.0), limits=Limits(min_nodes=1, max_nodes=2),
        started_s=100.0, ended_s=150.0, decisions=[],
    )  # fmt: skip
    assert recorder.score(run).violation == 1.0


def test_a_small_query_that_is_late_does_not_hide_behind_a_large_one_that_is_fresh() -> None:
    recorder = RunRecorder()
    recorder(seen(103.0, 1, 1))
    for k in range(1, 3):
        recorder(seen(102.5 + 10 * k, 1, 1, batch(k, 100.0 + 10 * k, 500)))
    # Ten rows that came from 70 to 130, evenly, and are done at 132: 32 of their 60 s are later than the objective.
    recorder(seen(132.5, 1, 1, batch(0, 130.0, 10, query="small", waited_s=60.0)))
    run = recorder.run(
        strategy="s", pipeline="p", slo=Slo(freshness_s=30.0), limits=Limits(min_nodes=1, max_nodes=2),
        started_s=60.0, ended_s=140.0, decisions=[],
    )  # fmt: skip
    scores = recorder.score(run)
    assert (scores.rows_in, scores.rows_out) == (1010, 1010)
    assert scores.latency_max_s == pytest.approx(62.0, abs=0.01)
    assert scores.violation == pytest.approx(10 * 32 / 60 / 1010, rel=0.01)
    assert scores.node_seconds == pytest.approx(80.0), "nodes are paid for once"
    big, small = recorder.by_query(run)
    assert (big.pipeline, small.pipeline) == ("q", "small")
    assert score(big, oracle_node_seconds=None).violation == 0.0
    assert score(small, oracle_node_seconds=None).violation == pytest.approx(32 / 60, rel=0.01)


def test_one_query_scores_the_same_alone_and_by_query() -> None:
    recorder = recorded()
    run = as_run(recorder)
    assert recorder.score(run) == score(run, oracle_node_seconds=None)


def test_rows_of_batches_that_are_too_old_to_keep_stay_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ebbflow.runs.record._KEEP", 6)
    recorder = RunRecorder()
    for k in range(1, 11):
        both = (batch(k, 100.0 + 10 * k, 50), batch(k, 100.0 + 10 * k, 7, query="small"))
        recorder(seen(102.5 + 10 * k, 1, 1, *both))
    run = recorder.run(
        strategy="s", pipeline="p", slo=Slo(freshness_s=30.0), limits=Limits(min_nodes=1, max_nodes=2),
        started_s=100.0, ended_s=210.0, decisions=[],
    )  # fmt: skip
    scores = recorder.score(run)
    assert (scores.rows_in, scores.rows_out) == (570, 570)
    assert recorder.rows_not_timed == 7 * 57
    assert scores.latency_max_s == pytest.approx(12.0, abs=0.01), "no row waited for those that are forgotten"
    assert scores.violation == 0.0


def test_changes_are_counted_by_who_knows_them_all() -> None:
    run = recorded().run(
        strategy="s", pipeline="p", slo=Slo(freshness_s=30.0), limits=Limits(min_nodes=1, max_nodes=2),
        started_s=100.0, ended_s=130.0, decisions=[], reconfigurations=1234,
    )  # fmt: skip
    assert run.reconfigurations == 1234


def test_nothing_seen_is_no_executors_and_no_rows() -> None:
    recorder = RunRecorder()
    assert recorder.executors(0.0) == []
    assert recorder.score(as_run(recorder)).rows_in == 0
    assert recorder.by_query(as_run(recorder)) == []
    assert score(as_run(recorder), oracle_node_seconds=None).rows_in == 0


def test_what_is_seen_after_the_clock_was_set_back_goes_on_where_it_stood() -> None:
    recorder = RunRecorder()
    recorder(seen(1003.0, 1, 1))
    recorder(seen(1012.5, 1, 1, batch(1, 1010.0, 50)))
    recorder(seen(13.5, 2, 2))  # a second later, the clock shows 1000 s less
    straddles = msgspec.structs.replace(batch(2, 1020.0, 70), duration_s=2.0)
    recorder(seen(22.5, 2, 2, straddles))
    recorder(seen(32.5, 2, 2, batch(3, 30.0, 60)))
    run = recorder.run(
        strategy="s", pipeline="p", slo=Slo(freshness_s=30.0), limits=Limits(min_nodes=1, max_nodes=2),
        started_s=1000.0, ended_s=40.0, decisions=[decided(1005.0), decided(1011.0), decided(14.0), decided(33.0)],
    )  # fmt: skip
    scores = recorder.score(run)
    assert (scores.rows_in, scores.rows_out) == (180, 180)
    assert scores.latency_max_s == pytest.approx(12.0, abs=1.0)
    # Not even the second is known in which it was set back: time stands still in it.
    assert recorder.executors(1000.0) == [[0.0, 1.0], [12.5, 2.0]]
    assert run.ended_s == pytest.approx(1039.0)
    assert [entry.time_s for entry in run.decisions] == [1005.0, 1011.0, 1013.0, 1032.0]
    assert [b.started_s for b in run.batches] == [1010.0, 1020.0, 1029.0]


def test_a_load_is_counted_to_the_end_of_the_run_though_the_clock_was_set_back() -> None:
    recorder = RunRecorder()
    for time_s in (1003.0, 1010.0, 1019.0, 20.0, 30.0, 39.0):
        recorder(seen(time_s, 1, 1))
    run = recorder.run(
        strategy="s", pipeline="p", slo=Slo(freshness_s=30.0), limits=Limits(min_nodes=1, max_nodes=2),
        started_s=1000.0, ended_s=40.0, decisions=[], load=parse_load("constant(10)"),
    )  # fmt: skip
    assert run.ended_s == 1039.0
    assert run.arrived.times_s[0] == 1000.0
    assert (np.diff(run.arrived.times_s) > 0).all()
    assert float(run.arrived.interpolated(run.ended_s)) == 390.0


def test_a_run_does_not_end_before_it_began_though_the_last_look_was_before_the_clock_was_set_back() -> None:
    recorder = RunRecorder()
    recorder(seen(1003.0, 1, 1))
    run = recorder.run(
        strategy="s", pipeline="p", slo=Slo(freshness_s=30.0), limits=Limits(min_nodes=1, max_nodes=2),
        started_s=1000.0, ended_s=40.0, decisions=[], load=parse_load("constant(10)"),
    )  # fmt: skip
    assert run.ended_s == 1000.0
    assert score(run, oracle_node_seconds=None).rows_in == 0


def test_a_look_that_is_shown_twice_is_taken_once() -> None:
    recorder = RunRecorder()
    for _ in range(3):  # while nothing can be seen, the last look is shown
        recorder(seen(112.5, 1, 1, batch(1, 110.0, 50)))
    assert recorder.score(as_run(recorder)).rows_in == 50
