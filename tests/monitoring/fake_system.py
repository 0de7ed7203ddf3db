"""A host whose processes are plain objects."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

import psutil

MAIN_CLASS = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


def executor_line(number: int | str = 1, *, cores: int = 1, application: str = "app-1") -> list[str]:
    return [
        "java", "-Xmx640M", MAIN_CLASS, "--driver-url", "spark://x", "--executor-id", str(number),
        "--hostname", "127.0.0.1", "--cores", str(cores), "--app-id", application, "--resourceProfileId", "0",
    ]  # fmt: skip


@dataclass
class FakeProcess:
    """As much of ``psutil.Process`` as the sampler uses."""

    pid: int
    parent: int = 1
    line: list[str] = field(default_factory=lambda: ["sleep"])
    cpu_s: float = 0.0
    rss: int = 0
    read: int = 0
    written: int = 0
    hides_disk: bool = False
    hidden: bool = False
    gone: bool = False
    examined: int = 0

    def _check_running(self) -> None:
        if self.gone:
            raise psutil.NoSuchProcess(self.pid)

    def ppid(self) -> int:
        self._check_running()
        self.examined += 1
        return self.parent

    def cmdline(self) -> list[str]:
        self._check_running()
        if self.hidden:
            raise psutil.AccessDenied(self.pid)
        return self.line

    def is_running(self) -> bool:
        return not self.gone

    def cpu_times(self) -> SimpleNamespace:
        self._check_running()
        return SimpleNamespace(user=0.75 * self.cpu_s, system=0.25 * self.cpu_s)

    def memory_info(self) -> SimpleNamespace:
        self._check_running()
        return SimpleNamespace(rss=self.rss)

    def io_counters(self) -> SimpleNamespace:
        self._check_running()
        if self.hides_disk:
            raise psutil.AccessDenied(self.pid)
        return SimpleNamespace(read_bytes=self.read, write_bytes=self.written)

    def uids(self) -> SimpleNamespace:
        return SimpleNamespace(real=0)

    def username(self) -> str:
        return "no-such-user"


class FakeSystem:
    """The processes that run now."""

    def __init__(self, *processes: FakeProcess) -> None:
        self.table = {process.pid: process for process in processes}

    def add(self, process: FakeProcess) -> FakeProcess:
        self.table[process.pid] = process
        return process

    def end(self, pid: int) -> None:
        self.table.pop(pid).gone = True

    def pids(self) -> list[int]:
        return list(self.table)

    def process(self, pid: int) -> FakeProcess:
        if pid not in self.table:
            raise psutil.NoSuchProcess(pid)
        return self.table[pid]


class Ticker:
    """Time that a test sets."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s
