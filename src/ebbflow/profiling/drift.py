"""Whether what is seen still fits what was learned."""

from __future__ import annotations

import msgspec

LEAST_SIGMA = 0.02
"""Relative errors of 2 % are never news."""
_SLACK, _ALARM, _MOST = 1.0, 6.0, 3.0


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """An operator costs what it did not use to."""

    operator: str
    time_s: float
    change: float
    """Mean relative error of the samples that raised the alarm: +0.3 is 30 % more than expected."""

    def __str__(self) -> str:
        """In words."""
        more = "more" if self.change > 0 else "less"
        return f"{self.operator} costs {100 * abs(self.change):.0f} % {more} CPU than its profile says"


class Cusum:
    """Page's cumulative sum on relative errors, in both directions (Page, Biometrika 41, 1954).

        S⁺ ← max(0, S⁺ + e/σ − 1)    S⁻ ← max(0, S⁻ − e/σ − 1)    alarm when one reaches 6

    Its target is known (an error of 0), which is why it is this one and not Page–Hinkley, which first has to learn a
    mean. σ is that of the profile, from its mean error ε: σ = ε·√(π/2), at least 2 %. With these numbers a false alarm
    comes about once in 400,000 samples (Siegmund, Sequential Analysis, 1985, §II.6: (e^2b − 2b − 1)/2 for one
    side, b = 6 + 1.166); that is 48 days of 10 s windows. No sample counts for more than 3σ, so that one, however wild,
    is no alarm, and it takes three.

    >>> cusum = Cusum(error=0.02)
    >>> [cusum.add(e) is not None for e in (0.01, -0.03, 0.3, 0.3, 0.3)]
    [False, False, False, False, True]
    """

    def __init__(self, error: float) -> None:
        self._sigma = max(LEAST_SIGMA, 1.2533 * error)
        self._sums = {+1: 0.0, -1: 0.0}
        self._since: dict[int, list[float]] = {+1: [], -1: []}

    def add(self, error: float) -> float | None:
        """Take in a relative error, with its sign; the mean change if this one raises the alarm."""
        z = max(-_MOST, min(_MOST, error / self._sigma))
        for sign in self._sums:
            total = self._sums[sign] + sign * z - _SLACK
            if total <= 0:
                self._sums[sign] = 0.0
                self._since[sign].clear()
                continue
            self._sums[sign] = total
            self._since[sign].append(error)
            if total >= _ALARM:
                return sum(self._since[sign]) / len(self._since[sign])
        return None

    @property
    def suspicious(self) -> int:
        """How many of the last samples speak for a change."""
        return max(len(errors) for errors in self._since.values())
