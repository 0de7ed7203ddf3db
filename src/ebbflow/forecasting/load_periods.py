"""The periods of a load: hour, day and week, and one found by autocorrelation."""

from __future__ import annotations

import numpy as np

from ebbflow.core.curve import Floats
from ebbflow.forecasting.state import Stateful

LEAST_CYCLES = 2
"""A period is believed after this many full cycles."""
LEAST_CORRELATION = 0.4
ALMOST = 0.95
"""The shortest period that correlates this well, compared with the best one, is chosen."""


def autocorrelation(values: Floats) -> Floats:
    """Autocorrelation by lag, with the trend removed, by fast Fourier transform.

    Sums are divided by the number of pairs, so that a long lag is not at a disadvantage.
    """
    n = len(values)
    at = np.arange(n) - (n - 1) / 2
    centred = values - values.mean()
    centred = centred - at * (float(at @ centred) / max(float(at @ at), 1.0))
    power = float(centred @ centred)
    if n < 2 or power <= 1e-12 * max(float(values @ values), 1e-300):
        return np.zeros(n)
    size = 1 << (2 * n - 1).bit_length()
    spectrum = np.fft.rfft(centred, size)
    sums = np.fft.irfft(spectrum * spectrum.conj(), size)[:n]
    return np.asarray(sums / (n - np.arange(n)) / (power / n))


def find_period(values: Floats, least: int = 3) -> int | None:
    """The period of the values in steps, or None.

    It is the lag of the highest peak of the autocorrelation, at least ``LEAST_CORRELATION``, at most half the length.
    Multiples of a period are peaks too, so the shortest peak nearly as high as the highest is taken.

    >>> steps = np.arange(200)
    >>> find_period(np.sin(2 * np.pi * steps / 24)), find_period(1.0 * (steps % 15)), find_period(steps * 2.0)
    (24, 15, None)
    """
    last = len(values) // LEAST_CYCLES
    if last <= least:
        return None
    correlation = autocorrelation(values)
    # The correlation has to fall below a low value first: a smooth load correlates with its neighbours.
    low = np.flatnonzero(correlation[: last + 1] < 0.5 * LEAST_CORRELATION)
    if not len(low):
        return None
    lags = np.arange(max(least, int(low[0])), last + 1)
    if not len(lags):
        return None
    inner = correlation[lags]
    after = correlation[np.minimum(lags + 1, len(correlation) - 1)]
    peaks = lags[(inner >= correlation[lags - 1]) & (inner >= after) & (inner >= LEAST_CORRELATION)]
    if not len(peaks):
        return None
    good = peaks[correlation[peaks] >= ALMOST * correlation[peaks].max()]
    return int(good[0])


CALENDAR_S = (3_600.0, 86_400.0, 7 * 86_400.0)
SLOTS = ("hour", "day", "week", "found period")
SEARCHED = 4_096
"""Steps that are searched for a period: 0.3 ms."""
FIRST_SEARCH = 8
SAME = 0.02
"""A found period within this share of a calendar period is that period."""


class Periods(Stateful):
    """Up to four periods in steps: hour, day, week, and a found one. 0 means none.

    The calendar's periods count once a full one has been observed. The search runs each time the history has grown by a
    tenth, and at least every 256 steps.

    >>> periods = Periods(60.0)
    >>> load = np.tile([1.0, 1.0, 1.0, 9.0, 1.0], 14)
    >>> for seen in range(1, len(load) + 1):
    ...     periods.update(load[:seen], seen)
    >>> periods.steps
    (60, 0, 0, 5)
    """

    def __init__(self, step_s: float) -> None:
        self.calendar = [round(each / step_s) if each >= 2 * step_s else 0 for each in CALENDAR_S]
        """Hour, day and week in steps; 0 if shorter than two steps."""
        self._next_search = FIRST_SEARCH
        self.steps = (0, 0, 0, 0)

    def update(self, values: Floats, seen: int) -> None:
        """Search for a period if a search is due. ``seen``: steps that were observed."""
        hour, day, week = (each if each < len(values) else 0 for each in self.calendar)
        found = self.steps[3]
        if seen >= self._next_search:
            self._next_search = seen + min(256, max(1, seen // 10))
            found = find_period(values[-SEARCHED:]) or 0
            if found and any(abs(found - each) <= SAME * each for each in self.calendar if each):
                found = 0
        self.steps = (hour, day, week, found)
