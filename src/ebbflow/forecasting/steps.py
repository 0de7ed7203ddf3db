"""Readings of a load as the mean of even steps, the form that forecasters learn from."""

from __future__ import annotations

import math

from ebbflow.errors import InputError


class Steps:
    """Collects readings into the mean load of each step. A reading describes the time before it.

    Steps end at multiples of ``step_s``. A step without a reading is missing. Readings that are not finite, negative or
    not later than the last one are ignored and counted in ``ignored``.

    >>> steps = Steps(60.0)
    >>> for time_s, rate in ((10.0, 50.0), (40.0, 70.0), (70.0, 90.0), (200.0, 10.0)):
    ...     for done in steps.add(time_s, rate):
    ...         print(done)
    (60.0, 60.0)
    (120.0, 90.0)
    """

    def __init__(self, step_s: float) -> None:
        if not (step_s > 0 and math.isfinite(step_s)):
            raise InputError(f"a step of {step_s:g} s; it must be above 0")
        self.step_s = step_s
        self.ignored = 0
        self._last_s = -math.inf
        self._end_s: float | None = None
        self._sum = 0.0
        self._count = 0

    def add(self, time_s: float, value: float) -> list[tuple[float, float]]:
        """Add a reading. Returns the step it completes, if any, as (end, mean)."""
        if not math.isfinite(time_s) or time_s <= self._last_s or not math.isfinite(value) or value < 0:
            self.ignored += 1
            return []
        self._last_s = time_s
        end_s = math.ceil(time_s / self.step_s) * self.step_s
        done: list[tuple[float, float]] = []
        if self._end_s is not None and end_s > self._end_s:
            done.append((self._end_s, self._sum / self._count))
            self._sum, self._count = 0.0, 0
        self._end_s = end_s
        self._sum += value
        self._count += 1
        if time_s == end_s:
            done.append((end_s, self._sum / self._count))
            self._end_s, self._sum, self._count = None, 0.0, 0
        return done
