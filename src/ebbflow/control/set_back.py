"""A clock that is set back while a job runs: times from before and after it cannot be compared."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ebbflow.core.readings import Reading

SET_BACK_S = 5.0
"""By more than this a clock was set back. By less (time servers do that) a few readings are missing, no more."""


class SetBack:
    """Sees it against the latest time there was: many small steps back are one large one.

    >>> times = SetBack()
    >>> [times.by_s(now_s) for now_s in (100.0, 101.0, 97.0, 20.0, 21.0)]
    [0.0, 0.0, 0.0, 81.0, 0.0]
    >>> [times.by_s(now_s) for now_s in (18.0, 15.0, 12.0)]
    [0.0, 6.0, 0.0]
    """

    def __init__(self) -> None:
        self._now_s = self._latest_s = self._from_s = -math.inf

    def by_s(self, now_s: float) -> float:
        """By how much the clock was set back, told once; 0 if it was not."""
        self._now_s = now_s
        back_s = self._latest_s - now_s
        if back_s <= SET_BACK_S:
            self._latest_s = max(self._latest_s, now_s)
            return 0.0
        self._from_s = max(self._latest_s, self._from_s)
        self._latest_s = now_s
        return back_s

    def of_now(self, readings: Sequence[Reading]) -> Sequence[Reading]:
        """Without those dated before it was set back: a batch may end after it that began before."""
        if self._now_s > self._from_s:
            return readings
        return [reading for reading in readings if reading.time_s <= self._now_s + SET_BACK_S]
