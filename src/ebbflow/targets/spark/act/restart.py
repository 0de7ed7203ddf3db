"""Restarts a query from its checkpoint with another parallelism of its operators.

Spark fixes the plan of a query when it starts, and the number of state partitions when its checkpoint is created. So a
restart stops the query between two batches, repartitions its state if the number changes (RocksDB state store, Spark
4.2 or later), and starts the same query on the same checkpoint. Spark's offset log makes that exact: committed rows
are not read again, all others are. Changes known to be impossible are refused before the query is stopped.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from py4j.protocol import Py4JError

from ebbflow.core.duration import format_duration
from ebbflow.errors import TargetError
from ebbflow.targets.spark.act.stopping import await_batch, stop_between_batches, unfinished_batch
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

        A stop during planning leaves such a batch behind (see ``stopping``).
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
