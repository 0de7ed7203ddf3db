"""One curve of a profile, learned as samples come: fitted when asked, watched for drift in between."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from ebbflow.profiling.drift import Cusum, Drift
from ebbflow.profiling.fitting import LEAST, LEAST_SHARE, QUICK, fit
from ebbflow.profiling.profile import BEYOND, Fitted
from ebbflow.profiling.samples import Sample

KEPT = 1000
"""Samples remembered: the last three hours of windows."""
MATURE = 30
"""Samples from which on drift is looked for: before, a curve is still being found."""
REFIT_SHARE = 0.1
"""A fit holds until so many times as many samples are new."""
CARRIED = 40
"""Points that stand for what a file said when it is stretched."""


class CurveLearner:
    """Samples of one curve; ``base`` is what was known before."""

    def __init__(self, name: str, kinds: Sequence[str], base: Fitted | None = None) -> None:
        self.name = name
        self.base = base if base is not None and base.samples else None
        self.samples: deque[Sample] = deque(maxlen=KEPT)
        self._kinds = tuple(kinds)
        self._fit: Fitted | None = None
        self._fitted_with = self._kinds
        self._new = 0
        """Samples since the last fit."""
        self._watched: tuple[Fitted, Cusum] | None = None
        self._unwatched, self._watch_anew_after = 0, MATURE
        if self.base is not None:
            self._watched = (self.base, Cusum(self.base.error))

    @property
    def holds(self) -> bool:
        """Whether what was known before needs no change: no drift, and no sample far beyond its range."""
        return self.base is not None and not any(s.x > BEYOND * self.base.high for s in self.samples)

    def add(self, sample: Sample) -> Drift | None:
        """Take one in; what it says if it is the one by which a change is noticed."""
        self.samples.append(sample)
        self._new += 1
        self._unwatched += 1
        if self._watched is None or (self.base is None and self._unwatched >= self._watch_anew_after):
            self._watch()
            return None
        known, cusum = self._watched
        # Beyond the range too: a guess that is wrong by so much is not one to decide on.
        if not cusum.add(sample.y, known.estimate(sample.x).value, _least(known, sample.x)):
            return None
        change, last = cusum.change, cusum.suspicious
        self._start_anew(last)
        return Drift(operator=self.name, time_s=sample.time_s, change=change)

    def _watch(self) -> None:
        """From now on compare with what is known by now; again when twice as much is."""
        if len(self.samples) < MATURE:
            return
        found = fit([s.x for s in self.samples], [s.y for s in self.samples], kinds=QUICK)
        if found is not None:
            self._watched = (found, Cusum(found.error))
            self._unwatched, self._watch_anew_after = 0, len(self.samples)

    def fit(self, kinds: Sequence[str] | None = None) -> Fitted | None:
        """The curve through what is remembered; found anew once a tenth more was seen, or with other models."""
        tried = self._kinds if kinds is None else tuple(kinds)
        if self._fit is None or tried != self._fitted_with or self._new > REFIT_SHARE * len(self.samples):
            carried = self._carried()
            x = [*(c[0] for c in carried), *(s.x for s in self.samples)]
            y = [*(c[1] for c in carried), *(s.y for s in self.samples)]
            self._fit = fit(x, y, kinds=tried)
            self._fitted_with, self._new = tried, 0
        return self._fit

    def _carried(self) -> list[tuple[float, float]]:
        if self.base is None:
            return []
        points = np.linspace(self.base.low, self.base.high, CARRIED).tolist()
        return [(x, max(0.0, self.base.model.at(x))) for x in points if x > 0]

    def _start_anew(self, last: int) -> None:
        """Only the samples that raised the alarm tell of how it is now."""
        kept = list(self.samples)[-max(1, last) :]
        self.samples.clear()
        self.samples.extend(kept)
        self.base = self._fit = self._watched = None
        self._new = 0


def _least(known: Fitted, x: float) -> float:
    """What an expected value counts as at least: who idles has not changed. As in ``fitting`` a share of the largest;
    below the range, where it is a guess, what the lowest rate that was seen costs."""
    least = max(LEAST_SHARE * known.estimate(known.high).value, LEAST)
    return max(least, known.estimate(known.low).value) if x < known.low else least
