"""Opens Spark sessions, and holds signals back while the driver's JVM is started or called."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def local_session(
    master: str, settings: Mapping[str, str], *, name: str, remote: bool = False, detached: bool = False
) -> Iterator[SparkSession]:
    """A session on a cluster of this machine, stopped at the end.

    ``remote``: the cluster is on other machines, so it must reach the driver and has its own Python. ``detached``:
    Ctrl-C at the terminal reaches this process only, not the Python workers, which would print tracebacks.
    """
    if not remote:
        use_this_python()
        use_loopback()
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    # Start the JVM before the settings are known: it would get them, with secrets, on its command line.
    with deferred_signals():
        if detached and SparkContext._gateway is None:
            launched = launch_gateway(popen_kwargs={"start_new_session": True})  # type: ignore[no-untyped-call]
            SparkContext._ensure_initialized(gateway=launched)
        else:
            SparkContext._ensure_initialized()
    builder: SparkSession.Builder = SparkSession.builder.master(master).appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    try:
        yield spark
    finally:
        spark.stop()


def use_loopback() -> None:
    """Bind the driver's ports to the loopback address, like those of the local cluster."""
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"


def use_this_python() -> None:
    """Let executors on this machine run this Python, unless the user chose one."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)


def use_python_of(settings: Mapping[str, str]) -> None:
    """Let executors run the Python of ``spark.pyspark.python``, as ``spark-submit`` does.

    PySpark itself reads ``PYSPARK_PYTHON`` only; ``spark-submit`` copies the setting there.
    """
    python = settings.get("spark.pyspark.python")
    if python:
        os.environ["PYSPARK_PYTHON"] = python


@contextmanager
def held_interrupts() -> Iterator[Callable[[], bool]]:
    """Hold Ctrl-C back; yields a function that says whether it was pressed.

    PySpark's own handler calls the JVM in the middle of another call of the same thread, and Py4J prints a traceback.
    """
    caught: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = signal.signal(signal.SIGINT, lambda number, _: caught.append(number))
    try:
        yield lambda: bool(caught)
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def deferred_signals() -> Iterator[None]:
    """Defer SIGINT, SIGTERM and SIGHUP to the end of the block; the first is raised then.

    For the start of a driver's JVM. If that is interrupted, PySpark removes the folder through which the JVM reports
    its port; the JVM fails, but does not end, and is left behind. Once it is up, it ends with this process.
    """
    if threading.current_thread() is not threading.main_thread():  # only the main thread gets signals
        yield
        return
    caught: list[int] = []
    before = {
        number: handler
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        # Ignored signals stay ignored, here and in the JVM. Handlers not set by Python (None) cannot be restored.
        if (handler := signal.getsignal(number)) not in (signal.SIG_IGN, None)
    }
    for number in before:
        signal.signal(number, lambda number, _: caught.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if caught:
            signal.raise_signal(caught[0])
