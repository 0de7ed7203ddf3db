"""Catches code that reads the clock or does I/O where it must not."""

from __future__ import annotations

import builtins
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

FORBIDDEN = (
    (time, "time"),
    (time, "time_ns"),
    (time, "monotonic"),
    (time, "perf_counter"),
    (time, "sleep"),
    (builtins, "open"),
    (socket, "socket"),
)


@contextmanager
def no_side_effects() -> Iterator[None]:
    """Make calls of the clock, ``open`` and ``socket`` fail.

    >>> with no_side_effects():
    ...     time.time()
    Traceback (most recent call last):
        ...
    AssertionError: a decision called time.time(); it may use only the snapshot
    """
    with ExitStack() as stack:
        for module, name in FORBIDDEN:
            stack.enter_context(patch.object(module, name, _refuse(f"{module.__name__}.{name}")))
        yield


def _refuse(name: str) -> Callable[..., None]:
    def call(*_: object, **__: object) -> None:
        raise AssertionError(f"a decision called {name}(); it may use only the snapshot")

    return call
