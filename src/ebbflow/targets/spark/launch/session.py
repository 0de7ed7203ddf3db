"""Sessions that Ebbflow opens itself, for the demo and the benchmarks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ebbflow.targets.spark.launch.interrupts import deferred_signals
from ebbflow.targets.spark.launch.settings import use_loopback, use_this_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def local_session(
    master: str, settings: Mapping[str, str], *, name: str, elsewhere: bool = False, apart: bool = False
) -> Iterator[SparkSession]:
    """A session on a cluster of this machine, closed at the end; one that is ``elsewhere`` must reach the driver, and
    has a Python of its own. ``apart``: Ctrl-C at the terminal reaches this process alone, not the Python workers, which
    would print where they were."""
    if not elsewhere:
        use_this_python()
        use_loopback()
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    # The JVM first, the settings after: it would get them on its command line, secrets included.
    with deferred_signals():
        if apart and SparkContext._gateway is None:
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
