"""Sampling: what each executor and the host used since the last sample.

Only wanted metrics are measured. Unavailable values (another user's disk counters, a JVM without counters, a rate at
the first sample) are left out, not reported as 0.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import psutil

from ebbflow.core.metrics import Metric
from ebbflow.monitoring.java_heap import JavaHeap
from ebbflow.monitoring.messages import HOST_METRICS, NODE_METRICS, Topic
from ebbflow.monitoring.processes import ExecutorTrees, HostProbe, System, ThisHost, Tree
from ebbflow.monitoring.tcp_bytes import NetworkProbe

_DISK = {Metric.NODE_DISK_READ, Metric.NODE_DISK_WRITE}
_HEAP = {Metric.NODE_HEAP, Metric.NODE_HEAP_SHARE}
_NETWORK = {Metric.NODE_NETWORK_IN, Metric.NODE_NETWORK_OUT}
RETRY_HEAP_EVERY_S = 10.0
"""Interval between attempts to find the counters of a JVM."""


class SampledValue(NamedTuple):
    """A value of an executor or of the host."""

    topic: Topic
    subject: str
    value: float


class _Usage(NamedTuple):
    cpu_s: float
    read: int
    written: int


@dataclass
class _Heap:
    reader: JavaHeap | None
    tried_s: float


class HostSampler:
    """Samples the executors and the host."""

    def __init__(
        self,
        *,
        host: str,
        elapsed_s: Callable[[], float],
        system: System | None = None,
        host_probe: HostProbe | None = None,
        network_probe: NetworkProbe | None = None,
        java_folder: Path = Path("/tmp"),  # noqa: S108
        host_cores: int | None = None,
    ) -> None:
        """``elapsed_s`` is a monotonic clock, for rates."""
        self._host = host
        self._elapsed_s = elapsed_s
        self._trees = ExecutorTrees(system or ThisHost(), elapsed_s)
        self._host_probe = host_probe or HostProbe(elapsed_s)
        self._network = network_probe or NetworkProbe(elapsed_s)
        self._java_folder = java_folder
        self._host_cores = host_cores or psutil.cpu_count() or 1
        self._before: dict[int, tuple[float, dict[int, _Usage]]] = {}
        self._heaps: dict[int, _Heap] = {}

    def sample(self, wanted: Callable[[Topic], bool], *, nodes: bool = True) -> list[SampledValue]:
        """Measure the wanted metrics; with ``nodes=False`` none of executors."""
        measured: list[SampledValue] = []
        host = frozenset(metric for metric in HOST_METRICS if wanted(Topic(metric, "")))
        for metric, value in self._host_probe.measure(host):
            measured.append(SampledValue(Topic(metric, ""), self._host, value))
        trees = self._trees.update() if nodes else []
        metrics = {
            application: frozenset(m for m in NODE_METRICS if wanted(Topic(m, application)))
            for application in {tree.executor.application for tree in trees}
        }
        before, self._before = self._before, {}
        network = self._measure_network(trees, metrics)
        for tree in trees:
            application = tree.executor.application
            values = self._measure(tree, metrics[application], before.get(tree.root.pid))
            if tree.root.pid in network:
                values[Metric.NODE_NETWORK_IN], values[Metric.NODE_NETWORK_OUT] = network[tree.root.pid]
            measured += [
                SampledValue(Topic(metric, application), tree.executor.id, value)
                for metric, value in values.items()
                if metric in metrics[application]
            ]
        for gone in self._heaps.keys() - {tree.root.pid for tree in trees}:
            self._close_heap(gone)
        return measured

    def close(self) -> None:
        """Close open files."""
        for pid in list(self._heaps):
            self._close_heap(pid)

    # -- one executor --------------------------------------------------------------------------

    def _measure(
        self, tree: Tree, metrics: frozenset[Metric], before: tuple[float, dict[int, _Usage]] | None
    ) -> dict[Metric, float]:
        values: dict[Metric, float] = {}
        cpu, disk, memory = Metric.NODE_CPU in metrics, bool(metrics & _DISK), Metric.NODE_MEMORY in metrics
        if cpu or disk or memory:
            now_s, usage, resident, disk_known = self._usage_of(tree, disk=disk, memory=memory)
            if usage:
                if memory:
                    values[Metric.NODE_MEMORY] = float(resident)
                self._before[tree.root.pid] = (now_s, usage)
                if before is not None and now_s > before[0]:
                    values |= self._rates(tree, now_s - before[0], before[1], usage, disk=disk and disk_known)
        if metrics & _HEAP:
            heap = self._heap(tree)
            if heap is not None:
                values[Metric.NODE_HEAP], values[Metric.NODE_HEAP_SHARE] = heap
        return values

    def _usage_of(
        self, tree: Tree, *, disk: bool, memory: bool
    ) -> tuple[float, dict[int, _Usage], int, bool]:
        """(time, usage by process, resident memory, whether disk counters of all processes are known).

        ``oneshot`` would not help: the three come from different files.
        """
        now_s = self._elapsed_s()
        usage: dict[int, _Usage] = {}
        resident, disk_known = 0, True
        for pid, process in list(tree.members.items()):
            try:
                times = process.cpu_times()
                resident += process.memory_info().rss if memory else 0
                read = written = 0
                if disk and disk_known:
                    try:
                        counted = process.io_counters()
                        read, written = counted.read_bytes, counted.write_bytes
                    except (psutil.AccessDenied, NotImplementedError, AttributeError):
                        disk_known = False  # a partial sum would be wrong
                usage[pid] = _Usage(times.user + times.system, read, written)
            except psutil.Error:
                self._trees.forget(pid)
                if pid == tree.root.pid:
                    return now_s, {}, 0, False
        return now_s, usage, resident, disk_known

    def _rates(
        self,
        tree: Tree,
        span_s: float,
        before: dict[int, _Usage],
        usage: dict[int, _Usage],
        *,
        disk: bool,
    ) -> dict[Metric, float]:
        """Rates over all processes. A new process used everything since the last sample."""
        nothing = _Usage(0.0, 0, 0)
        pairs = [(now, before.get(pid, nothing)) for pid, now in usage.items()]
        if any(now.cpu_s < then.cpu_s for now, then in pairs):
            return {}  # an id was reused
        cpu_s = min(sum(now.cpu_s - then.cpu_s for now, then in pairs), span_s * self._host_cores)
        values = {Metric.NODE_CPU: cpu_s / (span_s * min(tree.executor.cores, self._host_cores))}
        if disk:
            read = sum(now.read - then.read for now, then in pairs)
            written = sum(now.written - then.written for now, then in pairs)
            values[Metric.NODE_DISK_READ] = max(0, read) / span_s
            values[Metric.NODE_DISK_WRITE] = max(0, written) / span_s
        return values

    def _measure_network(
        self, trees: list[Tree], metrics: dict[str, frozenset[Metric]]
    ) -> dict[int, tuple[float, float]]:
        if any(each & _NETWORK for each in metrics.values()):
            return self._network.measure(trees)
        self._network.forget()
        return {}

    # -- heap ----------------------------------------------------------------------------------

    def _heap(self, tree: Tree) -> tuple[float, float] | None:
        pid, now_s = tree.root.pid, self._elapsed_s()
        held = self._heaps.get(pid)
        if held is None or (held.reader is None and now_s - held.tried_s >= RETRY_HEAP_EVERY_S):
            reader = None
            with contextlib.suppress(psutil.Error, KeyError):
                reader = JavaHeap.open(pid, tree.root.uids().real, tree.root.username(), self._java_folder)
            held = self._heaps[pid] = _Heap(reader, now_s)
        heap = held.reader.read() if held.reader is not None else None
        return None if heap is None else (heap.used, heap.used / heap.most)

    def _close_heap(self, pid: int) -> None:
        held = self._heaps.pop(pid)
        if held.reader is not None:
            held.reader.close()
