"""One run of a query, followed from look to look: its finished batches, with their stages and operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ebbflow.core.batches import Batch, StageRun
from ebbflow.errors import TargetError
from ebbflow.targets.spark.driver import Driver, QueryStatus
from ebbflow.targets.spark.progress import Progress
from ebbflow.targets.spark.tracking import QueryTracker, batch_of, stage_run, with_stage_cpu

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

LOOK_AT_TASKS_ABOVE_S = 0.1
"""Stages with less task time than this are not searched for a longest task: it would not matter."""


class Followed(NamedTuple):
    """What a look at a query brought."""

    batches: list[Batch]
    untimed: list[Batch]
    """Of which nothing says over what time their rows came: the first of a run."""
    first_time_s: float | None
    """How long the first batch of the run took, if it ended since the last look. None, too, where more than one did:
    the query ran before anybody looked."""


class QueryFollower:
    """Asks the driver about one run of a query."""

    def __init__(self, driver: Driver, query: StreamingQuery, waiting_since_s: float | None = None) -> None:
        self._driver = driver
        self.query = query
        self.id = str(query.id)
        """Of the query: it keeps that when it is started again."""
        self.name = query.name or self.id[:8]
        self.tracker = QueryTracker(driver.trigger_interval_s(query), waiting_since_s)
        self._counts = driver.row_counts()
        self._read: list[tuple[Progress, dict[str, int]]] = []
        """Of batches that have ended and were not taken in yet, because then the driver did not answer."""
        self.has_read_limit: bool | None = None
        """Whether a batch can leave rows behind that are seen; None while nobody can say."""

    def look(self, now_s: float, *, slots: int, changed_s: float) -> Followed:
        """What has ended since the last look. ``changed_s``: when executors last came to work or left.

        All that may fail is asked first: what is taken in is told.
        """
        tracker = self.tracker
        awaits_first = tracker.last is None
        read_id = self._read[-1][0].batch_id if self._read else tracker.last_batch_id
        self._read += self._driver.progress_after(self.query, read_id, self._counts)
        stages, job_id = self._stages_by_batch() if self._read else ({}, tracker.last_job_id)
        status = self._driver.status(self.query)
        progresses, self._read, tracker.last_job_id = self._read, [], job_id
        batches: list[Batch] = []
        untimed: list[Batch] = []
        if progresses:
            steady = changed_s <= progresses[0][0].started_s
            for progress, rows in progresses:
                finished = tracker.finished(
                    progress,
                    stages.get(progress.batch_id, ()),
                    rows,
                    slots=slots,
                    steady=steady,
                    stage_cpu_s=self._stage_cpu_s,
                )
                if not finished.timed:
                    untimed.append(finished.batch)
                    continue
                tracker.last_batch = with_stage_cpu(finished.batch, self._counts.stages)
                batches.append(tracker.last_batch)
        self._note_status(status, now_s, has_news=bool(progresses))
        first_time_s = None
        if awaits_first and progresses:
            self._note_read_limit(untimed[0])
            first_time_s = untimed[0].duration_s if len(progresses) == 1 else None
        return Followed(batches, untimed, first_time_s)

    def _note_read_limit(self, first: Batch) -> None:
        """Once a run has ended its first batch: before that its sources may not be there yet. A limit whose source does
        not tell its latest offset hides what it leaves behind, and is none to us."""
        limited = self._driver.has_read_limit(self.query)
        if limited is not None:
            self.has_read_limit = limited and first.backlog_rows is not None

    def _stage_cpu_s(self, stage_id: int) -> float | None:
        try:
            return self._driver.stage_cpu_s(stage_id)
        except TargetError:
            return None

    def _note_status(self, status: QueryStatus, now_s: float, *, has_news: bool) -> None:
        if status.is_trigger_active and status.is_data_available:
            self.tracker.is_idle = False
            if self.tracker.running_since_s is None:
                self.tracker.running_since_s = now_s
        elif not status.is_data_available and not has_news:
            self.tracker.idle(now_s)
        else:
            self.tracker.running_since_s = None

    def _stages_by_batch(self) -> tuple[dict[int, tuple[StageRun, ...]], int]:
        """The stages of the batches that have ended, and the last job they are from."""
        found: dict[int, list[StageRun]] = {}
        last_job_id = self.tracker.last_job_id
        for job in self._driver.jobs_after(str(self.query.runId), last_job_id):
            batch_id = batch_of(job)
            stages = [self._driver.stage(i) for i in sorted(job.stage_ids)]
            if any(s is not None and s.status in ("ACTIVE", "PENDING") for s in stages):
                break  # the batch that runs now; it is read when it has finished
            last_job_id = job.job_id
            for stage in stages:
                if batch_id is None or stage is None or stage.status != "COMPLETE":
                    continue
                task_time_ms = stage.executor_run_time + stage.executor_deserialize_time
                longest_s = (
                    self._driver.longest_task_s(stage)
                    if task_time_ms > 1000 * LOOK_AT_TASKS_ABOVE_S
                    else None
                )
                runs = found.setdefault(batch_id, [])
                runs.append(stage_run(len(runs), stage, longest_s))
        return {batch_id: tuple(runs) for batch_id, runs in found.items()}, last_job_id
