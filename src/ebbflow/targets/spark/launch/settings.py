"""Spark settings of an application that Ebbflow scales.

On a standalone master, only dynamic allocation lets an application start with fewer executors than the cluster has
cores for. So it is switched on but disarmed: its backlog and idle timeouts never expire, it adds and removes no
executor, and Ebbflow alone changes their number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ebbflow.errors import InputError

_NEVER = "3650d"


def scaling_settings(*, initial_executors: int, master: str) -> dict[str, str]:
    """Settings of a session that Ebbflow scales from its first executor on.

    Decommissioning is on, so that an executor finishes its tasks before it leaves. Migration of its blocks is off: the
    executors that Ebbflow removes hold only shuffle files that are not read again. State is in the checkpoint, and
    executors with cached data are not removed.

    >>> scaling_settings(initial_executors=2, master="spark://host:7077")["spark.dynamicAllocation.enabled"]
    'true'
    >>> scaling_settings(initial_executors=2, master="yarn")["spark.dynamicAllocation.enabled"]
    'false'
    """
    settings = {
        "spark.decommission.enabled": "true",
        "spark.storage.decommission.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.speculation": "false",
    }
    if master.startswith("spark://"):
        count = str(initial_executors)
        settings |= {
            "spark.dynamicAllocation.enabled": "true",
            "spark.dynamicAllocation.initialExecutors": count,
            "spark.dynamicAllocation.minExecutors": count,
            "spark.dynamicAllocation.shuffleTracking.enabled": "true",
            "spark.dynamicAllocation.schedulerBacklogTimeout": _NEVER,
            "spark.dynamicAllocation.sustainedSchedulerBacklogTimeout": _NEVER,
            "spark.dynamicAllocation.executorIdleTimeout": _NEVER,
            "spark.dynamicAllocation.cachedExecutorIdleTimeout": _NEVER,
            "spark.dynamicAllocation.shuffleTracking.timeout": _NEVER,
        }
    else:
        settings |= {
            "spark.dynamicAllocation.enabled": "false",  # a cluster's defaults may enable it
            "spark.executor.instances": str(initial_executors),
        }
    return settings


def is_dynamic_allocation_active(setting: Callable[[str, str], str]) -> bool:
    """Whether Spark's dynamic allocation is on and not disarmed.

    >>> is_dynamic_allocation_active(lambda key, default: scaling_settings(
    ...     initial_executors=1, master="spark://h:1").get(key, default))
    False
    """
    enabled = setting("spark.dynamicAllocation.enabled", "false") == "true"
    return enabled and setting("spark.dynamicAllocation.schedulerBacklogTimeout", "1s") != _NEVER


def dynamic_allocation_settings(min_executors: int, max_executors: int) -> dict[str, str]:
    """Spark's own dynamic allocation with its default timeouts and shuffle tracking, to compare with."""
    return {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.initialExecutors": str(min_executors),
        "spark.dynamicAllocation.minExecutors": str(min_executors),
        "spark.dynamicAllocation.maxExecutors": str(max_executors),
        # Defaults, but set explicitly: a driver's JVM may remember the values of an earlier session.
        "spark.dynamicAllocation.schedulerBacklogTimeout": "1s",
        "spark.dynamicAllocation.sustainedSchedulerBacklogTimeout": "1s",
        "spark.dynamicAllocation.executorIdleTimeout": "60s",
        "spark.decommission.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def cores_per_executor(settings: Mapping[str, str]) -> int:
    """Cores of each executor, 1 by default.

    >>> cores_per_executor({"spark.executor.cores": "4"}), cores_per_executor({})
    (4, 1)
    """
    text = settings.get("spark.executor.cores", "1").strip()
    if not (text.isascii() and text.isdecimal()) or int(text) < 1:
        raise InputError(f"--conf spark.executor.cores={text} is not a number of cores; write 1 or more")
    return int(text)
