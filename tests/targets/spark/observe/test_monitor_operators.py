"""The operators and read limits that the monitor finds."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from ebbflow.core.clock import ManualClock
from ebbflow.core.metrics import Metric
from ebbflow.targets.spark.driver import QueryStatus
from ebbflow.targets.spark.observe.lead_time import ExecutorRequests
from ebbflow.targets.spark.observe.monitor import SparkMonitor
from ebbflow.targets.spark.observe.progress import Progress, SourceProgress
from ebbflow.targets.spark.operators.row_counts import RowCounts


class Query:
    """A query by its name."""

    def __init__(self, name: str, run: str = "run") -> None:
        self.name = self.id = name
        self.runId = f"{run}-{name}"


class FakeDriver:
    """A driver whose queries finish a batch a second; each has an operator ``of-<query>``."""

    app_name = "job"

    def __init__(
        self, clock: ManualClock, limits: dict[str, bool | None], reports_latest: bool = True
    ) -> None:
        self._clock, self._limits, self._reports_latest = clock, limits, reports_latest
        self.running = [Query(name) for name in limits]
        self.idle: set[str] = set()
        """Queries without new data."""

    def executors(self) -> list[Any]:
        return []

    def queries(self) -> list[Any]:
        return self.running

    def trigger_interval_s(self, query: Any) -> float:
        return 1.0

    def row_counts(self) -> RowCounts:
        return RowCounts(None, None)

    def has_read_limit(self, query: Any) -> bool | None:
        return self._limits[query.name]

    def jobs_after(self, run_id: str, job_id: int) -> list[Any]:
        return []

    def stage_cpu_s(self, stage_id: int) -> float | None:
        return None

    def status(self, query: Any) -> QueryStatus:
        return QueryStatus("", False, False)

    def progress_after(self, query: Any, batch_id: int, counts: Any) -> list[tuple[Progress, dict[str, int]]]:
        now_s = self._clock.now_s()
        if query.name in self.idle:
            return []
        source = SourceProgress(
            start_offset=0, end_offset=5, latest_offset=5 if self._reports_latest else None, num_input_rows=5
        )
        mark = f"ebbflow:of-{query.name}"
        return [
            (
                Progress(
                    id=query.name, run_id=query.runId, batch_id=batch_id + 1, num_input_rows=5,
                    timestamp=datetime.fromtimestamp(now_s, UTC).isoformat(), name=query.name, sources=[source],
                ),
                {f"{mark}:in": 5, f"{mark}:out": 5},
            )
        ]  # fmt: skip


def polled(
    limits: dict[str, bool | None], operators: dict[str, str] | None = None, **options: Any
) -> SparkMonitor:
    clock = ManualClock(100.0)
    driver: Any = FakeDriver(clock, limits, **options)
    monitor = SparkMonitor(driver, clock, ExecutorRequests(clock, 12.0), operators or {})
    for _ in range(3):
        clock.advance(1.0)
        monitor.poll()
    return monitor


def test_operators_have_their_query_and_managed_ones_are_known_from_the_start() -> None:
    monitor = polled({"a": None, "b": None}, {"tag": "managed", "of-a": "managed"})
    assert {o.name: o.query for o in monitor.pipeline.operators} == {
        "tag": "managed",
        "of-a": "managed",
        "of-b": "b",
    }
    assert monitor.pipeline is monitor.pipeline, "the same object while no operator is added"


@pytest.mark.parametrize(
    ("limits", "found"),
    [
        ({"a": True, "b": True}, {"a", "b", "job"}),
        ({"a": True, "b": False}, {"a"}),
        ({"a": None, "b": True}, {"b"}),
        ({}, set()),
    ],
)
def test_the_application_is_read_limited_if_all_its_queries_are(
    limits: dict[str, bool | None], found: set[str]
) -> None:
    assert polled(limits).read_limited() == found


def test_a_read_limit_does_not_count_if_the_backlog_is_unknown() -> None:
    assert polled({"a": True}, reports_latest=False).read_limited() == frozenset()


def backlogs(monitor: SparkMonitor) -> list[tuple[str, float]]:
    monitor._clock.advance(1.0)  # type: ignore[attr-defined]
    return [(r.subject, r.value) for r in monitor.poll().readings if r.metric is Metric.BACKLOG]


def test_an_idle_query_with_a_read_limit_has_a_backlog_of_0() -> None:
    monitor = polled({"a": True, "b": True, "c": False})
    idle = monitor._driver.idle  # type: ignore[attr-defined]
    idle.add("a")
    assert ("a", 0.0) in backlogs(monitor)
    idle |= {"b", "c"}
    assert backlogs(monitor) == [("a", 0.0), ("b", 0.0)], "c and the application have no read limit"
    both = polled({"a": True, "b": True})
    both._driver.idle |= {"a", "b"}  # type: ignore[attr-defined]
    assert backlogs(both) == [("a", 0.0), ("b", 0.0), ("job", 0.0)]


def test_the_backlog_of_a_restarted_query_is_unknown_at_first() -> None:
    monitor = polled({"a": True})
    driver: Any = monitor._driver
    driver.running = [Query("a", "another run")]
    driver.idle.add("a")
    assert backlogs(monitor) == []


def test_the_read_limit_of_a_query_is_remembered_over_a_restart() -> None:
    monitor = polled({"a": True})
    monitor._driver.running = [Query("a", "another run")]  # type: ignore[attr-defined]
    monitor.poll()
    assert "a" in monitor.read_limited()
