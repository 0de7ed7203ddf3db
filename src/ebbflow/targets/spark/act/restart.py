"""Stops queries between two batches, and restarts them from their checkpoint with another parallelism.

Spark fixes the plan of a query when it starts, and the number of state partitions when its checkpoint is created. So a
restart stops the query between two batches, repartitions its state if the number changes (RocksDB state store, Spark
4.2 or later), and starts the same query on the same checkpoint. Spark's offset log makes that exact: committed rows
are not read again, all others are. Changes known to be impossible are refused before the query is stopped.

``StreamingQuery.stop`` interrupts the current batch. The batch then runs again after a restart, and state cannot be
repartitioned until it has. So the query's state is first set to terminated, as ``stop`` does, but without the
interrupt: its thread finishes the batch, commits it and ends by itself. Spark has no public call for that; without
the internal one, ``stop`` is called in a pause between batches.

If a batch outlasts the deadline, a final stop interrupts it. A stop for a restart does not (``interrupt=False``): a
sink that is not idempotent would get its rows twice.

A query must not be terminated while a batch is being planned: its offsets are written by then, and Spark abandons
the batch before its first job. None of it has reached the sink, so nothing is lost or repeated, but the batch stays
unfinished. So planning is waited out, and the query's offset and commit logs show afterwards whether that worked.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import StreamingQueryException

from ebbflow.core.clock import Clock, SystemClock, wait_until
from ebbflow.core.duration import format_duration
from ebbflow.errors import TargetError
from ebbflow.targets.spark.driver import first_line, query_failure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger(__name__)

STATE_STORE = "spark.sql.streaming.stateStore.providerClass"


class RestartTimes(NamedTuple):
    """Durations of the parts of a restart."""

    stop_s: float
    state_s: float
    start_s: float


class ManagedQuery:
    """A query that Ebbflow may stop and restart.

    ``start`` builds and starts it for a given parallelism of its operators, always on ``checkpoint``. ``stateful``
    names the operators whose parallelism is the number of state partitions; a Spark query has one such number, so they
    share it. Wait for its end with ``await_termination`` of this object: that of the Spark query returns at every
    restart.
    """

    def __init__(
        self,
        spark: SparkSession,
        *,
        name: str,
        checkpoint: str | Path,
        parallelism: Mapping[str, int],
        start: Callable[[Mapping[str, int]], StreamingQuery],
        stateful: tuple[str, ...] = (),
        stop_within_s: float = 60.0,
    ) -> None:
        """``stop_within_s``: how long ``stop`` waits for the current batch before it interrupts it."""
        self.name = name
        self.parallelism: dict[str, int] = dict(parallelism)
        self._spark = spark
        self._checkpoint = str(checkpoint)
        self._start = start
        self._stateful = stateful
        self._stop_within_s = stop_within_s
        self._restarting = threading.RLock()
        self._stopped_for_good = False
        self._must_start = False
        """Whether a restart has stopped the query and not started it again."""
        self._start_error: TargetError | None = None
        """Why the query could not be started again."""
        self.last_restart: RestartTimes | None = None
        self._state_partitions = next((self.parallelism[n] for n in stateful if n in self.parallelism), None)
        self.query = start(self.parallelism)

    def differs(self, parallelism: Mapping[str, int]) -> bool:
        """Whether a layout has another parallelism for one of its operators."""
        return any(parallelism.get(name, now) != now for name, now in self.parallelism.items())

    def restart(self, parallelism: Mapping[str, int]) -> float:
        """Restart with another parallelism; returns the seconds in which nothing was processed.

        If the change is known to be impossible, the query is not stopped. If it fails to start, it is started as it
        was. If even that fails, the error says so, and the next restart tries again. A query that does not stop in time
        is waited for: once asked to stop, it will, and would stay stopped. A query that has ended stays ended.
        """
        with self._restarting:
            self._check_running()
            wanted = {name: parallelism.get(name, now) for name, now in self.parallelism.items()}
            began_s = time.monotonic()
            self._update_state_partitions()
            self._check_possible(wanted)
            self._stop_for_restart()
            try:
                if self._state_partitions_wanted(wanted):
                    self._finish_last_batch()
                ended_s = time.monotonic()
                self._repartition_state(wanted)
                moved_s = time.monotonic()
                self.query = self._started(wanted)
            except Exception as error:
                problem = f"query {self.name} cannot run with {wanted}: {first_line(error)}"
                self._start_unchanged(problem)
                raise TargetError(problem) from error
            self.parallelism = wanted
            started_s = time.monotonic()
            self.last_restart = RestartTimes(ended_s - began_s, moved_s - ended_s, started_s - moved_s)
            stopped_s = started_s - began_s
            log.info("query %s restarted in %s", self.name, format_duration(stopped_s))
            return stopped_s

    def _check_running(self) -> None:
        if self._stopped_for_good or not (self._must_start or self.query.isActive):
            raise TargetError(f"query {self.name} has ended; a change of parallelism does not start it again")

    def _stop_for_restart(self) -> None:
        """Stop the query, however long that takes: if it stopped later, nothing would start it again."""
        self._must_start = True
        try:
            stop_between_batches(self.query, self._stop_within_s, interrupt=False)
        except TargetError:
            self._must_start = False  # it runs on
            raise
        except Exception as error:  # spark.sql.streaming.stopTimeout, for one
            log.warning("query %s did not stop in time, still waiting: %s", self.name, first_line(error))
            with contextlib.suppress(Exception):  # a failure shows again when it is started
                self.query.awaitTermination()

    def _start_unchanged(self, problem: str) -> None:
        if not self._must_start:
            return  # it is running
        try:
            self._repartition_state(self.parallelism)
        except Exception:
            # The query runs with any number of state partitions, and running matters more.
            log.exception("the state of query %s keeps %s partitions", self.name, self._state_partitions)
        try:
            self.query = self._started(self.parallelism)
        except Exception as error:
            self._start_error = TargetError(
                f"{problem}; restarting it unchanged failed too, so it is stopped: {first_line(error)}"
            )
            raise self._start_error from error

    def _started(self, parallelism: Mapping[str, int]) -> StreamingQuery:
        """Start the query with its session active in this thread.

        Spark looks up Python data sources in the active session of the thread. The thread of the loop has none, or the
        one in which state was repartitioned.
        """
        from pyspark.sql import SparkSession

        try:
            sessions: Any = SparkSession._get_j_spark_session_class(self._spark._jvm)
            sessions.setActiveSession(self._spark._jsparkSession)
        except (Py4JError, AttributeError, TypeError):
            log.debug("query %s is started in the active session of the thread", self.name)
        query = self._start(parallelism)
        self._must_start = False
        return query

    def failure(self) -> Exception | None:
        """Why the query failed or could not be restarted; None while it runs and during a restart."""
        if not self._restarting.acquire(blocking=False):
            return None
        try:
            return self._start_error if self._must_start else query_failure(self.query)
        finally:
            self._restarting.release()

    def await_termination(self) -> None:
        """Return when the query has ended and is not being restarted."""
        while True:
            query = self.query
            query.awaitTermination()
            with self._restarting:
                if self.query is query:
                    return

    def stop(self) -> None:
        """Stop the query for good, between two batches."""
        with self._restarting:
            self._stopped_for_good = True
            stop_between_batches(self.query, self._stop_within_s)

    def _state_partitions_wanted(self, wanted: Mapping[str, int]) -> int | None:
        """The new number of state partitions, None if it does not change."""
        counts = {wanted[name] for name in self._stateful if name in wanted}
        if len(counts) > 1:
            raise TargetError(
                f"query {self.name}: its stateful operators {', '.join(self._stateful)} share one number of "
                f"state partitions, not {' and '.join(map(str, sorted(counts)))}; scale them together"
            )
        return next(iter(counts - {self._state_partitions}), None)

    def _check_possible(self, wanted: Mapping[str, int]) -> None:
        """Raise ``TargetError`` if the change is known to be impossible while the query still runs."""
        count = self._state_partitions_wanted(wanted)
        if count is None:
            return
        change = (
            f"query {self.name}: its state cannot change from {self._state_partitions} to {count} partitions"
        )
        store = self._state_store()
        if store and "RocksDB" not in store:
            raise TargetError(
                f"{change} in {store.rsplit('.', 1)[-1]}; start it on a new checkpoint with {STATE_STORE}="
                "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
            )
        try:
            has_manager = hasattr(self._spark, "_streamingCheckpointManager")
        except Py4JError:
            has_manager = False
        if not has_manager:
            raise TargetError(f"{change} on Spark {self._spark.version}; it takes Spark 4.2 or later")

    def _state_store(self) -> str:
        """Class of the query's state store: from its checkpoint, or else from the session."""
        try:
            execution: Any = self.query._jsq.streamingQuery()
            stored = execution.offsetSeqMetadata().conf().get(STATE_STORE)
            if stored.isDefined():
                return str(stored.get())
        except (Py4JError, AttributeError, TypeError):
            log.debug("assuming the session's state store for query %s", self.name)
        return str(self._spark.conf.get(STATE_STORE, "") or "")

    def _repartition_state(self, wanted: Mapping[str, int]) -> None:
        count = self._state_partitions_wanted(wanted)
        if count is not None:
            manager: Any = self._spark._streamingCheckpointManager
            manager.repartition(self._checkpoint, count)
            self._state_partitions = count

    def _finish_last_batch(self) -> None:
        """Run the query unchanged until an unfinished batch is committed: Spark does not repartition state before.

        A stop during planning leaves such a batch behind (see above).
        """
        deadline_s = time.monotonic() + self._stop_within_s
        while time.monotonic() < deadline_s:
            unfinished = unfinished_batch(self.query)
            if unfinished is None or unfinished < 0:
                return
            log.info("query %s stopped in batch %d; finishing that first", self.name, unfinished)
            self.query = self._started(self.parallelism)
            await_batch(self.query, unfinished, deadline_s - time.monotonic())
            self._stop_for_restart()

    def _update_state_partitions(self) -> None:
        """Take the number of state partitions from the query's progress, if there is any."""
        progress: Any = self.query.lastProgress
        operators = (progress or {}).get("stateOperators") or []
        if operators:
            self._state_partitions = int(operators[0]["numShufflePartitions"])


# -- stopping a query ---------------------------------------------------------------------------

LONGEST_PLANNING_S = 5.0
"""How long to wait for the end of planning; after that the query is terminated anyway."""


def stop_between_batches(
    query: StreamingQuery, within_s: float = 60.0, clock: Clock | None = None, *, interrupt: bool = True
) -> bool:
    """Stop the query; True if every batch that it began is committed.

    ``interrupt``: stop within a batch if the batch does not end in time. Otherwise wait for it as long as it takes; if
    the query cannot be terminated without an interrupt and shows no pause, raise ``TargetError`` and let it run.
    """
    clock = clock or SystemClock()
    deadline_s = clock.monotonic_s() + within_s
    if _terminate_after_batch(query, clock, min(within_s, LONGEST_PLANNING_S)):
        ended = False
        while not ended and (clock.monotonic_s() < deadline_s or not interrupt):
            left_s = deadline_s - clock.monotonic_s() if interrupt else within_s
            ended = _has_ended(query, max(1, math.ceil(left_s)))
            if not ended and not interrupt:
                log.warning("query %s will stop after its current batch; waiting for it", query.name)
    else:
        ended = wait_until(lambda: not query.isActive or not _in_a_batch(query), clock, within_s=within_s)
        if not ended and not interrupt:
            raise TargetError(
                f"query {query.name} had no pause between two batches for {within_s:g} s and was not stopped: within a "
                "batch, its sink could get rows twice; set a trigger interval"
            )
    query.stop()  # releases its resources; no effect on a query that has ended
    unfinished = unfinished_batch(query)
    return ended if unfinished is None else unfinished < 0


def _has_ended(query: StreamingQuery, within_s: int) -> bool:
    """Whether the query ends in time; a query that fails has ended, and ``exception()`` says why."""
    try:
        return bool(query.awaitTermination(within_s)) and not is_working(query)
    except StreamingQueryException:
        return True


def is_working(query: StreamingQuery) -> bool:
    """Whether the thread of a query runs.

    One that is to end after its batch counts as terminated for Spark from then on, also in ``isActive`` and
    ``awaitTermination``, while its last batch still runs.
    """
    try:
        execution: Any = query._jsq.streamingQuery()
        return bool(execution.queryExecutionThread().isAlive())
    except (Py4JError, AttributeError, TypeError):
        return False


def unfinished_batch(query: StreamingQuery) -> int | None:
    """The batch whose offsets are written but that is not committed; -1 if there is none, None if unknown."""
    try:
        execution: Any = query._jsq.streamingQuery()
        begun, committed = (_latest(log) for log in (execution.offsetLog(), execution.commitLog()))
    except (Py4JError, AttributeError, TypeError):
        return None
    return begun if begun > committed else -1


def await_batch(query: StreamingQuery, batch: int, within_s: float, clock: Clock | None = None) -> bool:
    """Whether the query has reported a batch, or ended, in time."""
    clock = clock or SystemClock()

    def reported() -> bool:
        last: Any = query.lastProgress
        return not query.isActive or (last is not None and last["batchId"] >= batch)

    return wait_until(reported, clock, within_s=within_s)


def _latest(batch_log: Any) -> int:
    latest: Any = batch_log.getLatestBatchId()
    return int(latest.get()) if latest.isDefined() else -1


def _terminate_after_batch(query: StreamingQuery, clock: Clock, planned_within_s: float) -> bool:
    try:
        execution: Any = query._jsq.streamingQuery()
        jvm: Any = SparkContext._jvm
        package = jvm.org.apache.spark.sql.execution.streaming.runtime
        ended: Any = getattr(getattr(package, "TERMINATED$"), "MODULE$")
        state: Any = execution.state()
        wait_until(lambda: not _in_a_batch(query) or _has_a_job(query), clock, within_s=planned_within_s)
        state.set(ended)
    except (Py4JError, AttributeError, TypeError) as error:
        log.info("this Spark cannot end a query after its current batch (%s)", type(error).__name__)
        return False
    return True


def _in_a_batch(query: StreamingQuery) -> bool:
    return bool(query.status["isTriggerActive"])


def _has_a_job(query: StreamingQuery) -> bool:
    """Whether a job of the query is running, so that its batch is planned. Spark groups jobs by the query's run."""
    context = SparkContext._active_spark_context
    if context is None:
        return True
    tracker = context.statusTracker()
    infos = (tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(str(query.runId)))
    return any(info is not None and info.status == "RUNNING" for info in infos)
