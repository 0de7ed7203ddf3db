"""One run of a query, followed from look to look: its finished batches, with their stages and operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ebbflow.core.batches import Batch
from ebbflow.errors import TargetError
from ebbflow.targets.spark.batch_stages import BatchStages
from ebbflow.targets.spark.driver import Driver, QueryStatus
from ebbflow.targets.spark.progress import Progress
from ebbflow.targets.spark.tracking import QueryTracker, with_stage_cpu

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


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
