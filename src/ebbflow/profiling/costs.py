"""Learns the costs of batches, nodes and restarts from readings and batches."""

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
"""Weight that a batch keeps with each later one. A profile describes all loads of a run, so about the last 400 batches
count, more than a phase has."""
KEEP_S = 1800.0
"""For how long queue lengths are kept."""
BEFORE_S = 30.0
"""Period before a restart whose longest queue is the usual one: a few batches."""
AS_BEFORE = 1.2
"""A queue is back to normal at no more than this many times the usual one."""


class RunningSpread:
    """Mean and standard deviation of values added one by one.

    >>> values = RunningSpread()
    >>> for value in (1.0, 3.0):
    ...     values.add(value)
    >>> values.spread
    Spread(mean=2.0, deviation=1.0, samples=2)
    """

    def __init__(self) -> None:
        self.count = 0
        self._sum = self._squares = 0.0

    def add(self, value: float) -> None:
        """Add a value."""
        self.count += 1
        self._sum += value
        self._squares += value * value

    @property
    def spread(self) -> Spread:
        """Mean and standard deviation; 0 and 0 without values."""
        if not self.count:
            return Spread(mean=0.0)
        mean = self._sum / self.count
        deviation = math.sqrt(max(0.0, self._squares / self.count - mean * mean))
        return Spread(mean=mean, deviation=deviation, samples=self.count)


class CostLearner:
    """Learns d, o and c with the batch model; lead times, restarts, state and its reloading from readings.

    The lead time is read if the target reports one (Spark); else it is the time from requesting nodes to observing
    them. A restart is over when at most 1.2 times as many rows wait as before.
    """

    def __init__(self) -> None:
        self._models: dict[str, BatchModel] = {}
        self._rows: dict[str, int] = {}
        self._lead, self._lead_derived = RunningSpread(), RunningSpread()
        self._parts = {metric: RunningSpread() for metric in PARTS}
        self._drain, self._reload = RunningSpread(), RunningSpread()
        self._state: dict[Metric, float] = {}
        self._growth: list[tuple[float, float]] = []
        """(time, nodes requested) of growth that has not been observed yet."""
        self._requested: float | None = None
        self._requested_s = 0.0
        self._there: float | None = None
        self._queues = Windows(KEEP_S)
        self._batch_s: dict[str, float] = {}
        """Duration of batches, fading."""
        self._stood_s: dict[str, dict[Metric, float]] = {}
        self._draining: dict[str, tuple[float, float]] = {}
        """Restarted pipelines: (time, the queue length at which it is drained)."""

    def learn(self, readings: Iterable[Reading], batches: Iterable[Batch] = ()) -> None:
        """Learn from readings and finished batches."""
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
        """The model of the query with the most rows; None before its batches are known."""
        ready = [name for name, model in self._models.items() if model.ready]
        return self._models[max(ready, key=lambda name: self._rows[name])] if ready else None

    @property
    def costs(self) -> SparkCosts | None:
        """The costs known so far; None if there are none."""
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
            # The loop requests nodes right after an observation, and they show in the next one.
            self._growth.append((self._requested_s, r.value))
        elif self._requested is not None and r.value < self._requested:
            self._growth.clear()  # some were withdrawn, and which is unknown
        self._requested, self._requested_s = r.value, r.time_s

    def _take_nodes(self, r: Reading) -> None:
        if r.subject != MAIN:
            return
        if self._there is not None and r.value > self._there:
            while self._growth and self._growth[0][1] <= r.value:
                self._lead_derived.add(r.time_s - self._growth.pop(0)[0])
        self._there = r.value

    # -- state and restarts ----------------------------------------------------------------------

    def _take_state(self, r: Reading) -> None:
        self._state[r.metric] = r.value

    def _take_batch_time(self, r: Reading) -> None:
        usual_s = self._batch_s.get(r.subject, r.value)
        self._batch_s[r.subject] = FADE * usual_s + (1 - FADE) * r.value

    def _take_first_batch(self, r: Reading) -> None:
        """How much longer it took than those before the restart; the very first batch loads no state."""
        if r.subject in self._batch_s:
            self._reload.add(max(0.0, r.value - self._batch_s[r.subject]))

    def _take_part(self, r: Reading) -> None:
        """The parts of a restart are read together, once it is over; the start is the last of them."""
        self._parts[r.metric].add(r.value)
        stood_s = self._stood_s.setdefault(r.subject, {})
        stood_s[r.metric] = r.value
        if r.metric is Metric.RESTART_START:
            requested_s = r.time_s - sum(stood_s.values())
            queue = self._queues.of(r.subject, Metric.QUEUE_LENGTH)
            before = [rows for time_s, rows in queue if requested_s - BEFORE_S <= time_s <= requested_s]
            if (
                r.subject in self._draining
            ):  # the restart before was not over: keep its queue as the usual one
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
    """The costs of each stage of a learned model."""
    return tuple(stage.as_costs for stage in model.stages)


def batch_costs(model: BatchModel) -> SparkCosts:
    """The costs of batches in a learned model, without those of nodes and restarts."""
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
"""The metrics that a cost learner reads."""
