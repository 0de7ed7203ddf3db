"""Repeated failures: when they count, and how often they are logged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ebbflow.core.parameters import Duration, Whole

EVERY_S = 60.0


@dataclass(frozen=True, kw_only=True)
class FailureLimits:
    """When a decision has failed, and when another strategy takes over."""

    within_s: Annotated[
        float, Duration("Time that a strategy may take to decide; after it, the size is held.", at_least=0.05)
    ] = 5.0
    fallback_after: Annotated[
        int, Whole("Failures of the strategy in a row after which the fallback decides.", at_least=1)
    ] = 5


class LogLimit:
    """Allows the first message at once, and then one per minute, with the number of those left out.

    It counts from the last message that was allowed, so failures that come and go are limited as well.

    >>> limit = LogLimit()
    >>> limit.allows(0.0), limit.allows(1.0), limit.allows(59.0)
    (True, False, False)
    >>> limit.allows(61.0), limit.left_out
    (True, 2)
    """

    def __init__(self, every_s: float = EVERY_S) -> None:
        self._every_s = every_s
        self._allowed_s: float | None = None
        self._skipped = 0
        self.left_out = 0
        """Messages left out before the last one that was allowed."""

    def allows(self, now_s: float) -> bool:
        """Whether to log now. ``now_s``: a time that is never set back."""
        if self._allowed_s is not None and now_s - self._allowed_s < self._every_s:
            self._skipped += 1
            return False
        self._allowed_s, self.left_out, self._skipped = now_s, self._skipped, 0
        return True

    def note(self) -> str:
        """What to add to the message: how many were left out."""
        return f" ({self.left_out} more like it before)" if self.left_out else ""
