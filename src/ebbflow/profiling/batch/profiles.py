"""Profiles that were given, on batches: what they say of a query's stages starts its model, and is watched.

The model goes on learning from there (``batch_model``). Where a stage is seen to cost something else (``batch_drift``),
that is said, and the stage is learned anew from the batches that showed it.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from ebbflow.core.batches import Batch, StageRun
from ebbflow.profiling.batch.model import BatchModel
from ebbflow.profiling.batch.stage_match import StageMatch
from ebbflow.profiling.costs import batch_costs
from ebbflow.profiling.curve import MATURE, CurveLearner, Drift
from ebbflow.profiling.estimator import Estimator
from ebbflow.profiling.fitting import QUICK
from ebbflow.profiling.models import Linear
from ebbflow.profiling.profile import Fitted, Range, SparkCosts, StageCosts
from ebbflow.profiling.samples import WINDOW_S, Sample

log = logging.getLogger("ebbflow")


class BatchProfiles:
    """The costs of batches in the profiles that were given, by query, each with what has been learned since."""

    def __init__(self, given: Mapping[str, Estimator], match: StageMatch) -> None:
        """``match`` tells which operators a stage runs, as far as that is known."""
        self._match = match
        costs = {name: estimator.profile.costs for name, estimator in given.items()}
        self._costs = {name: each for name, each in costs.items() if each is not None and each.stages}
        self._watches = {name: BatchWatch(costs) for name, costs in self._costs.items()}
        self._to_look_for = {name: name in self._costs for name in given}
        """Of which profiles nothing was said yet, and whether they have costs of batches."""
        self.drift = ""
        """The last stage noticed to cost what it did not use to; empty where none was."""
        self.unused = ""
        """Why a profile is not used, of the last one that is not; empty where all are."""

    def model(self, query: str) -> BatchModel:
        """A new model of a query, with what is known of it."""
        return BatchModel(self._costs.get(query))

    def learned(self, batch: Batch, model: BatchModel) -> None:
        """The model of its query has taken in a batch: whether it still fits the profile."""
        name = batch.query
        watch = self._watches.get(name)
        if watch is None or not batch.rows or not batch.stages:
            return
        if model.base is None:
            has, runs = len(self._costs[name].stages), len(batch.stages)
            self.unused = (
                f"the profile of '{name}' has {has} stages, and a batch runs {runs}: it is of another plan"
            )
            log.warning("%s, and is not used; learn one with `ebbflow profile`", self.unused)
            del self._watches[name], self._costs[name]
            return
        if len(batch.stages) != len(model.base.stages):
            return
        for found in watch.add(batch):
            model.learn_anew(found.stage, found.runs)
            watch.costs_now(found.stage, model.stages[found.stage].as_costs)
            operators = ", ".join(self._match.operators(name, found.stage))
            stage = f"{found.drift.operator} of {name}{f' ({operators})' if operators else ''}"
            drift = replace(found.drift, operator=stage, unit="task time")
            self.drift = str(drift)
            log.warning("%s; learning it anew", drift)

    def left(self, query: str, model: BatchModel) -> None:
        """A query is gone. When it comes back, as after a restart, it goes on from what was learned."""
        if query in self._watches and model.base is not None:
            self._costs[query] = batch_costs(model)
            self._watches[query].start_over()

    def look_for(self, queries: Collection[str]) -> None:
        """Say, once, which profiles are of no use, or not yet, now that there are queries."""
        if not queries:
            return
        for name, has_costs in self._to_look_for.items():
            if name not in queries:
                # Not for good: a query that starts later is sized by its profile.
                log.warning(
                    "the profile of '%s' is not used yet: there is only %s so far", name, ", ".join(queries)
                )
            elif not has_costs:
                log.warning(
                    "the profile of '%s' has no costs of batches; they are learned from the run", name
                )
        self._to_look_for.clear()


# Whether the stages of a query still cost what its profile says, by the task time of its batches.
#
# A task of a stage should take y = o + c·x seconds for x = n/p rows. Batches are summed up over windows of 10 s, as
# readings of flows are, and each window is a sample of the stage's curve, which is watched as those of operators are
# (``curve_learner``). Its σ is that of single batches, as the profile has it. Windows of k batches would have σ / √k if
# each of them were held up for itself; but a busy host stays busy for a while. So a false alarm is no more frequent
# than
# ``Cusum`` says where batches scatter as they did when they were profiled.
#
# Executors that came load classes, compile and start Python. So after a start, and after each batch that was not
# steady,
# windows that took longer than they should count only once they get no quicker.


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
        model=Linear(fixed=known.per_task_s, per_unit=known.per_row_s),
        low=rows.low / known.tasks,
        high=rows.high / known.tasks,
        slope=known.per_row_s,
        error=ASSUMED_ERROR if known.error is None else known.error,
        samples=MATURE,
    )
