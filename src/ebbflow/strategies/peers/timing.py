"""A peer's own period, kept on the snapshot's time."""

from __future__ import annotations

SLACK_S = 1e-6
"""Times are sums of floats; a period is over when it is over but for this."""


class Every:
    """Due once per period, at the first look at or after it.

    >>> every = Every(15.0)
    >>> [t for t in range(0, 50, 5) if every.due(float(t))]
    [0, 15, 30, 45]
    >>> later = Every(60.0, at_once=False)
    >>> [t for t in range(0, 150, 10) if later.due(float(t))]
    [60, 120]
    """

    def __init__(self, period_s: float, *, at_once: bool = True) -> None:
        self._period_s = period_s
        self._at_once = at_once
        self._last_s: float | None = None

    def due(self, now_s: float) -> bool:
        """Whether the period is over; if so, the next one begins."""
        if self._last_s is None:
            self._last_s = now_s
            return self._at_once
        if now_s - self._last_s < self._period_s - SLACK_S:
            return False
        self._last_s = now_s
        return True
