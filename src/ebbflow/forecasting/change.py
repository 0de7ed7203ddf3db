"""Notice that a load has changed its course: the test of Page and Hinkley."""

from __future__ import annotations

from ebbflow.forecasting.state import Stateful

TOLERATED = 0.5
THRESHOLD = 15.0
LARGEST = 5.0
SHARE = 0.01


class ChangeTest(Stateful):
    """The test of Page (1954) and Hinkley (1971) on the size of forecast errors.

    g = max(0, g + |e|/s − 1 − δ), where s is the usual size of an error, learned slowly. A change is noticed when g
    exceeds the threshold; then everything starts again. An error counts at most five times its usual size, so that a
    single burst is no change.

    The mixture reports a change and does nothing else about it: its weights find the new course by themselves.

    >>> test = ChangeTest()
    >>> [step for step in range(60) if test.add(1.0 if step < 40 else 6.0)]
    [44]
    """

    def __init__(self, tolerated: float = TOLERATED, threshold: float = THRESHOLD) -> None:
        self._tolerated, self._threshold = tolerated, threshold
        self._size = 0.0
        self._seen = 0
        self._sum = 0.0

    def add(self, error: float) -> bool:
        """Add an error. Returns whether a change is noticed now."""
        size, self._seen = abs(error), self._seen + 1
        if self._size > 0:
            size = min(size, LARGEST * self._size)
            self._sum = max(0.0, self._sum + size / self._size - 1.0 - self._tolerated)
        self._size += max(SHARE, 1.0 / self._seen) * (size - self._size)
        if self._sum <= self._threshold:
            return False
        self._sum, self._size, self._seen = 0.0, 0.0, 0
        return True
