"""How many more executors a cluster has capacity for, if its manager can be asked."""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ebbflow.targets.spark.driver import Driver
    from ebbflow.targets.spark.observe.monitor import SparkMonitor

_MB = {"k": 1 / 1024, "m": 1.0, "g": 1024.0, "t": 1024.0 * 1024}


class ExecutorFit(NamedTuple):
    """How many executors fit, and what limits them if not all do."""

    executors: int
    limit: str


class ClusterCapacity:
    """Reads free cores and memory from a standalone master.

    An application does not know its master's web address, but the log link of each executor leads to its worker, and
    the worker's page names the master's. YARN and Kubernetes do not report free capacity: there every request counts
    as feasible until it is overdue.
    """

    def __init__(self, driver: Driver, monitor: SparkMonitor, master_web_url: str | None = None) -> None:
        self._monitor = monitor
        self._standalone = driver.master.startswith("spark://")
        self._web_url = master_web_url
        self._set_cores = int(driver.setting("spark.executor.cores", "0"))
        self._memory_mb = memory_mb(driver.setting("spark.executor.memory", "1g"))
        self._cores_max = int(driver.setting("spark.cores.max", "0"))

    def fit(self, executors: int, held: int) -> ExecutorFit:
        """How many of ``executors`` more fit beside those ``held``.

        Live, leaving and requested executors are all held: they count against ``spark.cores.max``.
        """
        if executors <= 0 or not self._standalone:
            return ExecutorFit(max(0, executors), "")
        if self._cores_max:
            most = self._cores_max // self._cores
            allowed = max(0, most - held)
            if allowed < executors:
                return ExecutorFit(allowed, f"spark.cores.max allows {most} executors")
        try:
            state = read_master_state(self._find_web_url(), timeout_s=1.0)
        except (OSError, ValueError, KeyError):
            return ExecutorFit(executors, "")  # unknown; requests that are not met become overdue
        workers = [worker for worker in state["workers"] if worker["state"] == "ALIVE"]
        free = sum(self._free_on(worker) for worker in workers)
        if free >= executors:
            return ExecutorFit(executors, "")
        cores = sum(int(worker["coresfree"]) for worker in workers)
        return ExecutorFit(
            free,
            f"the cluster has capacity for {free} more: {cores} free core{'s' * (cores != 1)}, "
            f"an executor takes {self._cores} and {self._memory_mb:.0f} MB",
        )

    @property
    def _cores(self) -> int:
        """Cores of an executor; by default a standalone master gives it all cores of a worker."""
        return self._set_cores or max((e.total_cores for e in self._monitor.live_executors), default=1) or 1

    def _free_on(self, worker: dict[str, Any]) -> int:
        by_cores = int(worker["coresfree"]) // self._cores
        by_memory = int(worker["memoryfree"] // self._memory_mb) if self._memory_mb else by_cores
        return int(min(by_cores, by_memory))

    def _find_web_url(self) -> str:
        if self._web_url is None:
            for executor in self._monitor.live_executors:
                link = executor.executor_logs.get("stdout", "")
                if link:
                    worker = urllib.parse.urlsplit(link)
                    state = read_master_state(f"{worker.scheme}://{worker.netloc}", timeout_s=1.0)
                    self._web_url = str(state["masterwebuiurl"])
                    break
            else:
                raise OSError("no executor links to the master's web page")
        return self._web_url


def read_master_state(web_url: str, timeout_s: float = 2.0) -> dict[str, Any]:
    """The JSON state that a standalone master or worker serves at ``/json/``."""
    if not web_url.startswith(("http://", "https://")):
        raise ValueError(f"not a web address: {web_url}")
    with urllib.request.urlopen(f"{web_url}/json/", timeout=timeout_s) as answer:  # noqa: S310
        state: dict[str, Any] = json.load(answer)
    return state


def memory_mb(text: str) -> float:
    """Megabytes in a memory setting of Spark.

    >>> memory_mb("2g"), memory_mb("640m"), memory_mb("512")
    (2048.0, 640.0, 512.0)
    """
    number = text.strip().lower().rstrip("ib")
    if number and number[-1] in _MB:
        return float(number[:-1]) * _MB[number[-1]]
    return float(number)
