"""The report of ``ebbflow submit``: what it says of a job that was long, or had several queries."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ebbflow.cli import submit as module
from ebbflow.control.attached import History
from ebbflow.control.loop import CycleReport
from ebbflow.core.batches import Batch
from ebbflow.core.clock import ManualClock
from ebbflow.core.decision import Decision, LedgerEntry, Outcome
from ebbflow.core.layout import Layout
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.ports import Observation
from ebbflow.errors import StoreError


class LongJob:
    """What ``attach`` answers: a loop that has changed the size 1,500 times and tells of its newest holds."""

    reconfigurations = 1500
    agents = None

    def history(self) -> History:
        def entry(number: int, nodes: int) -> LedgerEntry:
            return LedgerEntry(
                entry_id=number, time_s=10.0 * number, strategy="capacity", before=Layout.of(1),
                verdict="hold" if nodes == 1 else "act", outcome=Outcome(requested=Layout.of(nodes)),
                decision=Decision(wanted=Layout.of(nodes), reason="r"),
            )  # fmt: skip

        return History(entries=[entry(1, 2), entry(2, 3), entry(9, 1)], left_out=6)

    def stop(self, within_s: float) -> None:
        """Nothing runs."""


def a_batch(query: str, started_s: float, rows: int, waited_s: float) -> Batch:
    return Batch(
        query=query, batch_id=1, started_s=started_s, duration_s=1.0, rows=rows, slots=1, trigger_interval_s=5.0,
        arrival_rate_per_s=1.0, backlog_rows=None, oldest_arrival_s=started_s - waited_s,
    )  # fmt: skip


Submit = Callable[[Any, Callable[[Any, list[Any]], int]], tuple[int, dict[str, Any]]]


@pytest.fixture
def submitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Submit:
    """Submits a script that is not run: what ``attach`` answers, and what happens meanwhile, is given."""
    script, out = tmp_path / "job.py", tmp_path / "out.json"
    script.write_text("")
    for name in ("check_java", "check_master_to_scale", "use_this_python"):
        monkeypatch.setattr(module, name, lambda *arguments: None)

    def submit(loop: Any, run: Callable[[Any, list[Any]], int]) -> tuple[int, dict[str, Any]]:
        watching: list[Any] = []

        def attach(spark: Any, *, on_cycle: Any, **rest: Any) -> Any:
            watching.append(on_cycle)
            return loop

        def run_script(script: Path, arguments: list[str], *, on_session: Any, **rest: Any) -> int:
            return run(on_session, watching)

        monkeypatch.setattr(module, "attach", attach)
        monkeypatch.setattr(module, "run_script", run_script)
        code = module.submit(script, json_report=out, master="spark://host:7077")
        return code, dict(json.loads(out.read_text()))

    return submit


@pytest.mark.parametrize("what", ["stop", "history"])
def test_the_exit_code_is_the_jobs_own_whatever_becomes_of_our_part(
    submitted: Submit, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    def fail(self: LongJob, *arguments: Any, **options: Any) -> None:
        raise StoreError("store run.sqlite: database or disk is full")

    monkeypatch.setattr(LongJob, what, fail)
    code, report = submitted(LongJob(), lambda on_session, _: on_session(None) or 7)
    assert code == report["exit_code"] == 7
    assert report["holds_left_out"] == (6 if what == "stop" else 0)
    assert report["reconfigurations"] == 1500


@pytest.mark.parametrize(
    ("code", "words"),
    [(0, "opened no Spark session of its own"), (130, "was ended before it opened a Spark")],
)
def test_a_script_without_a_session_is_told_from_one_that_was_ended_before(
    submitted: Submit, monkeypatch: pytest.MonkeyPatch, code: int, words: str
) -> None:
    said: list[str] = []
    monkeypatch.setattr(module, "say", said.append)
    assert submitted(None, lambda *_: code)[0] == code
    assert words in said[0]


@pytest.fixture
def report(submitted: Submit, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Of a job of three minutes, with a large query that is fresh and a small one that is late."""
    clock = ManualClock(0.0)
    monkeypatch.setattr(module, "SystemClock", lambda: clock)

    def run(on_session: Any, watching: list[Any]) -> int:
        on_session(None)
        seen = Observation(
            time_s=151.0, pipeline=Pipeline(name="job", operators=()), layout=Layout.of(1), requested=Layout.of(1),
            slots_per_node=1, lead_time_s=10.0,
            first_batches=[a_batch("large", 20.0, 500, 0.0)],
            batches=[a_batch("large", 150.0, 10_000, 2.0), a_batch("small", 150.0, 10, 100.0)],
        )  # fmt: skip
        watching[0](CycleReport(observation=seen, entry=None, planned=None))
        clock.advance(180.0)
        return 0

    code, document = submitted(LongJob(), run)
    assert code == 0
    return document


def test_every_act_is_told_and_counted_and_the_holds_that_are_not_are_named(report: dict[str, Any]) -> None:
    assert report["reconfigurations"] == 1500
    assert [entry["verdict"] for entry in report["decisions"]] == ["act", "act", "hold"]
    assert report["holds_left_out"] == 6


def test_each_query_is_scored_by_its_own_rows(report: dict[str, Any]) -> None:
    large, small = report["queries"]
    assert (large["query"], large["rows_in"], large["violation"]) == ("large", 10_500, 0.0)
    assert small["query"] == "small"
    assert small["violation"] == pytest.approx(0.71, abs=0.01), "of waits from 1 to 101 s, those over 30 s"
    assert report["rows_in"] == report["rows_out"] == 10_510, "those that the large one began with among them"
    assert report["latency_max_s"] == pytest.approx(101.0, abs=0.1)
    assert report["rows_not_timed"] == 0
