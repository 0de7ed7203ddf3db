"""What is seen of a Spark application: its queries' batches, their operators, its executors."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from ebbflow.core.batches import Batch, StageRun
from ebbflow.core.clock import Clock
from ebbflow.core.layout import MAIN
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Operator, Pipeline
from ebbflow.core.readings import Reading
from ebbflow.targets.spark.driver import Driver, ExecutorInfo
from ebbflow.targets.spark.progress import Progress, rows_left_behind
from ebbflow.targets.spark.row_counts import RowCounts
from ebbflow.targets.spark.tracking import (
    ExecutorTracker,
    QueryTracker,
    batch_of,
    stage_run,
    with_stage_cpu,
)

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger("ebbflow")

LOOK_AT_TASKS_ABOVE_S = 0.1
"""Stages with less task time than this are not searched for a longest task: it would not matter."""


class SparkMonitor:
    """Reads the driver once a cycle and turns it into readings and batches."""

    def __init__(
        self,
        driver: Driver,
        clock: Clock,
        executors: ExecutorTracker,
        operators: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """``operators``: those that are known before a batch has shown them, each with its query."""
        self._driver = driver
        self._clock = clock
        self._executors = executors
        self._trackers: dict[str, QueryTracker] = {}
        self._counts: dict[str, RowCounts] = {}
        self._operators: dict[str, float | None] = {}
        """Named operators met so far, each with the end of its last batch."""
        self._query_of = dict(operators)
        self._has_read_limit: dict[str, bool] = {}
        """By the name of a query, as far as Spark tells."""
        self._pipeline = Pipeline(name=driver.app_name, operators=())
        self._changed_s = float("-inf")
        """When executors last came to work or left."""
        self._first_batches: list[Reading] = []
        self._untold: set[str] = set()
        """Queries of whose source it was said that it does not tell what waits."""
        self.present: list[ExecutorInfo] = []
        self.queries: list[StreamingQuery] = []

    @property
    def name(self) -> str:
        """Subject of the pipeline's readings."""
        return self._driver.app_name

    @property
    def pipeline(self) -> Pipeline:
        """The operators of managed queries, and the named ones met so far."""
        if len(self._query_of) != len(self._pipeline.operators):
            operators = tuple(Operator(name=name, query=query) for name, query in self._query_of.items())
            self._pipeline = Pipeline(name=self.name, operators=operators)
        return self._pipeline

    @property
    def slots_per_node(self) -> int:
        """Tasks an executor runs at once: its cores ÷ cores a task."""
        return max((e.max_tasks for e in self.present), default=1) or 1

    def running(self) -> dict[str, float | None]:
        """Queries that run, each with the start of its current batch, None between batches."""
        return {self._query_name(q): self._trackers[str(q.runId)].running_since_s for q in self.queries}

    def read_limited(self) -> frozenset[str]:
        """Queries with a read limit; and the application, if that is so of all that run."""
        limited = {name for name, has_one in self._has_read_limit.items() if has_one}
        running = {self._query_name(query) for query in self.queries}
        return frozenset(limited | {self.name} if running and running <= limited else limited)

    def last_progress(self) -> list[tuple[StreamingQuery, Progress]]:
        """Each query with its newest progress."""
        found = []
        for query in self.queries:
            last = self._trackers[str(query.runId)].last
            if last is not None:
                found.append((query, last))
        return found

    def look(self) -> tuple[list[Reading], list[Batch]]:
        """Look once at everything."""
        now_s = self._clock.now_s()
        self.present = [e for e in self._driver.executors() if e.is_active]
        if self._executors.changed(self.present):
            self._changed_s = now_s
        self.queries = self._driver.queries()
        readings = self._executor_readings(now_s)
        batches: list[Batch] = []
        for query in self.queries:
            batches += self._follow(query, now_s)
        for ended in self._trackers.keys() - {str(q.runId) for q in self.queries}:
            del self._trackers[ended], self._counts[ended]
        readings += self._first_batches
        self._first_batches = []
        for batch in batches:
            readings += self._batch_readings(batch)
        readings += self._pipeline_readings(now_s, batches)
        return readings, batches

    # -- queries -------------------------------------------------------------------------------

    def _follow(self, query: StreamingQuery, now_s: float) -> list[Batch]:
        run_id = str(query.runId)
        tracker = self._trackers.get(run_id)
        if tracker is None:
            tracker = QueryTracker(self._driver.trigger_interval_s(query))
            self._trackers[run_id] = tracker
            self._counts[run_id] = self._driver.row_counts()
        batches = []
        progresses = self._driver.progress_after(query, tracker.last_batch_id, self._counts[run_id])
        if progresses:
            if tracker.last is None:
                first = progresses[0][0]
                self._note_read_limit(query, first)
                if len(progresses) == 1:  # else the query ran before anybody looked
                    ended_s = first.started_s + first.duration_s
                    self._first_batches.append(
                        Reading(ended_s, first.query, Metric.FIRST_BATCH_TIME, first.duration_s)
                    )
            stages = self._stages_by_batch(run_id, tracker)
            slots = sum(e.max_tasks for e in self.present)
            steady = self._changed_s <= progresses[0][0].started_s
            for progress, rows in progresses:
                batch = tracker.finished(
                    progress,
                    stages.get(progress.batch_id, ()),
                    rows,
                    slots=slots,
                    steady=steady,
                    stage_cpu_s=self._driver.stage_cpu_s,
                )
                if batch is None:
                    self._begin_counting(progress)
                else:
                    batch = with_stage_cpu(batch, self._counts[run_id].stages)
                    tracker.last_batch = batch
                    batches.append(batch)
                    if batch.backlog_rows is None:
                        self._say_untold(batch.query)
        status = self._driver.status(query)
        if status.is_trigger_active and status.is_data_available:
            tracker.is_idle = False
            if tracker.running_since_s is None:
                tracker.running_since_s = now_s
        elif not status.is_data_available and not progresses:
            tracker.idle()
        else:
            tracker.running_since_s = None
        return batches

    def _begin_counting(self, first: Progress) -> None:
        """A run has ended its first batch: its operators' CPU is a share of the time from here on. While a query is
        restarted its instances are not idle; they are not there."""
        ended_s = first.started_s + first.duration_s
        for name, query in self._query_of.items():
            if query == first.query:
                self._operators[name] = ended_s

    def _say_untold(self, query: str) -> None:
        """Once a query."""
        if query not in self._untold:
            self._untold.add(query)
            log.warning(
                "the source of query %s does not tell its latest offset, so nobody knows whether rows wait there; "
                "while its batches run back to back, nothing leaves. A trigger interval shows when it has time left",
                query,
            )

    def _note_read_limit(self, query: StreamingQuery, first: Progress) -> None:
        """Once a run has ended its first batch: before that its sources may not be there yet. A limit whose
        source does not tell its latest offset hides what it leaves behind, and is none to us."""
        limited = self._driver.has_read_limit(query)
        if limited is not None:
            self._has_read_limit[self._query_name(query)] = limited and rows_left_behind(first) is not None

    def _stages_by_batch(self, run_id: str, tracker: QueryTracker) -> dict[int, tuple[StageRun, ...]]:
        found: dict[int, list[StageRun]] = {}
        for job in self._driver.jobs_after(run_id, tracker.last_job_id):
            batch_id = batch_of(job)
            stages = [self._driver.stage(i) for i in sorted(job.stage_ids)]
            if any(s is not None and s.status in ("ACTIVE", "PENDING") for s in stages):
                break  # the batch that runs now; it is read when it has finished
            tracker.last_job_id = job.job_id
            for stage in stages:
                if batch_id is None or stage is None or stage.status != "COMPLETE":
                    continue
                task_time_ms = stage.executor_run_time + stage.executor_deserialize_time
                longest_s = (
                    self._driver.longest_task_s(stage)
                    if task_time_ms > 1000 * LOOK_AT_TASKS_ABOVE_S
                    else None
                )
                runs = found.setdefault(batch_id, [])
                runs.append(stage_run(len(runs), stage, longest_s))
        return {batch_id: tuple(runs) for batch_id, runs in found.items()}

    def _query_name(self, query: StreamingQuery) -> str:
        return query.name or str(query.id)[:8]

    # -- readings ------------------------------------------------------------------------------

    def _executor_readings(self, now_s: float) -> list[Reading]:
        readings = [
            Reading(now_s, MAIN, Metric.SLOTS, float(sum(e.max_tasks for e in self.present))),
        ]
        for executor in self.present:
            subject = f"executor-{executor.id}"
            readings.append(Reading(now_s, subject, Metric.ACTIVE_TASKS, float(executor.active_tasks)))
            readings.append(Reading(now_s, subject, Metric.TASK_TIME, executor.total_duration / 1000))
        for executor_id, lead_s in self._executors.seen(now_s, self.present):
            readings.append(Reading(now_s, f"executor-{executor_id}", Metric.LEAD_TIME, lead_s))
        return readings

    def _batch_readings(self, batch: Batch) -> list[Reading]:
        at_s, name = batch.ended_s, batch.query
        due_s = (
            batch.started_s - batch.started_s % batch.trigger_interval_s if batch.trigger_interval_s else None
        )
        readings = [
            Reading(at_s, name, Metric.BATCH_ROWS, float(batch.rows)),
            Reading(at_s, name, Metric.BATCH_TIME, batch.duration_s),
            Reading(at_s, name, Metric.FRESHNESS, max(0.0, at_s - batch.oldest_arrival_s)),
        ]
        if batch.backlog_rows is not None:
            readings.append(Reading(at_s, name, Metric.BACKLOG, batch.backlog_rows))
        if due_s is not None:
            readings.append(Reading(at_s, name, Metric.SCHEDULING_LATENCY, batch.started_s - due_s))
        for run in batch.operators:
            self._operators.setdefault(run.name)
            self._query_of.setdefault(run.name, name)
            readings.append(Reading(at_s, run.name, Metric.ROWS_IN, float(run.rows_in)))
            readings.append(Reading(at_s, run.name, Metric.ROWS_OUT, float(run.rows_out)))
            if run.cpu_s is not None:
                readings.append(Reading(at_s, run.name, Metric.OPERATOR_CPU, run.cpu_s))
                if (busiest_s := run.busiest_instance_cpu_s) is not None:
                    readings.append(Reading(at_s, run.name, Metric.BUSIEST_INSTANCE_CPU, busiest_s))
                readings.append(Reading(at_s, run.name, Metric.INSTANCES, float(run.instances or 0)))
                since_s = self._operators[run.name] or batch.started_s
                if run.instances and at_s > since_s:
                    share = run.cpu_s / run.instances / (at_s - since_s)
                    readings.append(Reading(at_s, run.name, Metric.INSTANCE_CPU, share))
            self._operators[run.name] = at_s
        return readings

    def _over_queries(self, at_s: float) -> list[Reading]:
        """The last batch of every query, taken together: one that lags must not hide behind one that does not."""
        last = [t.last_batch for t in self._trackers.values() if t.last_batch is not None]
        freshness_s = [max(0.0, batch.ended_s - batch.oldest_arrival_s) for batch in last]
        left = [batch.backlog_rows for batch in last if batch.backlog_rows is not None]
        readings = [
            Reading(at_s, self.name, Metric.BATCH_ROWS, float(sum(batch.rows for batch in last))),
            Reading(at_s, self.name, Metric.BATCH_TIME, max(batch.duration_s for batch in last)),
            Reading(at_s, self.name, Metric.FRESHNESS, max(freshness_s)),
        ]
        if len(left) == len(last):
            readings.append(Reading(at_s, self.name, Metric.BACKLOG, sum(left)))
        return readings

    def _queue_readings(self, now_s: float) -> list[Reading]:
        """What waits before each query, and in all; not in all while it is unknown of one."""
        queued = {q: self._trackers[str(q.runId)].queue_rows(now_s) for q in self.queries}
        readings = [
            Reading(now_s, self._query_name(query), Metric.QUEUE_LENGTH, rows)
            for query, rows in queued.items()
            if rows is not None and self._query_name(query) != self.name
        ]
        known = [rows for rows in queued.values() if rows is not None]
        if len(known) == len(queued):
            readings.append(Reading(now_s, self.name, Metric.QUEUE_LENGTH, sum(known)))
        return readings

    def _idle_readings(self, now_s: float) -> list[Reading]:
        """That nothing waits, of queries which would tell it with their next batch and have none to run."""
        limited, idle = self.read_limited(), [q for q in self.queries if self._trackers[str(q.runId)].is_idle]
        names = {self._query_name(query) for query in idle}
        if len(idle) == len(self.queries):
            names.add(self.name)
        return [Reading(now_s, name, Metric.BACKLOG, 0.0) for name in sorted(names & limited)]

    def _pipeline_readings(self, now_s: float, batches: list[Batch]) -> list[Reading]:
        """Sums over the queries; freshness of the running batch where it is already worse than the last."""
        trackers = list(self._trackers.values())
        if not trackers:
            return []
        readings = [
            Reading(now_s, self.name, Metric.ARRIVAL_RATE, sum(t.rate_per_s for t in trackers)),
            *self._queue_readings(now_s),
            *self._idle_readings(now_s),
        ]
        if batches:
            readings += self._over_queries(max(batch.ended_s for batch in batches))
        state = [s for t in trackers if t.last is not None for s in t.last.state_operators]
        if state and batches:
            readings.append(
                Reading(now_s, self.name, Metric.STATE_ROWS, float(sum(s.num_rows_total for s in state)))
            )
            size = float(sum(s.memory_used_bytes for s in state))
            readings.append(Reading(now_s, self.name, Metric.STATE_SIZE, size))
        waiting_s = [
            now_s - oldest_s
            for t in trackers
            if t.running_since_s is not None and (oldest_s := t.oldest_unprocessed_s()) is not None
        ]
        if (
            waiting_s
            and not batches
            and max(waiting_s) > 2 * max(t.trigger_interval_s for t in trackers) + 2.0
        ):
            readings.append(Reading(now_s, self.name, Metric.FRESHNESS, max(waiting_s)))
        return readings
