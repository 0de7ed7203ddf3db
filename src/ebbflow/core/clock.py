"""Time comes by constructor, so that the same loop runs on wall time and on a test's time."""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """Seconds since the epoch, and a way to wait that can be cut short."""

    def now_s(self) -> float:
        """The time, in seconds since the epoch."""
        ...

    def wait(self, seconds: float, stop: threading.Event) -> bool:
        """Let ``seconds`` pass, or less if ``stop`` is set. True if it was set."""
        ...


class SystemClock:
    """The machine's clock."""

    def now_s(self) -> float:
        """The time, in seconds since the epoch."""
        return time.time()

    def wait(self, seconds: float, stop: threading.Event) -> bool:
        """Wait on the event, at most ``seconds``."""
        return stop.wait(max(0.0, seconds))


class ManualClock:
    """A clock that stands still until told to move: for tests and the simulator.

    >>> clock = ManualClock(100.0)
    >>> clock.wait(5.0, threading.Event())
    False
    >>> clock.now_s()
    105.0
    """

    def __init__(self, now_s: float = 0.0) -> None:
        self._now_s = now_s

    def now_s(self) -> float:
        """The time it was set to."""
        return self._now_s

    def advance(self, seconds: float) -> None:
        """Move forward."""
        self._now_s += seconds

    def wait(self, seconds: float, stop: threading.Event) -> bool:
        """Move forward by ``seconds`` at once, unless ``stop`` is set."""
        if stop.is_set():
            return True
        self.advance(max(0.0, seconds))
        return False
