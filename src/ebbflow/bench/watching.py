"""Waits for the end of a real run, and not a moment longer than its query lives."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from ebbflow.core.clock import Clock
from ebbflow.errors import TargetError
from ebbflow.targets.spark.failure import failure_of

LOOK_EVERY_S = 5.0

Failure = Callable[[], Exception | None]
"""What a query has failed of; None while it runs."""


class Scaled(Protocol):
    """As much of what ``attach`` gives."""

    @property
    def active(self) -> bool:
        """Whether anything is being scaled."""


def watch(failure: Failure, attached: Scaled, clock: Clock, until_s: float, ended: threading.Event) -> None:
    """Wait until a time; what the query failed of is told as soon as it is seen, and not at the end."""
    while True:
        active = attached.active  # asked first: the loop ends, too, when the application has
        check(failure)
        if not active:
            raise TargetError("the loop has ended before its time; see the log")
        if ended.is_set() or (left_s := until_s - clock.now_s()) <= 0:
            return
        clock.wait(min(LOOK_EVERY_S, max(0.1, left_s)), ended)


def check(failure: Failure) -> None:
    """Raise what a query has failed of, in our own words."""
    if (failed := failure()) is not None:
        raise failure_of(failed)
