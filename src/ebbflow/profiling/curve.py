"""Whether what is seen still fits what was learned."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import msgspec
import numpy as np

from ebbflow.profiling.fitting import LEAST, LEAST_SHARE, QUICK, fit
from ebbflow.profiling.profile import BEYOND, Fitted
from ebbflow.profiling.samples import Sample

LEAST_SIGMA = 0.05
"""However well a profile did: single windows are seldom read more exactly, and no decision hangs on less."""
_SLACK, _ALARM, _MOST = 1.0, 6.0, 3.0


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """An operator, or a stage of batches, costs what it did not use to."""

    operator: str
    time_s: float
    change: float
    """Of the windows that raised the alarm, all that was used ÷ all that was expected − 1: +0.3 is 30 % more."""
    unit: str = "CPU"
    """Of what more or less is used: ``task time`` on batches."""

    def __str__(self) -> str:
        """In words."""
        more = "more" if self.change > 0 else "less"
        return (
            f"{self.operator} costs {100 * abs(self.change):.0f} % {more} {self.unit} than its profile says"
        )


class Cusum:
    """Page's cumulative sum on relative errors, in both directions (Page, Biometrika 41, 1954).

        S⁺ ← max(0, S⁺ + e/σ − 1)    S⁻ ← max(0, S⁻ − e/σ − 1)    alarm when one reaches 6

    Its target is known (an error of 0), which is why it is this one and not Page–Hinkley, which first has to learn a
    mean. σ is that of the profile, from its mean error ε: σ = ε·√(π/2), at least 5 %. With these numbers a false alarm
    comes about once in 400,000 samples (Siegmund, Sequential Analysis, 1985, §II.6: (e^2b − 2b − 1)/2 for one
    side, b = 6 + 1.166); that is 48 days of 10 s windows. No sample counts for more than 3σ, so that one, however wild,
    is no alarm, and it takes three.

    >>> cusum = Cusum(error=0.02)
    >>> [cusum.add(used, expected=1.0) for used in (1.01, 0.97, 1.3, 1.3, 1.3)]
    [False, False, False, False, True]
    >>> round(cusum.change, 6), cusum.suspicious
    (0.3, 3)
    """

    def __init__(self, error: float) -> None:
        self._sigma = max(LEAST_SIGMA, 1.2533 * error)
        self._sides = (_Side(+1), _Side(-1))

    def add(self, used: float, expected: float, least: float = 0.0) -> bool:
        """Take in a window; whether it raises the alarm. What is expected counts as at least ``least``."""
        error = (used - expected) / max(expected, least, 1e-12)
        z = max(-_MOST, min(_MOST, error / self._sigma))
        for side in self._sides:
            side.add(z, used, expected)
        return self._worst.total >= _ALARM

    @property
    def _worst(self) -> _Side:
        return max(self._sides, key=lambda side: side.total)

    @property
    def change(self) -> float:
        """All that was used in the windows that speak for a change ÷ all that was expected − 1; at most 9."""
        used, expected = self._worst.used, self._worst.expected
        return used / max(expected, used / 10, 1e-12) - 1

    @property
    def suspicious(self) -> int:
        """How many of the last windows speak for a change."""
        return self._worst.count


class _Side:
    """More than expected (+1), or less (−1)."""

    def __init__(self, sign: int) -> None:
        self._sign = sign
        self.total = self.used = self.expected = 0.0
        self.count = 0

    def add(self, z: float, used: float, expected: float) -> None:
        self.total += self._sign * z - _SLACK
        if self.total <= 0:
            self.total = self.used = self.expected = 0.0
            self.count = 0
            return
        self.used += used
        self.expected += expected
        self.count += 1


# One curve of a profile.


# One curve of a profile, learned as samples come: fitted when asked, watched for drift in between.


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
