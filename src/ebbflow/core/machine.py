"""The machine that this process runs on."""

from __future__ import annotations

import os


def cores() -> int:
    """Number of cores this process may use.

    >>> cores() >= 1
    True
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
