"""An operator with a known service rate that waits instead of computing.

Waiting lets instances scale even on a machine with few cores. The time that Spark needs between two batches counts as
part of the work: rows are done when a server of that rate would have done them, whatever batches they come in.

This module is sent to executors as code, so it imports nothing from Ebbflow.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

MAX_CREDIT_S = 2.0
"""An instance catches up with a delay of at most this long; a longer one means that the query was stopped."""


def done_s(arrived_s: Sequence[float], rate_per_s: float, free_s: float) -> float:
    """Return when a server that is free from ``free_s`` on has processed rows with these arrival times.

    ``f_i = max(f_{i-1}, a_i) + 1/μ`` (Lindley's recursion): one row after the other, none before it arrives.

    >>> done_s([10.0, 10.1, 17.0], rate_per_s=4.0, free_s=9.0), done_s([10.0, 10.1], rate_per_s=4.0, free_s=12.0)
    (17.25, 12.5)
    """
    for came_s in sorted(arrived_s):
        free_s = max(free_s, came_s) + 1.0 / rate_per_s
    return free_s


class PacedInstance:
    """One instance of a paced operator. A file holds when it is free, because each batch may run in another process.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first = PacedInstance(Path(folder) / "0", 5.0).wait_s([10.0, 10.1], now_s=10.0)
    ...     second = PacedInstance(Path(folder) / "0", 5.0).wait_s([10.2], now_s=11.0)
    ...     stopped = PacedInstance(Path(folder) / "0", 5.0).wait_s([10.3], now_s=20.0)
    >>> [round(wait_s, 1) for wait_s in (first, second, stopped)]
    [0.4, 0.0, 0.0]
    """

    def __init__(self, mark: Path, rate_per_s: float) -> None:
        self._mark, self._rate_per_s = mark, rate_per_s

    def wait_s(self, arrived_s: Sequence[float], now_s: float) -> float:
        """Take rows and return how long to wait until they are done."""
        free_s = float(self._mark.read_text()) if self._mark.exists() else now_s
        ready_s = done_s(arrived_s, self._rate_per_s, max(free_s, now_s - MAX_CREDIT_S))
        self._mark.write_text(repr(ready_s))
        return max(0.0, ready_s - now_s)
