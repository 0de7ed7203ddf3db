"""Exponential back-off between attempts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Backoff:
    """The delay doubles after each attempt, up to a maximum.

    >>> backoff = Backoff(first_s=30.0, longest_s=1800.0)
    >>> [backoff.delay_s(attempts) for attempts in (1, 2, 3, 20)]
    [30.0, 60.0, 120.0, 1800.0]
    """

    first_s: float
    longest_s: float

    def delay_s(self, attempts: int) -> float:
        """Seconds to wait after that many attempts."""
        return min(self.first_s * 2.0 ** min(attempts - 1, 10), self.longest_s)
