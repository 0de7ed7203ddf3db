"""What batches, nodes and restarts cost, from readings and batches."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ebbflow.core.batches import Batch
from ebbflow.core.layout import MAIN
from ebbflow.core.metrics import Metric
from ebbflow.core.readings import Reading, Windows
from ebbflow.profiling.batch.model import FADE, BatchModel
from ebbflow.profiling.profile import Reconfiguration, SparkCosts, Spread, StageCosts

PHASE_FADE = 0.995
"""Weight that a batch keeps when the next one comes: a profile is of all loads that were met, not of the last ones.
About the last 400 batches count, more than a phase has."""
KEEP_S = 1800.0
"""How far back queues are remembered, to tell when one is back to what it was."""
BEFORE_S = 30.0
"""Over how long before a restart the usual queue is looked for: a few batches."""
AS_BEFORE = 1.2
"""A queue of no more than so many times the usual one is back to it."""


class RunningSpread:
    """Values that are the same whatever the load, added up.

    >>> seen = RunningSpread()
    >>> for value in (1.0, 3.0):
    ...     seen.add(value)
    >>> seen.spread
    Spread(mean=2.0, deviation=1.0, samples=2)
    """

    def __init__(self) -> None:
        self.count = 0
        self._sum = self._squares = 0.0

    def add(self, value: float) -> None:
        """Take one in."""
        self.count += 1
        self._sum += value
        self._squares += value * value

    @property
    def spread(self) -> Spread:
        """Mean and standard deviation; 0 and 0 of nothing."""
        if not self.count:
            return Spread(mean=0.0)
        mean = self._sum / self.count
        deviation = math.sqrt(max(0.0, self._squares / self.count - mean * mean))
        return Spread(mean=mean, deviation=deviation, samples=self.count)


class CostLearner:
    """d, o and c by the batch model; lead times, restarts, state and its reloading from readings.

    A lead time is read where the target tells one (Spark); else it is the time from nodes being requested to
    their being there. A restart is drained when no more rows wait than did before it, and a fifth.
    """

    def __init__(self) -> None:
        self._models: dict[str, BatchModel] = {}
        self._rows: dict[str, int] = {}
        self._lead, self._lead_derived = RunningSpread(), RunningSpread()
        self._parts = {metric: RunningSpread() for metric in PARTS}
        self._drain, self._reload = RunningSpread(), RunningSpread()
        self._state: dict[Metric, float] = {}
        self._nodes_asked: list[tuple[float, float]] = []
        """(when, up to how many nodes) of growth that has not come yet."""
        self._requested: float | None = None
        self._requested_s = 0.0
        self._there: float | None = None
        self._queues = Windows(KEEP_S)
        self._batch_s: dict[str, float] = {}
        """How long batches take, fading."""
        self._stood_s: dict[str, dict[Metric, float]] = {}
        self._draining: dict[str, tuple[float, float]] = {}
        """Pipelines that took up again: (when, the queue that is as before)."""

    def learn(self, readings: Iterable[Reading], batches: Iterable[Batch] = ()) -> None:
        """Take in what was seen."""
        for batch in batches:
            if batch.rows:
                if batch.query not in self._models:
                    self._models[batch.query] = BatchModel(fade=PHASE_FADE)
                self._models[batch.query].learn(batch)
                self._rows[batch.query] = self._rows.get(batch.query, 0) + batch.rows
        for reading in sorted(readings, key=lambda r: r.time_s):
            take = _TAKERS.get(reading.metric)
            if take is not None:
                take(self, reading)

    @property
    def model(self) -> BatchModel | None:
        """Of the query with the most rows, if its batches were seen."""
        ready = [name for name, model in self._models.items() if model.ready]
        return self._models[max(ready, key=lambda name: self._rows[name])] if ready else None

    @property
    def costs(self) -> SparkCosts | None:
        """What is known; None if nothing is."""
        model = self.model
        lead = self._lead if self._lead.count else self._lead_derived
        restarts = self._parts[Metric.RESTART_START].count
        known = model is not None or lead.count or restarts or self._state or self._reload.count
        if not known:
            return None
        return SparkCosts(
            driver_s=0.0 if model is None else model.driver_s,
            stages=() if model is None else stage_costs(model),
            batch_rows=None if model is None else model.seen_rows,
            lead_time_s=lead.spread if lead.count else None,
            state_rows=self._state.get(Metric.STATE_ROWS),
            state_bytes=self._state.get(Metric.STATE_SIZE),
            reload_s=self._reload.spread if self._reload.count else None,
            reconfiguration=self._reconfiguration() if restarts else None,
        )

    def _reconfiguration(self) -> Reconfiguration:
        return Reconfiguration(
            stop_s=self._parts[Metric.RESTART_STOP].spread,
            state_s=self._parts[Metric.RESTART_STATE].spread,
            restart_s=self._parts[Metric.RESTART_START].spread,
            drain_s=self._drain.spread,
        )

    # -- nodes -----------------------------------------------------------------------------------

    def _take_lead_time(self, r: Reading) -> None:
        self._lead.add(r.value)

    def _take_requested(self, r: Reading) -> None:
        if r.subject != MAIN:
            return
        if self._requested is not None and r.value > max(self._requested, self._there or 0.0):
            # Loops ask right after they have looked, and see it at the next look.
            self._nodes_asked.append((self._requested_s, r.value))
        elif self._requested is not None and r.value < self._requested:
            self._nodes_asked.clear()  # some were taken back; which, nobody can tell
        self._requested, self._requested_s = r.value, r.time_s

    def _take_nodes(self, r: Reading) -> None:
        if r.subject != MAIN:
            return
        if self._there is not None and r.value > self._there:
            while self._nodes_asked and self._nodes_asked[0][1] <= r.value:
                self._lead_derived.add(r.time_s - self._nodes_asked.pop(0)[0])
        self._there = r.value

    # -- state and restarts ----------------------------------------------------------------------

    def _take_state(self, r: Reading) -> None:
        self._state[r.metric] = r.value

    def _take_batch_time(self, r: Reading) -> None:
        usual_s = self._batch_s.get(r.subject, r.value)
        self._batch_s[r.subject] = FADE * usual_s + (1 - FADE) * r.value

    def _take_first_batch(self, r: Reading) -> None:
        """How much longer than the last ones before the restart; the first of all loads no state."""
        if r.subject in self._batch_s:
            self._reload.add(max(0.0, r.value - self._batch_s[r.subject]))

    def _take_part(self, r: Reading) -> None:
        """The parts of a restart come together, when it is over; how long rows started again is the last."""
        self._parts[r.metric].add(r.value)
        stood_s = self._stood_s.setdefault(r.subject, {})
        stood_s[r.metric] = r.value
        if r.metric is Metric.RESTART_START:
            asked_s = r.time_s - sum(stood_s.values())
            queue = self._queues.of(r.subject, Metric.QUEUE_LENGTH)
            before = [rows for time_s, rows in queue if asked_s - BEFORE_S <= time_s <= asked_s]
            if (
                r.subject in self._draining
            ):  # the one before was not drained yet: back to what was before that
                self._draining[r.subject] = (r.time_s, self._draining[r.subject][1])
            elif before:
                self._draining[r.subject] = (r.time_s, max(1.0, AS_BEFORE * max(before)))

    def _take_queue(self, r: Reading) -> None:
        self._queues.add([r])
        draining = self._draining.get(r.subject)
        if draining is not None and r.time_s > draining[0] and r.value <= draining[1]:
            self._drain.add(r.time_s - draining[0])
            del self._draining[r.subject]


def stage_costs(model: BatchModel) -> tuple[StageCosts, ...]:
    """o, c, tasks, skew and error of each stage of a learned model."""
    return tuple(stage.as_costs for stage in model.stages)


def batch_costs(model: BatchModel) -> SparkCosts:
    """What a learned model says of batches; of nodes and restarts it knows nothing."""
    return SparkCosts(driver_s=model.driver_s, stages=stage_costs(model), batch_rows=model.seen_rows)


PARTS = (Metric.RESTART_STOP, Metric.RESTART_STATE, Metric.RESTART_START)
_TAKERS = {
    Metric.LEAD_TIME: CostLearner._take_lead_time,
    Metric.NODES_REQUESTED: CostLearner._take_requested,
    Metric.NODES: CostLearner._take_nodes,
    Metric.STATE_ROWS: CostLearner._take_state,
    Metric.STATE_SIZE: CostLearner._take_state,
    Metric.BATCH_TIME: CostLearner._take_batch_time,
    Metric.FIRST_BATCH_TIME: CostLearner._take_first_batch,
    Metric.RESTART_STOP: CostLearner._take_part,
    Metric.RESTART_STATE: CostLearner._take_part,
    Metric.RESTART_START: CostLearner._take_part,
    Metric.QUEUE_LENGTH: CostLearner._take_queue,
}
METRICS = tuple(_TAKERS)
"""What a cost learner looks at."""
