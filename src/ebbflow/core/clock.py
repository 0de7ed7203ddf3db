"""Clocks. Code gets one by constructor, so that the same loop runs on wall time, simulated time and in tests."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """A source of time that can also wait."""

    def now_s(self) -> float:
        """The wall time, in seconds since the epoch. It may be set back or leap forward."""
        ...

    def monotonic_s(self) -> float:
        """Seconds since some moment, for deadlines and durations: they pass evenly even if the wall time steps."""
        ...

    def wait(self, seconds: float, stop: threading.Event) -> bool:
        """Wait ``seconds``, or until ``stop`` is set. True if it is set."""
        ...


class SystemClock:
    """The machine's clock."""

    def now_s(self) -> float:
        """The time, in seconds since the epoch."""
        return time.time()

    def monotonic_s(self) -> float:
        """Seconds since some moment."""
        return time.monotonic()

    def wait(self, seconds: float, stop: threading.Event) -> bool:
        """Wait on the event, at most ``seconds``."""
        return stop.wait(max(0.0, seconds))


class ManualClock:
    """A clock that moves only when advanced, for tests and the simulator.

    >>> clock = ManualClock(100.0)
    >>> clock.wait(5.0, threading.Event())
    False
    >>> clock.now_s()
    105.0
    >>> clock.set(50.0)
    >>> clock.now_s(), clock.monotonic_s()
    (50.0, 5.0)
    """

    def __init__(self, now_s: float = 0.0) -> None:
        self._now_s = now_s
        self._passed_s = 0.0

    def now_s(self) -> float:
        """The current time of this clock."""
        return self._now_s

    def monotonic_s(self) -> float:
        """Seconds passed since the start."""
        return self._passed_s

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._now_s += seconds
        self._passed_s += seconds

    def set(self, now_s: float) -> None:
        """Set the wall time, as an administrator or a time server may; no time passes."""
        self._now_s = now_s

    def wait(self, seconds: float, stop: threading.Event) -> bool:
        """Move forward by ``seconds`` at once, unless ``stop`` is set."""
        if stop.is_set():
            return True
        self.advance(max(0.0, seconds))
        return False


def wait_until(
    condition: Callable[[], bool],
    clock: Clock,
    *,
    within_s: float,
    every_s: float = 0.02,
    stop: threading.Event | None = None,
) -> bool:
    """Poll a condition, at least once, until it holds. False if the time passed first or ``stop`` was set.

    >>> clock = ManualClock(100.0)
    >>> wait_until(lambda: clock.now_s() >= 102.0, clock, within_s=5.0, every_s=0.5), clock.now_s()
    (True, 102.0)
    >>> wait_until(lambda: False, clock, within_s=3.0), round(clock.now_s(), 6)
    (False, 105.0)
    """
    stop = stop or threading.Event()
    deadline_s = clock.monotonic_s() + within_s
    while not stop.is_set():
        if condition():
            return True
        left_s = deadline_s - clock.monotonic_s()
        if left_s <= 0:
            return False
        clock.wait(min(every_s, left_s), stop)
    return False
