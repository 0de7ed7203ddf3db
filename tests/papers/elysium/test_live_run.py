"""A real run is scored on its own time, whatever becomes of the machine's clock."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from ebbflow.core.clock import SystemClock
from ebbflow.errors import TargetError
from ebbflow.papers.elysium import demo_run as live_run
from ebbflow.papers.elysium.demo_run import LiveScenario, _processed, run_live
from ebbflow.papers.elysium.pipelines.top_words import TopWords

STARTED_S = 1_700_000_000.0


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
def test_processed_rows_stay_on_one_clock_when_it_is_set_back(
    set_back_at_s: float | None, by_s: float
) -> None:
    """Every 5 s a batch takes 10 rows for each second so far, in 2 s."""

    def shown_s(second: float) -> float:
        back = set_back_at_s is not None and second > set_back_at_s
        return STARTED_S + second - (by_s if back else 0.0)

    batches = [progress(shown_s(second), 10 * second) for second in range(5, 56, 5)]
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
    monkeypatch.setattr(live_run, "LocalCluster", lambda **_: nullcontext(cluster))
    monkeypatch.setattr(live_run, "local_session", lambda *_, **__: nullcontext())
    monkeypatch.setattr(live_run, "source_start_s", lambda *_, **__: SystemClock().now_s())
    monkeypatch.setattr(live_run, "attach", attach)
    monkeypatch.setattr(TopWords, "start", lambda *_: query)
    with pytest.raises(TargetError, match=r"^the query failed: no lookup today$"):
        run_live(LiveScenario(seconds=3600.0), "capacity")
    assert stopped == ["loop"]
