"""Polls a Spark application: its queries, their operators and its executors, as readings and batches.

Queries are reported individually and in total, so that a lagging query cannot hide behind a healthy one.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from ebbflow.core.batches import Batch, OperatorRun
from ebbflow.core.clock import Clock
from ebbflow.core.layout import MAIN
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Operator, Pipeline
from ebbflow.core.readings import Reading
from ebbflow.errors import TargetError
from ebbflow.targets.spark.driver import Driver, ExecutorInfo
from ebbflow.targets.spark.observe.batches import PollResult, QueryMonitor
from ebbflow.targets.spark.observe.lead_time import ExecutorRequests
from ebbflow.targets.spark.observe.progress import Progress

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger(__name__)

_ENDED_REMEMBERED = 100


class SparkMonitor:
    """Polls the driver once a cycle and turns the answers into readings and batches."""

    def __init__(
        self,
        driver: Driver,
        clock: Clock,
        requests: ExecutorRequests,
        operators: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """``operators``: the operators known before a batch has reported them, each with its query."""
        self._driver = driver
        self._clock = clock
        self._requests = requests
        self._queries: dict[str, QueryMonitor] = {}
        """Monitored queries by run id."""
        self._operators = _OperatorReadings(driver.app_name, operators)
        self._has_read_limit: dict[str, bool] = {}
        """Whether a query has a read limit, by name, where Spark reports it."""
        self._working: set[str] = set()
        """Executors that have finished a task."""
        self._executors_changed_s = float("-inf")
        """When executors last started to work or left."""
        self._left_rows_since_s: dict[str, float] = {}
        """Since when an ended run has left rows behind, by query id."""
        self._warned: set[str] = set()
        """Queries whose source does not report its latest offset."""
        self._unreported: list[PollResult] = []
        """Results of queries in polls that failed at another query: a batch is read from the driver only once."""
        self.live_executors: list[ExecutorInfo] = []

    @property
    def name(self) -> str:
        """Subject of the application's readings."""
        return self._driver.app_name

    @property
    def pipeline(self) -> Pipeline:
        """The operators of managed queries, and the named operators reported so far."""
        return self._operators.pipeline

    @property
    def queries(self) -> list[StreamingQuery]:
        """Queries running at the last poll."""
        return [each.query for each in self._queries.values()]

    @property
    def slots_per_node(self) -> int:
        """Tasks that an executor runs at once: its cores ÷ cores per task."""
        return max((e.max_tasks for e in self.live_executors), default=1) or 1

    def current_batches(self) -> dict[str, float | None]:
        """Each running query with the start of its current batch, None between batches."""
        return {each.name: each.arrivals.running_since_s for each in self._queries.values()}

    def arrival_rates(self) -> dict[str, float]:
        """Rows that arrive per second at each running query; those before their second batch are left out."""
        return {
            each.name: each.arrivals.rate_per_s
            for each in self._queries.values()
            if each.last_batch is not None
        }

    def read_limited(self) -> frozenset[str]:
        """Queries with a read limit, and the application if all its running queries have one."""
        limited = {name for name, has_one in self._has_read_limit.items() if has_one}
        running = {each.name for each in self._queries.values()}
        return frozenset(limited | {self.name} if running and running <= limited else limited)

    def last_progress(self) -> list[tuple[StreamingQuery, Progress]]:
        """Each query with its newest progress."""
        return [
            (each.query, each.arrivals.last_progress)
            for each in self._queries.values()
            if each.arrivals.last_progress is not None
        ]

    def poll(self) -> PollResult:
        """Poll executors and queries once.

        Raises ``TargetError`` if one query cannot be polled; the next poll returns what the others reported.
        """
        now_s = self._clock.now_s()
        self.live_executors = [e for e in self._driver.executors() if e.is_active]
        working = {e.id for e in self.live_executors if e.completed_tasks > 0}
        if working != self._working:
            self._working, self._executors_changed_s = working, now_s
        self._unreported = [each for each in self._unreported if each.batches or each.first_batches]
        self._update_queries(now_s)
        for query in self._queries.values():
            self._unreported.append(self._poll_query(query, now_s))
        results, self._unreported = self._unreported, []
        readings = self._executor_readings(now_s) + [r for result in results for r in result.readings]
        batches = [batch for result in results for batch in result.batches]
        first_batches = [batch for result in results for batch in result.first_batches]
        for batch in first_batches:
            self._operators.start_run(batch.query, batch.ended_s)
        for batch in batches:
            if batch.backlog_rows is None:
                self._warn_of_unknown_backlog(batch.query)
            readings += _batch_readings(batch)
            readings += self._operators.of(batch)
        readings += self._application_readings(now_s, batches)
        return PollResult(readings, batches, first_batches)

    def _update_queries(self, now_s: float) -> None:
        """Poll ended queries one last time, and start to monitor new ones."""
        running = {str(query.runId): query for query in self._driver.queries()}
        for run_id in [run_id for run_id in self._queries if run_id not in running]:
            ended = self._queries.pop(run_id)
            try:
                self._unreported.append(self._poll_query(ended, now_s, is_last=True))
            except TargetError as error:
                log.debug("cannot read the last batches of query %s: %s", ended.name, error)
            since_s = ended.arrivals.oldest_unprocessed_s()
            if since_s is not None:
                self._left_rows_since_s[ended.id] = since_s
        while len(self._left_rows_since_s) > _ENDED_REMEMBERED:
            del self._left_rows_since_s[next(iter(self._left_rows_since_s))]
        for run_id, query in running.items():
            if run_id not in self._queries:
                since_s = self._left_rows_since_s.pop(str(query.id), None)
                self._queries[run_id] = QueryMonitor(self._driver, query, since_s)

    def _poll_query(self, query: QueryMonitor, now_s: float, *, is_last: bool = False) -> PollResult:
        slots = sum(e.max_tasks for e in self.live_executors)
        result = query.poll(now_s, slots=slots, changed_s=self._executors_changed_s, is_last=is_last)
        if query.has_read_limit is not None:
            self._has_read_limit[query.name] = query.has_read_limit
        return result

    def _executor_readings(self, now_s: float) -> list[Reading]:
        slots = float(sum(e.max_tasks for e in self.live_executors))
        readings = [Reading(now_s, MAIN, Metric.SLOTS, slots)]
        for executor in self.live_executors:
            subject = f"executor-{executor.id}"
            readings.append(Reading(now_s, subject, Metric.ACTIVE_TASKS, float(executor.active_tasks)))
            readings.append(Reading(now_s, subject, Metric.TASK_TIME, executor.total_duration / 1000))
        for each in self._requests.update(self.live_executors):
            readings.append(Reading(now_s, f"executor-{each.executor}", Metric.LEAD_TIME, each.lead_time_s))
        return readings

    def _warn_of_unknown_backlog(self, query: str) -> None:
        """Warn once for each query."""
        if query not in self._warned:
            self._warned.add(query)
            log.warning(
                "the source of query %s does not report its latest offset, so its backlog is unknown; no executor is "
                "removed while its batches run back to back. With a trigger interval, spare time becomes visible",
                query,
            )

    # -- all queries together ------------------------------------------------------------------

    def _application_readings(self, now_s: float, batches: Sequence[Batch]) -> list[Reading]:
        """Sums over the running queries; ``batches`` are those that are new.

        Without a new batch, the freshness of a running one if it is already worse than usual.
        """
        queries = {each.name: each for each in self._queries.values()}
        if not queries:
            return []
        rate_per_s = sum(query.arrivals.rate_per_s for query in queries.values())
        readings = [
            Reading(now_s, self.name, Metric.ARRIVAL_RATE, rate_per_s),
            *self._queue_readings(now_s, queries),
            *self._idle_readings(now_s, queries),
        ]
        if batches:
            readings += self._last_batch_readings(max(batch.ended_s for batch in batches), queries)
            readings += self._state_readings(now_s, queries)
        else:
            readings += self._lateness_readings(now_s, queries)
        return readings

    def _queue_readings(self, now_s: float, queries: Mapping[str, QueryMonitor]) -> list[Reading]:
        """Queue length of each query, and the sum if all are known."""
        queued = {name: query.arrivals.queue_rows(now_s) for name, query in queries.items()}
        known = {name: rows for name, rows in queued.items() if rows is not None}
        readings = [
            Reading(now_s, name, Metric.QUEUE_LENGTH, rows)
            for name, rows in known.items()
            if name != self.name
        ]
        if len(known) == len(queued):
            readings.append(Reading(now_s, self.name, Metric.QUEUE_LENGTH, sum(known.values())))
        return readings

    def _idle_readings(self, now_s: float, queries: Mapping[str, QueryMonitor]) -> list[Reading]:
        """A backlog of 0 for idle queries with a read limit: no batch finishes to report it."""
        idle = {name for name, query in queries.items() if query.arrivals.is_idle}
        if len(idle) == len(queries):
            idle.add(self.name)
        return [Reading(now_s, name, Metric.BACKLOG, 0.0) for name in sorted(idle & self.read_limited())]

    def _last_batch_readings(self, at_s: float, queries: Mapping[str, QueryMonitor]) -> list[Reading]:
        """The last batch of every query, taken together."""
        last = [query.last_batch for query in queries.values() if query.last_batch is not None]
        if not last:  # the new batches are of a query that has ended
            return []
        backlogs = [batch.backlog_rows for batch in last if batch.backlog_rows is not None]
        freshness_s = max(max(0.0, batch.ended_s - batch.oldest_arrival_s) for batch in last)
        readings = [
            Reading(at_s, self.name, Metric.BATCH_ROWS, float(sum(batch.rows for batch in last))),
            Reading(at_s, self.name, Metric.BATCH_TIME, max(batch.duration_s for batch in last)),
            Reading(at_s, self.name, Metric.FRESHNESS, freshness_s),
        ]
        if len(backlogs) == len(last):
            readings.append(Reading(at_s, self.name, Metric.BACKLOG, sum(backlogs)))
        return readings

    def _state_readings(self, now_s: float, queries: Mapping[str, QueryMonitor]) -> list[Reading]:
        last = [query.arrivals.last_progress for query in queries.values()]
        state = [operator for each in last if each is not None for operator in each.state_operators]
        if not state:
            return []
        return [
            Reading(now_s, self.name, Metric.STATE_ROWS, float(sum(s.num_rows_total for s in state))),
            Reading(now_s, self.name, Metric.STATE_SIZE, float(sum(s.memory_used_bytes for s in state))),
        ]

    def _lateness_readings(self, now_s: float, queries: Mapping[str, QueryMonitor]) -> list[Reading]:
        """Age of the oldest row in a running batch, once that is more than a batch usually takes."""
        arrivals = [query.arrivals for query in queries.values()]
        ages_s = [
            now_s - oldest_s
            for each in arrivals
            if each.running_since_s is not None and (oldest_s := each.oldest_unprocessed_s()) is not None
        ]
        usual_s = 2 * max(each.trigger_interval_s for each in arrivals) + 2.0
        oldest_age_s = max(ages_s, default=0.0)
        return [Reading(now_s, self.name, Metric.FRESHNESS, oldest_age_s)] if oldest_age_s > usual_s else []


def _batch_readings(batch: Batch) -> list[Reading]:
    """Readings of a query from one finished batch."""
    at_s, name = batch.ended_s, batch.query
    readings = [
        Reading(at_s, name, Metric.BATCH_ROWS, float(batch.rows)),
        Reading(at_s, name, Metric.BATCH_TIME, batch.duration_s),
        Reading(at_s, name, Metric.FRESHNESS, max(0.0, at_s - batch.oldest_arrival_s)),
    ]
    if batch.backlog_rows is not None:
        readings.append(Reading(at_s, name, Metric.BACKLOG, batch.backlog_rows))
    if batch.trigger_interval_s:
        after_due_s = batch.started_s % batch.trigger_interval_s
        readings.append(Reading(at_s, name, Metric.SCHEDULING_LATENCY, after_due_s))
    return readings


class _OperatorReadings:
    """The named operators reported so far: their queries, and up to when their CPU has been reported."""

    def __init__(self, application: str, operators: Mapping[str, str]) -> None:
        self._query_of = dict(operators)
        self._reported_until_s: dict[str, float] = {}
        self._pipeline = Pipeline(name=application, operators=())

    @property
    def pipeline(self) -> Pipeline:
        """All operators as a pipeline; the same object until an operator is added."""
        if len(self._query_of) != len(self._pipeline.operators):
            operators = tuple(Operator(name=name, query=query) for name, query in self._query_of.items())
            self._pipeline = Pipeline(name=self._pipeline.name, operators=operators)
        return self._pipeline

    def start_run(self, query: str, at_s: float) -> None:
        """A run has finished its first batch: CPU shares count from here.

        During a restart there are no instances, so that time must not count as idle.
        """
        self._reported_until_s.update({name: at_s for name, of in self._query_of.items() if of == query})

    def of(self, batch: Batch) -> list[Reading]:
        """Readings of the operators in a batch."""
        return [reading for run in batch.operators for reading in self._of_run(batch, run)]

    def _of_run(self, batch: Batch, run: OperatorRun) -> list[Reading]:
        at_s, name = batch.ended_s, run.name
        since_s = self._reported_until_s.get(name, batch.started_s)
        self._reported_until_s[name] = at_s
        self._query_of.setdefault(name, batch.query)
        readings = [
            Reading(at_s, name, Metric.ROWS_IN, float(run.rows_in)),
            Reading(at_s, name, Metric.ROWS_OUT, float(run.rows_out)),
        ]
        if run.cpu_s is None:
            return readings
        readings.append(Reading(at_s, name, Metric.OPERATOR_CPU, run.cpu_s))
        if run.busiest_instance_cpu_s is not None:
            readings.append(Reading(at_s, name, Metric.BUSIEST_INSTANCE_CPU, run.busiest_instance_cpu_s))
        readings.append(Reading(at_s, name, Metric.INSTANCES, float(run.instances or 0)))
        if run.instances and at_s > since_s:
            share = run.cpu_s / run.instances / (at_s - since_s)
            readings.append(Reading(at_s, name, Metric.INSTANCE_CPU, share))
        return readings
