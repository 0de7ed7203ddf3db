"""The memory that the loop adds to a driver, and whether it stays flat over an hour (without waiting or Spark)."""

from __future__ import annotations

from benchmarks.driver_memory import with_the_loop_mb
from benchmarks.figures import Figure


def measure() -> list[Figure]:
    bare_mb, middle_mb, end_mb = with_the_loop_mb()
    return [
        Figure(what="driver's Python process with the loop", value=end_mb, unit="MB"),
        Figure(
            what="  more than with PySpark alone: imports, and an hour of cycles",
            value=end_mb - bare_mb,
            unit="MB",
            bar=100.0,
        ),
        Figure(what="  growth from minute 20 to minute 60", value=end_mb - middle_mb, unit="MB", bar=10.0),
    ]
