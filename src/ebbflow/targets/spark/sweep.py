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

import ebbflow
from ebbflow.core.scratch import scratch_folder
from ebbflow.errors import TargetError
from ebbflow.targets.spark.settings import use_loopback, use_this_python

if TYPE_CHECKING:
    from pyspark import Broadcast, SparkContext

Task = Callable[[Any, Any], Any]
Work = Callable[[Task, Sequence[Any], Callable[[], None]], list[Any]]

_LOOK_EVERY_S = 0.2


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
    context: SparkContext,
    sent: Broadcast[Any],
    task: Task,
    items: Sequence[Any],
    on_done: Callable[[], None],
) -> list[Any]:
    """One partition per item, so that long and short ones balance. Counts come by an accumulator."""
    counted = context.accumulator(0)

    def run(item: Any) -> Any:
        answer = task(sent.value, item)
        counted.add(1)
        return answer

    answers: list[Any] = []
    errors: list[Exception] = []

    def collect() -> None:
        try:
            answers.extend(context.parallelize(list(items), len(items)).map(run).collect())
        except Exception as error:
            errors.append(error)

    job = threading.Thread(target=collect, daemon=True)
    job.start()
    told = 0
    while job.is_alive():
        job.join(_LOOK_EVERY_S)
        # A task that Spark repeats counts twice; nobody is told of more than there are.
        for _ in range(told, min(counted.value, len(items))):
            on_done()
            told += 1
    if errors:
        raise TargetError(f"the sweep failed on the cluster: {_first_line(errors[0])}") from errors[0]
    for _ in range(told, len(items)):
        on_done()
    return answers


def _first_line(error: Exception) -> str:
    """What matters of a long report of Spark's: the line in which Python says what is missing."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith(("ModuleNotFoundError", "ImportError"))]
    return (telling or lines or [type(error).__name__])[0]
