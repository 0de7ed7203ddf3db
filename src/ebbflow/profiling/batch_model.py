"""How long a batch takes: the micro-batch capacity model, learned online.

For a query whose stage i has p_i tasks, on S slots, a batch of n source rows takes

    batch(n, S) = d + Σ_i ceil(p_i / S) · (o_i + c_i · n / p_i)

d: driver seconds a batch (planning, commits), o_i: seconds a task costs before its first row, c_i:
task seconds a source row costs in stage i. The tasks of a stage spend together

    task_time_i = p_i · o_i + c_i · n

which is linear in (p_i, n) and free of S: so o and c are learned by weighted least squares from sums
that fade with every batch, and what was learned on one executor holds on ten.

A profile gives it a start: d, o and c before the first batch, with the weight of the batches that it would remember.

Two corrections keep it honest. A stage is never shorter than its longest task, so where that is k
times the mean one, its waves are max(ceil(p/S), k): skew that no executor can cure. And d is what is
left of the measured batch when the stages are taken out, so the launching of tasks is in it too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import msgspec
import numpy as np

from ebbflow.core.batches import Batch, StageRun
from ebbflow.profiling.profile import Range, SparkCosts
from ebbflow.profiling.stage_model import FADE, REMEMBERED, StageModel

ANOTHER_PLAN = 3
"""So many batches in a row with another number of stages than before: then the query has another plan. Where none spoke
for the base yet, the first one says so."""


class BatchTime(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """batch(n) = fixed_s + per_row_s · n, for one number of slots."""

    fixed_s: float
    per_row_s: float

    def of(self, rows: float) -> float:
        """Seconds that a batch of ``rows`` takes."""
        return self.fixed_s + self.per_row_s * rows


class BatchModel:
    """The model of one query; ``base`` is what was known of it before.

    >>> model = BatchModel()
    >>> for rows in (50, 100, 200, 300, 400):  # 4 tasks of 0.1 s + 10 ms a row, on 2 slots, 0.5 s driver
    ...     task_s = 4 * 0.1 + 0.01 * rows
    ...     stage = StageRun(index=0, tasks=4, task_time_s=task_s, cpu_time_s=0.0,
    ...                      wall_s=task_s / 2, longest_task_s=task_s / 4)
    ...     model.learn(Batch(query="q", batch_id=rows, started_s=0.0, duration_s=0.5 + task_s / 2,
    ...         rows=rows, slots=2, trigger_interval_s=1.0, arrival_rate_per_s=100.0,
    ...         backlog_rows=0.0, oldest_arrival_s=0.0, stages=(stage,)))
    >>> [round(model.on(slots).of(400), 3) for slots in (1, 2, 3, 4, 8)]
    [4.9, 2.7, 2.7, 1.6, 1.6]
    """

    def __init__(self, base: SparkCosts | None = None, *, fade: float = FADE) -> None:
        """``fade``: the weight that a batch keeps when the next one comes."""
        self._fade = fade
        self.base = base
        """What it began with; None where that was nothing, or where the query runs another number of stages."""
        self._stages: dict[int, StageModel] = {}
        self._driver_s = 0.0
        self._driver_weight = 0.0
        self.seen_rows: Range | None = None
        """Rows of the batches that it was learned from, the base's included; None before there was one."""
        self.batches_seen = 0
        self._batches_learned = self._odd_batches = 0
        self._fits = False
        """Whether a batch ran as many stages as it has."""
        if base is not None:
            self._stages = {index: StageModel(stage, fade=fade) for index, stage in enumerate(base.stages)}
            self._driver_s, self._driver_weight = REMEMBERED * base.driver_s, REMEMBERED
            self.seen_rows = base.batch_rows
        self._columns: list[tuple[int, float, float, float]] | None = None
        self._times: dict[tuple[int, float], BatchTime] = {}

    def learn(self, batch: Batch, patience_s: float = math.inf) -> None:
        """Take in a finished batch that had rows.

        The very first only warms up the machinery, unless its stages took longer than ``patience_s`` and a second
        one cannot be waited for. One in which nodes came, went or did their first work mixes two worlds; from
        those nothing is learned once there is something to go by.
        """
        if not batch.stages:
            return  # nobody told what it did
        self.batches_seen += 1
        if self._stages and len(batch.stages) != len(self._stages):
            self._odd_batches += 1
            if self._fits and self._odd_batches < ANOTHER_PLAN:
                return
            self._take_another_plan()
        self._odd_batches, self._fits = 0, True
        slots = max(1, batch.slots)
        in_stages_s = 0.0
        for run in batch.stages:
            if batch.steady:
                in_waves_s = -(-run.tasks // slots) * run.task_time_s / run.tasks
                in_stages_s += in_waves_s if in_waves_s > run.longest_task_s else run.longest_task_s
            else:  # on how many slots its tasks ran is not known, only how long
                in_stages_s += run.wall_s
        warms_up = self.batches_seen == 1 and in_stages_s <= patience_s
        if warms_up or (self.ready and not batch.steady):
            if self.base is not None and not self._batches_learned:
                for run in batch.stages:
                    self._stages[run.index].expect(run.tasks)
                self._forget_answers()
            return
        self._batches_learned += 1
        self.seen_rows = _with_one(self.seen_rows, batch.rows)
        for run in batch.stages:
            stage = self._stages.get(run.index)
            if stage is None:
                stage = self._stages[run.index] = StageModel(fade=self._fade)
            stage.learn(batch.rows, run, steady=batch.steady)
        self._driver_s = self._fade * self._driver_s + max(0.0, batch.duration_s - in_stages_s)
        self._driver_weight = self._fade * self._driver_weight + 1.0
        self._forget_answers()

    def learn_anew(self, stage: int, runs: Sequence[tuple[int, StageRun]]) -> None:
        """A stage does not cost any more what it did: only these runs, (rows, run), tell what it does."""
        self._stages[stage].learn_anew(runs)
        rows = [float(rows) for rows, _ in runs]
        self.seen_rows = Range(low=min(rows), high=max(rows))
        self._forget_answers()

    def _take_another_plan(self) -> None:
        """The query runs other stages than it did, or than the base has: what was learned is not of these."""
        self.base = self.seen_rows = None
        self._stages.clear()
        self._driver_s = self._driver_weight = 0.0
        self._forget_answers()

    def _forget_answers(self) -> None:
        self._columns = None
        self._times.clear()

    @property
    def ready(self) -> bool:
        """Whether it has learned enough to be asked."""
        return self._driver_weight > 0

    @property
    def driver_s(self) -> float:
        """d: seconds a batch costs whatever its size and whatever the slots."""
        return self._driver_s / self._driver_weight if self._driver_weight else 0.0

    @property
    def stages(self) -> list[StageModel]:
        """The stages in their order."""
        return [self._stages[i] for i in sorted(self._stages)]

    @property
    def most_tasks(self) -> int:
        """Slots beyond this many cannot be used by any stage."""
        return max((stage.tasks for stage in self._stages.values()), default=1)

    def on(self, slots: int, share: float = 1.0) -> BatchTime:
        """Batch time as a line in the number of rows, for a number of slots.

        ``share`` is the part of the slots' time that other queries leave to this one.
        """
        known = self._times.get((slots, share))
        if known is not None:
            return known
        at_once, slower = max(1, slots), 1.0 / max(0.05, share)
        fixed_s, per_row_s = self.driver_s, 0.0
        for tasks, skew, task_s, row_s in self._as_columns():  # too few stages for numpy to pay
            whole = -(-tasks // at_once)
            waves = slower * (whole if whole > skew else skew)
            fixed_s += waves * task_s
            per_row_s += waves * row_s
        time = self._times[slots, share] = BatchTime(fixed_s=fixed_s, per_row_s=per_row_s)
        return time

    def busy_share(self, slots: int, rate_per_s: float, interval_s: float) -> float:
        """Part of the time in which its stages hold the slots, at a rate of arrival."""
        time = self.on(slots)
        in_stages_s = time.fixed_s - self.driver_s
        period_s = max(interval_s, 1.0)
        return in_stages_s / period_s + time.per_row_s * rate_per_s

    def useful_slots(self, most: int) -> tuple[int, ...]:
        """Slot counts up to ``most`` at which some stage saves a wave, ascending.

        Any other count costs more and takes as long: ceil(p/S) moves only at S = ceil(p/k).

        >>> model = BatchModel(); model._stages[0] = StageModel(); model._stages[0].tasks = 12
        >>> model.useful_slots(20)
        (1, 2, 3, 4, 6, 12)
        """
        return _wave_edges(frozenset(stage.tasks for stage in self._stages.values()), most)

    def _as_columns(self) -> list[tuple[int, float, float, float]]:
        """(p_i, skew, o_i, c_i/p_i) of every stage."""
        if self._columns is None:
            self._columns = []
            for stage in self.stages:
                o, c = stage.costs
                self._columns.append((stage.tasks, stage.skew, o, c / max(stage.tasks, 1)))
        return self._columns


def _with_one(seen: Range | None, rows: int) -> Range:
    return Range(low=float(rows), high=float(rows)) if seen is None else seen.with_one(float(rows))


@lru_cache(maxsize=256)
def _wave_edges(tasks: frozenset[int], most: int) -> tuple[int, ...]:
    """Slot counts at which some stage saves a wave; asked at every decision, and seldom about other stages."""
    edges = {1}
    for count in tasks:
        edges.update(np.unique(-(-count // np.arange(1, count + 1))).tolist())
    return tuple(sorted(edge for edge in edges if edge <= most))
