"""What the host itself has used so far: counters whose differences are the host's metrics."""

from __future__ import annotations

from collections.abc import Callable

import psutil

from ebbflow.core.metrics import Metric

LOOPBACK_INTERFACES = ("lo", "lo0")


def memory_share() -> float:
    """Part of the memory that cannot be had any more: 1 − available ÷ total."""
    memory = psutil.virtual_memory()
    return 1.0 - memory.available / memory.total


def cpu_seconds() -> tuple[float, float]:
    """(busy, all) seconds of all cores since boot. Waiting for a disk is not work."""
    times = psutil.cpu_times()
    # Time of guests is counted in that of user already.
    whole = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
    return whole - times.idle - getattr(times, "iowait", 0.0), whole


def disk_bytes() -> tuple[float, float] | None:
    """(read, written) by all disks; None where they are not shown."""
    disks = psutil.disk_io_counters()
    return None if disks is None else (float(disks.read_bytes), float(disks.write_bytes))


def network_bytes() -> tuple[float, float] | None:
    """(in, out) of all interfaces but loopback."""
    interfaces = [
        counted
        for name, counted in psutil.net_io_counters(pernic=True).items()
        if name not in LOOPBACK_INTERFACES
    ]
    if not interfaces:
        return None
    return float(sum(i.bytes_recv for i in interfaces)), float(sum(i.bytes_sent for i in interfaces))


class HostProbe:
    """Rates of the host since the last time they were asked for."""

    def __init__(
        self,
        elapsed_s: Callable[[], float],
        *,
        cpu: Callable[[], tuple[float, float]] = cpu_seconds,
        memory: Callable[[], float] = memory_share,
        disk: Callable[[], tuple[float, float] | None] = disk_bytes,
        network: Callable[[], tuple[float, float] | None] = network_bytes,
    ) -> None:
        self._elapsed_s = elapsed_s
        self._cpu, self._memory, self._disk, self._network = cpu, memory, disk, network
        self._before: dict[str, tuple[float, float, float]] = {}

    def measure(self, wanted: frozenset[Metric]) -> list[tuple[Metric, float]]:
        """Those wanted that can be told; a rate needs two looks, one right after the other."""
        before, self._before = self._before, {}
        values: dict[Metric, float] = {}
        if Metric.HOST_MEMORY in wanted:
            values[Metric.HOST_MEMORY] = self._memory()
        if Metric.HOST_CPU in wanted:
            busy_s, whole_s = self._cpu()
            self._before["cpu"] = (0.0, busy_s, whole_s)
            if "cpu" in before and whole_s > before["cpu"][2]:
                share = (busy_s - before["cpu"][1]) / (whole_s - before["cpu"][2])
                values[Metric.HOST_CPU] = min(1.0, max(0.0, share))
        for name, read, pair in (
            ("disk", self._disk, (Metric.HOST_DISK_READ, Metric.HOST_DISK_WRITE)),
            ("network", self._network, (Metric.HOST_NETWORK_IN, Metric.HOST_NETWORK_OUT)),
        ):
            counted = read() if wanted.intersection(pair) else None
            if counted is None:
                continue
            now_s = self._elapsed_s()
            self._before[name] = (now_s, *counted)
            then = before.get(name)
            if then is not None and now_s > then[0]:
                for metric, new, old in zip(pair, counted, then[1:], strict=True):
                    if new >= old:  # a disk or an interface that went away takes its count with it
                        values[metric] = (new - old) / (now_s - then[0])
        return [(metric, value) for metric, value in values.items() if metric in wanted]
