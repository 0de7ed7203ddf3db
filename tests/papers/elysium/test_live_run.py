"""A real run is scored on its own time, whatever becomes of the machine's clock."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from ebbflow.control.loop import CycleReport
from ebbflow.core.clock import SystemClock
from ebbflow.core.layout import Layout
from ebbflow.core.limits import Limits
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.ports import Observation
from ebbflow.core.slo import Slo
from ebbflow.errors import TargetError
from ebbflow.papers.elysium import demo_run as live_run
from ebbflow.papers.elysium.demo_run import LiveScenario, _processed, run_live
from ebbflow.papers.elysium.pipelines.top_words import TopWords
from ebbflow.runs.record import RunRecorder
from ebbflow.runs.score import score
from ebbflow.workloads import parse_load

STARTED_S, SECONDS = 1_700_000_000.0, 60


def look(time_s: float) -> CycleReport:
    seen = Observation(
        time_s=time_s, pipeline=Pipeline.chain("top-words", "count"), layout=Layout.of(1), requested=Layout.of(1),
        slots_per_node=1, lead_time_s=10.0,
    )  # fmt: skip
    return CycleReport(observation=seen, entry=None, planned=None)


def progress(began_s: float, end_row: int) -> dict[str, Any]:
    """Of a batch that took two seconds."""
    stamp = datetime.fromtimestamp(began_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {
        "timestamp": stamp,
        "durationMs": {"triggerExecution": 2000},
        "sources": [{"endOffset": {"row": end_row}}],
    }


@pytest.mark.parametrize("set_back_at_s", [None, 7.5, 28.5, 57.5])
@pytest.mark.parametrize("by_s", [30.0, 3600.0])
def test_what_was_done_is_dated_on_though_the_clock_was_set_back(
    set_back_at_s: float | None, by_s: float
) -> None:
    """10 rows/s, all that had come taken every 5 s: the longest wait is 7 s. 57.5 s: no batch began after it."""

    def shown_s(second: float) -> float:
        back = set_back_at_s is not None and second > set_back_at_s
        return STARTED_S + second - (by_s if back else 0.0)

    recorder = RunRecorder()
    for second in range(SECONDS):
        recorder(look(shown_s(second)))
    batches = [progress(shown_s(second), 10 * second) for second in range(5, 56, 5)]
    run = recorder.run(
        strategy="s", pipeline="top-words", slo=Slo(freshness_s=6.0), limits=Limits.parse("1:4"),
        started_s=STARTED_S, ended_s=shown_s(SECONDS), decisions=[], load=parse_load("constant(10)"),
        processed=_processed(batches, STARTED_S, recorder, shown_s(SECONDS + 1.0)),
    )  # fmt: skip
    scores = score(run, oracle_node_seconds=None)
    # not even the second is known in which it was set back: time stands still in it
    assert run.ended_s - STARTED_S == pytest.approx(SECONDS, abs=1.0)
    assert scores.rows_in == pytest.approx(10 * SECONDS, abs=10)
    assert scores.rows_out == 550
    assert scores.latency_max_s == pytest.approx(7.0, abs=1.0)
    assert (run.processed.times_s[1:] > run.processed.times_s[:-1]).all()


def test_a_query_that_fails_ends_the_run_at_once_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    query = SimpleNamespace(exception=lambda: RuntimeError("no lookup today\n\tat org.apache…"))
    stopped: list[str] = []

    def attach(*_: Any, on_cycle: Any, **__: Any) -> Any:
        on_cycle(look(STARTED_S))
        return SimpleNamespace(
            history=lambda: SimpleNamespace(entries=()),
            reconfigurations=0,
            active=True,
            stop=lambda: stopped.append("loop"),
        )

    cluster = SimpleNamespace(master_url="spark://h:1", web_url="http://h", agent_address="", settings={})
    monkeypatch.setattr(live_run, "LocalCluster", lambda **_: nullcontext(cluster))
    monkeypatch.setattr(live_run, "local_session", lambda *_, **__: nullcontext())
    monkeypatch.setattr(live_run, "source_start_s", lambda *_, **__: SystemClock().now_s())
    monkeypatch.setattr(live_run, "attach", attach)
    monkeypatch.setattr(TopWords, "start", lambda *_: query)
    with pytest.raises(TargetError, match=r"^the query failed: no lookup today$"):
        run_live(LiveScenario(seconds=3600.0), "capacity")
    assert stopped == ["loop"]
