"""The Spark settings under which executors start few and then change on request.

On a standalone master the only way to start with fewer executors than there are cores is Spark's
dynamic allocation. It is switched on for that alone and put to sleep: its backlog timeout never comes
and executors never count as idle, so it adds none and removes none, and Ebbflow has the wheel.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping

from ebbflow.errors import InputError
from ebbflow.targets.spark.launch.class_archive import using_option

_NEVER = "3650d"


def scaling_settings(*, initial_executors: int, master: str) -> dict[str, str]:
    """Settings for a session that Ebbflow scales from its first executor on.

    Decommissioning is on so that a leaving executor finishes its tasks. Moving its blocks is off: who is let go holds
    only shuffle files nobody reads again. State lives in the checkpoint, and who holds cached data stays.

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
            "spark.dynamicAllocation.enabled": "false",  # a cluster's defaults may have it on
            "spark.executor.instances": str(initial_executors),
        }
    return settings


def own_allocation_is_awake(setting: Callable[[str, str], str]) -> bool:
    """Whether Spark's own dynamic allocation is on and not put to sleep.

    >>> own_allocation_is_awake(lambda key, default: scaling_settings(
    ...     initial_executors=1, master="spark://h:1").get(key, default))
    False
    """
    enabled = setting("spark.dynamicAllocation.enabled", "false") == "true"
    return enabled and setting("spark.dynamicAllocation.schedulerBacklogTimeout", "1s") != _NEVER


def dynamic_allocation_settings(fewest: int, most: int) -> dict[str, str]:
    """Spark's own dynamic allocation with its defaults, shuffle tracking, and bounds: the peer."""
    return {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.initialExecutors": str(fewest),
        "spark.dynamicAllocation.minExecutors": str(fewest),
        "spark.dynamicAllocation.maxExecutors": str(most),
        # Spark's defaults, said outright: a driver's JVM may remember other ones from an earlier session.
        "spark.dynamicAllocation.schedulerBacklogTimeout": "1s",
        "spark.dynamicAllocation.sustainedSchedulerBacklogTimeout": "1s",
        "spark.dynamicAllocation.executorIdleTimeout": "60s",
        "spark.decommission.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def local_settings(
    *, cores_per_executor: int = 1, memory: str = "640m", java_option: str | None = None
) -> dict[str, str]:
    """Settings that make executors cheap to start on one machine.

    Serial GC and the first compiler tier alone make a JVM start faster whose work is waiting or Python,
    and so does the class archive where there is one.
    """
    archive = using_option() if java_option is None else java_option
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.killEnabled": "false",  # the page has no password
        "spark.executor.cores": str(cores_per_executor),
        "spark.executor.memory": memory,
        "spark.executor.extraJavaOptions": f"-XX:+UseSerialGC -XX:TieredStopAtLevel=1 {archive}".strip(),
    }


def use_loopback() -> None:
    """Let the driver's ports be seen by this machine alone, as those of the local cluster are."""
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"


def use_this_python() -> None:
    """Let executors run the Python that runs us, unless the user chose one. For executors on this machine."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)


def use_python_of(settings: Mapping[str, str]) -> None:
    """Let executors run the Python that a setting names, as under ``spark-submit``.

    PySpark itself looks at ``PYSPARK_PYTHON`` alone; it is ``spark-submit`` that puts the setting there.
    """
    named = settings.get("spark.pyspark.python")
    if named:
        os.environ["PYSPARK_PYTHON"] = named


def cores_of_an_executor(settings: Mapping[str, str]) -> int:
    """Cores that each executor will take, 1 where nobody says.

    >>> cores_of_an_executor({"spark.executor.cores": "4"}), cores_of_an_executor({})
    (4, 1)
    """
    text = settings.get("spark.executor.cores", "1").strip()
    if not (text.isascii() and text.isdecimal()) or int(text) < 1:
        raise InputError(f"--conf spark.executor.cores={text} is not a number of cores; write 1 or more")
    return int(text)
