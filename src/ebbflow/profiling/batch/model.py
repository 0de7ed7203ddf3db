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
from collections.abc import Iterable, Sequence

import msgspec

from ebbflow.core.batches import Batch, StageRun
from ebbflow.core.waves import useful_slots, waves
from ebbflow.profiling.profile import Range, SparkCosts, StageCosts

# What one stage of a query costs: seconds a task and seconds a row, learned online from its runs.
#
# The tasks of a stage spend together p·o + c·n seconds on n source rows. Least squares over sums that fade find o and c
# as far as the sizes of batches differ (``batch_model`` has the whole batch).
#
# A profile gives it a start. At the first run, with x = n/p rows a task, two runs at x/2 and 3x/2 are taken
# for seen that
# lie on y = o + c·x of the profile, together with the weight of all that an old model remembers. So it knows what of a
# task's time goes with its rows before the load has varied; what batches teach moves it in the usual way, and what the
# profile said fades.


FADE = 0.9
"""Weight that a batch keeps when the next one arrives: about the last 20 batches count."""
REMEMBERED = 1.0 / (1.0 - FADE)
"""Weight of all batches that an old model remembers: that of a profile when the first batch comes."""
ERROR_FADE = 0.98
"""The same for the error of a stage, about the last 100: a mean of few errors would be off by a fifth."""
SURE = 0.9
TELLING = 0.01
"""Batch sizes whose variance is less than this part of their squared mean teach no lasting share."""
LEAST_SHARE = 0.05
"""Rows are never taken to cost nothing for good: doubt would be none, and nothing learned again."""
SURPRISE = 3.0
"""A task time beyond this many times the expected one is taken for this many: a new executor's first
tasks load classes and start Python; a true change of cost still gets through within a few batches."""


class StageModel:
    """o and c of one stage, from fading sums of (1, x, y, xx, xy, yy) with x = n/p, y = task_time/p.

    ``base``: what was known before. ``fade``: the weight that a run keeps when the next one comes.

    >>> known = StageModel(StageCosts(tasks=8, per_task_s=0.1, per_row_s=0.008))
    >>> for _ in range(20):  # all alike, so that nothing but the base tells tasks from rows
    ...     known.learn(1000, StageRun(index=0, tasks=8, task_time_s=8.8, cpu_time_s=0.0, wall_s=1.1,
    ...                                longest_task_s=1.1))
    >>> [round(cost, 6) for cost in known.costs]
    [0.1, 0.008]
    """

    def __init__(self, base: StageCosts | None = None, *, fade: float = FADE) -> None:
        self._fade = fade
        self._w = self._x = self._y = self._xx = self._xy = self._yy = 0.0
        self._rows_share = 1.0
        """Part of a task's time that its rows took when that could last be told for sure."""
        self.costs = (0.0, 0.0)
        """(o, c): seconds a task, seconds a row; both at least 0.

        With too little spread in the batch sizes, or too much noise in their times, the two cannot be told
        apart. Least squares gives c with a variance; what was known before counts against that:

            c = (1 − g) · c₀ + g · c_ls    g = τ² / (τ² + σ² / (w · var x))    τ = c₀ / 2

        c₀ is the share of the rows when it could last be told (g ≥ SURE), so a steady load does not unteach
        what a changing one taught, and executors that warm up are not taken for rows that cost nothing.
        Before there was one, all is put on the rows; that asks for more nodes when the load grows, never for
        fewer.
        """
        self.tasks = 1
        self.skew = 1.0
        """Longest task ÷ mean task, fading; 1 where all are alike."""
        self._errors = self._error_weight = 0.0
        self._base_untold = base is not None
        """Until the first run shows at how many rows a task it is to be told."""
        if base is not None:
            self.costs, self.tasks, self.skew = (base.per_task_s, base.per_row_s), base.tasks, base.skew
            if base.error is not None:
                self._error_weight = 1.0 / (1.0 - ERROR_FADE)
                self._errors = self._error_weight * base.error

    @property
    def error(self) -> float | None:
        """Mean of |expected − measured| / expected over the last runs, each by those before it; None before any."""
        return self._errors / self._error_weight if self._error_weight else None

    @property
    def as_costs(self) -> StageCosts:
        """As a profile has it."""
        return StageCosts(
            tasks=self.tasks,
            per_task_s=max(0.0, self.costs[0]),  # least squares leave a rounding error below 0
            per_row_s=self.costs[1],
            skew=self.skew,
            error=self.error,
        )

    def expect(self, tasks: int) -> None:
        """It has so many tasks by now; of what they cost nothing is said."""
        self.tasks, self.skew = tasks, min(self.skew, float(tasks))

    def _take_base(self, x: float) -> None:
        """Two runs at half and at one and a half times so many rows, as the base has them."""
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
        self._base_untold = False

    def learn_anew(self, runs: Iterable[tuple[int, StageRun]]) -> None:
        """It does not cost any more what it did: only these runs, (rows, run), tell what it does.

        What of a task's time goes with its rows is all that is kept: a few batches cannot tell that.
        """
        self._w = self._x = self._y = self._xx = self._xy = self._yy = 0.0
        for rows, run in runs:
            self.learn(rows, run)

    def learn(self, rows: int, run: StageRun, *, steady: bool = True) -> None:
        """Take in one run of the stage; what is far off all before it counts only in part.

        A long task in a batch in which nodes came is a first task on one of them: no skew.
        """
        tasks, task_time_s = run.tasks, run.task_time_s
        x, y = rows / tasks, task_time_s / tasks
        if self._base_untold:
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
        """Rounds of tasks the stage needs, and no fewer than its longest task is mean tasks long."""
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
                in_waves_s = waves(run.tasks, slots) * run.task_time_s / run.tasks
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
        slower = 1.0 / max(0.05, share)
        fixed_s, per_row_s = self.driver_s, 0.0
        for tasks, skew, task_s, row_s in self._as_columns():  # too few stages for numpy to pay
            whole = waves(tasks, slots)
            rounds = slower * (whole if whole > skew else skew)
            fixed_s += rounds * task_s
            per_row_s += rounds * row_s
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
        return useful_slots(frozenset(stage.tasks for stage in self._stages.values()), most)

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
