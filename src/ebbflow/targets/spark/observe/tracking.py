"""What is followed from one look to the next: a query's arrivals, an executor's life."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from ebbflow.core.batches import Batch, StageRun
from ebbflow.targets.spark.driver import ExecutorInfo, JobInfo, StageInfo
from ebbflow.targets.spark.observe.progress import OBSERVED, Progress, operator_runs, rows_left_behind

_BATCH = re.compile(r"^batch = (\d+)$", re.MULTILINE)
_CURVE_POINTS = 2000
LONGEST_WARM_UP_S = 15.0


def batch_of(job: JobInfo) -> int | None:
    """Which batch a job belongs to, from the description that Spark's stream thread gives it.

    >>> batch_of(JobInfo(1, [2], "\\nid = a\\nrunId = b\\nbatch = 17"))
    17
    """
    match = _BATCH.search(job.description or "")
    return int(match[1]) if match else None


def stage_run(index: int, stage: StageInfo, longest_task_s: float | None) -> StageRun:
    """A stage in the words of the batch model."""
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
    """The batch with the stages of operators that are not Python steps, and their part of the CPU of these.

    Operators of one stage are compiled into one loop, and nobody can tell who of them used what. Each gets a part by
    the rows that went in and out of it there; only the sum is measured. ``stage_of``: by mark. Where a shuffle lies
    within an operator, it has a part of both stages, and as many instances as the second has tasks.
    """
    parts: dict[str, list[tuple[int, float]]] = {}
    weights: dict[int, float] = {}
    for run in batch.operators:
        sides = ((f"{OBSERVED}{run.name}:in", run.rows_in), (f"{OBSERVED}{run.name}:out", run.rows_out))
        if run.cpu_s is None and all(stage_of.get(mark, -1) in range(len(batch.stages)) for mark, _ in sides):
            parts[run.name] = [(stage_of[mark], rows) for mark, rows in sides]
            for stage, rows in parts[run.name]:
                weights[stage] = weights.get(stage, 0.0) + rows
    operators = []
    for run in batch.operators:
        stage = stage_of.get(f"{OBSERVED}{run.name}:out", -1)
        if run.cpu_s is None and stage in range(len(batch.stages)):
            run = msgspec.structs.replace(run, stage=stage)
        if run.name in parts and (run.rows_in or run.rows_out):
            cpu_s = sum(rows / weights[i] * batch.stages[i].cpu_time_s for i, rows in parts[run.name] if rows)
            tasks = batch.stages[parts[run.name][-1][0]].tasks
            run = msgspec.structs.replace(run, cpu_s=cpu_s, instances=tasks)
        operators.append(run)
    return msgspec.structs.replace(batch, operators=tuple(operators)) if stage_of else batch


class Finished(NamedTuple):
    """A batch that has ended."""

    batch: Batch
    timed: bool
    """Whether a batch of the same run says over what time its rows came. Without one, its arrival rate is 0 and means
    nothing; its rows are taken to have come when it started, or since a run before it left rows."""


class QueryTracker:
    """Follows one query: how many rows have arrived and when, how many are done, since when it works.

    Rows that arrived by the start of batch k: all rows taken so far, plus those it left behind. Between
    those points arrivals are taken as even; with them the oldest unprocessed row can be dated even where
    a read limit keeps the batches small and the lag out of sight.
    """

    def __init__(self, trigger_interval_s: float, waiting_since_s: float | None = None) -> None:
        """``waiting_since_s``: of a query that goes on where a run before it ended, when that began to leave rows."""
        self.trigger_interval_s = trigger_interval_s
        self.last: Progress | None = None
        self.last_batch: Batch | None = None
        self.running_since_s: float | None = None
        self.rate_per_s = 0.0
        self.left_behind: float | None = 0.0
        """Rows the last batch left at the source; None where the source does not tell."""
        self.is_idle = False
        self._nothing_until_s = float("-inf")
        """The latest time of which it is known that nothing waited: what waits now came after it."""
        self._arrived = 0.0
        self._processed = 0.0
        self._curve: deque[tuple[float, float]] = deque(maxlen=_CURVE_POINTS)
        if waiting_since_s is not None:
            self._curve.append((waiting_since_s, 0.0))

    @property
    def last_batch_id(self) -> int:
        """Id of the newest batch seen, −1 before the first."""
        return -1 if self.last is None else self.last.batch_id

    def finished(
        self,
        progress: Progress,
        stages: tuple[StageRun, ...],
        marked_rows: Mapping[str, int] = MappingProxyType({}),
        *,
        slots: int,
        steady: bool,
        stage_cpu_s: Callable[[int], float | None] = lambda _: None,
    ) -> Finished:
        """Take in a finished batch."""
        left = rows_left_behind(progress)
        rows = progress.num_input_rows
        arrived_now = self._processed + rows + (left or 0.0)
        before_s = self._curve[-1][0] if self._curve else None
        oldest_s = self.oldest_unprocessed_s() if rows else None
        new_rows = max(0.0, arrived_now - self._arrived)
        timed = self.last is not None and before_s is not None and progress.started_s > before_s
        self._processed += rows
        self._arrived = arrived_now
        self._curve.append((progress.started_s, arrived_now))
        self.left_behind = left
        self.last = progress
        self.running_since_s = None
        self.is_idle = False
        if timed and before_s is not None:
            self.rate_per_s = new_rows / (progress.started_s - before_s)
        batch = Batch(
            query=progress.query,
            batch_id=progress.batch_id,
            started_s=progress.started_s,
            duration_s=progress.duration_s,
            rows=rows,
            slots=slots,
            steady=steady,
            trigger_interval_s=self.trigger_interval_s,
            arrival_rate_per_s=self.rate_per_s if timed else 0.0,
            backlog_rows=left,
            oldest_arrival_s=progress.started_s if oldest_s is None else min(oldest_s, progress.started_s),
            stages=stages,
            operators=operator_runs(progress, marked_rows, stage_cpu_s),
        )
        return Finished(batch, timed)

    def idle(self, now_s: float) -> None:
        """Nothing runs, and nothing was there to run at the last trigger: a source that tells nothing else tells that.
        Of a run that has ended no batch yet nobody knows it."""
        self.running_since_s = None
        self.rate_per_s = 0.0
        if self.left_behind is None:
            self.left_behind = 0.0
        self.is_idle = self.last is not None and self.left_behind == 0.0
        if self.is_idle:
            self._nothing_until_s = now_s - self.trigger_interval_s

    def oldest_unprocessed_s(self) -> float | None:
        """When the oldest row arrived that no finished batch has processed.

        While a first batch runs, that was no later than its start; before it, nobody knows (None), unless a run before
        left rows.
        """
        if not self._curve:
            return self.running_since_s
        return max(self._arrival_of(self._processed), self._nothing_until_s)

    def queue_rows(self, now_s: float) -> float | None:
        """Rows not processed: those left behind, and what the rate has brought since the last offsets.

        None before the first batch: of a query that was just (re)started nobody knows yet what waits. None, too,
        where the source does not tell its latest offset.
        """
        if self.last is None or self.left_behind is None:
            return None
        return self.left_behind + self.rate_per_s * max(0.0, now_s - self._curve[-1][0])

    def _arrival_of(self, row: float) -> float:
        """When a row arrived, on straight lines between the points of the arrival curve."""
        later_s, later_rows = self._curve[-1]
        if row >= later_rows:
            return later_s
        for index in range(len(self._curve) - 2, -1, -1):
            time_s, rows = self._curve[index]
            if rows <= row:
                span = later_rows - rows
                return time_s + (later_s - time_s) * ((row - rows) / span if span > 0 else 1.0)
            later_s, later_rows = time_s, rows
        return later_s


@dataclass
class ExecutorTracker:
    """Follows executors from being asked for to their first work."""

    prior_lead_time_s: float
    _asked: deque[float] = field(default_factory=deque)
    _waiting: dict[str, float] = field(default_factory=dict)
    _known: set[str] = field(default_factory=set)
    _at_work: set[str] = field(default_factory=set)
    _estimate_s: float | None = None

    @property
    def lead_time_s(self) -> float:
        """From asking to first work: a fading mean of what was seen, the prior before."""
        return self.prior_lead_time_s if self._estimate_s is None else self._estimate_s

    @property
    def asked_since_s(self) -> list[float]:
        """When each executor that has not come yet was asked for, oldest first."""
        return list(self._asked)

    def changed(self, executors: list[ExecutorInfo]) -> bool:
        """Whether someone came to work or left since this was last asked."""
        at_work = {e.id for e in executors if e.completed_tasks > 0}
        before, self._at_work = self._at_work, at_work
        return at_work != before

    def asked(self, now_s: float, count: int) -> None:
        """``count`` more were asked for."""
        self._asked.extend([now_s] * count)

    def never_came(self, count: int) -> None:
        """The oldest ``count`` requests are waited for no longer."""
        for _ in range(min(count, len(self._asked))):
            self._asked.popleft()

    def gave_up(self, count: int) -> None:
        """The newest ``count`` requests were taken back."""
        for _ in range(min(count, len(self._asked))):
            self._asked.pop()

    def seen(self, now_s: float, executors: list[ExecutorInfo]) -> list[tuple[str, float]]:
        """Take in who is there. Returns (executor, lead time) of those that have done their first work.

        The first finished task counts, not the registration: in between, an executor loads classes
        and starts Python. One that had nothing to do for long is taken to have been ready by then.
        """
        measured = []
        for executor in executors:
            if executor.id not in self._known:
                self._known.add(executor.id)
                if self._asked:
                    self._waiting[executor.id] = self._asked.popleft()
            if executor.id in self._waiting and executor.completed_tasks > 0:
                ready_s = min(now_s, executor.add_time / 1000 + LONGEST_WARM_UP_S)
                lead_s = max(0.0, ready_s - self._waiting.pop(executor.id))
                measured.append((executor.id, lead_s))
                old = self._estimate_s
                self._estimate_s = lead_s if old is None else 0.7 * old + 0.3 * lead_s
        present = {executor.id for executor in executors}
        self._known &= present
        for gone in [i for i in self._waiting if i not in present]:
            del self._waiting[gone]
        return measured
