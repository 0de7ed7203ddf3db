"""Counters of the host, and the processes of each Spark executor on it.

An executor is a JVM whose command line names its application and executor id. Its process tree is that JVM and all its
descendants: the Python daemon and the workers it forks. An update lists all process ids and examines only new ones.
Other processes are examined again, at growing intervals: a forked process soon becomes another program, and ids are
reused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import psutil

from ebbflow.core.metrics import Metric
from ebbflow.monitoring.messages import is_name

LOOPBACK_INTERFACES = ("lo", "lo0")


def memory_share() -> float:
    """Share of the memory that is not available: 1 − available ÷ total."""
    memory = psutil.virtual_memory()
    return 1.0 - memory.available / memory.total


def cpu_seconds() -> tuple[float, float]:
    """(busy, total) seconds of all cores since boot. Waiting for a disk is not busy."""
    times = psutil.cpu_times()
    # User time includes the time of guests.
    whole = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
    return whole - times.idle - getattr(times, "iowait", 0.0), whole


def disk_bytes() -> tuple[float, float] | None:
    """Bytes (read, written) by all disks; None if unknown."""
    disks = psutil.disk_io_counters()
    return None if disks is None else (float(disks.read_bytes), float(disks.write_bytes))


def network_bytes() -> tuple[float, float] | None:
    """Bytes (received, sent) on all interfaces but loopback."""
    interfaces = [
        counted
        for name, counted in psutil.net_io_counters(pernic=True).items()
        if name not in LOOPBACK_INTERFACES
    ]
    if not interfaces:
        return None
    return float(sum(i.bytes_recv for i in interfaces)), float(sum(i.bytes_sent for i in interfaces))


class HostProbe:
    """Measures the metrics of the host; rates are since the last measurement."""

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
        """The wanted metrics that are available. A rate needs two successive measurements."""
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
                    if new >= old:  # smaller if a disk or an interface was removed
                        values[metric] = (new - old) / (now_s - then[0])
        return [(metric, value) for metric, value in values.items() if metric in wanted]


MAIN_CLASSES = frozenset(
    {
        "org.apache.spark.executor.CoarseGrainedExecutorBackend",
        "org.apache.spark.executor.YarnCoarseGrainedExecutorBackend",
        "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend",
    }
)
FIRST_AGAIN_S = 1.0
LONGEST_AGAIN_S = 60.0
"""First and longest interval after which a process is examined again; it doubles in between."""


class System(Protocol):
    """The processes of an operating system."""

    def pids(self) -> list[int]:
        """Ids of all processes."""
        ...

    def process(self, pid: int) -> psutil.Process:
        """One process; raises ``psutil.Error`` if it has ended."""
        ...


class ThisHost:
    """The processes of this host."""

    def pids(self) -> list[int]:
        """Ids of all processes."""
        return psutil.pids()

    def process(self, pid: int) -> psutil.Process:
        """One process."""
        return psutil.Process(pid)


class Executor(NamedTuple):
    """An executor, as its command line describes it."""

    application: str
    id: str
    cores: int


def executor_of(arguments: Sequence[str]) -> Executor | None:
    """Parse the command line of an executor; None if it is not one.

    The class must be an argument of its own: a shell that starts an executor has it inside a longer argument.

    >>> main = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
    >>> executor_of(["java", main, "--executor-id", "4", "--cores", "2", "--app-id", "app-7"])
    Executor(application='app-7', id='4', cores=2)
    >>> executor_of(["bash", "-c", f"java {main} --executor-id 4 --app-id app-7"]) is None
    True
    """
    at = next((i for i, argument in enumerate(arguments) if argument in MAIN_CLASSES), None)
    if at is None:
        return None
    options = dict(zip(arguments[at + 1 :: 2], arguments[at + 2 :: 2], strict=False))
    application, executor_id = options.get("--app-id", ""), options.get("--executor-id", "")
    cores = options.get("--cores", "1")
    if not (is_name(application) and is_name(executor_id)):
        return None
    return Executor(application, executor_id, max(1, int(cores)) if cores.isdecimal() else 1)


@dataclass
class Tree:
    """The processes of an executor: its JVM and all descendants."""

    executor: Executor
    root: psutil.Process
    members: dict[int, psutil.Process] = field(default_factory=dict)


class ExecutorTrees:
    """Tracks the executors of this host."""

    def __init__(self, system: System, elapsed_s: Callable[[], float]) -> None:
        self._system = system
        self._elapsed_s = elapsed_s
        self._trees: dict[int, Tree] = {}
        self._tree_of: dict[int, Tree] = {}
        self._others: dict[int, tuple[float, float]] = {}
        """Other processes, by id: when to examine them again, and the interval."""
        self._checked_s = elapsed_s()

    def update(self) -> list[Tree]:
        """Find the executors that run now."""
        now_s = self._elapsed_s()
        present = set(self._system.pids())
        for pid in self._tree_of.keys() - present:
            self.forget(pid)
        if now_s - self._checked_s >= LONGEST_AGAIN_S:
            self._checked_s = now_s
            for process in [m for tree in self._trees.values() for m in tree.members.values()]:
                if not process.is_running():  # its id was reused
                    self.forget(process.pid)
        self._others = {pid: due for pid, due in self._others.items() if pid in present}
        unknown = {
            pid
            for pid in present - self._tree_of.keys()
            if pid not in self._others or now_s >= self._others[pid][0]
        }
        while unknown:
            self._examine(unknown.pop(), unknown, now_s)
        return list(self._trees.values())

    def forget(self, pid: int) -> None:
        """Remove an ended process; with the JVM of an executor, its whole tree."""
        tree = self._tree_of.pop(pid, None)
        if tree is None:
            return
        tree.members.pop(pid, None)
        if pid == tree.root.pid:
            del self._trees[pid]
            for member in tree.members:
                self._tree_of.pop(member, None)

    def _examine(self, pid: int, unknown: set[int], now_s: float) -> None:
        tree = None
        try:
            process = self._system.process(pid)
            parent = process.ppid()
            if parent in unknown:  # parents first: a fork still shows its parent's command line
                unknown.discard(parent)
                self._examine(parent, unknown, now_s)
            tree = self._tree_of.get(parent)
            if tree is None:
                executor = executor_of(process.cmdline())
                if executor is not None:
                    tree = self._trees[pid] = Tree(executor, process)
        except psutil.Error:
            pass  # ended meanwhile, or not accessible
        if tree is None:
            _, gap_s = self._others.get(pid, (0.0, FIRST_AGAIN_S / 2))
            gap_s = min(2 * gap_s, LONGEST_AGAIN_S)
            self._others[pid] = (now_s + gap_s, gap_s)
        else:
            self._others.pop(pid, None)
            tree.members[pid] = process
            self._tree_of[pid] = tree
