"""Ctrl-C and polite kills while the JVM is started or talked to."""

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


@contextmanager
def deferred_signals() -> Iterator[None]:
    """Ctrl-C, a polite kill and a hang-up wait until the block has ended; the first of them is raised then.

    For the launch of a driver's JVM. Where that is interrupted, PySpark removes the folder in which the JVM is to say
    how it is reached; the JVM fails at it, does not end, and is left behind. Once it is up it ends with us.
    """
    if threading.current_thread() is not threading.main_thread():  # signals are not raised here
        yield
        return
    noted: list[int] = []
    before = {
        number: handler
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        # One that is ignored stays so, here and in the JVM; one that Python did not set it could not set again.
        if (handler := signal.getsignal(number)) not in (signal.SIG_IGN, None)
    }
    for number in before:
        signal.signal(number, lambda caught, _: noted.append(caught))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if noted:
            signal.raise_signal(noted[0])
