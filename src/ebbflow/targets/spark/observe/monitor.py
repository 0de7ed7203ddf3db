"""What is seen of a Spark application: its queries' batches, their operators, its executors."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from ebbflow.core.batches import Batch
from ebbflow.core.clock import Clock
from ebbflow.core.layout import MAIN
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.readings import Reading
from ebbflow.errors import TargetError
from ebbflow.targets.spark.driver import Driver, ExecutorInfo
from ebbflow.targets.spark.observe import readings as query_readings
from ebbflow.targets.spark.observe.batches import Followed, QueryFollower
from ebbflow.targets.spark.observe.progress import Progress
from ebbflow.targets.spark.observe.readings import OperatorReadings
from ebbflow.targets.spark.observe.tracking import ExecutorTracker

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger("ebbflow")

_ENDED_REMEMBERED = 100


class Look(NamedTuple):
    """What a look at an application brought."""

    readings: list[Reading]
    batches: list[Batch]
    first_batches: list[Batch]


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
        self._followed: dict[str, QueryFollower] = {}
        """By the id of the run."""
        self._operators = OperatorReadings(driver.app_name, operators)
        self._has_read_limit: dict[str, bool] = {}
        """By the name of a query, as far as Spark tells."""
        self._changed_s = float("-inf")
        """When executors last came to work or left."""
        self._left_rows_since_s: dict[str, float] = {}
        """Of runs that have ended, by the id of the query."""
        self._untold: set[str] = set()
        """Queries of whose source it was said that it does not tell what waits."""
        self._looks: list[tuple[QueryFollower, Followed]] = []
        """What was seen of queries in looks that failed at another: each tells of a batch once."""
        self.present: list[ExecutorInfo] = []

    @property
    def name(self) -> str:
        """Subject of the pipeline's readings."""
        return self._driver.app_name

    @property
    def pipeline(self) -> Pipeline:
        """The operators of managed queries, and the named ones met so far."""
        return self._operators.pipeline

    @property
    def queries(self) -> list[StreamingQuery]:
        """Those that ran at the last look."""
        return [each.query for each in self._followed.values()]

    @property
    def slots_per_node(self) -> int:
        """Tasks an executor runs at once: its cores ÷ cores a task."""
        return max((e.max_tasks for e in self.present), default=1) or 1

    def running(self) -> dict[str, float | None]:
        """Queries that run, each with the start of its current batch, None between batches."""
        return {each.name: each.tracker.running_since_s for each in self._followed.values()}

    def read_limited(self) -> frozenset[str]:
        """Queries with a read limit; and the application, if that is so of all that run."""
        limited = {name for name, has_one in self._has_read_limit.items() if has_one}
        running = {each.name for each in self._followed.values()}
        return frozenset(limited | {self.name} if running and running <= limited else limited)

    def last_progress(self) -> list[tuple[StreamingQuery, Progress]]:
        """Each query with its newest progress."""
        return [
            (each.query, each.tracker.last)
            for each in self._followed.values()
            if each.tracker.last is not None
        ]

    def look(self) -> Look:
        """Look once at everything. If one query cannot be seen, nothing is told, and what the others showed is told by
        the next look."""
        now_s = self._clock.now_s()
        self.present = [e for e in self._driver.executors() if e.is_active]
        if self._executors.changed(self.present):
            self._changed_s = now_s
        self._looks = [(each, seen) for each, seen in self._looks if seen.batches or seen.untimed]
        self._look_at_those_that_ended(now_s)
        for each in self._followed.values():
            self._looks.append((each, self._look_at(each, now_s)))
        looks, self._looks = self._looks, []
        readings = self._executor_readings(now_s)
        batches = [batch for _, seen in looks for batch in seen.batches]
        first_batches = [batch for _, seen in looks for batch in seen.untimed]
        for each, seen in looks:
            readings += self._first_batch_readings(each, seen)
        for batch in batches:
            if batch.backlog_rows is None:
                self._say_untold(batch.query)
            readings += query_readings.of_batch(batch)
            readings += self._operators.of(batch)
        trackers = {each.name: each.tracker for each in self._followed.values()}
        readings += query_readings.of_all(self.name, now_s, trackers, batches, self.read_limited())
        return Look(readings, batches, first_batches)

    def _look_at_those_that_ended(self, now_s: float) -> None:
        """Follow the queries that run, and say what those did that ended since the last look."""
        running = {str(query.runId): query for query in self._driver.queries()}
        for run_id in [run_id for run_id in self._followed if run_id not in running]:
            each = self._followed.pop(run_id)
            try:
                self._looks.append((each, self._look_at(each, now_s, is_last=True)))
            except TargetError as error:
                log.debug("the last batches of query %s were not seen: %s", each.name, error)
            since_s = each.tracker.oldest_unprocessed_s()
            if since_s is not None:
                self._left_rows_since_s[each.id] = since_s
        while len(self._left_rows_since_s) > _ENDED_REMEMBERED:
            del self._left_rows_since_s[next(iter(self._left_rows_since_s))]
        for run_id, query in running.items():
            if run_id not in self._followed:
                since_s = self._left_rows_since_s.pop(str(query.id), None)
                self._followed[run_id] = QueryFollower(self._driver, query, since_s)

    def _look_at(self, each: QueryFollower, now_s: float, *, is_last: bool = False) -> Followed:
        slots = sum(e.max_tasks for e in self.present)
        return each.look(now_s, slots=slots, changed_s=self._changed_s, is_last=is_last)

    def _first_batch_readings(self, each: QueryFollower, seen: Followed) -> list[Reading]:
        if each.has_read_limit is not None:
            self._has_read_limit[each.name] = each.has_read_limit
        for batch in seen.untimed:
            self._operators.begin(each.name, batch.ended_s)
        if seen.first_time_s is None:
            return []
        return [Reading(seen.untimed[0].ended_s, each.name, Metric.FIRST_BATCH_TIME, seen.first_time_s)]

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

    def _say_untold(self, query: str) -> None:
        """Once a query."""
        if query not in self._untold:
            self._untold.add(query)
            log.warning(
                "the source of query %s does not tell its latest offset, so nobody knows whether rows wait there; "
                "while its batches run back to back, nothing leaves. A trigger interval shows when it has time left",
                query,
            )
