"""Whether the stages of a query still cost what its profile says, by the task time of its batches.

A task of a stage should take y = o + c·x seconds for x = n/p rows. Batches are summed up over windows of 10 s, as
readings of flows are, and each window is a sample of the stage's curve, which is watched as those of operators are
(``curve_learner``). Its σ is that of single batches, as the profile has it. Windows of k batches would have σ / √k if
each of them were held up for itself; but a busy host stays busy for a while. So a false alarm is no more frequent than
``Cusum`` says where batches scatter as they did when they were profiled.

Executors that came load classes, compile and start Python. So after a start, and after each batch that was not steady,
windows that took longer than they should count only once they get no quicker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from ebbflow.core.batches import Batch, StageRun
from ebbflow.profiling.drift import Drift
from ebbflow.profiling.fitting import QUICK
from ebbflow.profiling.learner import MATURE, CurveLearner
from ebbflow.profiling.models import Line
from ebbflow.profiling.profile import Fitted, Range, SparkCosts, StageCosts
from ebbflow.profiling.samples import WINDOW_S, Sample

ASSUMED_ERROR = 0.15
"""Of the task time of a batch, where a profile does not tell."""
STILL_WARMING = 0.95
"""What takes less than this share of what came before it, window or batches, is not warm yet."""
REMEMBERED = 40
"""Windows of which the runs are kept, to learn from after an alarm: more than a model remembers."""

Runs = list[tuple[int, StageRun]]
"""Of one stage, with the rows of their batches."""


@dataclass(frozen=True, kw_only=True)
class StageDrift:
    """A stage costs what it did not use to."""

    stage: int
    drift: Drift
    runs: Runs
    """Those of the windows that raised the alarm: how it is now."""


class BatchWatch:
    """Follows the batches of a query, and tells when one of its stages has changed."""

    def __init__(self, costs: SparkCosts) -> None:
        self._costs = list(costs.stages)
        """As they are known now."""
        self._stages = [
            _StageWatch(index, stage, costs.batch_rows) for index, stage in enumerate(costs.stages)
        ]
        self._first = True
        self._cool_down()

    def costs_now(self, stage: int, costs: StageCosts) -> None:
        """What a stage costs since it was noticed to have changed."""
        self._costs[stage] = costs

    def start_over(self) -> None:
        """The query is started anew: its next batch is a first one."""
        self._first = True

    def _cool_down(self) -> None:
        self._warm = False
        self._last_ratio: float | None = None
        self._window: list[Batch] = []

    def add(self, batch: Batch) -> list[StageDrift]:
        """Take in a batch with as many stages as the profile; what it says if by it a change is noticed."""
        if not batch.rows:
            return []
        if self._first or not batch.steady:
            self._first = False
            self._cool_down()
            return []
        if self._window and batch.started_s < self._window[-1].started_s:
            self._window = []  # the clock was set back
        self._window.append(batch)
        ends_s = max(batch.ended_s, batch.started_s + batch.trigger_interval_s)
        if ends_s - self._window[0].started_s < WINDOW_S:
            return []
        window, self._window = self._window, []
        if not self._warmed_up(window):
            return []
        found = [stage.add(batch.ended_s, window) for stage in self._stages]
        return [drift for drift in found if drift is not None]

    def _warmed_up(self, window: Sequence[Batch]) -> bool:
        """Whether a window counts."""
        if self._warm:
            return True
        used_s = sum(run.task_time_s for batch in window for run in batch.stages)
        expected_s = sum(
            stage.task_time_s(run.tasks, batch.rows)
            for batch in window
            for stage, run in zip(self._costs, batch.stages, strict=True)
        )
        ratio, before = used_s / max(expected_s, 1e-12), self._last_ratio
        self._last_ratio = ratio
        self._warm = ratio <= 1 or (before is not None and ratio >= STILL_WARMING * before)
        return self._warm


class _StageWatch:
    """The curve of one stage, and the runs from which its last samples were made."""

    def __init__(self, index: int, known: StageCosts, seen: Range | None) -> None:
        self._index = index
        curve = _as_curve(known, seen)
        self._low = curve.low
        """Rows of a task below which the profile is a guess, of what a task costs without any most of all."""
        self._curve = CurveLearner(f"stage {index + 1}", QUICK, curve)
        self._runs: deque[Runs] = deque(maxlen=REMEMBERED)

    def add(self, time_s: float, window: Sequence[Batch]) -> StageDrift | None:
        """Take in a window."""
        runs = [(batch.rows, batch.stages[self._index]) for batch in window]
        tasks = sum(run.tasks for _, run in runs)
        rows_each = sum(rows for rows, _ in runs) / tasks
        if rows_each < self._low:
            return None
        self._runs.append(runs)
        drift = self._curve.add(Sample(time_s, rows_each, sum(run.task_time_s for _, run in runs) / tasks))
        if drift is None:
            return None
        last = list(self._runs)[-len(self._curve.samples) :]  # those that it has kept
        return StageDrift(stage=self._index, drift=drift, runs=[run for window in last for run in window])


def _as_curve(known: StageCosts, seen: Range | None) -> Fitted:
    """Seconds of a task from its rows."""
    rows = seen or Range(low=0.0, high=0.0)
    return Fitted(
        model=Line(fixed=known.per_task_s, per_unit=known.per_row_s),
        low=rows.low / known.tasks,
        high=rows.high / known.tasks,
        slope=known.per_row_s,
        error=ASSUMED_ERROR if known.error is None else known.error,
        samples=MATURE,
    )
