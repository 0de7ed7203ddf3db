"""Profiles of queries that run in batches: they initialise the batch model, and are checked against its batches.

A task of a stage should take y = o + c·x seconds for x = n/p rows. Batches are added up over windows of 10 s, and each
window is a sample of the stage's curve, checked for drift like the curves of operators (``CurveLearner``). σ is that of
single batches. Windows of k batches would have σ / √k if batches were held up independently, but a busy host stays busy
for a while. If a stage has changed, it is learned again from the batches that showed it.

Executors that join load classes, compile and start Python. So after a start, and after each batch that was not steady,
windows that took longer than expected count only once they get no faster.
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
from ebbflow.profiling.curve_learner import MATURE, CurveLearner, Drift
from ebbflow.profiling.estimator import Estimator
from ebbflow.profiling.fitting import QUICK
from ebbflow.profiling.models import LinearCurve
from ebbflow.profiling.profile import Fitted, Range, SparkCosts, StageCosts
from ebbflow.profiling.samples import WINDOW_S, WindowSample

log = logging.getLogger(__name__)

ASSUMED_ERROR = 0.15
"""Relative error of the task time of a batch, if the profile has none."""
STILL_WARMING = 0.95
"""A window, or batches, below this share of the time of those before are still warming up."""
REMEMBERED = 40
"""Windows whose runs are kept to learn from after an alarm: more than a model remembers."""

Runs = list[tuple[int, StageRun]]
"""(rows of the batch, run) of one stage."""


class BatchProfiles:
    """The costs of batches in the given profiles, by query, with what has been learned since."""

    def __init__(self, given: Mapping[str, Estimator], match: StageMatch) -> None:
        """``match``: which operators a stage runs."""
        self._match = match
        costs = {name: estimator.profile.costs for name, estimator in given.items()}
        self._costs = {name: each for name, each in costs.items() if each is not None and each.stages}
        self._watches = {name: BatchWatch(costs) for name, costs in self._costs.items()}
        self._unreported = {name: name in self._costs for name in given}
        """Profiles not yet checked by ``warn_unused``, and whether they have costs of batches."""
        self.drift = ""
        """The last change of a stage; empty if there was none."""
        self.unused = ""
        """Why a profile is not used; empty if all are."""

    def model(self, query: str) -> BatchModel:
        """A new model of a query, with the costs of its profile."""
        return BatchModel(self._costs.get(query))

    def learned(self, batch: Batch, model: BatchModel) -> None:
        """Check the profile against a batch that the model has learned from."""
        name = batch.query
        watch = self._watches.get(name)
        if watch is None or not batch.rows or not batch.stages:
            return
        if model.base is None:
            stages = len(self._costs[name].stages)
            self.unused = (
                f"the profile of '{name}' has {stages} stages, but a batch has {len(batch.stages)}: "
                "it is of another plan"
            )
            log.warning("%s, and is not used; learn one with `ebbflow profile`", self.unused)
            del self._watches[name], self._costs[name]
            return
        if len(batch.stages) != len(model.base.stages):
            return
        for found in watch.add(batch):
            model.relearn(found.stage, found.runs)
            watch.update(found.stage, model.stages[found.stage].as_costs)
            operators = ", ".join(self._match.operators(name, found.stage))
            stage = f"{found.drift.operator} of {name}{f' ({operators})' if operators else ''}"
            drift = replace(found.drift, operator=stage, unit="task time")
            self.drift = str(drift)
            log.warning("%s; learning it again", drift)

    def query_ended(self, query: str, model: BatchModel) -> None:
        """A query ended. If it is restarted, it continues from what was learned."""
        if query in self._watches and model.base is not None:
            self._costs[query] = batch_costs(model)
            self._watches[query].restarted()

    def warn_unused(self, queries: Collection[str]) -> None:
        """Warn once, when the first queries run, of profiles that are not used."""
        if not queries:
            return
        for name, has_costs in self._unreported.items():
            if name not in queries:
                # A query that starts later will be sized by its profile.
                log.warning(
                    "the profile of '%s' is not used yet: only %s runs so far", name, ", ".join(queries)
                )
            elif not has_costs:
                log.warning(
                    "the profile of '%s' has no costs of batches; they are learned from the run", name
                )
        self._unreported.clear()


@dataclass(frozen=True, kw_only=True)
class StageDrift:
    """The cost of a stage has changed."""

    stage: int
    drift: Drift
    runs: Runs
    """The runs of the windows that raised the alarm."""


class BatchWatch:
    """Checks the batches of a query against its profile, stage by stage."""

    def __init__(self, costs: SparkCosts) -> None:
        self._costs = list(costs.stages)
        """Current costs."""
        self._stages = [
            _StageWatch(index, stage, costs.batch_rows) for index, stage in enumerate(costs.stages)
        ]
        self._first = True
        self._cool_down()

    def update(self, stage: int, costs: StageCosts) -> None:
        """Set the costs of a stage that has changed."""
        self._costs[stage] = costs

    def restarted(self) -> None:
        """The query was restarted: its next batch is a first one."""
        self._first = True

    def _cool_down(self) -> None:
        self._warm = False
        self._last_ratio: float | None = None
        self._window: list[Batch] = []

    def add(self, batch: Batch) -> list[StageDrift]:
        """Add a batch with as many stages as the profile; return the changes it reveals."""
        if not batch.rows:
            return []
        if self._first or not batch.steady:
            self._first = False
            self._cool_down()
            return []
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
    """The curve of one stage, and the runs that its last samples were made of."""

    def __init__(self, index: int, known: StageCosts, batch_rows: Range | None) -> None:
        self._index = index
        curve = _as_curve(known, batch_rows)
        self._low = curve.low
        """Rows of a task below which the profile is a guess, above all about the cost per task."""
        self._curve = CurveLearner(f"stage {index + 1}", QUICK, curve)
        self._runs: deque[Runs] = deque(maxlen=REMEMBERED)

    def add(self, time_s: float, window: Sequence[Batch]) -> StageDrift | None:
        runs = [(batch.rows, batch.stages[self._index]) for batch in window]
        tasks = sum(run.tasks for _, run in runs)
        rows_each = sum(rows for rows, _ in runs) / tasks
        if rows_each < self._low:
            return None
        self._runs.append(runs)
        drift = self._curve.add(
            WindowSample(time_s, rows_each, sum(run.task_time_s for _, run in runs) / tasks)
        )
        if drift is None:
            return None
        last = list(self._runs)[-len(self._curve.samples) :]  # the samples that the curve has kept
        return StageDrift(stage=self._index, drift=drift, runs=[run for window in last for run in window])


def _as_curve(known: StageCosts, batch_rows: Range | None) -> Fitted:
    """Seconds of a task by its rows."""
    rows = batch_rows or Range(low=0.0, high=0.0)
    return Fitted(
        model=LinearCurve(fixed=known.per_task_s, per_unit=known.per_row_s),
        low=rows.low / known.tasks,
        high=rows.high / known.tasks,
        slope=known.per_row_s,
        error=ASSUMED_ERROR if known.error is None else known.error,
        samples=MATURE,
    )
