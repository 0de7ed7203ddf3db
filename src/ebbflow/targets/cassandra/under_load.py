"""A Cassandra cluster under load, as a profile is learned on it (``profiling.datastore.StoreUnderLoad``)."""

from __future__ import annotations

import itertools
import threading
from dataclasses import replace
from pathlib import Path

from ebbflow.core.clock import Clock
from ebbflow.core.layout import Layout
from ebbflow.core.metrics import Metric
from ebbflow.errors import TargetError
from ebbflow.profiling.datastore.profile import LoadStep, ResizeTime
from ebbflow.targets.cassandra.actuator import ResizeTimes
from ebbflow.targets.cassandra.cluster import OpenCluster
from ebbflow.targets.cassandra.load.generator import LoadGenerator, RequestMix
from ebbflow.targets.cassandra.load.rows import COLUMNS, WIDTH, fill, key_of
from ebbflow.targets.cassandra.target import CassandraTarget

ROW_BYTES = 20 + WIDTH * len(COLUMNS)
"""Text of a row: a key of 20 characters and its columns."""
RESIZE_WITHIN_S = 3600.0
_LONG_S = 7200.0


class CassandraUnderLoad:
    """Offers loads to a cluster and resizes it. ``version``: of the rows that ``fill`` writes."""

    target = "cassandra"

    def __init__(
        self,
        cluster: OpenCluster,
        clock: Clock,
        folder: Path,
        *,
        keyspace: str,
        mix: RequestMix,
        processes: int = 2,
        seed: int = 1,
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._folder = folder
        self._keyspace = keyspace
        self._mix = mix
        self._processes = processes
        self._seed = seed
        self._rows = mix.keys
        self._numbers = itertools.count()

    @property
    def cluster(self) -> str:
        """Name of the cluster."""
        return self._cluster.name

    @property
    def replication(self) -> int:
        """The replication factor."""
        return self._cluster.connection.replication_factor

    @property
    def nodes(self) -> int:
        """Active nodes."""
        return len(self._cluster.monitor().settle().active)

    @property
    def data_gb(self) -> float:
        """Text of all rows; files are larger by what Cassandra adds and smaller by compression."""
        return self._rows * ROW_BYTES / 1e9

    def offer(self, rate_per_s: float, seconds: float) -> LoadStep:
        """Offer a rate in an open loop; returns when its answers are there."""
        with self._generator(rate_per_s, seconds) as generator:
            result = generator.wait()
        if not result.answered:
            raise TargetError(f"none of {result.offered} requests was answered")
        return LoadStep(
            offered_per_s=result.offered_per_s,
            throughput_per_s=result.answered_per_s,
            response_mean_s=result.response_mean_s,
            response_deviation_s=result.response_deviation_s,
            response_p95_s=result.response_p95_s,
            response_p99_s=result.response_p99_s,
            response_growth=result.response_growth,
        )

    def resize(self, nodes: int, rate_per_s: float) -> ResizeTime:
        """Add or remove one node under load; returns when the cleanup is done, too."""
        before = self.nodes
        journal = self._folder / f"profile-{next(self._numbers)}.json"
        with self._generator(rate_per_s, _LONG_S) as generator:
            target = self._cluster.target(journal, times=ResizeTimes(cleanup_after_s=0.0))
            try:
                target.observe()
                quiet_s = self._mean_s(generator, 5.0)
                target.apply(Layout.of(nodes))
                times: dict[Metric, float] = {}
                started_s = self._clock.now_s()
                busy_s: list[float] = []
                while not self._is_done(target, nodes, times):
                    if self._clock.now_s() - started_s > RESIZE_WITHIN_S:
                        raise TargetError(f"{before} → {nodes} nodes took more than {RESIZE_WITHIN_S:g} s")
                    if (mean_s := self._mean_s(generator, 1.0)) is not None:
                        busy_s.append(mean_s)
                total_s = self._clock.now_s() - started_s
            finally:
                target.close()
        changed_s = times.get(Metric.JOIN_TIME) or times.get(Metric.LEAVE_TIME) or total_s
        return ResizeTime(
            before=before,
            after=nodes,
            data_gb=self.data_gb,
            seconds=changed_s,
            cleanup_s=max(0.0, total_s - changed_s) if nodes > before else 0.0,
            response_factor=sum(busy_s) / len(busy_s) / quiet_s if busy_s and quiet_s else 1.0,
        )

    def _is_done(self, target: CassandraTarget, nodes: int, times: dict[Metric, float]) -> bool:
        seen = target.observe()
        for reading in seen.readings:
            if reading.metric in (Metric.JOIN_TIME, Metric.LEAVE_TIME):
                times[reading.metric] = reading.value
        assert seen.topology is not None
        clean = not any(node.needs_cleanup or node.cleanups for node in seen.topology.active)
        return seen.layout.main_nodes == nodes and not seen.under_way and clean and target.is_idle

    def _mean_s(self, generator: LoadGenerator, seconds: float) -> float | None:
        """Mean response time of the next seconds."""
        self._clock.wait(seconds, threading.Event())
        window = generator.take()
        return None if window is None else window.response_mean_s

    def fill(self, data_gb: float) -> None:
        """Write or delete rows until the text of all rows has this size."""
        wanted = max(1, round(data_gb * 1e9 / ROW_BYTES))
        version = int(self._clock.now_s() * 1e6)
        connection = self._cluster.connection
        if wanted > self._rows:
            fill(connection, self._keyspace, range(self._rows, wanted), version)
        else:
            delete = connection.session.prepare(f"DELETE FROM {self._keyspace}.rows WHERE key = ?")  # noqa: S608
            for index in range(wanted, self._rows):
                connection.session.execute(delete, (key_of(index),))
        self._rows = wanted

    def _generator(self, rate_per_s: float, seconds: float) -> LoadGenerator:
        return LoadGenerator(
            self._cluster.contact,
            f"constant({rate_per_s:.6g})",
            duration_s=seconds,
            keyspace=self._keyspace,
            mix=replace(self._mix, keys=self._rows),
            processes=self._processes,
            seed=self._seed + next(self._numbers),
        )
