"""How many more executors the cluster has room for, where it can be asked."""

from __future__ import annotations

import urllib.parse
from typing import Any

from ebbflow.targets.spark.driver import Driver
from ebbflow.targets.spark.launch.local_cluster import read_master_state
from ebbflow.targets.spark.observe.monitor import SparkMonitor

_MB = {"k": 1 / 1024, "m": 1.0, "g": 1024.0, "t": 1024.0 * 1024}


class ClusterRoom:
    """Asks a standalone master for its free cores and memory.

    The master's web address is not known to an application, but each executor's log link leads to its
    worker, and the worker's page names the master's. Other cluster managers (YARN, Kubernetes) keep
    their room to themselves: there everything counts as possible until it is overdue.
    """

    def __init__(self, driver: Driver, monitor: SparkMonitor, master_web_url: str | None = None) -> None:
        self._monitor = monitor
        self._standalone = driver.master.startswith("spark://")
        self._web_url = master_web_url
        self._set_cores = int(driver.setting("spark.executor.cores", "0"))
        self._memory_mb = memory_mb(driver.setting("spark.executor.memory", "1g"))
        self._cores_max = int(driver.setting("spark.cores.max", "0"))

    def fits(self, executors: int, held: int) -> tuple[int, str]:
        """How many of this many more fit beside those held, and why not all. Held are those that are there, also
        while they leave, and those asked for that have not come: they all count against ``spark.cores.max``.
        """
        if executors <= 0 or not self._standalone:
            return max(0, executors), ""
        if self._cores_max:
            most = self._cores_max // self._cores
            allowed = max(0, most - held)
            if allowed < executors:
                return allowed, f"spark.cores.max allows {most} executors"
        try:
            state = read_master_state(self._find_web_url(), timeout_s=1.0)
        except (OSError, ValueError, KeyError):
            return executors, ""  # nobody to ask; what does not come will be overdue
        room = sum(self._room_on(worker) for worker in state["workers"] if worker["state"] == "ALIVE")
        if room >= executors:
            return executors, ""
        cores = sum(int(w["coresfree"]) for w in state["workers"] if w["state"] == "ALIVE")
        return room, (
            f"the cluster has room for {room} more: {cores} core(s) free, an executor takes {self._cores} "
            f"and {self._memory_mb:.0f} MB"
        )

    @property
    def _cores(self) -> int:
        """Cores of an executor; unset, a standalone master gives each all the cores of its worker."""
        return self._set_cores or max((e.total_cores for e in self._monitor.present), default=1) or 1

    def _room_on(self, worker: dict[str, Any]) -> int:
        by_cores = int(worker["coresfree"]) // self._cores
        by_memory = int(worker["memoryfree"] // self._memory_mb) if self._memory_mb else by_cores
        return int(min(by_cores, by_memory))

    def _find_web_url(self) -> str:
        if self._web_url is None:
            for executor in self._monitor.present:
                link = executor.executor_logs.get("stdout", "")
                if link:
                    worker = urllib.parse.urlsplit(link)
                    state = read_master_state(f"{worker.scheme}://{worker.netloc}", timeout_s=1.0)
                    self._web_url = str(state["masterwebuiurl"])
                    break
            else:
                raise OSError("no executor leads to the master's web page")
        return self._web_url


def memory_mb(text: str) -> float:
    """Megabytes in a memory setting of Spark.

    >>> memory_mb("2g"), memory_mb("640m"), memory_mb("512")
    (2048.0, 640.0, 512.0)
    """
    number = text.strip().lower().rstrip("ib")
    if number and number[-1] in _MB:
        return float(number[:-1]) * _MB[number[-1]]
    return float(number)
