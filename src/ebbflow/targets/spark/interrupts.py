"""Ctrl-C while a thread talks to the JVM."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def held_interrupts() -> Iterator[Callable[[], bool]]:
    """Ctrl-C is noted and not raised; who waits asks, and ends what it began.

    PySpark's own handler speaks to the JVM in the middle of what the thread is saying to it, and Py4J prints where.
    """
    noted: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = signal.signal(signal.SIGINT, lambda number, _: noted.append(number))
    try:
        yield lambda: bool(noted)
    finally:
        signal.signal(signal.SIGINT, before)
