"""Ends a streaming query between two batches, so that none is torn.

``StreamingQuery.stop`` interrupts the batch that runs; it is done again after a restart, and state cannot be
repartitioned until it has been. So the query is first told what ``stop`` tells it, without the interrupt:
its thread then finishes the batch, commits it, and ends by itself. Spark has no public call for that;
where the inner one is not found, a moment between batches is waited for, and at a deadline it is ``stop``.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark import SparkContext

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger(__name__)


def stop_between_batches(query: StreamingQuery, within_s: float = 60.0) -> bool:
    """End the query; True if no batch was torn."""
    deadline_s = time.monotonic() + within_s
    if _ask_to_end(query):
        ended = query.awaitTermination(math.ceil(within_s))
        whole = bool(ended)
    else:
        whole = _await_pause(query, deadline_s)
    query.stop()  # closes what is left; a query that has ended by itself is not disturbed
    return whole


def _ask_to_end(query: StreamingQuery) -> bool:
    try:
        execution: Any = query._jsq.streamingQuery()
        jvm: Any = SparkContext._jvm
        package = jvm.org.apache.spark.sql.execution.streaming.runtime
        ended: Any = getattr(getattr(package, "TERMINATED$"), "MODULE$")
        execution.state().set(ended)
    except (Py4JError, AttributeError, TypeError) as error:
        log.info("this Spark cannot be asked to end after a batch (%s)", type(error).__name__)
        return False
    return True


def _await_pause(query: StreamingQuery, deadline_s: float) -> bool:
    pause = threading.Event()
    while time.monotonic() < deadline_s:
        if not query.isActive or not query.status["isTriggerActive"]:
            return True
        pause.wait(0.01)
    return False
