"""A live run: its processed rows if the clock is set back, and a query that fails."""

from __future__ import annotations

import threading
from contextlib import closing, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ebbflow.core.clock import ManualClock, SystemClock
from ebbflow.core.layout import MAIN
from ebbflow.core.metrics import Metric
from ebbflow.core.readings import Reading
from ebbflow.errors import TargetError
from ebbflow.monitoring.store import Store
from ebbflow.papers.elysium import demo as demo_run
from ebbflow.papers.elysium.demo import LiveScenario, _processed, run_live
from ebbflow.papers.elysium.pipelines.steps import ROW_MARK
from ebbflow.papers.elysium.pipelines.top_words import Rankings, TopWords
from ebbflow.runs.stored_run import arrivals
from ebbflow.workloads import parse_load

STARTED_S = 1_700_000_000.0


def progress(began_s: float, end_row: int) -> dict[str, Any]:
    """The progress of a batch that took two seconds."""
    stamp = datetime.fromtimestamp(began_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {
        "timestamp": stamp,
        "durationMs": {"triggerExecution": 2000},
        "sources": [{"endOffset": {"row": end_row}}],
    }


@pytest.mark.parametrize("set_back_at_s", [None, 7.5, 28.5, 57.5])
@pytest.mark.parametrize("by_s", [30.0, 3600.0])
def test_processed_rows_stay_on_one_clock_when_it_is_set_back(
    set_back_at_s: float | None, by_s: float
) -> None:
    """Every 5 s a batch processes 10 rows per second so far, in 2 s."""

    def clock_s(second: float) -> float:
        back = set_back_at_s is not None and second > set_back_at_s
        return STARTED_S + second - (by_s if back else 0.0)

    batches = [progress(clock_s(second), 10 * second) for second in range(5, 56, 5)]
    processed = _processed(batches, STARTED_S, 5.0)
    assert processed.times_s.tolist() == [
        STARTED_S,
        *(STARTED_S + second + 2.0 for second in range(5, 56, 5)),
    ]
    assert processed.values.tolist() == [0.0, *(10.0 * second for second in range(5, 56, 5))]


def test_a_query_that_fails_ends_the_run_at_once_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    query = SimpleNamespace(exception=lambda: RuntimeError("no lookup today\n\tat org.apache…"))
    stopped: list[str] = []

    def attach(*_: Any, **__: Any) -> Any:
        return SimpleNamespace(
            active=True,
            stop=lambda: stopped.append("loop"),
        )

    cluster = SimpleNamespace(master_url="spark://h:1", web_url="http://h", agent_address="", settings={})
    monkeypatch.setattr(demo_run, "LocalCluster", lambda **_: nullcontext(cluster))
    monkeypatch.setattr(demo_run, "local_session", lambda *_, **__: nullcontext())
    monkeypatch.setattr(demo_run, "source_start_s", lambda *_, **__: SystemClock().now_s())
    monkeypatch.setattr(demo_run, "attach", attach)
    monkeypatch.setattr(TopWords, "start", lambda *_: query)
    with pytest.raises(TargetError, match=r"^the query failed: no lookup today$"):
        run_live(LiveScenario(seconds=3600.0), "capacity")
    assert stopped == ["loop"]


def test_a_run_is_scored_from_its_store_with_the_known_load_and_the_audited_sink(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of 600 rows one was lost and one repeated; a second executor was held from second 20 on."""
    clock, ended = ManualClock(STARTED_S), threading.Event()
    rows = 600
    batches = [progress(STARTED_S + second, second * rows // 55) for second in range(5, 56, 5)]
    query = SimpleNamespace(exception=lambda: None, recentProgress=batches)

    def started(started_s: float, rankings: Rankings) -> None:
        assert started_s == STARTED_S
        rankings.add([(60, f"{ROW_MARK}{row}", 2 if row == 9 else 1) for row in range(rows) if row != 7])

    def attach(*_: Any, store: Path, **__: Any) -> Any:
        with closing(Store(store, clock)) as kept:
            kept.begin_run({"slo": "freshness p95 <= 30s", "nodes": "1:6", "target": "spark"})
            for second, held in ((1.0, 1.0), (20.0, 2.0)):
                kept.add(
                    [Reading(STARTED_S + second, MAIN, m, held) for m in (Metric.NODES, Metric.NODES_HELD)]
                )
        clock.advance(60.0)
        ended.set()
        return SimpleNamespace(active=True, stop=lambda: None)

    cluster = SimpleNamespace(master_url="spark://h:1", web_url="http://h", agent_address="", settings={})
    monkeypatch.setattr(demo_run, "LocalCluster", lambda **_: nullcontext(cluster))
    monkeypatch.setattr(demo_run, "local_session", lambda *_, **__: nullcontext())
    monkeypatch.setattr(demo_run, "source_start_s", lambda *_, **__: STARTED_S)
    monkeypatch.setattr(demo_run, "stop_between_batches", lambda query: None)
    monkeypatch.setattr(demo_run, "attach", attach)
    monkeypatch.setattr(TopWords, "start", lambda *_: query)
    scenario = LiveScenario(seconds=60.0)
    result = run_live(scenario, "spark-dra", clock=clock, stop=ended, on_start=started)
    document, run = result.to_json(), result.run
    assert (run.strategy, run.pipeline, run.ended_s - run.started_s) == ("spark-dra", "top-words", 60.0)
    assert document["executors"] == [[0.0, 1.0], [20.0, 2.0]]
    assert document["node_seconds"] == 20.0 + 2 * 40.0
    assert (document["rows_out"], document["rows_lost"], document["rows_repeated"]) == (rows - 1, 1, 1)
    assert document["rows_in"] == round(
        float(arrivals(parse_load(scenario.load), 0.0, 60.0).interpolated(60.0))
    )
    assert document["cost_ratio"] > 0
