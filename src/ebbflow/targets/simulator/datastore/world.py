"""The passage of time of a simulated datastore, and what a monitor reads of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ebbflow.core.batches import Batch
from ebbflow.core.curve import Curve
from ebbflow.core.layout import MAIN
from ebbflow.core.metrics import Metric
from ebbflow.core.readings import Reading
from ebbflow.core.topology import NodeState, StoreNode, Topology
from ebbflow.errors import InputError
from ebbflow.targets.simulator.datastore.nodes import DataPool, StepKind
from ebbflow.targets.simulator.engine import NoiseDraws, PipelineRows, Start
from ebbflow.targets.simulator.nodes import NodePool

STEP_S = 1.0
P95, P99 = 2.01, 2.82
"""Quantiles of response times ÷ their mean: lognormal with σ = 0.5, about that of reads by key."""
GB = 1e9
DISK_BYTES = 1e15
"""Free space of a simulated node: it never runs out."""


class DatastoreWorld:
    """A datastore on its cluster."""

    def __init__(self, start: Start, pools: Mapping[str, NodePool]) -> None:
        pool = pools[MAIN]
        if not isinstance(pool, DataPool):
            raise InputError("a datastore needs nodes that hold data; use DataNodes")
        self._run = DatastoreRun(start, pool)

    @property
    def runs(self) -> Sequence[DatastoreRun]:
        """The datastore."""
        return (self._run,)

    def advance(self, until_s: float) -> None:
        """Simulate whole seconds up to a time."""
        self._run.advance(until_s)

    def busy(self, _cluster: str) -> bool:
        """True: nodes hold data."""
        return True

    def node_readings(self, now_s: float) -> list[Reading]:
        """CPU of each node since the last call."""
        return self._run.node_readings(now_s)

    def topology(self, now_s: float) -> Topology:
        """The nodes with their states and data."""
        return self._run.topology(now_s)


class DatastoreRun:
    """A running datastore."""

    def __init__(self, start: Start, pool: DataPool) -> None:
        self.engine = start.engine
        self._inflow, self._pool = start.inflow, pool
        self._noise = NoiseDraws(start.engine.noise, start.rng.spawn(1)[0])
        self._now = 0
        self._waiting = self._processed = self._failed = 0.0
        self._processed_rows: list[float] = [0.0]
        self._failed_at: list[tuple[float, float]] = [(0.0, 0.0)]
        self._last = (0.0, 0, 0.0)
        """Time, offered and answered requests of the last observation."""
        self._responses: list[tuple[float, float]] = []
        """(answered requests, their mean response time) of each second since the last observation."""
        self._busy: list[float] = []
        """Share of the capacity in use, of each second since the last reading of the nodes."""
        self._capacities = start.engine.capacity_rows_per_s(pool.kind, 64).tolist()

    # -- time ----------------------------------------------------------------------------------

    def advance(self, until_s: float) -> None:
        """Simulate whole seconds up to a time."""
        engine, pool = self.engine, self._pool
        lost = {
            StepKind.JOIN: engine.streaming_share,
            StepKind.LEAVE: engine.streaming_share,
            StepKind.CLEANUP: engine.cleanup_share,
        }
        while self._now + STEP_S <= until_s + 1e-9:
            active = pool.active(float(self._now))
            step = pool.step_at(float(self._now))
            size = len(active.nodes)
            capacity = self._capacities[min(size, len(self._capacities) - 1)]
            if step is not None:
                capacity *= 1.0 - lost[step.kind]
            if engine.noise:
                capacity *= self._noise.next()
            self._second(size, capacity)
        pool.release(until_s, between_batches=False)

    def _second(self, nodes: int, capacity: float) -> None:
        offered = self._inflow.rows_by_second(self._now + 1) - self._inflow.rows_by_second(self._now)
        self._now += 1
        ready = self._waiting + offered
        served = min(ready, capacity)
        self._waiting = ready - served
        most = capacity * self.engine.timeout_s
        if self._waiting > most:
            self._failed += self._waiting - most
            self._waiting = most
            self._failed_at.append((float(self._now), self._failed))
        self._processed += served
        self._processed_rows.append(self._processed)
        busy = served / capacity if capacity > 0 else 1.0
        behind_s = self._waiting / capacity if capacity > 0 else self.engine.timeout_s
        if served > 0:
            self._responses.append((served, self.engine.response_s(nodes, busy) + behind_s))
        self._busy.append(busy)

    # -- the port ------------------------------------------------------------------------------

    @property
    def parallelism(self) -> Mapping[str, int]:
        """None: requests are spread over all nodes."""
        return {}

    @property
    def placement(self) -> Mapping[str, str]:
        """None outside the main cluster."""
        return {}

    def set_parallelism(
        self, now_s: float, parallelism: Mapping[str, int], placement: Mapping[str, str] | None = None
    ) -> str:
        """There is nothing to change."""
        del now_s, parallelism, placement
        return ""

    def stopped_since_s(self) -> float | None:
        """Never: nodes join and leave while requests are served."""
        return None

    def take_batches(self) -> list[Batch]:
        """None: requests come one by one."""
        return []

    def running(self) -> dict[str, float | None]:
        """The datastore itself."""
        return {self.engine.pipeline.name: None}

    def readings(self, now_s: float, _batches: Sequence[Batch], /) -> list[Reading]:
        """Offered and answered requests, response times and the data."""
        name = self.engine.pipeline.name
        since_s, offered_then, answered_then = self._last
        span_s = max(now_s - since_s, STEP_S)
        offered = self._inflow.rows_by(now_s)
        self._last = (now_s, offered, self._processed)
        found = [
            Reading(now_s, name, Metric.ARRIVAL_RATE, (offered - offered_then) / span_s),
            Reading(now_s, name, Metric.THROUGHPUT, (self._processed - answered_then) / span_s),
            Reading(now_s, name, Metric.QUEUE_LENGTH, self._waiting),
            Reading(now_s, name, Metric.FAILED_ROWS, self._failed),
            Reading(now_s, name, Metric.DATA_SIZE, self.engine.data_gb * GB),
        ]
        if self._responses:
            answered, response_s = np.asarray(self._responses).T
            mean_s = float(answered @ response_s / answered.sum())
            found += [
                Reading(now_s, name, Metric.RESPONSE_TIME, mean_s),
                Reading(now_s, name, Metric.RESPONSE_TIME_P95, P95 * mean_s),
                Reading(now_s, name, Metric.RESPONSE_TIME_P99, P99 * mean_s),
            ]
            self._responses = []
        return found

    def node_readings(self, now_s: float) -> list[Reading]:
        """CPU of each node that serves; requests are spread evenly."""
        if not self._busy:
            return []
        busy = sum(self._busy) / len(self._busy)
        self._busy = []
        nodes = self._pool.active(now_s).nodes
        return [Reading(now_s, f"node-{node.number}", Metric.NODE_CPU, min(1.0, busy)) for node in nodes]

    def topology(self, now_s: float) -> Topology:
        """The nodes with their states and data, which is spread evenly."""
        engine, pool = self.engine, self._pool
        step = pool.step_at(now_s)
        serving = pool.active(now_s).nodes
        bytes_per_node = GB * engine.data_gb * engine.replication / max(1, len(serving))
        nodes = []
        for node in pool.alive:
            joining, leaving = node.join_s > now_s, now_s < node.stop_s < math.inf and not node.died
            if joining or node in serving:
                nodes.append(
                    StoreNode(
                        address=f"node-{node.number}",
                        state=NodeState.JOINING
                        if joining
                        else NodeState.DECOMMISSIONING
                        if leaving
                        else NodeState.ACTIVE,
                        data_bytes=0.0 if joining else bytes_per_node,
                        disk_free_bytes=DISK_BYTES,
                        streams=int(joining or leaving),
                        cleanups=int(step is not None and step.kind is StepKind.CLEANUP),
                    )
                )
        return Topology(
            nodes=tuple(nodes),
            replication_factor=engine.replication,
            steps_left=abs(pool.requested - len(pool.working(now_s))),
        )

    def work(self, now_s: float) -> PipelineRows:
        """The current request counts."""
        offered = self._inflow.rows_by(now_s)
        return PipelineRows(
            processed=self._processed,
            waiting=max(0.0, offered - self._processed - self._failed),
            failed=self._failed,
        )

    def processed(self) -> Curve:
        """Answered requests at each second."""
        rows = np.asarray(self._processed_rows)
        return Curve(np.arange(len(rows), dtype=np.float64), rows)

    def lost(self, arrived: Curve, /) -> Curve:
        """Requests that timed out, at the time they did."""
        del arrived
        return Curve.of(self._failed_at)
