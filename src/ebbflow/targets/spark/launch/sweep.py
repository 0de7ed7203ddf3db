"""A list worked off by a Spark cluster: what a sweep of thousands of runs is.

The package itself travels with the job, so that a cluster needs no Ebbflow installed. Its executors do need a
Python of the same minor version, with numpy, pyarrow and msgspec.
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
from ebbflow.targets.spark.launch.interrupts import deferred_signals
from ebbflow.targets.spark.launch.settings import use_loopback, use_this_python

if TYPE_CHECKING:
    from pyspark import Broadcast, SparkContext

Task = Callable[[Any, Any], Any]
OnDone = Callable[[int, Any], None]
Work = Callable[[Task, Sequence[Any], OnDone], list[Any]]

_LOOK_EVERY_S = 0.2


class _Gathering(AccumulatorParam[list[Any]]):
    """Puts the lists that tasks send together."""

    def zero(self, value: list[Any]) -> list[Any]:
        return value[:0]

    def addInPlace(self, value1: list[Any], value2: list[Any]) -> list[Any]:  # noqa: N802
        value1.extend(value2)
        return value1


@contextmanager
def on_cluster(shared: Any, *, master: str) -> Iterator[Work]:
    """Works off lists on a cluster: ``task(shared, item)`` for each, answers in the order of the items.

    Executors run the Python that runs us; set PYSPARK_PYTHON where theirs is somewhere else.
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
        SparkContext._ensure_initialized(conf=conf)  # the JVM
    context = SparkContext(conf=conf)
    context.setLogLevel("OFF")
    with scratch_folder("sweep") as folder:
        try:
            context.addPyFile(str(packed(Path(folder))))
            sent = context.broadcast(shared)
            yield lambda task, items, on_done: _map(context, sent, task, items, on_done)
        finally:
            context.stop()  # before the folder goes: executors fetch the package from it


def packed(folder: Path) -> Path:
    """The package as an archive that Python imports from."""
    home = Path(ebbflow.__file__).parent
    archive = folder / "ebbflow-package.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        for file in sorted(home.rglob("*.py")):
            out.write(file, Path("ebbflow") / file.relative_to(home))
    return archive


def _map(
    context: SparkContext, sent: Broadcast[Any], task: Task, items: Sequence[Any], on_done: OnDone
) -> list[Any]:
    """One partition per item, so that long and short ones balance.

    Answers come by an accumulator, each with the end of its task: what is done is here when somebody interrupts.
    """
    gathered = context.accumulator([], _Gathering())

    def run(numbered: tuple[int, Any]) -> None:
        index, item = numbered
        gathered.add([(index, task(sent.value, item))])

    errors: list[Exception] = []

    def work() -> None:
        try:
            context.parallelize(list(enumerate(items)), len(items)).foreach(run)
        except Exception as error:
            errors.append(error)

    job = threading.Thread(target=work, daemon=True)
    job.start()
    answers: dict[int, Any] = {}
    told, running = 0, True
    while running:
        job.join(_LOOK_EVERY_S)
        running = job.is_alive()  # asked before the look, so that the last look sees all
        new = gathered.value[told:]
        told += len(new)
        for index, answer in new:
            if index not in answers:  # Spark may do a task twice
                answers[index] = answer
                on_done(index, answer)
    if errors:
        raise TargetError(f"the sweep failed on the cluster: {_first_line(errors[0])}") from errors[0]
    if len(answers) < len(items):
        raise TargetError(f"{len(items) - len(answers)} of {len(items)} answers were lost on their way here")
    return [answers[index] for index in range(len(items))]


def _first_line(error: Exception) -> str:
    """What matters of a long report of Spark's: the line in which Python says what is missing."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith(("ModuleNotFoundError", "ImportError"))]
    return (telling or lines or [type(error).__name__])[0]
