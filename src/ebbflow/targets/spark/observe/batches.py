"""One run of a query, followed from look to look: its finished batches, with their stages and operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ebbflow.core.batches import Batch, StageRun
from ebbflow.errors import TargetError
from ebbflow.targets.spark.driver import Driver, QueryStatus
from ebbflow.targets.spark.observe.progress import Progress
from ebbflow.targets.spark.observe.tracking import QueryTracker, batch_of, stage_run, with_stage_cpu

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


# The stages of batches that have ended, asked of the driver: all of a batch, or none.
#
# A batch may be several jobs (adaptive execution, a sink with several actions), so those of the batch that runs now are
# left for when it has ended. And Spark tells of the end of a batch at once, but of its jobs and stages when
# its listeners
# have heard of them. A batch that seems to lack some waits for one look: half a batch would be taken for another plan.


LOOK_AT_TASKS_ABOVE_S = 0.1
"""Stages with less task time than this are not searched for a longest task: it would not matter."""


class Told(NamedTuple):
    """Of batches that have ended, oldest first."""

    stages: dict[int, tuple[StageRun, ...]]
    """By batch, of those that can be taken in now."""
    awaited_id: int | None
    """The first one that is to wait for the next look, and all after it; None where none has to."""
    last_job_id: int
    """The last job that need not be asked for again."""


class _Seen(NamedTuple):
    """What the driver tells of one batch."""

    stages: tuple[StageRun, ...]
    """Empty where one of them has not ended, or is forgotten."""
    ended: bool
    first_job_id: int


class BatchStages:
    """Asks for the stages of one run of a query."""

    def __init__(self, driver: Driver, run_id: str) -> None:
        self._driver, self._run_id = driver, run_id
        self._last_job_id = -1
        self._awaited_id = -1
        """The last batch that had to wait."""
        self._usual = 0
        """Stages of the last batch that had rows and was taken in."""

    def ask(self, ended: Sequence[Progress], *, may_wait: bool) -> Told:
        """What is known of batches that have ended since ``took_in`` was last told."""
        if not ended:
            return Told({}, None, self._last_job_id)
        seen, asked_id = self._seen(ended[0].batch_id, ended[-1].batch_id)
        stages: dict[int, tuple[StageRun, ...]] = {}
        for progress in ended:
            each = seen.get(progress.batch_id)
            if may_wait and progress.batch_id > self._awaited_id and self._lacks(progress, each):
                held = [
                    first - 1 for batch_id, (_, _, first) in seen.items() if batch_id >= progress.batch_id
                ]
                return Told(stages, progress.batch_id, min([asked_id, *held]))
            if each is not None:
                stages[progress.batch_id] = each.stages
        return Told(stages, None, asked_id)

    def took_in(self, told: Told, ended: Sequence[Progress]) -> None:
        """These batches were taken in, and are not asked for again."""
        self._last_job_id = told.last_job_id
        if told.awaited_id is not None:
            self._awaited_id = told.awaited_id
        for progress in ended:
            found = told.stages.get(progress.batch_id)
            if found and progress.num_input_rows:
                self._usual = len(found)

    def _lacks(self, progress: Progress, seen: _Seen | None) -> bool:
        """Whether more may be told of it at the next look."""
        if seen is not None and not seen.ended:
            return True
        # A batch without rows may run nothing; and of some queries no stage is ever told.
        told = 0 if seen is None else len(seen.stages)
        return progress.num_input_rows > 0 and told < self._usual

    def _seen(self, first_id: int, last_id: int) -> tuple[dict[int, _Seen], int]:
        """By batch, and the last job that is of one of them or of one before."""
        found: dict[int, _Seen] = {}
        asked_id = self._last_job_id
        for job in self._driver.jobs_after(self._run_id, self._last_job_id):
            batch_id = batch_of(job)
            if batch_id is not None and batch_id > last_id:
                break
            asked_id = job.job_id
            if batch_id is None or batch_id < first_id:
                continue
            known = found.get(batch_id) or _Seen((), True, job.job_id)
            infos = [self._driver.stage(i) for i in sorted(job.stage_ids)]
            ended = known.ended and not any(
                s is not None and s.status in ("ACTIVE", "PENDING") for s in infos
            )
            runs = list(known.stages)
            for stage in infos:
                if stage is None:
                    ended = False  # forgotten: what is left would be taken for other stages
                elif stage.status == "COMPLETE":
                    task_time_ms = stage.executor_run_time + stage.executor_deserialize_time
                    searched = task_time_ms > 1000 * LOOK_AT_TASKS_ABOVE_S
                    longest_s = self._driver.longest_task_s(stage) if searched and ended else None
                    runs.append(stage_run(len(runs), stage, longest_s))
            found[batch_id] = _Seen(tuple(runs) if ended else (), ended, known.first_job_id)
        return found, asked_id


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
        """Of batches that have ended and were not taken in yet: the driver did not answer, or knew less of them than it
        will."""
        self._stages = BatchStages(driver, str(query.runId))
        self.has_read_limit: bool | None = None
        """Whether a batch can leave rows behind that are seen; None while nobody can say."""

    def look(self, now_s: float, *, slots: int, changed_s: float, is_last: bool = False) -> Followed:
        """What has ended since the last look. ``changed_s``: when executors last came to work or left. ``is_last``: no
        other look will come, at which more could be told of a batch.

        All that may fail is asked first: what is taken in is told.
        """
        tracker = self.tracker
        awaits_first = tracker.last is None
        read_id = self._read[-1][0].batch_id if self._read else tracker.last_batch_id
        self._read += self._driver.progress_after(self.query, read_id, self._counts)
        told = self._stages.ask([progress for progress, _ in self._read], may_wait=not is_last)
        status = self._driver.status(self.query)
        progresses, self._read = self._read, []
        if told.awaited_id is not None:
            count = sum(progress.batch_id < told.awaited_id for progress, _ in progresses)
            progresses, self._read = progresses[:count], progresses[count:]
            tracker.running_since_s = None  # the one that is held back has ended
        self._stages.took_in(told, [progress for progress, _ in progresses])
        batches: list[Batch] = []
        untimed: list[Batch] = []
        if progresses:
            steady = changed_s <= progresses[0][0].started_s
            for progress, rows in progresses:
                finished = tracker.finished(
                    progress,
                    told.stages.get(progress.batch_id, ()),
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
        self._note_status(status, now_s, has_news=bool(progresses or self._read))
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
