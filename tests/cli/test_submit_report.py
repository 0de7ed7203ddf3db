"""The report of ``ebbflow submit`` for long jobs and for several queries."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ebbflow.cli import submit as module
from ebbflow.core.batches import Batch
from ebbflow.core.clock import ManualClock
from ebbflow.core.decision import Decision, LedgerEntry, Outcome
from ebbflow.core.layout import MAIN, Layout
from ebbflow.core.metrics import Metric
from ebbflow.core.readings import Reading
from ebbflow.errors import StoreError
from ebbflow.monitoring.store import Store
from ebbflow.runs import stored_run


class Loop:
    """What ``attach`` returns, of a loop that writes nothing by itself."""

    agents = None

    def stop(self, within_s: float) -> None:
        """Nothing runs."""


def a_batch(query: str, started_s: float, rows: int, waited_s: float) -> Batch:
    return Batch(
        query=query, batch_id=1, started_s=started_s, duration_s=1.0, rows=rows, slots=1, trigger_interval_s=5.0,
        arrival_rate_per_s=1.0, backlog_rows=None, oldest_arrival_s=started_s - waited_s,
    )  # fmt: skip


Submit = Callable[[Any, Callable[[Any, list[Path]], int]], tuple[int, dict[str, Any]]]


@pytest.fixture
def submitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Submit:
    """Submits a script that is not run: what ``attach`` returns, and what happens meanwhile, is given."""
    script, out = tmp_path / "job.py", tmp_path / "out.json"
    script.write_text("")
    for name in ("check_java", "check_master_to_scale", "use_this_python"):
        monkeypatch.setattr(module, name, lambda *arguments: None)

    def submit(loop: Any, run: Callable[[Any, list[Path]], int]) -> tuple[int, dict[str, Any]]:
        stores: list[Path] = []

        def attach(spark: Any, *, store: Path, **rest: Any) -> Any:
            stores.append(store)
            return loop

        def run_script(script: Path, arguments: list[str], *, on_session: Any, **rest: Any) -> int:
            return run(on_session, stores)

        monkeypatch.setattr(module, "attach", attach)
        monkeypatch.setattr(module, "run_script", run_script)
        code = module.submit(
            script, json_report=out, report=tmp_path / "page.html", master="spark://host:7077"
        )
        return code, dict(json.loads(out.read_text()))

    return submit


def test_the_exit_code_is_the_jobs_own_even_if_scaling_cannot_be_stopped(
    submitted: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Loop, *arguments: Any, **options: Any) -> None:
        raise StoreError("store run.sqlite: database or disk is full")

    monkeypatch.setattr(Loop, "stop", fail)
    code, report = submitted(Loop(), lambda on_session, _: on_session(None) or 7)
    assert code == report["exit_code"] == 7
    assert report["rows_in"] == 0


def test_the_exit_code_is_the_jobs_own_even_if_the_store_cannot_be_read(
    submitted: Submit, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(path: Path) -> None:
        raise StoreError("store run.sqlite: database or disk is full")

    monkeypatch.setattr(module, "read_run", fail)
    (tmp_path / "out.json").write_text("{}")
    assert submitted(Loop(), lambda on_session, _: on_session(None) or 7) == (7, {})


@pytest.mark.parametrize(
    ("code", "words"),
    [(0, "opened no Spark session"), (130, "ended before it opened a Spark")],
)
def test_the_summary_says_why_there_was_no_session(
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
    monkeypatch.setattr(stored_run, "NEWEST_DECISIONS", 1)

    def run(on_session: Any, stores: list[Path]) -> int:
        on_session(None)
        with closing(Store(stores[0], clock)) as store:
            for number, nodes in enumerate((2, 3, 1, 1), start=1):
                entry = LedgerEntry(
                    entry_id=0, time_s=10.0 * number, strategy="capacity", before=Layout.of(1),
                    verdict="hold" if nodes == 1 else "act", outcome=Outcome(requested=Layout.of(nodes)),
                    decision=Decision(wanted=Layout.of(nodes), reason="r"),
                )  # fmt: skip
                store.append_ledger(entry.time_s, entry.verdict, entry.to_json())
            store.add(
                [Reading(151.0, MAIN, metric, 1.0) for metric in (Metric.NODES, Metric.NODES_HELD)],
                [a_batch("large", 150.0, 10_000, 2.0), a_batch("small", 150.0, 10, 100.0)],
                [a_batch("large", 20.0, 500, 0.0)],
            )
        clock.advance(180.0)
        return 0

    code, document = submitted(Loop(), run)
    assert code == 0
    return document


def test_every_act_is_listed_and_counted_and_so_are_the_holds_left_out(report: dict[str, Any]) -> None:
    assert report["reconfigurations"] == 2
    assert [entry["verdict"] for entry in report["decisions"]] == ["act", "act", "hold"]
    assert report["holds_left_out"] == 1


def test_each_query_is_scored_by_its_own_rows(report: dict[str, Any]) -> None:
    large, small = report["queries"]
    assert (large["query"], large["rows_in"], large["violation"]) == ("large", 10_500, 0.0)
    assert small["query"] == "small"
    assert small["violation"] == pytest.approx(0.71, abs=0.01), "of waits from 1 to 101 s, those over 30 s"
    assert report["rows_in"] == report["rows_out"] == 10_510, "those that the large one began with among them"
    assert report["latency_max_s"] == pytest.approx(101.0, abs=0.1)
    assert report["executors"] == [[0.0, 1.0]]
    assert report["node_seconds"] == pytest.approx(180.0)


def test_the_page_of_a_job_names_the_script(report: dict[str, Any], tmp_path: Path) -> None:
    text = (tmp_path / "page.html").read_text()
    assert "Ebbflow: job.py" in text
    assert "Scores cover the rows of all queries" in text
