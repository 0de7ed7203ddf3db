"""Restart of a query from its checkpoint with another parallelism: the third thing that can be resized.

Spark fixes a query's plan when it starts, and the number of its state partitions when its checkpoint is
made. So: stop between two batches, repartition the state if its number is to change (RocksDB
state store, Spark 4.2 or later), and start the same query on the same checkpoint. Spark's offset
log makes that exact: what was committed is not read again, what was not is. What can be known to be impossible
is told before anything is stopped.
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
from ebbflow.targets.spark.failure import failure_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger(__name__)

STATE_STORE = "spark.sql.streaming.stateStore.providerClass"


class RestartTimes(NamedTuple):
    """How long the parts of a restart took."""

    stop_s: float
    state_s: float
    start_s: float


class ManagedQuery:
    """A query that Ebbflow may stop and start again.

    ``start`` builds and starts it for a given parallelism of its operators, always on ``checkpoint``.
    ``stateful`` names those operators whose parallelism is the number of state partitions; Spark has one
    such number for a query, so they share it. Wait for its end with ``await_termination`` of this object:
    that of the Spark query returns at every restart.
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
        """``stop_within_s``: how long the end of its batch is waited for by ``stop``, before that is interrupted."""
        self.name = name
        self.parallelism: dict[str, int] = dict(parallelism)
        self._spark = spark
        self._checkpoint = str(checkpoint)
        self._start = start
        self._stateful = stateful
        self._stop_within_s = stop_within_s
        self._restarting = threading.RLock()
        self._stopped_for_good = False
        self._owed = False
        """Whether we have stopped it and not started it again."""
        self._not_started: TargetError | None = None
        """Why it could not be started again, in any shape."""
        self.last_restart: RestartTimes | None = None
        self._state_partitions = next((self.parallelism[n] for n in stateful if n in self.parallelism), None)
        self.query = start(self.parallelism)

    def differs(self, parallelism: Mapping[str, int]) -> bool:
        """Whether a layout wants another parallelism of one of its operators."""
        return any(parallelism.get(name, now) != now for name, now in self.parallelism.items())

    def restart(self, parallelism: Mapping[str, int]) -> float:
        """Restart with another parallelism; returns the seconds in which nothing was processed.

        If the new shape cannot be had, the query is not stopped; if that shows only when it starts, the old one
        is started again. One that does not stop in time is waited for, because it was told to: a job is not left
        stopped. If even the old shape does not start, the error says so, and the next restart tries again. A query
        that has ended, by ``stop`` or by itself, stays so.
        """
        with self._restarting:
            self._check_that_it_runs()
            wanted = {name: parallelism.get(name, now) for name, now in self.parallelism.items()}
            began_s = time.monotonic()
            self._note_state_partitions()
            self._check(wanted)
            self._stop_to_start_again()
            try:
                if self._state_partitions_wanted(wanted):
                    self._finish_its_last_batch()
                ended_s = time.monotonic()
                self._repartition_state(wanted)
                moved_s = time.monotonic()
                self.query = self._started(wanted)
            except Exception as error:
                trouble = f"query {self.name} cannot run with {wanted}: {_first_line(error)}"
                self._start_as_it_was(trouble)
                raise TargetError(trouble) from error
            self.parallelism = wanted
            started_s = time.monotonic()
            self.last_restart = RestartTimes(ended_s - began_s, moved_s - ended_s, started_s - moved_s)
            stopped_s = started_s - began_s
            log.info("query %s restarted in %s", self.name, format_duration(stopped_s))
            return stopped_s

    def _check_that_it_runs(self) -> None:
        if self._stopped_for_good or not (self._owed or self.query.isActive):
            raise TargetError(
                f"query {self.name} has ended, and is not started again by a change of parallelism"
            )

    def _stop_to_start_again(self) -> None:
        """Stop it, however long that takes: one that was told to end, and is not waited for, ends with nobody there."""
        self._owed = True
        try:
            stop_between_batches(self.query, self._stop_within_s, or_in_one=False)
        except TargetError:
            self._owed = False  # it runs on
            raise
        except Exception as error:  # spark.sql.streaming.stopTimeout, for one
            log.warning("query %s does not end in time, and is waited for: %s", self.name, _first_line(error))
            with contextlib.suppress(Exception):  # what it failed of will show again when it is started
                self.query.awaitTermination()

    def _start_as_it_was(self, trouble: str) -> None:
        if not self._owed:
            return  # it runs
        try:
            self._repartition_state(self.parallelism)
        except Exception:
            # The query runs on any number of state partitions; running matters more than the number.
            log.exception("the state of query %s stays in %s partitions", self.name, self._state_partitions)
        try:
            self.query = self._started(self.parallelism)
        except Exception as error:
            self._not_started = TargetError(
                f"{trouble}; nor does it start as it was, so it is stopped: {_first_line(error)}"
            )
            raise self._not_started from error

    def _started(self, parallelism: Mapping[str, int]) -> StreamingQuery:
        """Start it from this thread. Spark looks formats written in Python up in the thread's active session, and the
        thread of the loop has none, or the one in which state was repartitioned."""
        from pyspark.sql import SparkSession

        try:
            known: Any = SparkSession._get_j_spark_session_class(self._spark._jvm)
            known.setActiveSession(self._spark._jsparkSession)
        except (Py4JError, AttributeError, TypeError):
            log.debug("query %s is started in whatever session is active", self.name)
        query = self._start(parallelism)
        self._owed = False
        return query

    def failure(self) -> Exception | None:
        """What the query has failed of, or why it could not be started again; None while it runs, and while a restart
        is under way."""
        if not self._restarting.acquire(blocking=False):
            return None
        try:
            return self._not_started if self._owed else failure_in(self.query)
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
        """Stop it for good, between two batches."""
        with self._restarting:
            self._stopped_for_good = True
            stop_between_batches(self.query, self._stop_within_s)

    def _state_partitions_wanted(self, wanted: Mapping[str, int]) -> int | None:
        """The number of state partitions it is to get, None if it has that already."""
        counts = {wanted[name] for name in self._stateful if name in wanted}
        if len(counts) > 1:
            raise TargetError(
                f"query {self.name}: its stateful operators {', '.join(self._stateful)} share one number of "
                f"state partitions, but {' and '.join(map(str, sorted(counts)))} were wanted; scale them together"
            )
        return next(iter(counts - {self._state_partitions}), None)

    def _check(self, wanted: Mapping[str, int]) -> None:
        """``TargetError`` for a shape that cannot be had, as far as that can be known while the query runs."""
        count = self._state_partitions_wanted(wanted)
        if count is None:
            return
        change = f"query {self.name}: its state cannot go from {self._state_partitions} to {count} partitions"
        store = self._state_store()
        if store and "RocksDB" not in store:
            raise TargetError(
                f"{change} in a {store.rsplit('.', 1)[-1]}; start it on a new checkpoint with {STATE_STORE}="
                "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
            )
        try:
            has_manager = hasattr(self._spark, "_streamingCheckpointManager")
        except Py4JError:
            has_manager = False
        if not has_manager:
            raise TargetError(f"{change} on Spark {self._spark.version}; that needs Spark 4.2 or later")

    def _state_store(self) -> str:
        """The class that keeps the query's state: what its checkpoint was made with, else the session's."""
        try:
            execution: Any = self.query._jsq.streamingQuery()
            kept = execution.offsetSeqMetadata().conf().get(STATE_STORE)
            if kept.isDefined():
                return str(kept.get())
        except (Py4JError, AttributeError, TypeError):
            log.debug("the state store of query %s is taken from the session", self.name)
        return str(self._spark.conf.get(STATE_STORE, "") or "")

    def _repartition_state(self, wanted: Mapping[str, int]) -> None:
        count = self._state_partitions_wanted(wanted)
        if count is not None:
            manager: Any = self._spark._streamingCheckpointManager
            manager.repartition(self._checkpoint, count)
            self._state_partitions = count

    def _finish_its_last_batch(self) -> None:
        """Let the query run as it was until a batch it began is committed: state is not repartitioned in one.

        A stop can find the query at the one moment at which it gives a batch up (see ``stopping``).
        """
        deadline_s = time.monotonic() + self._stop_within_s
        while time.monotonic() < deadline_s:
            unfinished = unfinished_batch(self.query)
            if unfinished is None or unfinished < 0:
                return
            log.info("query %s stopped in batch %d, which is finished first", self.name, unfinished)
            self.query = self._started(self.parallelism)
            await_batch(self.query, unfinished, deadline_s - time.monotonic())
            self._stop_to_start_again()

    def _note_state_partitions(self) -> None:
        """Believe what the query says of itself, once it has said something."""
        progress: Any = self.query.lastProgress
        operators = (progress or {}).get("stateOperators") or []
        if operators:
            self._state_partitions = int(operators[0]["numShufflePartitions"])


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
