"""The simulated datastore behind the profiler's port."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, replace

import numpy as np

from ebbflow.core.clock import ManualClock
from ebbflow.core.metrics import Metric
from ebbflow.errors import TargetError
from ebbflow.profiling.datastore import DatastoreProfile, LoadStep, ResizeTime
from ebbflow.profiling.datastore.profile import SIMULATOR
from ebbflow.targets.simulator.datastore import DataNodes, Datastore
from ebbflow.targets.simulator.target import SimulatorTarget
from ebbflow.workloads import parse_load
from ebbflow.workloads.arrival_times import Arrivals


@dataclass
class SimulatedStore:
    """A simulated cluster to be profiled; the same values give the same profile.

    ``made_from``: the profile whose times give the nodes' times for any amount of data.
    """

    made_from: DatastoreProfile
    noise: float = 0.01
    """Of the capacity and of the times."""
    seed: int = 1

    def __post_init__(self) -> None:
        self.nodes = self.made_from.sizes[0]
        self.data_gb = self.made_from.data_gb
        self._calls = 0

    @property
    def cluster(self) -> str:
        """Name of the cluster."""
        return self.made_from.cluster

    @property
    def target(self) -> str:
        """``simulator``."""
        return SIMULATOR

    @property
    def replication(self) -> int:
        """The replication factor."""
        return self.made_from.replication

    def fill(self, data_gb: float) -> None:
        """Change the data at once."""
        self.data_gb = data_gb

    def offer(self, rate_per_s: float, seconds: float) -> LoadStep:
        """Offer a rate for some time, from an idle cluster."""
        target, clock = self._start(rate_per_s)
        name, step = target.pipelines[0], max(2, math.ceil(seconds))
        means: list[float] = []
        answered = 0.0
        for _ in range(step):
            clock.advance(1.0)
            readings = {
                reading.metric: reading.value
                for reading in target.observe().readings
                if reading.subject == name
            }
            answered += readings[Metric.THROUGHPUT]
            if Metric.RESPONSE_TIME in readings:
                means.append(readings[Metric.RESPONSE_TIME])
        if not means:
            raise TargetError(f"no request was answered at {rate_per_s:g} requests/s")
        half = len(means) // 2
        mean_s = statistics.fmean(means)
        growth = statistics.fmean(means[half:]) / statistics.fmean(means[:half]) if half else 1.0
        return LoadStep(
            offered_per_s=rate_per_s,
            throughput_per_s=answered / step,
            response_mean_s=mean_s,
            response_deviation_s=statistics.pstdev(means),
            response_p95_s=readings[Metric.RESPONSE_TIME_P95] / readings[Metric.RESPONSE_TIME] * mean_s,
            response_p99_s=readings[Metric.RESPONSE_TIME_P99] / readings[Metric.RESPONSE_TIME] * mean_s,
            response_growth=growth,
        )

    def resize(self, nodes: int, rate_per_s: float) -> ResizeTime:
        """Add or remove one node under a constant load."""
        before, self.nodes = self.nodes, nodes
        self._calls += 1
        engine, kind = self._engine(), self._kind()
        pool = kind.pool(before, np.random.default_rng((self.seed, self._calls)))
        pool.set_nodes(0.0, nodes, busy=True)
        pool.advance(math.inf)
        change, *after = pool.steps
        busy = rate_per_s / engine.capacity_rows_per_s(kind, before)[before]
        quiet_s = engine.response_s(before, busy)
        return ResizeTime(
            before=before,
            after=nodes,
            data_gb=self.data_gb,
            seconds=change.until_s - change.from_s,
            cleanup_s=sum(step.until_s - step.from_s for step in after),
            response_factor=engine.response_s(before, busy / (1 - engine.streaming_share)) / quiet_s,
        )

    def _engine(self) -> Datastore:
        return replace(Datastore.of(self.made_from, noise=self.noise), data_gb=self.data_gb)

    def _kind(self) -> DataNodes:
        return DataNodes.of(self.made_from, data_gb=self.data_gb, noise=self.noise)

    def _start(self, rate_per_s: float) -> tuple[SimulatorTarget, ManualClock]:
        self._calls += 1
        clock = ManualClock(0.0)
        load = Arrivals(parse_load(f"constant({rate_per_s:.3f})"))
        seed = 1000 * self.seed + self._calls
        return SimulatorTarget(
            self._engine(), self._kind(), load, clock, seed, initial_nodes=self.nodes
        ), clock
