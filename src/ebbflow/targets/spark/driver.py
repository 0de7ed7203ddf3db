"""All calls into the driver's JVM, with typed results.

Spark has no public Python API for executors, for the stages of a batch or for the location of state. It has public
Scala ones (``SparkContext.requestTotalExecutors``), the status store behind the application's web UI (it exists even
if the UI is off), and the scheduler backend. Objects cross as JSON made by the JVM's own Jackson, a whole list in one
call, because each call takes a quarter of a millisecond.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec
from py4j.protocol import Py4JError, Py4JJavaError

from ebbflow import errors
from ebbflow.errors import EbbflowError, InputError, TargetError
from ebbflow.targets.spark.observe.progress import Progress
from ebbflow.targets.spark.operators.row_counts import RowCounts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_EBBFLOW_ERROR = re.compile(r"\bebbflow\.errors\.(\w+): (.+)")


class ExecutorInfo(msgspec.Struct, frozen=True, rename="camel"):
    """An executor in the status store; times in ms, as in Spark."""

    id: str
    is_active: bool
    total_cores: int
    max_tasks: int
    active_tasks: int
    completed_tasks: int
    total_duration: int
    rdd_blocks: int
    memory_used: int
    add_time: int
    executor_logs: dict[str, str] = {}


class JobInfo(msgspec.Struct, frozen=True, rename="camel"):
    """A job: its stages, and its batch in the description."""

    job_id: int
    stage_ids: list[int]
    description: str | None = None


class StageInfo(msgspec.Struct, frozen=True, rename="camel"):
    """A stage: sums over its tasks; times in ms, CPU in ns, as in Spark."""

    status: str
    stage_id: int
    attempt_id: int
    num_complete_tasks: int
    executor_run_time: int
    executor_deserialize_time: int
    executor_cpu_time: int
    first_task_launched_time: int | None = None
    completion_time: int | None = None


class _Durations(msgspec.Struct, frozen=True):
    duration: list[float]


class QueryStatus(msgspec.Struct, frozen=True, rename="camel"):
    """What a query is doing now."""

    message: str
    is_data_available: bool
    is_trigger_active: bool


class Driver:
    """The driver JVM of one Spark session."""

    def __init__(self, spark: SparkSession) -> None:
        try:
            context: Any = spark.sparkContext
            self._jvm: Any = context._jvm
            self._jsc: Any = context._jsc.sc()
        except Exception as error:
            raise TargetError(
                "this session has no driver JVM (Spark Connect?); attach in the driver process itself"
            ) from error
        self.spark = spark
        self.app_name: str = context.appName
        self.master: str = context.master
        self._runs_tasks = self.master == "local" or self.master.startswith("local[")
        self._context = context
        self._store: Any = self._jsc.statusStore()
        self._mapper: Any = self._jvm.com.fasterxml.jackson.databind.ObjectMapper()
        scala_module = getattr(self._jvm.com.fasterxml.jackson.module.scala, "DefaultScalaModule$")
        self._mapper.registerModule(getattr(scala_module, "MODULE$"))
        self._longest = context._gateway.new_array(self._jvm.double, 1)
        self._longest[0] = 1.0

    # -- reading -------------------------------------------------------------------------------

    def setting(self, key: str, default: str = "") -> str:
        """A Spark setting of the application."""
        return str(self._context.getConf().get(key, default))

    @property
    def stopped(self) -> bool:
        """Whether the application has ended."""
        return self._context._jsc is None or bool(self._call(self._jsc.isStopped))

    def executors(self) -> list[ExecutorInfo]:
        """Current executors, without the driver unless it is the only one, as with a ``local`` master."""
        text = self._json(lambda: self._store.executorList(True))
        found = msgspec.json.decode(text, type=list[ExecutorInfo])
        return [e for e in found if e.id != "driver" or self._runs_tasks]

    def queries(self) -> list[StreamingQuery]:
        """Running streaming queries of the application, in all its sessions."""
        with _target_errors():
            own = list(self.spark.streams.active)
        try:
            return own + self._queries_of_other_sessions(own)
        except (Py4JError, AttributeError, TypeError):  # another Spark version: only this session's queries
            return own

    def _queries_of_other_sessions(self, own: Sequence[StreamingQuery]) -> list[StreamingQuery]:
        from pyspark.sql.streaming.query import StreamingQuery

        shared: Any = self.spark._jsparkSession.sharedState().activeStreamingQueries()
        if len(shared) == len(own):
            return []
        known = {str(query.runId) for query in own}
        wrapper = self._jvm.org.apache.spark.sql.execution.streaming.runtime.StreamingQueryWrapper
        running = [each for each in shared.values() if each is not None]  # a query may have ended meanwhile
        return [StreamingQuery(wrapper(each)) for each in running if str(each.runId()) not in known]

    def status(self, query: StreamingQuery) -> QueryStatus:
        """What the query is doing now."""
        with _target_errors():
            return msgspec.json.decode(_java(query).status().json(), type=QueryStatus)

    def trigger_interval_s(self, query: StreamingQuery) -> float:
        """Interval of a processing-time trigger; 0 for any other trigger."""
        with _target_errors():
            trigger = _java(query).streamingQuery().trigger()
            if "ProcessingTime" not in str(trigger.getClass().getName()):
                return 0.0
            return float(trigger.intervalMs()) / 1000

    def has_read_limit(self, query: StreamingQuery) -> bool | None:
        """Whether a source of the query limits the rows of a batch; None if unknown."""
        try:
            limits = _java(query).streamingQuery().uniqueSources().values().iterator()
            found = []
            while limits.hasNext():
                limit = limits.next()  # a Python source wraps it, with its kind in toString
                found.append(f"{limit.getClass().getSimpleName()} {limit.toString()}")
        except (Py4JError, AttributeError, TypeError):
            return None
        return any("ReadAllAvailable" not in limit for limit in found) if found else None

    def row_counts(self) -> RowCounts:
        """A reader of the row counts of one query's operators."""
        return RowCounts(self._jvm, self._mapper)

    def progress_after(
        self, query: StreamingQuery, batch_id: int, counts: RowCounts
    ) -> list[tuple[Progress, dict[str, int]]]:
        """Progress of the batches after ``batch_id``, oldest first, each with its rows by mark."""
        found: list[Progress] = []
        with _target_errors():
            counts.keep_plan(_java(query).streamingQuery().lastExecution())
            recent = _java(query).recentProgress()
            for index in range(len(recent) - 1, -1, -1):
                progress = msgspec.json.decode(recent[index].json(), type=Progress)
                if progress.batch_id <= batch_id:
                    break
                found.append(progress)
            return [(progress, counts.of_batch(progress.batch_id)) for progress in reversed(found)]

    def jobs_after(self, run_id: str, job_id: int) -> list[JobInfo]:
        """Jobs of a query's run after ``job_id``, oldest first."""
        with _target_errors():
            text = self._json(lambda: self._jsc.statusTracker().getJobIdsForGroup(run_id))
            ids = sorted(i for i in msgspec.json.decode(text, type=list[int]) if i > job_id)
            return [
                msgspec.json.decode(self._json(lambda i=i: self._store.job(i)), type=JobInfo) for i in ids
            ]

    def stage(self, stage_id: int) -> StageInfo | None:
        """The last attempt of a stage; None once the status store has evicted it."""
        try:
            text = self._mapper.writeValueAsString(self._store.lastStageAttempt(stage_id))
        except Py4JJavaError:
            return None
        except Py4JError as error:
            raise TargetError(f"the driver does not answer: {first_line(error)}") from error
        return msgspec.json.decode(text, type=StageInfo)

    def stage_cpu_s(self, stage_id: int) -> float | None:
        """CPU that a stage's tasks used in the JVM; None if it is not complete, or evicted."""
        stage = self.stage(stage_id)
        return None if stage is None or stage.status != "COMPLETE" else stage.executor_cpu_time / 1e9

    def longest_task_s(self, stage: StageInfo) -> float | None:
        """Duration of the longest task of a stage."""
        try:
            summary = self._store.taskSummary(stage.stage_id, stage.attempt_id, self._longest)
            if summary.isEmpty():
                return None
            text = self._mapper.writeValueAsString(summary.get())
        except Py4JError:
            return None
        return msgspec.json.decode(text, type=_Durations).duration[0] / 1000

    def state_partitions_by_executor(
        self, progress: Sequence[tuple[StreamingQuery, Progress]]
    ) -> dict[str, int]:
        """How many state store partitions each executor has loaded, from the state coordinator."""
        held: dict[str, int] = {}
        with _target_errors():
            coordinator = self.spark._jsparkSession.streams().stateStoreCoordinator()
            state = self._jvm.org.apache.spark.sql.execution.streaming.state
            for query, last in progress:
                execution = _java(query).streamingQuery().lastExecution()
                if execution is None:
                    continue
                root = execution.checkpointLocation()
                run_id = _java(query).runId()
                for operator_index, operator in enumerate(last.state_operators):
                    for partition in range(operator.num_shuffle_partitions):
                        store_id = state.StateStoreId(root, operator_index, partition, "default")
                        where = coordinator.getLocation(state.StateStoreProviderId(store_id, run_id))
                        if where.isDefined():  # "executor_<host>_<id>"
                            executor_id = str(where.get()).rsplit("_", 1)[-1]
                            held[executor_id] = held.get(executor_id, 0) + 1
        return held

    # -- acting --------------------------------------------------------------------------------

    def request_total(self, executors: int) -> bool:
        """Set the total up to which Spark adds and replaces executors. Never kills any."""
        empty = self._jvm.PythonUtils.toScalaMap(self._jvm.java.util.HashMap())
        return bool(self._call(lambda: self._jsc.requestTotalExecutors(executors, 0, empty)))

    def decommission(self, executor_id: str) -> bool:
        """Let an executor finish its running tasks and exit; Spark does not replace it."""
        none = self._jvm.scala.Option.apply(None)
        info = self._jvm.org.apache.spark.scheduler.ExecutorDecommissionInfo("ebbflow: scale-in", none)
        backend = self._call(self._jsc.schedulerBackend)
        return bool(self._call(lambda: backend.decommissionExecutor(executor_id, info, True, False)))

    def kill(self, executor_ids: Sequence[str]) -> None:
        """Kill executors at once; their tasks run again elsewhere. Spark's target stays the same."""
        ids = self._jvm.PythonUtils.toSeq(list(executor_ids))
        backend = self._call(self._jsc.schedulerBackend)
        self._call(lambda: backend.killExecutors(ids, False, False, True))

    def _call(self, what: Any) -> Any:
        with _target_errors():
            return what()

    def _json(self, what: Any) -> str:
        with _target_errors():
            return str(self._mapper.writeValueAsString(what()))


def _java(query: StreamingQuery) -> Any:
    return query._jsq


@contextmanager
def _target_errors() -> Iterator[None]:
    """Turn every failure of a JVM call into a ``TargetError``."""
    try:
        yield
    except TargetError:
        raise
    except (Py4JError, OSError, AttributeError, msgspec.MsgspecError) as error:
        raise TargetError(f"the driver does not answer: {first_line(error)}") from error


def query_failure(query: StreamingQuery) -> Exception | None:
    """Why a query failed, or that its driver does not answer; None while it runs."""
    try:
        return query.exception()
    except Py4JError as error:
        return TargetError(f"the driver does not answer: {first_line(error)}")


def as_ebbflow_error(error: Exception) -> EbbflowError:
    """The Ebbflow error behind a failure that Spark reports.

    Sources, sinks and steps raise in Spark's Python processes. Their error comes back as the last line of a traceback,
    deep in Spark's message.

    >>> as_ebbflow_error(Exception("Job aborted\\n  …\\nebbflow.errors.InputError: cannot read a.gz\\n\\tat org…"))
    InputError('cannot read a.gz')
    >>> as_ebbflow_error(Exception("Job aborted\\n\\tat org…"))
    TargetError('the query failed: Job aborted')
    """
    if isinstance(error, EbbflowError):
        return error
    found = _EBBFLOW_ERROR.findall(str(error))
    if found:
        name, message = found[-1]
        kind = getattr(errors, name, TargetError)
        is_input = isinstance(kind, type) and issubclass(kind, InputError)
        return (InputError if is_input else TargetError)(message.strip())
    return TargetError(f"the query failed: {first_line(error)}")


def first_line(error: Exception) -> str:
    """The first line of an error message; Spark's continue with a stack trace."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
