"""One curve of a profile, learned as samples arrive: fitted on demand, and checked for drift in between."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import msgspec
import numpy as np

from ebbflow.profiling.fitting import LEAST, LEAST_SHARE, QUICK, fit
from ebbflow.profiling.profile import BEYOND, Fitted
from ebbflow.profiling.samples import WindowSample

LEAST_SIGMA = 0.05
"""Least σ: single windows are rarely more exact, and no decision depends on less."""
_SLACK, _ALARM, _MOST = 1.0, 6.0, 3.0


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of an operator, or of a stage of batches, has changed."""

    operator: str
    time_s: float
    change: float
    """Used ÷ expected − 1, over the windows that raised the alarm: +0.3 is 30 % more."""
    unit: str = "CPU"
    """What is used: CPU, or ``task time`` on batches."""

    def __str__(self) -> str:
        """The change in words."""
        more = "more" if self.change > 0 else "less"
        return (
            f"{self.operator} costs {100 * abs(self.change):.0f} % {more} {self.unit} than its profile says"
        )


class Cusum:
    """Page's cumulative sum on relative errors, in both directions (Page, Biometrika 41, 1954).

        S⁺ ← max(0, S⁺ + e/σ − 1)    S⁻ ← max(0, S⁻ − e/σ − 1)    alarm when one reaches 6

    The target is known (an error of 0), hence not Page–Hinkley, which has to learn a mean first. σ comes from the mean
    error ε of the profile: σ = ε·√(π/2), at least 5 %. A false alarm then happens about once in 400,000 samples
    (Siegmund, Sequential Analysis, 1985, §II.6: (e^2b − 2b − 1)/2 for one side, b = 6 + 1.166), which is 48 days of
    10 s windows. A sample counts for 3σ at most, so that an alarm takes at least three.

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
        """Add a window; return whether it raises the alarm. ``expected`` counts as at least ``least``."""
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
        """Used ÷ expected − 1 over the windows that indicate a change; at most 9."""
        used, expected = self._worst.used, self._worst.expected
        return used / max(expected, used / 10, 1e-12) - 1

    @property
    def suspicious(self) -> int:
        """How many of the last windows indicate a change."""
        return self._worst.count


class _Side:
    """The sum for more than expected (+1), or for less (−1)."""

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


KEPT = 1000
"""Samples kept: windows of the last three hours."""
MATURE = 30
"""Samples needed before checking for drift."""
REFIT_SHARE = 0.1
"""Fit again when more than this share of the samples is new."""
CARRIED = 40
"""Points that represent the base when its range is extended."""


class CurveLearner:
    """Learns one curve; ``base``: the curve of a profile."""

    def __init__(self, name: str, kinds: Sequence[str], base: Fitted | None = None) -> None:
        self.name = name
        self.base = base if base is not None and base.samples else None
        self.samples: deque[WindowSample] = deque(maxlen=KEPT)
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
        """Whether the base needs no change: no drift, and no sample far beyond its range."""
        return self.base is not None and not any(s.x > BEYOND * self.base.high for s in self.samples)

    def add(self, sample: WindowSample) -> Drift | None:
        """Add a sample; return the drift it reveals, if any."""
        self.samples.append(sample)
        self._new += 1
        self._unwatched += 1
        if self._watched is None or (self.base is None and self._unwatched >= self._watch_anew_after):
            self._watch()
            return None
        known, cusum = self._watched
        # Samples beyond the range count too: an extrapolation that wrong is not fit to decide on.
        if not cusum.add(sample.y, known.estimate(sample.x).value, _least(known, sample.x)):
            return None
        change, last = cusum.change, cusum.suspicious
        self._restart(last)
        return Drift(operator=self.name, time_s=sample.time_s, change=change)

    def _watch(self) -> None:
        """Compare new samples with the curve as known now; update it once there are twice as many."""
        if len(self.samples) < MATURE:
            return
        found = fit([s.x for s in self.samples], [s.y for s in self.samples], kinds=QUICK)
        if found is not None:
            self._watched = (found, Cusum(found.error))
            self._unwatched, self._watch_anew_after = 0, len(self.samples)

    def fit(self, kinds: Sequence[str] | None = None) -> Fitted | None:
        """The curve through the samples kept; fitted again if a tenth is new, or with other kinds of models."""
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

    def _restart(self, last: int) -> None:
        """Keep only the samples that raised the alarm: they show the current cost."""
        recent = list(self.samples)[-max(1, last) :]
        self.samples.clear()
        self.samples.extend(recent)
        self.base = self._fit = self._watched = None
        self._new = 0


def _least(known: Fitted, x: float) -> float:
    """Least expected value, so that idling is no change: a share of the largest, as in ``fitting``. Below the range,
    where the curve is a guess, the cost at its lower end."""
    least = max(LEAST_SHARE * known.estimate(known.high).value, LEAST)
    return max(least, known.estimate(known.low).value) if x < known.low else least
