"""Whether what is seen still fits what was learned."""

from __future__ import annotations

import msgspec

LEAST_SIGMA = 0.05
"""However well a profile did: single windows are seldom read more exactly, and no decision hangs on less."""
_SLACK, _ALARM, _MOST = 1.0, 6.0, 3.0


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """An operator, or a stage of batches, costs what it did not use to."""

    operator: str
    time_s: float
    change: float
    """Of the windows that raised the alarm, all that was used ÷ all that was expected − 1: +0.3 is 30 % more."""
    unit: str = "CPU"
    """Of what more or less is used: ``task time`` on batches."""

    def __str__(self) -> str:
        """In words."""
        more = "more" if self.change > 0 else "less"
        return (
            f"{self.operator} costs {100 * abs(self.change):.0f} % {more} {self.unit} than its profile says"
        )


class Cusum:
    """Page's cumulative sum on relative errors, in both directions (Page, Biometrika 41, 1954).

        S⁺ ← max(0, S⁺ + e/σ − 1)    S⁻ ← max(0, S⁻ − e/σ − 1)    alarm when one reaches 6

    Its target is known (an error of 0), which is why it is this one and not Page–Hinkley, which first has to learn a
    mean. σ is that of the profile, from its mean error ε: σ = ε·√(π/2), at least 5 %. With these numbers a false alarm
    comes about once in 400,000 samples (Siegmund, Sequential Analysis, 1985, §II.6: (e^2b − 2b − 1)/2 for one
    side, b = 6 + 1.166); that is 48 days of 10 s windows. No sample counts for more than 3σ, so that one, however wild,
    is no alarm, and it takes three.

    >>> cusum = Cusum(error=0.02)
    >>> [cusum.add(used, expected=1.0) for used in (1.01, 0.97, 1.3, 1.3, 1.3)]
    [False, False, False, False, True]
    >>> round(cusum.change, 6), cusum.suspicious
    (0.3, 3)
    """

    def __init__(self, error: float) -> None:
        self._sigma = max(LEAST_SIGMA, 1.2533 * error)
        self._sides = (_Side(+1), _Side(-1))

    def add(self, used: float, expected: float, least: float = 0.0) -> bool:
        """Take in a window; whether it raises the alarm. What is expected counts as at least ``least``."""
        error = (used - expected) / max(expected, least, 1e-12)
        z = max(-_MOST, min(_MOST, error / self._sigma))
        for side in self._sides:
            side.add(z, used, expected)
        return self._worst.total >= _ALARM

    @property
    def _worst(self) -> _Side:
        return max(self._sides, key=lambda side: side.total)

    @property
    def change(self) -> float:
        """All that was used in the windows that speak for a change ÷ all that was expected − 1; at most 9."""
        used, expected = self._worst.used, self._worst.expected
        return used / max(expected, used / 10, 1e-12) - 1

    @property
    def suspicious(self) -> int:
        """How many of the last windows speak for a change."""
        return self._worst.count


class _Side:
    """More than expected (+1), or less (−1)."""

    def __init__(self, sign: int) -> None:
        self._sign = sign
        self.total = self.used = self.expected = 0.0
        self.count = 0

    def add(self, z: float, used: float, expected: float) -> None:
        self.total += self._sign * z - _SLACK
        if self.total <= 0:
            self.total = self.used = self.expected = 0.0
            self.count = 0
            return
        self.used += used
        self.expected += expected
        self.count += 1
