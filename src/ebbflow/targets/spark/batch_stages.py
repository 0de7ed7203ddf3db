"""The stages of batches that have ended, asked of the driver: all of a batch, or none.

A batch may be several jobs (adaptive execution, a sink with several actions), so those of the batch that runs now are
left for when it has ended. And Spark tells of the end of a batch at once, but of its jobs and stages when its listeners
have heard of them. A batch that seems to lack some waits for one look: half a batch would be taken for another plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ebbflow.core.batches import StageRun
from ebbflow.targets.spark.driver import Driver
from ebbflow.targets.spark.progress import Progress
from ebbflow.targets.spark.tracking import batch_of, stage_run

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
