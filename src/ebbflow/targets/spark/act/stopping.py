"""Ends a streaming query between two batches, so that none is torn.

``StreamingQuery.stop`` interrupts the batch that runs; it is done again after a restart, and state cannot be
repartitioned until it has been. So the query is first told what ``stop`` tells it, without the interrupt:
its thread then finishes the batch, commits it, and ends by itself. Spark has no public call for that;
where the inner one is not found, a moment between batches is waited for.

A batch that lasts longer than the deadline is torn by who ends the query for good. Who starts it again does not tear
it (``or_in_one=False``): a sink that is not idempotent would get its rows twice.

One moment is bad for telling it: while a batch is planned. Its offsets are written by then, and a query that
finds itself told before the batch's first job gives the batch up. Nothing of it has reached the sink, so
nothing is lost or repeated, but it is unfinished. So a moment without that is waited for, and the
query's own logs say afterwards how it went.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import StreamingQueryException

from ebbflow.core.clock import Clock, SystemClock, wait_until
from ebbflow.errors import TargetError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger(__name__)

LONGEST_PLANNING_S = 5.0
"""How long a good moment is waited for; a batch that plans for longer is told anyway."""


def stop_between_batches(
    query: StreamingQuery, within_s: float = 60.0, clock: Clock | None = None, *, or_in_one: bool = True
) -> bool:
    """End the query; True if every batch it began is committed.

    ``or_in_one``: in the middle of a batch if none ends within the time. Else a query that was told to end is waited
    for as long as its batch takes; one that cannot be told, and shows no pause, runs on: ``TargetError``.
    """
    clock = clock or SystemClock()
    deadline_s = clock.now_s() + within_s
    if _ask_to_end(query, clock, clock.now_s() + min(within_s, LONGEST_PLANNING_S)):
        ended = False
        while not ended and (clock.now_s() < deadline_s or not or_in_one):
            left_s = deadline_s - clock.now_s() if or_in_one else within_s
            ended = _has_ended(query, max(1, math.ceil(left_s)))
            if not ended and not or_in_one:
                log.warning(
                    "query %s is still in the batch after which it ends; it is waited for", query.name
                )
    else:
        ended = wait_until(lambda: not query.isActive or not _in_a_batch(query), clock, deadline_s)
        if not ended and not or_in_one:
            raise TargetError(
                f"query {query.name} showed no pause between two batches in {within_s:g} s, and is not stopped in one, "
                "because its sink could get rows twice; a trigger interval gives it pauses"
            )
    query.stop()  # closes what is left; a query that has ended by itself is not disturbed
    unfinished = unfinished_batch(query)
    return ended if unfinished is None else unfinished < 0


def _has_ended(query: StreamingQuery, within_s: int) -> bool:
    """Whether it ends in time; one that fails has ended, and ``exception()`` says of what."""
    try:
        return bool(query.awaitTermination(within_s))
    except StreamingQueryException:
        return True


def unfinished_batch(query: StreamingQuery) -> int | None:
    """The batch whose offsets are written and that is not committed, -1 without one, None if nobody can say."""
    try:
        execution: Any = query._jsq.streamingQuery()
        begun, committed = (_latest(log) for log in (execution.offsetLog(), execution.commitLog()))
    except (Py4JError, AttributeError, TypeError):
        return None
    return begun if begun > committed else -1


def await_batch(query: StreamingQuery, batch: int, within_s: float, clock: Clock | None = None) -> bool:
    """Whether the running query has reported a batch, or ended, in time."""
    clock = clock or SystemClock()

    def reported() -> bool:
        last: Any = query.lastProgress
        return not query.isActive or (last is not None and last["batchId"] >= batch)

    return wait_until(reported, clock, clock.now_s() + within_s)


def _latest(batch_log: Any) -> int:
    latest: Any = batch_log.getLatestBatchId()
    return int(latest.get()) if latest.isDefined() else -1


def _ask_to_end(query: StreamingQuery, clock: Clock, good_moment_until_s: float) -> bool:
    try:
        execution: Any = query._jsq.streamingQuery()
        jvm: Any = SparkContext._jvm
        package = jvm.org.apache.spark.sql.execution.streaming.runtime
        ended: Any = getattr(getattr(package, "TERMINATED$"), "MODULE$")
        state: Any = execution.state()
        wait_until(lambda: not _in_a_batch(query) or _has_a_job(query), clock, good_moment_until_s)
        state.set(ended)
    except (Py4JError, AttributeError, TypeError) as error:
        log.info("this Spark cannot be asked to end after a batch (%s)", type(error).__name__)
        return False
    return True


def _in_a_batch(query: StreamingQuery) -> bool:
    return bool(query.status["isTriggerActive"])


def _has_a_job(query: StreamingQuery) -> bool:
    """Whether a job of the query runs: its batch is planned then. Spark groups a query's jobs by its run."""
    context = SparkContext._active_spark_context
    if context is None:
        return True
    tracker = context.statusTracker()
    infos = (tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(str(query.runId)))
    return any(info is not None and info.status == "RUNNING" for info in infos)
