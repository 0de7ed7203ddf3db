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


class _Stages(NamedTuple):
    """What the driver tells of the stages of batches that have ended."""

    by_batch: dict[int, list[StageRun]]
    last_job_id: int
    """The last job that they are from."""
    unfinished_id: int | None
    """The first of these batches of which a stage has not ended, or none is there, as far as is known."""


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
        """Of batches that have ended and were not taken in yet: the driver did not answer, or knew less of them than it
        will."""
        self._awaited_id: int | None = None
        """The batch that was held back for its stages, at the last look."""
        self._tells_stages = False
        """Whether stages of any batch were told."""
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
        ended = self._stages_of_ended() if self._read else _Stages({}, tracker.last_job_id, None)
        status = self._driver.status(self.query)
        stages, tracker.last_job_id = ended.by_batch, ended.last_job_id
        progresses, self._read = self._to_take_in(ended.unfinished_id)
        batches: list[Batch] = []
        untimed: list[Batch] = []
        if progresses:
            steady = changed_s <= progresses[0][0].started_s
            for progress, rows in progresses:
                finished = tracker.finished(
                    progress,
                    tuple(stages.get(progress.batch_id, ())),
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

    def _to_take_in(
        self, unfinished_id: int | None
    ) -> tuple[list[tuple[Progress, dict[str, int]]], list[tuple[Progress, dict[str, int]]]]:
        """Of what was read, that which is taken in now, and the rest.

        Spark tells of the end of a batch at once, and of the end of its stages when its listeners have heard of it. A
        batch whose stages are not all there is taken in at the next look, with or without them: half a batch would be
        taken for a plan that has changed.
        """
        if unfinished_id is None or unfinished_id == self._awaited_id:
            self._awaited_id = None
            return self._read, []
        self._awaited_id = unfinished_id
        now = [each for each in self._read if each[0].batch_id < unfinished_id]
        return now, self._read[len(now) :]

    def _stages_of_ended(self) -> _Stages:
        """The stages of the batches that have ended. A batch may be several jobs: those of the one that runs now are
        left for when it has ended."""
        found: dict[int, list[StageRun]] = {}
        first_id, last_id = self._read[0][0].batch_id, self._read[-1][0].batch_id
        last_job_id = before_batch = self.tracker.last_job_id
        for job in self._driver.jobs_after(str(self.query.runId), last_job_id):
            batch_id = batch_of(job)
            if batch_id is None or batch_id < first_id:
                last_job_id = job.job_id
                continue
            if batch_id > last_id:
                break
            if batch_id not in found:
                found[batch_id], before_batch = [], last_job_id
            stages = [self._driver.stage(i) for i in sorted(job.stage_ids)]
            if any(s is not None and s.status in ("ACTIVE", "PENDING") for s in stages):
                del found[batch_id]  # with all its jobs, or without any
                return _Stages(found, before_batch, batch_id)
            last_job_id = job.job_id
            for stage in stages:
                if stage is None or stage.status != "COMPLETE":
                    continue
                task_time_ms = stage.executor_run_time + stage.executor_deserialize_time
                longest_s = (
                    self._driver.longest_task_s(stage)
                    if task_time_ms > 1000 * LOOK_AT_TASKS_ABOVE_S
                    else None
                )
                runs = found[batch_id]
                runs.append(stage_run(len(runs), stage, longest_s))
        self._tells_stages = self._tells_stages or bool(found)
        lacking = (p.batch_id for p, _ in self._read if p.num_input_rows and not found.get(p.batch_id))
        return _Stages(found, last_job_id, next(lacking, None) if self._tells_stages else None)
