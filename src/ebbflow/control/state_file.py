"""Keeps the state of a strategy in its file while the loop runs, so that a restarted job continues from it.

The loop's thread asks the strategy for its state, at most every ``SAVE_EVERY_S`` and after a cycle has been carried
out. A thread of its own writes the file, atomically and only if the state has changed: a slow disk delays no decision.
A write that fails is logged and tried again with the next state. Killed, a job loses at most the last ``SAVE_EVERY_S``.
"""

from __future__ import annotations

import logging
import threading
from pathlib import Path

from ebbflow.core.folders import replace_file
from ebbflow.core.ports import Strategy
from ebbflow.errors import InputError

log = logging.getLogger(__name__)

SAVE_EVERY_S = 30.0


class StateFile:
    """Writes the state of a strategy to a file. Call ``after_cycle`` from the loop, and ``close`` once it has ended."""

    def __init__(self, strategy: Strategy, path: Path, *, every_s: float = SAVE_EVERY_S) -> None:
        self._strategy, self._every_s = strategy, every_s
        self._path = path.absolute()  # a job may change its working directory
        self._asked_s = float("-inf")
        self._failed = False
        self._next: str | None = None
        self._closing = False
        self._wake = threading.Condition()
        self._thread = threading.Thread(target=self._write_all, name="ebbflow-state", daemon=True)
        self._thread.start()

    def after_cycle(self, now_s: float) -> None:
        """Hand the state over to be written, if it is time to."""
        if now_s - self._asked_s >= self._every_s:
            self._asked_s = now_s
            self._hand_over()

    def close(self, within_s: float = 10.0) -> None:
        """Write the last state and end."""
        self._hand_over()
        with self._wake:
            self._closing = True
            self._wake.notify()
        self._thread.join(within_s)

    def _hand_over(self) -> None:
        state = self._strategy.state()
        if state is not None:
            with self._wake:
                self._next = state
                self._wake.notify()

    def _write_all(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._next is not None or self._closing)
                state, self._next = self._next, None
            if state is None:
                return
            self._write(state)

    def _write(self, state: str) -> None:
        try:
            replace_file(self._path, state)
        except InputError as error:
            if not self._failed:
                log.warning("the state of %s is not kept: %s", self._strategy.name, error)
            self._failed = True
        else:
            self._failed = False
