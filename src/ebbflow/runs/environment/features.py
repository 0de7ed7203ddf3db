"""The observation of a learner: measurements of the monitor, normalised, bounded and always finite.

It contains only what can be measured on a real pipeline, so that a learned strategy can run there.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ebbflow.core.layout import MAIN
from ebbflow.core.metrics import Metric
from ebbflow.core.ports import Observation
from ebbflow.core.readings import slope_per_s
from ebbflow.targets.simulator.scenario import Scenario

SLOPE_S = 60.0
"""Window of the slope of the arrival rate, and how far ahead it is extrapolated."""
CALM_S = 300.0
"""Changes longer ago than this do not count."""
BLIND_S = 60.0
"""Data older than this counts as missing."""


@dataclass(frozen=True, kw_only=True)
class Feature:
    """One number of an observation, clipped to its bounds."""

    name: str
    low: float
    high: float
    meaning: str


FEATURES = (
    Feature(name="rate", low=0.0, high=4.0, meaning="arrival rate ÷ best rate of the maximum number of nodes"),
    Feature(name="rise", low=-4.0, high=4.0, meaning="slope of the arrival rate over the last minute: its change "
            "per minute ÷ best rate of the maximum number of nodes"),
    Feature(name="backlog", low=0.0, high=10.0, meaning="unprocessed rows ÷ best rate of the working nodes (seconds "
            "of work) ÷ SLO"),
    Feature(name="freshness", low=0.0, high=10.0, meaning="age of the oldest unprocessed row ÷ SLO"),
    Feature(name="working", low=0.0, high=1.0, meaning="working nodes ÷ maximum"),
    Feature(name="requested", low=0.0, high=1.0, meaning="requested nodes ÷ maximum"),
    Feature(name="held", low=0.0, high=2.0, meaning="nodes that cost money, including leaving ones, ÷ maximum"),
    Feature(name="busy", low=0.0, high=1.0, meaning="busy share of the slots in the last batch or its trigger "
            "interval, if longer; of the nodes' CPU on a continuous engine"),
    Feature(name="calm", low=0.0, high=1.0, meaning="time since the last change of size ÷ 5 minutes"),
    Feature(name="lead", low=0.0, high=10.0, meaning="measured lead time of a node ÷ SLO"),
    Feature(name="blind", low=0.0, high=1.0, meaning="age of the observation ÷ 1 minute; 0 unless metrics are "
            "missing"),
)  # fmt: skip
"""The numbers of an observation, in order."""

LOW = np.array([feature.low for feature in FEATURES], dtype=np.float32)
HIGH = np.array([feature.high for feature in FEATURES], dtype=np.float32)


@dataclass(frozen=True, kw_only=True)
class Measurements:
    """The measurements before normalisation; None where nothing was measured yet."""

    arrival_rate_per_s: float | None
    queue_rows: float | None
    freshness_s: float | None
    nodes_working: int
    nodes_requested: int
    nodes_held: int
    busy_share: float
    lead_time_s: float

    def to_json(self) -> dict[str, float | None]:
        """Convert to plain values."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


class Observer:
    """Turns the observations of one episode into features."""

    def __init__(self, scenario: Scenario) -> None:
        self._capacity_per_s = np.maximum(scenario.capacity_rows_per_s, 1e-9)
        self._most = scenario.limits.max_nodes
        self._slo_s = scenario.slo.freshness_s
        self._rates: deque[tuple[float, float]] = deque()
        self._observed_s = 0.0
        self._size: int | None = None
        self._changed_s = -CALM_S
        self.measurements = Measurements(
            arrival_rate_per_s=None, queue_rows=None, freshness_s=None, nodes_working=0, nodes_requested=0,
            nodes_held=0, busy_share=0.0, lead_time_s=0.0,
        )  # fmt: skip

    def features(self, now_s: float, observation: Observation | None) -> npt.NDArray[np.float32]:
        """The features now. Without an observation they keep their last values, and ``blind`` is their age."""
        if observation is not None:
            self._update(observation)
        known, slo_s, most = self.measurements, self._slo_s, self._most
        best_per_s = float(self._capacity_per_s[most])
        while self._rates and self._rates[0][0] < now_s - SLOPE_S:
            self._rates.popleft()
        rise_per_s = slope_per_s(self._rates)[0] * SLOPE_S
        now_per_s = float(self._capacity_per_s[min(max(known.nodes_working, 1), most)])
        values = (
            (known.arrival_rate_per_s or 0.0) / best_per_s,
            rise_per_s / best_per_s,
            (known.queue_rows or 0.0) / now_per_s / slo_s,
            (known.freshness_s or 0.0) / slo_s,
            known.nodes_working / most,
            known.nodes_requested / most,
            known.nodes_held / most,
            known.busy_share,
            (now_s - self._changed_s) / CALM_S,
            known.lead_time_s / slo_s,
            (now_s - self._observed_s) / BLIND_S,
        )
        # unlike clip, fmax and fmin also replace NaN by a bound
        return np.fmin(np.fmax(np.array(values, dtype=np.float32), LOW), HIGH)

    def _update(self, observation: Observation) -> None:
        before, about = self.measurements, {observation.pipeline.name, MAIN}
        last: dict[Metric, float] = {}
        node_cpu: list[float] = []
        for reading in observation.readings:
            if reading.subject in about:
                last[reading.metric] = reading.value
            elif reading.metric is Metric.NODE_CPU:
                node_cpu.append(reading.value)
        rate_per_s = last.get(Metric.ARRIVAL_RATE)
        if rate_per_s is not None:
            self._rates.append((observation.time_s, rate_per_s))
        requested = sum(observation.requested.nodes.values())
        if self._size is not None and requested != self._size:
            self._changed_s = observation.time_s
        self._size, self._observed_s = requested, observation.time_s
        self.measurements = Measurements(
            arrival_rate_per_s=before.arrival_rate_per_s if rate_per_s is None else rate_per_s,
            queue_rows=last.get(Metric.QUEUE_LENGTH, before.queue_rows),
            freshness_s=_freshness_s(last, before),
            nodes_working=sum(observation.layout.nodes.values()),
            nodes_requested=requested,
            nodes_held=requested if observation.held_nodes is None else observation.held_nodes,
            busy_share=_busy_share(observation, node_cpu, before.busy_share),
            lead_time_s=observation.lead_time_s,
        )


def _freshness_s(last: dict[Metric, float], before: Measurements) -> float | None:
    """The last reading; 0 if there is none and nothing waits."""
    if Metric.FRESHNESS in last:
        return last[Metric.FRESHNESS]
    return 0.0 if last.get(Metric.QUEUE_LENGTH) == 0.0 else before.freshness_s


def _busy_share(observation: Observation, node_cpu: list[float], before: float) -> float:
    if node_cpu:
        return sum(node_cpu) / len(node_cpu)
    if observation.batches:
        batch = observation.batches[-1]
        available_s = max(1, batch.slots) * max(batch.duration_s, batch.trigger_interval_s, 1e-3)
        return min(1.0, sum(stage.task_time_s for stage in batch.stages) / available_s)
    idle = all(running_s is None for running_s in observation.queries.values())
    return 0.0 if idle else before
