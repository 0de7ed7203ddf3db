"""Periods on the clock of the snapshots."""

from __future__ import annotations

SLACK_S = 1e-6
"""Tolerance for rounding: times are sums of floats."""


class Every:
    """Due once per period, reported by the first call at or after it.

    The next period starts when the last was due, not when that was reported. Called every 10 s, a period of 15 s is
    reported at 20, 30, 50, 60, … s: every 15 s on average.

    >>> every = Every(15.0)
    >>> [(t, every.due(float(t))) for t in (0, 10, 20, 30, 70)]
    [(0, (0.0,)), (10, ()), (20, (15.0,)), (30, (30.0,)), (70, (45.0, 60.0))]
    >>> later = Every(60.0, at_once=False)
    >>> [t for t in range(0, 150, 10) if later.due(float(t))]
    [60, 120]
    """

    def __init__(self, period_s: float, *, at_once: bool = True) -> None:
        """``at_once``: whether it is due at the first call, or a period after that."""
        self._period_s = period_s
        self._at_once = at_once
        self._last_s: float | None = None

    def due(self, now_s: float) -> tuple[float, ...]:
        """The times since the last call at which it was due; empty, and so falsy, if it was not."""
        if self._last_s is None:
            self._last_s = now_s
            return (now_s,) if self._at_once else ()
        since_s, periods = self._last_s, int((now_s - self._last_s + SLACK_S) / self._period_s)
        times = tuple(since_s + k * self._period_s for k in range(1, periods + 1))
        if times:
            self._last_s = times[-1]
        return times

    def left_s(self, now_s: float) -> float:
        """Seconds until it is due next.

        >>> every = Every(60.0)
        >>> every.due(0.0), every.left_s(0.0), every.left_s(10.0)
        ((0.0,), 60.0, 50.0)
        """
        return self._period_s if self._last_s is None else self._last_s + self._period_s - now_s
