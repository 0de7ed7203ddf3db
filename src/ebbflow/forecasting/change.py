"""Notice that a load has changed: the test of Page and Hinkley."""

from __future__ import annotations

from ebbflow.forecasting.state import Stateful

TOLERATED = 0.5
THRESHOLD = 10.0
LARGEST = 5.0


class ChangeTest(Stateful):
    """Two-sided test of Page (1954) and Hinkley (1971) on errors divided by their usual size.

    g⁺ = max(0, g⁺ + e − δ) and g⁻ = max(0, g⁻ − e − δ); a change is noticed when one of them exceeds the threshold, and
    both start again. An error counts at most ``LARGEST``, so that a single burst is no change.

    >>> test = ChangeTest()
    >>> [step for step in range(40) if test.add(0.3 if step < 20 else 3.0)]
    [24, 29, 34, 39]
    """

    def __init__(self, tolerated: float = TOLERATED, threshold: float = THRESHOLD) -> None:
        self._tolerated, self._threshold = tolerated, threshold
        self._up = self._down = 0.0

    def add(self, error: float) -> bool:
        """Add an error. Returns whether a change is noticed now."""
        error = min(LARGEST, max(-LARGEST, error))
        self._up = max(0.0, self._up + error - self._tolerated)
        self._down = max(0.0, self._down - error - self._tolerated)
        if max(self._up, self._down) <= self._threshold:
            return False
        self._up = self._down = 0.0
        return True
