"""Work of a known rate, acted out: a step whose every instance takes so many rows a second, and waits.

Waiting instead of computing, so that instances scale truly on a machine with few cores. What Spark itself needs
between two batches is counted as part of the work: rows are done when a server of that rate would have done
them, whatever batches they come in.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

MOST_CREDIT_S = 2.0
"""So far may the acted-out work lag behind the clock and still be made up for. More is a query that was stopped."""


def done_s(arrived_s: Sequence[float], rate_per_s: float, free_s: float) -> float:
    """When a server that is free from ``free_s`` on has done rows that arrived then and then.

    ``f_i = max(f_{i-1}, a_i) + 1/μ`` (Lindley's recursion): it does one row after the other, none before it came.

    >>> done_s([10.0, 10.1, 17.0], rate_per_s=4.0, free_s=9.0), done_s([10.0, 10.1], rate_per_s=4.0, free_s=12.0)
    (17.25, 12.5)
    """
    for came_s in sorted(arrived_s):
        free_s = max(free_s, came_s) + 1.0 / rate_per_s
    return free_s


class Instance:
    """One instance of a paced operator, whichever process it runs in next: when it is free stands in a file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first = Instance(Path(folder) / "0", 5.0).take([10.0, 10.1], now_s=10.0)
    ...     second = Instance(Path(folder) / "0", 5.0).take([10.2], now_s=11.0)
    ...     stopped = Instance(Path(folder) / "0", 5.0).take([10.3], now_s=20.0)
    >>> [round(wait_s, 1) for wait_s in (first, second, stopped)]
    [0.4, 0.0, 0.0]
    """

    def __init__(self, mark: Path, rate_per_s: float) -> None:
        self._mark, self._rate_per_s = mark, rate_per_s

    def take(self, arrived_s: Sequence[float], now_s: float) -> float:
        """How long to wait until these rows are done."""
        free_s = max(self._free_s(now_s), now_s - MOST_CREDIT_S)
        ready_s = done_s(arrived_s, self._rate_per_s, free_s)
        self._mark.write_text(repr(ready_s))
        return max(0.0, ready_s - now_s)

    def _free_s(self, now_s: float) -> float:
        return float(self._mark.read_text()) if self._mark.exists() else now_s
