"""The approximated workload trace: a load without its rapid fluctuations (Pascal §6.2 and §7.2.1).

The paper takes the 95th percentile of each hour and smooths the result, then learns from it: a service has to be sized
for what usually is the most, not for the mean. ``approximated`` does that for a recorded load. ``Percentile`` does it
for a load as it comes, where the hour has not ended yet: the line through the last hour, raised by the 95th percentile
of the distances to it. So it follows a rising load without delay.
"""

from __future__ import annotations

from collections import deque

import numpy as np
from scipy.interpolate import PchipInterpolator

from ebbflow.core.curve import Floats
from ebbflow.errors import InputError

LEVEL = 0.95
HOUR_S = 3600.0


def approximated(rates_per_s: Floats, *, per_hour: int, level: float = LEVEL, smooth: int = 1) -> Floats:
    """The approximated trace of even samples, as many samples: a smooth curve through the percentile of each hour.

    ``smooth``: how often each hour is replaced by a quarter of its neighbours and half of itself. The curve between the
    hours is monotonic (Fritsch & Carlson 1980), so it does not overshoot.

    >>> rates = np.array([10.0, 12.0, 30.0, 28.0, 50.0, 54.0])
    >>> approximated(rates, per_hour=2, level=1.0, smooth=0).round(1).tolist()
    [12.0, 16.0, 25.0, 35.4, 47.4, 54.0]
    """
    hours = len(rates_per_s) // per_hour
    if hours < 2:
        raise InputError(f"a load of {len(rates_per_s)} samples is shorter than two hours")
    tops = np.quantile(rates_per_s[: hours * per_hour].reshape(hours, per_hour), level, axis=1)
    for _ in range(smooth):
        around = np.concatenate((tops[:1], tops, tops[-1:]))
        tops = (around[:-2] + 2.0 * around[1:-1] + around[2:]) / 4.0
    middles = (np.arange(hours) + 0.5) * per_hour
    curve = PchipInterpolator(middles, tops)
    at = np.clip(np.arange(len(rates_per_s)) + 0.5, middles[0], middles[-1])
    return np.asarray(np.maximum(0.0, curve(at)))


class Percentile:
    """The upper edge of a load as it comes: its trend over the last steps plus a percentile of the distances to it.

    >>> edge = Percentile(steps=10)
    >>> [round(edge.add(value), 1) for value in (10.0, 12.0, 11.0, 13.0, 12.0, 14.0)]  # rises by 0.6 per step
    [10.0, 12.0, 12.3, 13.5, 13.5, 14.5]
    """

    def __init__(self, *, steps: int, level: float = LEVEL) -> None:
        self._level = level
        self._recent: deque[float] = deque(maxlen=max(1, steps))

    def add(self, value: float) -> float:
        """Add a step and return its upper edge."""
        self._recent.append(value)
        count = len(self._recent)
        values = np.asarray(self._recent)
        if count < 3:
            return float(values.max()) if count < 2 else value
        at = np.arange(count, dtype=np.float64)
        slope, start = np.polyfit(at, values, 1)
        line = start + slope * at
        return max(0.0, float(line[-1] + np.quantile(values - line, self._level)))
