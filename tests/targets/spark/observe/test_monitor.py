"""Readings of an application with several queries, also when sources or the driver report little."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from ebbflow.core.clock import ManualClock
from ebbflow.core.metrics import Metric
from ebbflow.errors import TargetError
from ebbflow.targets.spark.driver import ExecutorInfo, QueryStatus
from ebbflow.targets.spark.observe.lead_time import ExecutorRequests
from ebbflow.targets.spark.observe.monitor import SparkMonitor
from ebbflow.targets.spark.observe.progress import Progress, SourceProgress
from ebbflow.targets.spark.operators.row_counts import RowCounts

CPU_OF_STAGES_S = {7: 0.6}


@dataclass(eq=False)
class FakeQuery:
    name: str
    reports_latest: bool = True
    running: bool = False
    run: int = 0
    observed: dict[str, dict[str, Any]] = field(default_factory=dict)
    done: list[Progress] = field(default_factory=list)

    @property
    def id(self) -> str:
        return f"id-{self.name}"

    @property
    def runId(self) -> str:  # noqa: N802
        return f"run-{self.name}-{self.run}"

    def restarted(self) -> FakeQuery:
        """The next run of the same query."""
        return replace(self, run=self.run + 1, done=list(self.done))

    def finish(self, at_s: float, rows: int, left: int = 0) -> None:
        """Finish a batch that started at this time and took two seconds."""
        start = sum(p.num_input_rows for p in self.done)
        latest = start + rows + left if self.reports_latest else None
        source = SourceProgress(
            start_offset=start, end_offset=start + rows, latest_offset=latest, num_input_rows=rows
        )
        self.done.append(
            Progress(
                id=self.id, run_id=self.runId, batch_id=len(self.done), name=self.name, num_input_rows=rows,
                timestamp=datetime.fromtimestamp(at_s, UTC).isoformat(), duration_ms={"triggerExecution": 2000},
                sources=[source], observed_metrics=self.observed,
            )
        )  # fmt: skip


class FakeDriver:
    app_name = "app"

    def __init__(self, *queries: FakeQuery) -> None:
        self.running = list(queries)
        self.failing: set[tuple[str, str]] = set()
        """(call, query) that fail now."""

    def check(self, call: str, query: str) -> None:
        if (call, query) in self.failing:
            raise TargetError(f"no {call} of {query}")

    def executors(self) -> list[ExecutorInfo]:
        return [ExecutorInfo("0", True, 1, 1, 0, 1, 0, 0, 0, 1000)]

    def queries(self) -> list[FakeQuery]:
        return self.running

    def row_counts(self) -> RowCounts:
        return RowCounts(None, None)

    def has_read_limit(self, query: FakeQuery) -> bool:
        return False

    def trigger_interval_s(self, query: FakeQuery) -> float:
        self.check("trigger", query.name)
        return 5.0

    def progress_after(self, query: FakeQuery, batch_id: int, counts: Any) -> list[Any]:
        return [(p, {}) for p in query.done if p.batch_id > batch_id and p.run_id == query.runId]

    def jobs_after(self, run_id: str, job_id: int) -> list[Any]:
        self.check("jobs", run_id.split("-")[1])
        return []

    def stage_cpu_s(self, stage_id: int) -> float | None:
        self.check("stage", "")
        return CPU_OF_STAGES_S.get(stage_id)

    def status(self, query: FakeQuery) -> QueryStatus:
        self.check("status", query.name)
        return QueryStatus(
            "", is_data_available=bool(query.done) or query.running, is_trigger_active=query.running
        )


class Scene:
    """A monitor of an application with these queries."""

    def __init__(self, *queries: FakeQuery) -> None:
        self.clock = ManualClock(1000.0)
        self.driver: Any = FakeDriver(*queries)
        self.monitor = SparkMonitor(self.driver, self.clock, ExecutorRequests(self.clock, 12.0))

    def poll(self, at_s: float) -> dict[tuple[str, Metric], float]:
        self.clock.advance(at_s - self.clock.now_s())
        self.result = self.monitor.poll()
        return {(reading.subject, reading.metric): reading.value for reading in self.result.readings}


def test_an_unknown_backlog_gives_no_reading_and_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    unknown = FakeQuery("files", reports_latest=False)
    scene = Scene(unknown)
    with caplog.at_level(logging.WARNING, "ebbflow"):
        for k in range(4):
            unknown.finish(1000.0 + 5 * k, rows=100)
            read = scene.poll(1002.5 + 5 * k)
    assert read["files", Metric.BATCH_ROWS] == 100.0
    for subject in ("files", "app"):
        assert (subject, Metric.BACKLOG) not in read
        assert (subject, Metric.QUEUE_LENGTH) not in read
    assert [record.getMessage().count("files") for record in caplog.records] == [1]


def test_the_total_backlog_is_not_reported_while_that_of_one_query_is_unknown() -> None:
    known, unknown = FakeQuery("kafka"), FakeQuery("files", reports_latest=False)
    scene = Scene(known, unknown)
    for k in range(2):
        known.finish(1000.0 + 5 * k, rows=100, left=30)
        unknown.finish(1000.0 + 5 * k, rows=100)
        read = scene.poll(1002.5 + 5 * k)
    assert read["kafka", Metric.BACKLOG] == 30.0
    assert ("app", Metric.BACKLOG) not in read


def test_the_total_backlog_is_the_sum_over_the_queries() -> None:
    queries = [FakeQuery("a"), FakeQuery("b")]
    scene = Scene(*queries)
    for k in range(2):
        for query in queries:
            query.finish(1000.0 + 5 * k, rows=100, left=30)
        read = scene.poll(1002.5 + 5 * k)
    assert read["app", Metric.BACKLOG] == 60.0


def test_a_long_first_batch_shows_in_the_freshness_of_the_application() -> None:
    light, heavy = FakeQuery("light"), FakeQuery("heavy", running=True)
    scene = Scene(light, heavy)
    light.finish(1000.0, rows=10)
    scene.poll(1002.5)
    read = scene.poll(1042.5)
    assert read["app", Metric.FRESHNESS] == pytest.approx(40.0)
    assert ("app", Metric.QUEUE_LENGTH) not in read, "the queue of heavy is unknown"
    assert scene.monitor.current_batches()["heavy"] == pytest.approx(1002.5)


def counted(stage: int | None) -> dict[str, dict[str, Any]]:
    """Observed metrics of a Python operator with two instances that used 0.4 s of CPU."""
    observed = {"rows_in": 100, "rows_out": 100, "cpu_s": 0.4, "busiest_cpu_s": 0.3, "instances": 2}
    return {"ebbflow:count:both": observed if stage is None else {**observed, "stage": stage}}


def test_the_cpu_of_an_operator_that_is_a_whole_stage_includes_that_of_the_jvm() -> None:
    query = FakeQuery("words", observed=counted(stage=7))
    scene = Scene(query)
    for k in range(3):
        query.finish(1000.0 + 5 * k, rows=100)
        read = scene.poll(1002.5 + 5 * k)
    assert read["count", Metric.OPERATOR_CPU] == pytest.approx(0.4 + 0.6)
    assert read["count", Metric.BUSIEST_INSTANCE_CPU] == pytest.approx(0.3 + 0.6 / 2)
    assert read["count", Metric.INSTANCE_CPU] == pytest.approx((0.4 + 0.6) / 2 / 5.0)


def test_cpu_is_not_reported_while_that_of_the_stage_is_unknown() -> None:
    query = FakeQuery("words", observed=counted(stage=8))
    scene = Scene(query)
    for k in range(3):
        query.finish(1000.0 + 5 * k, rows=100)
        read = scene.poll(1002.5 + 5 * k)
    assert read["count", Metric.ROWS_IN] == 100
    assert ("count", Metric.INSTANCE_CPU) not in read


def test_the_time_of_a_restart_does_not_count_as_idle_time_of_instances() -> None:
    query = FakeQuery("words", observed=counted(stage=None))
    scene = Scene(query)
    for at_s in (1000.0, 1005.0, 1010.0):
        query.finish(at_s, rows=100)
        read = scene.poll(at_s + 2.5)
    assert read["count", Metric.INSTANCE_CPU] == pytest.approx(0.4 / 2 / 5.0)
    query = query.restarted()  # which took half a minute
    scene.driver.running = [query]
    for at_s in (1040.0, 1045.0):
        query.finish(at_s, rows=100)
        read = scene.poll(at_s + 2.5)
    assert read["count", Metric.INSTANCE_CPU] == pytest.approx(0.4 / 2 / 5.0)


def test_the_first_batch_of_a_run_is_reported_apart_from_those_to_learn_from() -> None:
    query = FakeQuery("words")
    scene = Scene(query)
    query.finish(1000.0, rows=70, left=5)
    read = scene.poll(1002.5)
    assert read["words", Metric.FIRST_BATCH_TIME] == 2.0
    assert scene.result.batches == []
    assert [(b.query, b.rows, b.backlog_rows) for b in scene.result.first_batches] == [("words", 70, 5.0)]
    query.finish(1005.0, rows=30)
    scene.poll(1007.5)
    assert [b.rows for b in scene.result.batches] == [30]
    assert scene.result.first_batches == []


def test_the_last_batch_of_a_run_is_reported_and_the_next_run_dates_its_rows_from_it() -> None:
    query = FakeQuery("words")
    scene = Scene(query)
    for at_s in (1000.0, 1005.0):
        query.finish(at_s, rows=100)
        scene.poll(at_s + 2.5)
    query.finish(1010.0, rows=40)  # while it was being stopped
    again = query.restarted()
    scene.driver.running = [again]
    again.finish(1040.0, rows=300)
    scene.poll(1042.5)
    assert [(b.batch_id, b.rows) for b in scene.result.batches] == [(2, 40)]
    (first,) = scene.result.first_batches
    assert (first.rows, first.started_s, first.oldest_arrival_s) == (300, 1040.0, 1010.0)


def test_the_last_batch_of_an_ended_query_is_reported_once() -> None:
    query = FakeQuery("words")
    scene = Scene(query)
    for at_s in (1000.0, 1005.0):
        query.finish(at_s, rows=100)
        scene.poll(at_s + 2.5)
    query.finish(1010.0, rows=40)
    scene.driver.running = []
    scene.poll(1012.5)
    assert [b.rows for b in scene.result.batches] == [40]
    scene.poll(1013.5)
    assert scene.result.batches == []
    assert scene.monitor.current_batches() == {}


# -- a driver that does not answer ----------------------------------------------------------------


@pytest.mark.parametrize("call", ["jobs", "status"])
@pytest.mark.parametrize("failing", ["a", "b", "both"])
def test_finished_batches_are_reported_once_although_a_poll_failed(call: str, failing: str) -> None:
    queries = [FakeQuery("a"), FakeQuery("b")]
    scene = Scene(*queries)
    for at_s in (1000.0, 1005.0):
        for query in queries:
            query.finish(at_s, rows=100)
        scene.poll(at_s + 2.5)
    for query in queries:
        query.finish(1010.0, rows=40)
    scene.driver.failing = {(call, query.name) for query in queries if failing in (query.name, "both")}
    for at_s in (1012.5, 1013.5):
        with pytest.raises(TargetError, match=f"no {call}"):
            scene.poll(at_s)
    queries[0].finish(1014.0, rows=20)
    scene.driver.failing = set()
    read = scene.poll(1016.5)
    reported = sorted((batch.query, batch.batch_id, batch.rows) for batch in scene.result.batches)
    assert reported == [("a", 2, 40), ("a", 3, 20), ("b", 2, 40)]
    assert read["app", Metric.BATCH_ROWS] == 60.0
    scene.poll(1017.5)
    assert scene.result.batches == []


def test_a_first_batch_and_its_read_limit_are_reported_although_a_poll_failed() -> None:
    query = FakeQuery("words")
    scene = Scene(query)
    scene.driver.has_read_limit = lambda _: True
    query.finish(1000.0, rows=70)
    scene.driver.failing = {("status", "words")}
    with pytest.raises(TargetError):
        scene.poll(1002.5)
    scene.driver.failing = set()
    read = scene.poll(1003.5)
    assert read["words", Metric.FIRST_BATCH_TIME] == 2.0
    assert [b.rows for b in scene.result.first_batches] == [70]
    assert "words" in scene.monitor.read_limited()


def test_the_last_batches_of_an_ended_query_are_reported_although_polling_its_successor_failed() -> None:
    query = FakeQuery("words")
    scene = Scene(query)
    for at_s in (1000.0, 1005.0):
        query.finish(at_s, rows=100)
        scene.poll(at_s + 2.5)
    query.finish(1010.0, rows=40)
    scene.driver.running = [FakeQuery("next")]
    scene.driver.failing = {("trigger", "next")}
    with pytest.raises(TargetError):
        scene.poll(1012.5)
    scene.driver.failing = set()
    scene.poll(1013.5)
    assert [b.rows for b in scene.result.batches] == [40]


def test_a_batch_is_reported_without_the_cpu_of_its_stage() -> None:
    query = FakeQuery("words", observed=counted(stage=7))
    scene = Scene(query)
    scene.driver.failing = {("stage", "")}
    for k in range(3):
        query.finish(1000.0 + 5 * k, rows=100)
        read = scene.poll(1002.5 + 5 * k)
    assert read["count", Metric.ROWS_IN] == 100
    assert ("count", Metric.INSTANCE_CPU) not in read
