"""Observes a Cassandra cluster: gossip and virtual tables through the driver, CPU and disks through a probe.

Requests, pending tasks, streams, cleanups and repairs are read from each active node, less often than gossip, because
these queries are requests too. A value that cannot be read is missing, not zero.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec
from msgspec.structs import replace

from ebbflow.core.clock import Clock, wait_until
from ebbflow.core.metrics import Metric
from ebbflow.core.readings import Reading
from ebbflow.core.topology import NodeState, StoreNode, Topology
from ebbflow.errors import TargetError
from ebbflow.targets.cassandra.connection import Connection, Row
from ebbflow.targets.cassandra.gossip import Gossip, Host, Membership
from ebbflow.targets.cassandra.host_command import HostCommand

log = logging.getLogger(__name__)

DETAILS_EVERY_S = 5.0
PROBE_EVERY_S = 15.0
_ENDED = ("success", "failure")
_NODE_QUERIES = {
    "pools": "SELECT pending_tasks FROM system_views.thread_pools",
    "streams": "SELECT status FROM system_views.streaming",
    "tasks": "SELECT kind FROM system_views.sstable_tasks",
    "repairs": "SELECT completed FROM system_views.repairs",
    "reads": "SELECT keyspace_name, count FROM system_views.coordinator_read_latency",
    "writes": "SELECT keyspace_name, count FROM system_views.coordinator_write_latency",
    "usage": "SELECT keyspace_name, mebibytes FROM system_views.disk_usage",
}
_SYSTEM = "system"
"""Keyspaces that begin so are Cassandra's own."""


class ClientWindow(msgspec.Struct, frozen=True, kw_only=True):
    """What clients saw since they were last asked."""

    offered_per_s: float
    answered_per_s: float
    response_mean_s: float | None = None
    response_p95_s: float | None = None
    response_p99_s: float | None = None
    """The three are None if nothing was answered."""


class Clients(Protocol):
    """Measures requests where they are made, such as the load generator."""

    def take(self) -> ClientWindow | None:
        """What happened since the last call; None if nothing is known yet."""
        ...


class HostSample(msgspec.Struct, frozen=True, kw_only=True):
    """What a probe measured on a host; None where it could not."""

    cpu_share: float | None = None
    """Share of the cores of the host in use since the last sample."""
    disk_free_bytes: float | None = None


class HostProbe(Protocol):
    """Measures what Cassandra does not report."""

    def sample(self, host: str) -> HostSample:
        """Measure one host."""
        ...


class CommandProbe:
    """Runs commands on hosts: ``df -Pk FOLDER`` for the free space, ``cat /proc/stat`` for the CPU."""

    def __init__(self, *, disk: HostCommand | None, cpu: HostCommand | None) -> None:
        self._disk, self._cpu = disk, cpu
        self._ticks: dict[str, tuple[float, float]] = {}

    def sample(self, host: str) -> HostSample:
        """Run both commands."""
        return HostSample(
            disk_free_bytes=None if self._disk is None else free_bytes(self._disk.run(host)),
            cpu_share=None if self._cpu is None else self._cpu_share(host, self._cpu.run(host)),
        )

    def _cpu_share(self, host: str, text: str) -> float | None:
        busy, total = cpu_ticks(text)
        before = self._ticks.get(host)
        self._ticks[host] = (busy, total)
        if before is None or total <= before[1]:
            return None
        return (busy - before[0]) / (total - before[1])


def free_bytes(df: str) -> float:
    """The free space in the output of ``df -Pk``.

    >>> free_bytes("Filesystem 1024-blocks Used Available Capacity Mounted on\\n/dev/vda 1000 400 600 40% /data\\n")
    614400.0
    """
    try:
        return 1024.0 * float(df.strip().splitlines()[-1].split()[3])
    except (IndexError, ValueError):
        raise TargetError(f"this is not the output of 'df -Pk': {df.strip()[:80]!r}") from None


def cpu_ticks(stat: str) -> tuple[float, float]:
    """Busy and total ticks in ``/proc/stat``; waiting for disks is not busy.

    >>> cpu_ticks("cpu  100 0 50 800 50 0 0 0 0 0\\ncpu0 1 2 3\\n")
    (150.0, 1000.0)
    """
    try:
        ticks = [float(word) for word in stat.split("\n", 1)[0].split()[1:9]]
        return sum(ticks) - ticks[3] - ticks[4], sum(ticks)
    except (IndexError, ValueError):
        raise TargetError(f"this is not the text of /proc/stat: {stat.strip()[:80]!r}") from None


class Monitor:
    """Observes one cluster."""

    def __init__(
        self,
        connection: Connection,
        hosts: Sequence[Host],
        clock: Clock,
        *,
        name: str,
        probe: HostProbe | None = None,
        clients: Clients | None = None,
    ) -> None:
        self._connection = connection
        self._members = Membership(hosts)
        self._clock = clock
        self._name = name
        self._probe = probe
        self._clients = clients
        self._details: dict[str, StoreNode] = {}
        self._details_s = float("-inf")
        self._samples: dict[str, HostSample] = {}
        self._samples_s = float("-inf")
        self._sampled: set[str] = set()
        """Hosts that were probed last, whether or not they answered."""
        self._counts: dict[str, tuple[float, float]] = {}

    def poll(self) -> tuple[Topology, list[Reading]]:
        """The nodes now, and what was measured since the last call. Raises ``TargetError`` if no node answers."""
        now_s = self._clock.now_s()
        rows = self._connection.query("SELECT * FROM system_views.gossip_info")
        nodes = self._members.update(now_s, map(Gossip.of_row, rows))
        serving = [node for node in nodes if node.state is NodeState.ACTIVE and node.up]
        readings: list[Reading] = []
        if now_s - self._samples_s >= PROBE_EVERY_S or {n.address for n in serving} - self._sampled:
            self._samples_s = now_s
            self._take_samples(now_s, serving, readings)
        if now_s - self._details_s >= DETAILS_EVERY_S:
            self._details_s = now_s
            self._take_details(now_s, nodes, serving, readings)
        elif self._clients is not None:
            self._client_readings(now_s, readings)
        topology = Topology(
            nodes=tuple(self._with_details(node) for node in nodes),
            replication_factor=self._connection.replication_factor,
        )
        return topology, readings

    def settle(self, within_s: float = 15.0) -> Topology:
        """Observe until all active nodes are up, or the time is over. At first none is: no heartbeat advanced yet."""
        seen: list[Topology] = []

        def all_up() -> bool:
            seen[:] = [self.poll()[0]]
            return bool(seen[0].active) and all(node.up for node in seen[0].active)

        wait_until(all_up, self._clock, within_s=within_s, every_s=0.5)
        return seen[0]

    def _with_details(self, node: StoreNode) -> StoreNode:
        known, sample = self._details.get(node.address), self._samples.get(node.address)
        if known is not None and node.state in (NodeState.ACTIVE, NodeState.DECOMMISSIONING):
            node = replace(
                node,
                streams=known.streams,
                cleanups=known.cleanups,
                repairs=known.repairs,
                data_bytes=known.data_bytes if known.data_bytes is not None else node.data_bytes,
            )
        return replace(node, disk_free_bytes=sample.disk_free_bytes) if sample is not None else node

    def _take_samples(self, now_s: float, serving: Sequence[StoreNode], readings: list[Reading]) -> None:
        if self._probe is None:
            return
        self._samples, self._sampled = {}, {node.address for node in serving}
        for node in serving:
            try:
                sample = self._probe.sample(node.address)
            except TargetError as error:
                log.warning("no CPU and disk of %s: %s", node.address, error)
                continue
            self._samples[node.address] = sample
            if sample.cpu_share is not None:
                readings.append(Reading(now_s, node.address, Metric.NODE_CPU, sample.cpu_share))

    def _take_details(
        self, now_s: float, nodes: Sequence[StoreNode], serving: Sequence[StoreNode], readings: list[Reading]
    ) -> None:
        self._details = {}
        rates, times_s = [], []
        for node in serving:
            asked_s = time.perf_counter()
            try:
                self._connection.query("SELECT key FROM system.local", host=node.address)
                times_s.append(time.perf_counter() - asked_s)
                rows = self._connection.query_each(_NODE_QUERIES, node.address)
            except TargetError as error:
                log.info("no details of %s: %s", node.address, error)
                continue
            self._details[node.address] = detailed(node, rows)
            pending = float(sum(row["pending_tasks"] for row in rows["pools"]))
            readings.append(Reading(now_s, node.address, Metric.PENDING_TASKS, pending))
            readings.append(
                Reading(now_s, node.address, Metric.STREAMS, float(self._details[node.address].streams))
            )
            rate = self._rate(now_s, node.address, rows)
            if rate is not None:
                rates.append(rate)
                readings.append(Reading(now_s, node.address, Metric.NODE_REQUESTS, rate))
        factor, stored = self._connection.replication_factor, []
        for node in nodes:
            data = (self._details.get(node.address) or node).data_bytes
            if data is not None and node.state is not NodeState.INACTIVE:
                readings.append(Reading(now_s, node.address, Metric.NODE_DATA, data))
                stored += [data] if node.state is NodeState.ACTIVE else []
        if len(stored) == sum(node.state is NodeState.ACTIVE for node in nodes) > 0:
            readings.append(Reading(now_s, self._name, Metric.DATA_SIZE, sum(stored) / factor))
        if self._clients is not None:
            self._client_readings(now_s, readings)
            return
        if rates and len(rates) == len(serving):
            # Nobody says how many requests were offered; those that were answered are the best estimate.
            readings.append(Reading(now_s, self._name, Metric.ARRIVAL_RATE, sum(rates)))
            readings.append(Reading(now_s, self._name, Metric.THROUGHPUT, sum(rates)))
        if times_s:
            readings.append(Reading(now_s, self._name, Metric.RESPONSE_TIME, sum(times_s) / len(times_s)))

    def _client_readings(self, now_s: float, readings: list[Reading]) -> None:
        window = self._clients.take() if self._clients is not None else None
        if window is None:
            return
        readings.append(Reading(now_s, self._name, Metric.ARRIVAL_RATE, window.offered_per_s))
        readings.append(Reading(now_s, self._name, Metric.THROUGHPUT, window.answered_per_s))
        for metric, value in (
            (Metric.RESPONSE_TIME, window.response_mean_s),
            (Metric.RESPONSE_TIME_P95, window.response_p95_s),
            (Metric.RESPONSE_TIME_P99, window.response_p99_s),
        ):
            if value is not None:
                readings.append(Reading(now_s, self._name, metric, value))

    def _rate(self, now_s: float, address: str, rows: Mapping[str, Sequence[Row]]) -> float | None:
        count = float(_total(rows["reads"], "count") + _total(rows["writes"], "count"))
        before = self._counts.get(address)
        self._counts[address] = (now_s, count)
        if before is None or now_s <= before[0] or count < before[1]:  # restarted: it counts from 0
            return None
        return (count - before[1]) / (now_s - before[0])


def detailed(node: StoreNode, rows: Mapping[str, Sequence[Row]]) -> StoreNode:
    """A node with what its virtual tables say."""
    kinds = [str(row["kind"]).lower() for row in rows["tasks"]]
    stored = 2.0**20 * _total(rows["usage"], "mebibytes")
    return replace(
        node,
        streams=sum(str(row["status"]).lower() not in _ENDED for row in rows["streams"]),
        cleanups=kinds.count("cleanup"),
        repairs=sum(not row["completed"] for row in rows["repairs"]) + kinds.count("validation"),
        data_bytes=max(stored, node.data_bytes or 0.0),
    )


def _total(rows: Sequence[Row], column: str) -> int:
    """Sum of a column over the user's keyspaces."""
    return sum(int(row[column]) for row in rows if not str(row["keyspace_name"]).startswith(_SYSTEM))
