"""Maps a function over a list on a Spark cluster, for sweeps of thousands of runs.

The package itself travels with the job, so the cluster needs no Ebbflow. Its executors do need a Python of the same
minor version with numpy, pyarrow and msgspec.
"""

from __future__ import annotations

import threading
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.accumulators import AccumulatorParam

import ebbflow
from ebbflow.core.folders import scratch_folder
from ebbflow.errors import TargetError
from ebbflow.targets.spark.launch.session import deferred_signals, use_loopback, use_this_python

if TYPE_CHECKING:
    from pyspark import Broadcast, SparkContext

Task = Callable[[Any, Any], Any]
OnDone = Callable[[int, Any], None]
ClusterMap = Callable[[Task, Sequence[Any], OnDone], list[Any]]

_POLL_EVERY_S = 0.2


@contextmanager
def cluster_map(shared: Any, *, master: str) -> Iterator[ClusterMap]:
    """Computes ``task(shared, item)`` for each item on a cluster; results are in the order of the items.

    Executors run this Python; set PYSPARK_PYTHON if theirs is elsewhere.
    """
    use_this_python()
    if master.startswith("local"):
        use_loopback()
    from pyspark import SparkConf, SparkContext

    if SparkContext._active_spark_context is not None:
        raise TargetError("a Spark session is open in this process, and a sweep opens its own; stop it first")
    settings = {
        "spark.ui.showConsoleProgress": "false",
        "spark.ui.enabled": "false",
        "spark.task.maxFailures": "2",
    }
    conf = SparkConf().setMaster(master).setAppName("ebbflow sweep").setAll(list(settings.items()))
    with deferred_signals():
        SparkContext._ensure_initialized(conf=conf)  # starts the JVM
    context = SparkContext(conf=conf)
    context.setLogLevel("OFF")
    with scratch_folder("sweep") as folder:
        try:
            context.addPyFile(str(_zipped_package(Path(folder))))
            broadcast = context.broadcast(shared)
            yield lambda task, items, on_done: _map(context, broadcast, task, items, on_done)
        finally:
            context.stop()  # before the folder is removed: executors fetch the package from it


def _zipped_package(folder: Path) -> Path:
    """The package as a zip file that Python imports from."""
    home = Path(ebbflow.__file__).parent
    archive = folder / "ebbflow-package.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        for file in sorted(home.rglob("*.py")):
            out.write(file, Path("ebbflow") / file.relative_to(home))
    return archive


class _Lists(AccumulatorParam[list[Any]]):
    """Concatenates the lists that tasks send."""

    def zero(self, value: list[Any]) -> list[Any]:
        return value[:0]

    def addInPlace(self, value1: list[Any], value2: list[Any]) -> list[Any]:  # noqa: N802
        value1.extend(value2)
        return value1


def _map(
    context: SparkContext, shared: Broadcast[Any], task: Task, items: Sequence[Any], on_done: OnDone
) -> list[Any]:
    """Run one partition per item, so that long and short ones balance.

    Each result comes through an accumulator when its task ends, so an interrupt loses no finished result.
    """
    collected = context.accumulator([], _Lists())

    def run(numbered: tuple[int, Any]) -> None:
        index, item = numbered
        collected.add([(index, task(shared.value, item))])

    errors: list[Exception] = []

    def run_job() -> None:
        try:
            context.parallelize(list(enumerate(items)), len(items)).foreach(run)
        except Exception as error:
            errors.append(error)

    job = threading.Thread(target=run_job, daemon=True)
    job.start()
    results: dict[int, Any] = {}
    received, running = 0, True
    while running:
        job.join(_POLL_EVERY_S)
        running = job.is_alive()  # before reading, so that the last read sees every result
        new = collected.value[received:]
        received += len(new)
        for index, result in new:
            if index not in results:  # Spark may run a task twice
                results[index] = result
                on_done(index, result)
    if errors:
        raise TargetError(f"the sweep failed on the cluster: {_cause(errors[0])}") from errors[0]
    if len(results) < len(items):
        raise TargetError(f"{len(items) - len(results)} of {len(items)} results were lost")
    return [results[index] for index in range(len(items))]


def _cause(error: Exception) -> str:
    """The line of Spark's message that names a missing Python module, else its first line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    imports = [line for line in lines if line.startswith(("ModuleNotFoundError", "ImportError"))]
    return (imports or lines or [type(error).__name__])[0]
