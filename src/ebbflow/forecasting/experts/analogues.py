"""Analogues: what followed when the load looked like now."""

from __future__ import annotations

import numpy as np

from ebbflow.core.curve import Floats
from ebbflow.forecasting.experts.expert import Expert
from ebbflow.forecasting.grid import Ints
from ebbflow.forecasting.history import History

SEARCHED = 2_000
"""Steps of the past that are compared with now."""
SHAPE = (1.0, 0.8, 0.64, 0.512)
"""Weight of the last changes, latest first."""
OFFSET = 0.02
"""Share of the mean load added before taking the logarithm, so that zeros are allowed."""
HOUR = 0.5
FURTHEST_H = 6.0
SMALLEST = 0.3


class Analogues(Expert):
    """What followed the most similar moments of the past: the mean of 10, and the median of 20.

    Two moments are similar if the last four changes of the logarithm of the load are, and the time of day. The distance
    is Σ 0.8ⁱ·|d(t−i) − d(s−i)|/m, m being the mean size of a change, plus 0.5 per hour between the times of day, up to
    six hours. The forecast is z(t) plus what z(s+h) − z(s) was: their mean, weighted by 1/(0.3 + distance), or their
    median. (The method of analogues, Lorenz 1969; nearest neighbours for series, Yakowitz 1987.)
    """

    def __init__(self, step_s: float, mean_of: int = 10, median_of: int = 20) -> None:
        self.names = (f"analogues, mean of {mean_of}", f"analogues, median of {median_of}")
        self._step_s, self._mean_of, self._median_of = step_s, mean_of, median_of
        ago_h = np.arange(SEARCHED, 0, -1) * (step_s / 3600.0) % 24.0
        self._of_day = HOUR * np.minimum(np.minimum(ago_h, 24.0 - ago_h), FURTHEST_H)
        self._at = np.zeros(0, dtype=np.int64)
        """Steps from the similar moments to now, the most similar first."""
        self._shares = np.zeros(0)
        self._offset = 0.0

    def update(self, history: History) -> None:
        """Find the moments like this one."""
        size = len(SHAPE)
        values = history.values[-SEARCHED - size - 1 :]
        known = len(values) - size - 1  # moments with all changes before them and a step after
        self._offset = OFFSET * float(values.sum()) / len(values)
        self._at = self._at[:0]
        if known < 3 * self._median_of or self._offset <= 0.0:
            return
        logs = np.log(values + self._offset)
        changes = logs[1:] - logs[:-1]
        distance = np.abs(changes[size - 1 : -1] - changes[-1])
        scale = max(float(distance.sum()) / known, 1e-12)
        for back in range(1, size):
            distance += SHAPE[back] * np.abs(changes[size - 1 - back : -1 - back] - changes[-1 - back])
        distance /= scale
        distance += self._of_day[-known:]
        nearest = np.argpartition(distance, self._median_of)[: self._median_of]
        nearest = nearest[np.argsort(distance[nearest], kind="stable")]
        self._at = known - nearest
        shares = 1.0 / (SMALLEST + distance[nearest[: self._mean_of]])
        self._shares = shares / shares.sum()

    def ahead(self, history: History, horizons: Ints) -> Floats:
        """The last value, changed as it changed after those moments."""
        values, offset, last = history.values, self._offset, float(history.values[-1])
        if not len(self._at):
            return np.full((2, len(horizons)), last)
        now = len(history) - 1
        then = now - self._at
        # What followed a recent moment is known only up to now.
        after = np.minimum(then[:, None] + horizons, now)
        changes = np.log((values[after] + offset) / (values[then] + offset)[:, None])
        ranked, middle = np.sort(changes, axis=0), self._median_of // 2  # np.median takes 50 µs
        median = 0.5 * (ranked[middle - 1] + ranked[middle])
        change = np.concatenate((self._shares @ changes[: self._mean_of], median)).reshape(2, -1)
        return np.asarray((last + offset) * np.exp(change) - offset)
