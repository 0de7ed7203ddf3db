"""The usual course of a load within a period."""

from __future__ import annotations

import numpy as np

from ebbflow.core.curve import Floats
from ebbflow.forecasting.grid import Ints
from ebbflow.forecasting.state import Stateful

SHARE = 0.2


class Profile(Stateful):
    """Exponential average of the value at each phase of a period.

    >>> profile = Profile()
    >>> for index, value in enumerate([1.0, 5.0, 2.0] * 3):
    ...     _ = profile.follow(3, index, value)
    >>> profile.change(8, np.array([1, 2, 3])).tolist()  # the last value was the 2 at phase 2
    [-1.0, 3.0, 0.0]
    """

    def __init__(self, share: float = SHARE) -> None:
        self._share = share
        self._means = np.zeros(0)
        self._counts = np.zeros(0)

    def follow(self, period: int, index: int, value: float) -> bool:
        """Learn the value of a step. Returns whether the period changed, and so what was learned is lost."""
        changed = period != len(self._means)
        if changed:
            self._means, self._counts = np.zeros(period), np.zeros(period)
        if period:
            phase = index % period
            self._counts[phase] += 1
            self._means[phase] += max(self._share, 1.0 / self._counts[phase]) * (value - self._means[phase])
        return changed

    def change(self, index: int, horizons: Ints) -> Floats:
        """The usual change from a step to steps ahead of it; 0 where it is unknown."""
        period = len(self._means)
        phase, ahead = index % period, (index + horizons) % period
        known = (self._counts[ahead] > 0) & (self._counts[phase] > 0)
        return np.asarray(np.where(known, self._means[ahead] - self._means[phase], 0.0))
