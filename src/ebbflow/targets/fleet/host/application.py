"""A Spark application that hosts queries: starts them, polls them, and sets its executors.

With executors it is a ``SparkTarget``. With a ``local`` master it is one node whose size cannot change.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from ebbflow.core.clock import Clock
from ebbflow.core.decision import Outcome
from ebbflow.core.layout import MAIN, Layout
from ebbflow.core.metrics import Metric
from ebbflow.core.plural import counted
from ebbflow.core.ports import Observation
from ebbflow.core.readings import Reading
from ebbflow.errors import InputError, TargetGoneError
from ebbflow.targets.fleet.context import QueryContext
from ebbflow.targets.fleet.file import import_function
from ebbflow.targets.fleet.host.queries import Running
from ebbflow.targets.fleet.model import KAFKA, Application, Fleet, Query
from ebbflow.targets.spark.act.restart import is_working, stop_between_batches
from ebbflow.targets.spark.driver import Driver, as_ebbflow_error, first_line, query_failure
from ebbflow.targets.spark.launch.local_cluster import local_settings
from ebbflow.targets.spark.launch.preflight import is_on_this_machine
from ebbflow.targets.spark.launch.session import local_session
from ebbflow.targets.spark.launch.settings import scaling_settings
from ebbflow.targets.spark.observe.lead_time import ExecutorRequests
from ebbflow.targets.spark.observe.monitor import SparkMonitor
from ebbflow.targets.spark.source import register
from ebbflow.targets.spark.target import SparkTarget

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger(__name__)

STOP_WITHIN_S = 60.0


class PolledApplication(Protocol):
    """What a host needs of its application besides its queries."""

    def observe(self) -> Observation:
        """Poll it; its cluster is called ``main``."""
        ...

    def apply(self, planned: Layout) -> Outcome:
        """Request executors."""
        ...

    def arrival_rates(self) -> Mapping[str, float]:
        """Rows that arrive per second at each query whose rate is known."""
        ...

    def close(self) -> None:
        """Let changes that have begun finish."""
        ...


@contextmanager
def open_session(application: Application) -> Iterator[SparkSession]:
    """The session of an application."""
    remote = not application.is_local and not is_on_this_machine(application.master)
    settings = {
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.streaming.numRecentProgressUpdates": "200",
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
    }
    if application.is_local:
        settings |= {"spark.ui.enabled": "false", "spark.driver.bindAddress": "127.0.0.1"}
        settings |= {"spark.driver.host": "127.0.0.1"}
    else:
        if not remote:
            settings |= local_settings(memory=application.memory)
            settings |= {"spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", "")}
        settings |= {"spark.executor.memory": application.memory}
        settings |= scaling_settings(
            initial_executors=application.executors.min_nodes, master=application.master
        )
    settings |= application.settings
    with local_session(
        application.master, settings, name=application.name, remote=remote, detached=True
    ) as spark:
        register(spark)
        yield spark


def polled(spark: SparkSession, application: Application, clock: Clock) -> PolledApplication:
    """The application behind a session."""
    if application.is_local:
        return LocalApplication(spark, clock)
    return ScaledApplication(spark, clock, min_nodes=application.executors.min_nodes)


class ScaledApplication(SparkTarget):
    """An application with executors."""

    def arrival_rates(self) -> Mapping[str, float]:
        """Rows that arrive per second at each query whose rate is known."""
        return self._monitor.arrival_rates()


class LocalApplication:
    """An application with a ``local`` master: one node, which is the driver itself."""

    def __init__(self, spark: SparkSession, clock: Clock) -> None:
        self._driver = Driver(spark)
        self._clock = clock
        self._monitor = SparkMonitor(self._driver, clock, ExecutorRequests(clock, 0.0))

    def observe(self) -> Observation:
        """Poll the queries."""
        if self._driver.stopped:
            raise TargetGoneError("the Spark application has ended")
        now_s = self._clock.now_s()
        readings, batches, first_batches = self._monitor.poll()
        readings.append(Reading(now_s, MAIN, Metric.NODES, 1.0))
        readings.append(Reading(now_s, MAIN, Metric.NODES_REQUESTED, 1.0))
        return Observation(
            time_s=now_s,
            pipeline=self._monitor.pipeline,
            layout=Layout.of(1),
            requested=Layout.of(1),
            slots_per_node=self._monitor.slots_per_node,
            lead_time_s=0.0,
            readings=readings,
            batches=batches,
            first_batches=first_batches,
            queries=self._monitor.current_batches(),
            read_limited=self._monitor.read_limited(),
            held_nodes=1,
        )

    def apply(self, planned: Layout) -> Outcome:
        """Its size is constant."""
        more = planned.main_nodes - 1
        note = f"a local master has one node; {counted(more, 'more')} cannot be added" if more else ""
        return Outcome(requested=planned.with_nodes(1), infeasible_nodes=more, note=note)

    def arrival_rates(self) -> Mapping[str, float]:
        """Rows that arrive per second at each query whose rate is known."""
        return self._monitor.arrival_rates()

    def close(self) -> None:
        """Nothing is under way."""


class SparkEngine:
    """Starts the queries of a fleet in a session."""

    def __init__(self, spark: SparkSession, fleet: Fleet) -> None:
        self._spark = spark
        self._fleet = fleet

    def start(self, query: Query) -> Running:
        """Call the function of the operator, and start what it returns."""
        from pyspark.sql import SparkSession
        from pyspark.sql.streaming.query import StreamingQuery
        from pyspark.sql.streaming.readwriter import DataStreamWriter

        sessions: Any = SparkSession._get_j_spark_session_class(self._spark._jvm)
        sessions.setActiveSession(self._spark._jsparkSession)  # Python sources are looked up in it
        function = import_function(query.operator.start, self._fleet.path.parent)
        query.checkpoint.parent.mkdir(parents=True, exist_ok=True)
        try:
            made = function(QueryContext(self._spark, self._fleet, query))
            started = made.start() if isinstance(made, DataStreamWriter) else made
        except Exception as error:
            why = f"{first_line(error)}{_hint(error, self._fleet, query)}"
            raise InputError(f"{query.operator.start} failed: {why}") from error
        if not isinstance(started, StreamingQuery):
            raise InputError(
                f"{query.operator.start} returned {type(started).__name__}; return context.write(rows), or a started "
                "query"
            )
        if started.name != query.name:
            name = started.name
            started.stop()
            raise InputError(
                f"{query.operator.start} started a query named {name!r}; use context.write or context.writer, which "
                f"name it {query.name}"
            )
        return SparkQuery(started)


def _hint(error: Exception, fleet: Fleet, query: Query) -> str:
    streams = (*query.operator.reads, *query.operator.writes)
    if "kafka" in str(error) and any(fleet.streams[each].kind == KAFKA for each in streams):
        return "; Spark's Kafka connector is a jar of its own, name it in the application's settings (spark.jars)"
    return ""


class SparkQuery:
    """A streaming query."""

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query

    @property
    def is_active(self) -> bool:
        """Whether it has not ended."""
        return bool(self._query.isActive) or is_working(self._query)

    @property
    def is_ready(self) -> bool:
        """Whether it has finished a batch, or waits for data."""
        return self._query.lastProgress is not None or self._query.status["message"].startswith("Waiting")

    @property
    def batch_id(self) -> int:
        """Its last finished batch; -1 before the first."""
        last: Any = self._query.lastProgress
        return -1 if last is None else int(last["batchId"])

    def failure(self) -> str:
        """Why it failed; empty if it did not."""
        error = query_failure(self._query)
        return "" if error is None else str(as_ebbflow_error(error))

    def stop(self, *, interrupt: bool) -> None:
        """Stop it after its running batch, however long that takes, or in the middle of it."""
        if interrupt:
            self._query.stop()
        else:
            stop_between_batches(self._query, STOP_WITHIN_S, interrupt=False)
