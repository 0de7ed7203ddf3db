"""The usual course of a load within its periods."""

from __future__ import annotations

import numpy as np

from ebbflow.core.curve import Floats
from ebbflow.forecasting.grid import Ints
from ebbflow.forecasting.state import Stateful

SHARE = 0.2


class Profiles(Stateful):
    """Exponential average of the value at each phase of several periods.

    >>> profiles = Profiles(1)
    >>> for index, value in enumerate([1.0, 5.0, 2.0] * 3):
    ...     _ = profiles.follow((3,), index, value)
    >>> profiles.change(8, np.array([1, 2, 3])).tolist()  # the last value was the 2 at phase 2
    [[-1.0, 3.0, 0.0]]
    """

    def __init__(self, count: int, share: float = SHARE) -> None:
        self._share = share
        self._periods = np.zeros(count, dtype=np.int64)
        self._starts = np.zeros(count, dtype=np.int64)
        self._means = np.zeros(1)
        self._counts = np.zeros(1)

    def follow(self, periods: tuple[int, ...], index: int, value: float) -> list[int]:
        """Learn the value of a step. Returns which periods have changed, so that what was learned of them is lost."""
        changed = [at for at, period in enumerate(periods) if period != self._periods[at]]
        if changed:
            self._rebuild(periods, changed)
        at = self._starts + index % np.maximum(self._periods, 1)
        counts = self._counts[at] + 1.0
        self._counts[at] = counts
        means = self._means[at]
        self._means[at] = means + np.maximum(self._share, 1.0 / counts) * (value - means)
        return changed

    def _rebuild(self, periods: tuple[int, ...], changed: list[int]) -> None:
        sizes = [max(period, 1) for period in periods]
        starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
        means, counts = np.zeros(sum(sizes)), np.zeros(sum(sizes))
        for at, (start, size) in enumerate(zip(starts, sizes, strict=True)):
            if at not in changed:
                old = slice(self._starts[at], self._starts[at] + size)
                means[start : start + size], counts[start : start + size] = (
                    self._means[old],
                    self._counts[old],
                )
        self._periods, self._starts = np.array(periods), starts
        self._means, self._counts = means, counts

    def change(self, index: int, horizons: Ints) -> Floats:
        """The usual change from a step to steps ahead of it, a row per period; 0 where it is unknown."""
        periods = np.maximum(self._periods, 1)[:, None]
        now = self._starts[:, None] + index % periods
        ahead = self._starts[:, None] + (index + horizons) % periods
        known = (self._counts[ahead] > 0) & (self._periods[:, None] > 0)
        return np.asarray(np.where(known, self._means[ahead] - self._means[now], 0.0))
