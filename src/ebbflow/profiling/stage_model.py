"""What one stage of a query costs: seconds a task and seconds a row, learned online from its runs.

The tasks of a stage spend together p·o + c·n seconds on n source rows. Least squares over sums that fade find o and c
as far as the sizes of batches differ (``batch_model`` has the whole batch).

A profile gives it a start. At the first run, with x = n/p rows a task, two runs at x/2 and 3x/2 are taken for seen that
lie on y = o + c·x of the profile, together with the weight of all that an old model remembers. So it knows what of a
task's time goes with its rows before the load has varied; what batches teach moves it in the usual way, and what the
profile said fades.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from ebbflow.core.batches import StageRun
from ebbflow.profiling.profile import StageCosts

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
        return max(math.ceil(self.tasks / max(1, slots)), self.skew)

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
