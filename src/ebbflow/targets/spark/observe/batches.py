"""Polls one run of a query: its finished batches, with their stages and operators."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ebbflow.core.batches import Batch, StageRun
from ebbflow.core.metrics import Metric
from ebbflow.core.readings import Reading
from ebbflow.errors import TargetError
from ebbflow.targets.spark.driver import Driver, JobInfo, QueryStatus, StageInfo
from ebbflow.targets.spark.observe.arrivals import ArrivalTracker
from ebbflow.targets.spark.observe.progress import OBSERVED, Progress, operator_runs

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_BATCH = re.compile(r"^batch = (\d+)$", re.MULTILINE)
SHORT_STAGE_S = 0.1
"""The longest task is not looked up in stages with less task time than this: it would not matter."""


class PollResult(NamedTuple):
    """What is new since the last poll, of one query or of the whole application."""

    readings: list[Reading]
    batches: list[Batch]
    first_batches: list[Batch]
    """Batches whose rows arrived over an unknown time: the first of each run. Their arrival rate is 0 and means
    nothing."""


class QueryMonitor:
    """Polls the driver about one run of a query."""

    def __init__(self, driver: Driver, query: StreamingQuery, waiting_since_s: float | None = None) -> None:
        self._driver = driver
        self.query = query
        self.id = str(query.id)
        """Id of the query, which stays the same over restarts."""
        self.name = query.name or self.id[:8]
        self.arrivals = ArrivalTracker(driver.trigger_interval_s(query), waiting_since_s)
        self.last_batch: Batch | None = None
        self.has_read_limit: bool | None = None
        """Whether a batch can leave visible rows behind; None while unknown."""
        self._counts = driver.row_counts()
        self._stages = BatchStages(driver, str(query.runId))
        self._unprocessed: list[tuple[Progress, dict[str, int]]] = []
        """Finished batches read from the driver whose stages are not complete yet."""

    def poll(self, now_s: float, *, slots: int, changed_s: float, is_last: bool = False) -> PollResult:
        """Batches that finished since the last poll.

        ``changed_s``: when executors last started to work or left. ``is_last``: take in every finished batch, because
        no later poll can complete its stages. Whatever may fail is read first, so a failed poll loses nothing.
        """
        arrivals = self.arrivals
        is_first = arrivals.last_progress is None
        newest_id = self._unprocessed[-1][0].batch_id if self._unprocessed else arrivals.last_batch_id
        self._unprocessed += self._driver.progress_after(self.query, newest_id, self._counts)
        status = self._driver.status(self.query)
        stages = self._stages.of([progress for progress, _ in self._unprocessed], may_wait=not is_last)
        finished, self._unprocessed = self._unprocessed[: len(stages)], self._unprocessed[len(stages) :]
        if self._unprocessed:
            arrivals.running_since_s = None  # the batch that is held back has finished
        result = PollResult([], [], [])
        steady = bool(finished) and changed_s <= finished[0][0].started_s
        for (progress, marked_rows), stages_of_batch in zip(finished, stages, strict=True):
            timed = arrivals.can_time(progress)
            oldest_arrival_s = arrivals.add(progress)
            batch = Batch(
                query=progress.query,
                batch_id=progress.batch_id,
                started_s=progress.started_s,
                duration_s=progress.duration_s,
                rows=progress.num_input_rows,
                slots=slots,
                steady=steady,
                trigger_interval_s=arrivals.trigger_interval_s,
                arrival_rate_per_s=arrivals.rate_per_s if timed else 0.0,
                backlog_rows=arrivals.backlog_rows,
                oldest_arrival_s=oldest_arrival_s,
                stages=stages_of_batch,
                operators=operator_runs(progress, marked_rows, self._stage_cpu_s),
            )
            if timed:
                self.last_batch = with_stage_cpu(batch, self._counts.stages)
                result.batches.append(self.last_batch)
            else:
                result.first_batches.append(batch)
        self._update_status(status, now_s, has_news=bool(finished or self._unprocessed))
        if is_first and finished:
            first = result.first_batches[0]
            self._update_read_limit(first)
            if len(finished) == 1:  # else the query ran before the first poll
                result.readings.append(
                    Reading(first.ended_s, self.name, Metric.FIRST_BATCH_TIME, first.duration_s)
                )
        return result

    def _update_read_limit(self, first: Batch) -> None:
        """Spark knows the sources once the first batch has finished.

        A limit does not count if the source does not report its latest offset: what it leaves behind is not visible.
        """
        limited = self._driver.has_read_limit(self.query)
        if limited is not None:
            self.has_read_limit = limited and first.backlog_rows is not None

    def _stage_cpu_s(self, stage_id: int) -> float | None:
        try:
            return self._driver.stage_cpu_s(stage_id)
        except TargetError:
            return None

    def _update_status(self, status: QueryStatus, now_s: float, *, has_news: bool) -> None:
        if status.is_trigger_active and status.is_data_available:
            self.arrivals.is_idle = False
            if self.arrivals.running_since_s is None:
                self.arrivals.running_since_s = now_s
        elif not status.is_data_available and not has_news:
            self.arrivals.mark_idle(now_s)
        else:
            self.arrivals.running_since_s = None


class _ReportedStages(NamedTuple):
    """What the driver reports of one batch."""

    stages: tuple[StageRun, ...]
    """Empty unless complete."""
    complete: bool
    """Whether every stage has finished and is still in the status store."""
    first_job_id: int


class BatchStages:
    """Stages of finished batches: all stages of a batch, or none.

    A batch may run several jobs (adaptive execution, a sink with several actions), so the jobs of the current batch
    are left until it has finished. Spark reports the end of a batch at once, but its jobs and stages only when its
    listeners have processed them. A batch that seems to lack stages is therefore held back for one poll: with some of
    its stages it would look like another query plan.
    """

    def __init__(self, driver: Driver, run_id: str) -> None:
        self._driver, self._run_id = driver, run_id
        self._last_job_id = -1
        """Jobs up to this one are not read again."""
        self._held_back_id = -1
        """The last batch that was held back."""
        self._usual_stages = 0
        """Number of stages of the last batch with rows."""

    def of(self, finished: Sequence[Progress], *, may_wait: bool) -> list[tuple[StageRun, ...]]:
        """Stages of each batch, up to the first that is held back for the next poll."""
        if not finished:
            return []
        reported, last_job_id = self._read(finished[0].batch_id, finished[-1].batch_id)
        found: list[tuple[StageRun, ...]] = []
        for progress in finished:
            batch_id = progress.batch_id
            if (
                may_wait
                and batch_id > self._held_back_id
                and self._is_incomplete(progress, reported.get(batch_id))
            ):
                later = [each.first_job_id - 1 for id_, each in reported.items() if id_ >= batch_id]
                last_job_id = min([last_job_id, *later])
                self._held_back_id = batch_id
                break
            found.append(reported[batch_id].stages if batch_id in reported else ())
        self._last_job_id = last_job_id
        for progress, stages in zip(finished, found, strict=False):
            if stages and progress.num_input_rows:
                self._usual_stages = len(stages)
        return found

    def _is_incomplete(self, progress: Progress, reported: _ReportedStages | None) -> bool:
        """Whether the next poll may report more stages of the batch."""
        if reported is not None and not reported.complete:
            return True
        # A batch without rows may run nothing, and for some queries no stage is ever reported.
        known = 0 if reported is None else len(reported.stages)
        return progress.num_input_rows > 0 and known < self._usual_stages

    def _read(self, first_id: int, last_id: int) -> tuple[dict[int, _ReportedStages], int]:
        """Reported stages by batch, and the last job that belongs to one of these batches or an earlier one."""
        found: dict[int, _ReportedStages] = {}
        last_job_id = self._last_job_id
        for job in self._driver.jobs_after(self._run_id, self._last_job_id):
            batch_id = batch_of(job)
            if batch_id is not None and batch_id > last_id:
                break
            last_job_id = job.job_id
            if batch_id is None or batch_id < first_id:
                continue
            known = found.get(batch_id) or _ReportedStages((), True, job.job_id)
            infos = [self._driver.stage(i) for i in sorted(job.stage_ids)]
            complete = known.complete and not any(
                stage is not None and stage.status in ("ACTIVE", "PENDING") for stage in infos
            )
            runs = list(known.stages)
            for stage in infos:
                if stage is None:
                    complete = (
                        False  # evicted from the status store: the rest would be taken for other stages
                    )
                elif stage.status == "COMPLETE":
                    task_time_ms = stage.executor_run_time + stage.executor_deserialize_time
                    is_long = task_time_ms > 1000 * SHORT_STAGE_S
                    longest_s = self._driver.longest_task_s(stage) if is_long and complete else None
                    runs.append(stage_run(len(runs), stage, longest_s))
            found[batch_id] = _ReportedStages(tuple(runs) if complete else (), complete, known.first_job_id)
        return found, last_job_id


def batch_of(job: JobInfo) -> int | None:
    """The batch that a job belongs to, from the description that Spark's stream thread gives it.

    >>> batch_of(JobInfo(1, [2], "\\nid = a\\nrunId = b\\nbatch = 17"))
    17
    """
    match = _BATCH.search(job.description or "")
    return int(match[1]) if match else None


def stage_run(index: int, stage: StageInfo, longest_task_s: float | None) -> StageRun:
    """Convert Spark's figures of a stage to those of the batch model."""
    task_time_s = (stage.executor_run_time + stage.executor_deserialize_time) / 1000
    tasks = max(1, stage.num_complete_tasks)
    first, last = stage.first_task_launched_time, stage.completion_time
    return StageRun(
        index=index,
        tasks=tasks,
        task_time_s=task_time_s,
        cpu_time_s=stage.executor_cpu_time / 1e9,
        wall_s=(last - first) / 1000 if first is not None and last is not None else task_time_s / tasks,
        longest_task_s=task_time_s / tasks if longest_task_s is None else longest_task_s,
    )


def with_stage_cpu(batch: Batch, stage_of: Mapping[str, int]) -> Batch:
    """Add stage and CPU to the operators that are not Python steps.

    Spark compiles the operators of a stage into one loop, so only the CPU of the whole stage is measured. Each operator
    gets a share in proportion to the rows that went in and out of it there. An operator with a shuffle inside has a
    share of both stages, and as many instances as the second has tasks. ``stage_of``: the stage of each mark.
    """
    shares: dict[str, list[tuple[int, float]]] = {}
    weights: dict[int, float] = {}
    for run in batch.operators:
        sides = ((f"{OBSERVED}{run.name}:in", run.rows_in), (f"{OBSERVED}{run.name}:out", run.rows_out))
        if run.cpu_s is None and all(stage_of.get(mark, -1) in range(len(batch.stages)) for mark, _ in sides):
            shares[run.name] = [(stage_of[mark], rows) for mark, rows in sides]
            for stage, rows in shares[run.name]:
                weights[stage] = weights.get(stage, 0.0) + rows
    operators = []
    for run in batch.operators:
        stage = stage_of.get(f"{OBSERVED}{run.name}:out", -1)
        if run.cpu_s is None and stage in range(len(batch.stages)):
            run = msgspec.structs.replace(run, stage=stage)
        if run.name in shares and (run.rows_in or run.rows_out):
            cpu_s = sum(
                rows / weights[i] * batch.stages[i].cpu_time_s for i, rows in shares[run.name] if rows
            )
            tasks = batch.stages[shares[run.name][-1][0]].tasks
            run = msgspec.structs.replace(run, cpu_s=cpu_s, instances=tasks)
        operators.append(run)
    return msgspec.structs.replace(batch, operators=tuple(operators)) if stage_of else batch
