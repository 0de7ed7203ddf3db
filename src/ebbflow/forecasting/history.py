"""The recent steps of a load, with gaps filled, as forecasters look back on them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ebbflow.core.curve import Floats
from ebbflow.forecasting.grid import Ints
from ebbflow.forecasting.load_periods import Periods
from ebbflow.forecasting.state import State, Stateful

CAPACITY = 65_536
"""Steps kept: a week of 10 s steps, 45 days of minutes. Half a megabyte."""
HELD = 3
"""Gaps up to this many steps are filled with the last value."""
DAY_S = 86_400.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Context:
    """What several experts need about steps ahead, a row per period: hour, day, week, found.

    Where there is no period, the last value stands in.
    """

    back: Floats
    """The values a whole number of periods before the steps ahead."""
    ago: Floats
    """The values one period before now."""


class History(Stateful):
    """Appends steps and drops the oldest. Missing steps are filled.

    A short gap is filled with the last value, a longer one with the same steps of the day before, if they are known. A
    gap longer than the history starts it again. Values that are not finite or negative, and times that do not advance,
    are ignored.

    >>> history = History(60.0)
    >>> history.push(60.0, 5.0), history.push(120.0, 7.0), history.push(300.0, 9.0), history.push(300.0, 1.0)
    (True, True, True, False)
    >>> history.values.tolist(), history.index, history.end_s
    ([5.0, 7.0, 7.0, 7.0, 9.0], 5, 300.0)
    """

    def __init__(self, step_s: float, capacity: int = CAPACITY) -> None:
        self.step_s = step_s
        self.capacity = capacity
        self.index = 0
        """Number of the last step since the epoch: its end divided by ``step_s``."""
        self.end_s = 0.0
        """End of the last step."""
        self.missing = 0
        """Missing steps before the last one."""
        self.seen = 0
        """Steps pushed, without filled ones."""
        self.periods = Periods(step_s)
        self._values = np.empty(256)
        self._end = 0
        self._contexts: dict[tuple[int, int], Context] = {}

    @property
    def values(self) -> Floats:
        """The steps, oldest first. A view: do not keep it."""
        return self._values[: self._end]

    def __len__(self) -> int:
        return self._end

    def context(self, horizons: Ints) -> Context:
        """What is known about the steps ahead; computed once per step."""
        key = (len(horizons), int(horizons[-1]))
        if key not in self._contexts:
            periods = np.array(self.periods.steps)
            now = self._end - 1
            cycles = -(-horizons // np.maximum(periods, 1)[:, None])
            at = np.where(periods[:, None] > 0, now + horizons - periods[:, None] * cycles, now)
            self._contexts[key] = Context(
                back=self._values[np.maximum(at, 0)], ago=self._values[np.maximum(now - periods, 0)]
            )
        return self._contexts[key]

    def state(self) -> State:
        """The steps and periods, without spare capacity."""
        self._contexts = {}
        self._values = self._values[: self._end].copy()
        return super().state()

    def push(self, time_s: float, value: float) -> bool:
        """Append the step that ends at ``time_s``. Returns whether it was used."""
        if not (math.isfinite(time_s) and math.isfinite(value)) or value < 0:
            return False
        index = round(time_s / self.step_s)
        if self.seen:
            # counted from the last step: steps may end half-way between two multiples
            index = self.index + round((time_s - self.end_s) / self.step_s)
            if index <= self.index:
                return False
            self.missing = index - self.index - 1
            if self.missing >= self.capacity:
                self._end = 0
            else:
                self._fill()
        self.index, self.end_s = index, time_s
        self.seen += 1
        self._append(value)
        self._contexts = {}
        self.periods.update(self.values, self.seen)
        return True

    def _fill(self) -> None:
        day = round(DAY_S / self.step_s)
        for _ in range(self.missing):
            known = self.missing > HELD and 0 < day < self._end
            self._append(float(self._values[self._end - day if known else self._end - 1]))

    def _append(self, value: float) -> None:
        if self._end == len(self._values):
            kept = self._values[max(0, self._end - self.capacity) :]
            self._values = np.concatenate((kept, np.empty(max(256, len(kept)))))
            self._end = len(kept)
        self._values[self._end] = value
        self._end += 1
