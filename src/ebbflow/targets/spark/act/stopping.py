"""Stops a streaming query between two batches, so that no batch is interrupted.

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
"""How long to wait for the end of planning; after that the query is terminated anyway."""


def stop_between_batches(
    query: StreamingQuery, within_s: float = 60.0, clock: Clock | None = None, *, interrupt: bool = True
) -> bool:
    """Stop the query; True if every batch that it began is committed.

    ``interrupt``: stop within a batch if the batch does not end in time. Otherwise wait for it as long as it takes; if
    the query cannot be terminated without an interrupt and shows no pause, raise ``TargetError`` and let it run.
    """
    clock = clock or SystemClock()
    deadline_s = clock.now_s() + within_s
    if _terminate_after_batch(query, clock, clock.now_s() + min(within_s, LONGEST_PLANNING_S)):
        ended = False
        while not ended and (clock.now_s() < deadline_s or not interrupt):
            left_s = deadline_s - clock.now_s() if interrupt else within_s
            ended = _has_ended(query, max(1, math.ceil(left_s)))
            if not ended and not interrupt:
                log.warning("query %s will stop after its current batch; waiting for it", query.name)
    else:
        ended = wait_until(lambda: not query.isActive or not _in_a_batch(query), clock, deadline_s)
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
        return bool(query.awaitTermination(within_s))
    except StreamingQueryException:
        return True


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

    return wait_until(reported, clock, clock.now_s() + within_s)


def _latest(batch_log: Any) -> int:
    latest: Any = batch_log.getLatestBatchId()
    return int(latest.get()) if latest.isDefined() else -1


def _terminate_after_batch(query: StreamingQuery, clock: Clock, planned_by_s: float) -> bool:
    try:
        execution: Any = query._jsq.streamingQuery()
        jvm: Any = SparkContext._jvm
        package = jvm.org.apache.spark.sql.execution.streaming.runtime
        ended: Any = getattr(getattr(package, "TERMINATED$"), "MODULE$")
        state: Any = execution.state()
        wait_until(lambda: not _in_a_batch(query) or _has_a_job(query), clock, planned_by_s)
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
