"""How long a batch takes: the micro-batch capacity model, learned online.

For a query whose stage i has p_i tasks, on S slots, a batch of n source rows takes

    batch(n, S) = d + Σ_i ceil(p_i / S) · (o_i + c_i · n / p_i)

d: driver seconds of a batch (planning, commits); o_i: seconds of a task before its first row; c_i: task seconds of a
source row in stage i. Together, the tasks of a stage take

    task_time_i = p_i · o_i + c_i · n

This is linear in (p_i, n) and independent of S. So o and c are learned by least squares over sums that fade with every
batch, and what is learned on one executor holds on ten.

Two corrections: a stage is never shorter than its longest task, so if that is k times as long as the mean, its waves
are max(ceil(p/S), k): skew that no executor can cure. And d is what is left of a measured batch without its stages, so
it includes the launching of tasks.

A profile can provide d, o and c before the first batch. Per stage, it counts as two runs at half and at 1.5 times the
rows of the first run, with the weight of all batches that an old model remembers. So the model can tell task costs from
row costs before the load has varied; batches then move it as usual, and the profile fades.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

from ebbflow.core.batches import Batch, StageRun
from ebbflow.core.waves import useful_slots, waves
from ebbflow.profiling.profile import Range, SparkCosts, StageCosts

FADE = 0.9
"""Weight that a batch keeps with each later one: about the last 20 batches count."""
REMEMBERED = 1.0 / (1.0 - FADE)
"""Total weight of the batches that an old model remembers, and of a profile at the first batch."""
ERROR_FADE = 0.98
"""The same for the error of a stage: about the last 100 count, as a mean of few errors would be off by a fifth."""
SURE = 0.9
"""Weight of the least-squares slope from which the share of the rows is trusted and remembered."""
TELLING = 0.01
"""Batch sizes that vary less (variance ÷ squared mean) do not change the remembered share of the rows."""
LEAST_SHARE = 0.05
"""Least share of the rows in the time of a task. At 0 there would be no doubt, and nothing more to learn."""
SURPRISE = 3.0
"""Task times are capped at this many times the expected one: the first tasks of a new executor load classes and start
Python. A real change of cost still gets through within a few batches."""


class StageModel:
    """o and c of one stage, from fading sums of (1, x, y, xx, xy, yy) with x = n/p, y = task_time/p.

    ``base``: costs from a profile. ``fade``: the weight that a run keeps with each later one.

    >>> known = StageModel(StageCosts(tasks=8, per_task_s=0.1, per_row_s=0.008))
    >>> for _ in range(20):  # all alike, so only the base can tell tasks from rows
    ...     known.learn(1000, StageRun(index=0, tasks=8, task_time_s=8.8, cpu_time_s=0.0, wall_s=1.1,
    ...                                longest_task_s=1.1))
    >>> [round(cost, 6) for cost in known.costs]
    [0.1, 0.008]
    """

    def __init__(self, base: StageCosts | None = None, *, fade: float = FADE) -> None:
        self._fade = fade
        self._w = self._x = self._y = self._xx = self._xy = self._yy = 0.0
        self._rows_share = 1.0
        """Share of the rows in the time of a task, when it was last known for sure."""
        self.costs = (0.0, 0.0)
        """(o, c): seconds per task, seconds per row; both at least 0.

        If batch sizes vary too little, or their times are too noisy, the two cannot be separated. So the estimate of
        least squares is weighed by its variance against what was known before:

            c = (1 − g) · c₀ + g · c_ls    g = τ² / (τ² + σ² / (w · var x))    τ = c₀ / 2

        c₀ comes from the share of the rows when it was last known for sure (g ≥ SURE). So a steady load does not erase
        what a changing one taught, and warming executors do not make rows look free. At first, all of the time counts
        as the rows': then the model asks for more nodes when the load grows, never for fewer.
        """
        self.tasks = 1
        self.skew = 1.0
        """Longest task ÷ mean task, fading; 1 if all are alike."""
        self._errors = self._error_weight = 0.0
        self._base_pending = base is not None
        """The base is added at the first run, which shows how many rows a task has."""
        if base is not None:
            self.costs, self.tasks, self.skew = (base.per_task_s, base.per_row_s), base.tasks, base.skew
            if base.error is not None:
                self._error_weight = 1.0 / (1.0 - ERROR_FADE)
                self._errors = self._error_weight * base.error

    @property
    def error(self) -> float | None:
        """Mean of |expected − measured| / expected over the last runs, each predicted from those before; None at
        first."""
        return self._errors / self._error_weight if self._error_weight else None

    @property
    def as_costs(self) -> StageCosts:
        """These costs, for a profile."""
        return StageCosts(
            tasks=self.tasks,
            per_task_s=max(0.0, self.costs[0]),  # rounding can leave it below 0
            per_row_s=self.costs[1],
            skew=self.skew,
            error=self.error,
        )

    def expect(self, tasks: int) -> None:
        """Set the number of tasks, without anything about their cost."""
        self.tasks, self.skew = tasks, min(self.skew, float(tasks))

    def _take_base(self, x: float) -> None:
        """Add two runs at half and at 1.5 times ``x`` rows, with the costs of the base."""
        o, c = self.costs
        if o + c * x > 0:
            self._rows_share = max(LEAST_SHARE, c * x / (o + c * x))
        each = REMEMBERED / 2
        for at in (0.5 * x, 1.5 * x):
            y = o + c * at
            self._w += each
            self._x += each * at
            self._y += each * y
            self._xx += each * at * at
            self._xy += each * at * y
            self._yy += each * y * y
        self._base_pending = False

    def relearn(self, runs: Iterable[tuple[int, StageRun]]) -> None:
        """Its cost has changed: learn only from these runs, (rows, run).

        Only the share of the rows is kept: a few batches cannot determine it.
        """
        self._w = self._x = self._y = self._xx = self._xy = self._yy = 0.0
        for rows, run in runs:
            self.learn(rows, run)

    def learn(self, rows: int, run: StageRun, *, steady: bool = True) -> None:
        """Learn from one run of the stage; outliers are capped.

        A long task in a batch that is not steady is the first on a new node, and is not skew.
        """
        tasks, task_time_s = run.tasks, run.task_time_s
        x, y = rows / tasks, task_time_s / tasks
        if self._base_pending:
            self._take_base(x)
        if self._w:
            o, c = self.costs
            expected = o + c * x
            most = SURPRISE * expected + 0.05
            if most < y:
                y = most
            if expected > 0:
                off = abs(y - expected) / expected
                self._errors = ERROR_FADE * self._errors + (off if off < 1.0 else 1.0)
                self._error_weight = ERROR_FADE * self._error_weight + 1.0
        fade = self._fade
        self._w = fade * self._w + 1.0
        self._x = fade * self._x + x
        self._y = fade * self._y + y
        self._xx = fade * self._xx + x * x
        self._xy = fade * self._xy + x * y
        self._yy = fade * self._yy + y * y
        self.costs = self._fit()
        if steady:
            skew = run.longest_task_s * tasks / task_time_s if task_time_s > 0 else 1.0
            faded = fade * self.skew + (1 - fade) * skew if self.tasks == tasks else skew
            self.skew = faded if faded > 1.0 else 1.0
        self.tasks = tasks

    def waves(self, slots: int) -> float:
        """Waves of the stage; at least as many as its longest task is mean tasks long."""
        return max(waves(self.tasks, slots), self.skew)

    def _fit(self) -> tuple[float, float]:
        w = self._w
        mean_x, mean_y = self._x / w, self._y / w
        if mean_x <= 0 or mean_y <= 0:
            return max(0.0, mean_y), 0.0
        c = known = self._rows_share * mean_y / mean_x
        spread = self._xx / w - mean_x * mean_x
        if spread > 1e-9 * mean_x * mean_x:
            together = self._xy / w - mean_x * mean_y
            fitted = min(max(together / spread, 0.0), mean_y / mean_x)
            noise = max(0.0, self._yy / w - mean_y * mean_y - fitted * together)
            doubt = (known / 2) ** 2
            sure = doubt / (doubt + noise / (w * spread)) if doubt else 1.0
            c += sure * (fitted - known)
            if sure >= SURE and spread >= TELLING * mean_x * mean_x:
                self._rows_share = max(LEAST_SHARE, c * mean_x / mean_y)
        return mean_y - c * mean_x, c


ANOTHER_PLAN = 3
"""After this many consecutive batches with another number of stages, the query has another plan. If no batch has
matched the base yet, the first is enough."""


class BatchTime(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """batch(n) = fixed_s + per_row_s · n, for one number of slots."""

    fixed_s: float
    per_row_s: float

    def of(self, rows: float) -> float:
        """Duration in seconds of a batch of ``rows``."""
        return self.fixed_s + self.per_row_s * rows

    def sustained_rows_per_s(self, trigger_interval_s: float, freshness_s: float) -> float:
        """The highest rate λ that keeps up within the SLO: batch(λ·T) = T, so λ = (T − fixed) / (per_row · T).

        T is the longest time that a batch may take: the trigger interval, or half of the freshness if that is longer,
        because a row waits for the batch before it and for its own.

        >>> BatchTime(fixed_s=1.0, per_row_s=0.01).sustained_rows_per_s(5.0, 20.0)  # batches of 10 s and 900 rows
        90.0
        """
        longest_s = max(trigger_interval_s, freshness_s / 2)
        if self.fixed_s >= longest_s:
            return 0.0
        return (longest_s - self.fixed_s) / (self.per_row_s * longest_s) if self.per_row_s > 0.0 else math.inf


class BatchModel:
    """The model of one query; ``base``: costs from a profile.

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
        """``fade``: the weight that a batch keeps with each later one."""
        self._fade = fade
        self.base = base
        """The costs it began with; None if there were none, or if the query has another number of stages."""
        self._stages: dict[int, StageModel] = {}
        self._driver_s = 0.0
        self._driver_weight = 0.0
        self.seen_rows: Range | None = None
        """Range of the batch sizes it was learned from, including those of the base; None before the first."""
        self.batches_seen = 0
        self._batches_learned = self._odd_batches = 0
        self._fits = False
        """Whether a batch had the number of stages that the model has."""
        if base is not None:
            self._stages = {index: StageModel(stage, fade=fade) for index, stage in enumerate(base.stages)}
            self._driver_s, self._driver_weight = REMEMBERED * base.driver_s, REMEMBERED
            self.seen_rows = base.batch_rows
        self._columns: list[tuple[int, float, float, float]] | None = None
        self._times: dict[tuple[int, float], BatchTime] = {}

    def learn(self, batch: Batch, patience_s: float = math.inf) -> None:
        """Learn from a finished batch that had rows.

        The first batch is a warm-up, and skipped unless its stages took longer than ``patience_s``. Once the model is
        ready, batches that are not steady are skipped too.
        """
        if not batch.stages:
            return
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
                in_waves_s = waves(run.tasks, slots) * run.task_time_s / run.tasks
                in_stages_s += in_waves_s if in_waves_s > run.longest_task_s else run.longest_task_s
            else:  # the number of slots its tasks ran on is unknown
                in_stages_s += run.wall_s
        warms_up = self.batches_seen == 1 and in_stages_s <= patience_s
        if warms_up or (self.ready and not batch.steady):
            if self.base is not None and not self._batches_learned:
                for run in batch.stages:
                    self._stages[run.index].expect(run.tasks)
                self._clear_cache()
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
        self._clear_cache()

    def relearn(self, stage: int, runs: Sequence[tuple[int, StageRun]]) -> None:
        """The cost of a stage has changed: learn it only from these runs, (rows, run)."""
        self._stages[stage].relearn(runs)
        rows = [float(rows) for rows, _ in runs]
        self.seen_rows = Range(low=min(rows), high=max(rows))
        self._clear_cache()

    def _take_another_plan(self) -> None:
        """The query has other stages than before, or than the base: start from nothing."""
        self.base = self.seen_rows = None
        self._stages.clear()
        self._driver_s = self._driver_weight = 0.0
        self._clear_cache()

    def _clear_cache(self) -> None:
        self._columns = None
        self._times.clear()

    @property
    def ready(self) -> bool:
        """Whether it has learned from a batch or a profile."""
        return self._driver_weight > 0

    @property
    def driver_s(self) -> float:
        """d: seconds that a batch takes whatever its size and the slots."""
        return self._driver_s / self._driver_weight if self._driver_weight else 0.0

    @property
    def stages(self) -> list[StageModel]:
        """The stages, in order."""
        return [self._stages[i] for i in sorted(self._stages)]

    @property
    def most_tasks(self) -> int:
        """No stage can use more slots than this."""
        return max((stage.tasks for stage in self._stages.values()), default=1)

    def on(self, slots: int, share: float = 1.0) -> BatchTime:
        """Batch time by number of rows, on a number of slots.

        ``share``: the part of the slots' time that other queries leave to this one.
        """
        known = self._times.get((slots, share))
        if known is not None:
            return known
        slower = 1.0 / max(0.05, share)
        fixed_s, per_row_s = self.driver_s, 0.0
        for tasks, skew, task_s, row_s in self._as_columns():  # too few stages for numpy to pay off
            whole = waves(tasks, slots)
            rounds = slower * (whole if whole > skew else skew)
            fixed_s += rounds * task_s
            per_row_s += rounds * row_s
        time = self._times[slots, share] = BatchTime(fixed_s=fixed_s, per_row_s=per_row_s)
        return time

    def busy_share(self, slots: int, rate_per_s: float, interval_s: float) -> float:
        """Share of the time in which its stages hold the slots, at an arrival rate."""
        time = self.on(slots)
        in_stages_s = time.fixed_s - self.driver_s
        period_s = max(interval_s, 1.0)
        return in_stages_s / period_s + time.per_row_s * rate_per_s

    def useful_slots(self, most: int) -> tuple[int, ...]:
        """Slot counts up to ``most`` at which some stage saves a wave, ascending.

        >>> model = BatchModel(); model._stages[0] = StageModel(); model._stages[0].tasks = 12
        >>> model.useful_slots(20)
        (1, 2, 3, 4, 6, 12)
        """
        return useful_slots(frozenset(stage.tasks for stage in self._stages.values()), most)

    def _as_columns(self) -> list[tuple[int, float, float, float]]:
        """(p_i, skew, o_i, c_i/p_i) of every stage."""
        if self._columns is None:
            self._columns = []
            for stage in self.stages:
                o, c = stage.costs
                self._columns.append((stage.tasks, stage.skew, o, c / max(stage.tasks, 1)))
        return self._columns


def _with_one(known: Range | None, rows: int) -> Range:
    return Range(low=float(rows), high=float(rows)) if known is None else known.with_one(float(rows))
