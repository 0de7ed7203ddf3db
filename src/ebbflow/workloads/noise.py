"""Noise on another load: what a forecaster must not mistake for a trend."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from ebbflow.core.curve import Floats
from ebbflow.workloads.hashing import normal
from ebbflow.workloads.load import LOAD, Load, Shape, refined
from ebbflow.workloads.parameters import SEED, SPREAD


@dataclass(frozen=True, kw_only=True)
class Noise(Shape):
    """Another load, multiplied by a random factor that changes every second.

    factor(k) = exp(σ·z(k) − σ²/2) with σ² = ln(1 + amount²) and z standard normal by (seed, k): never
    negative, mean 1, standard deviation ``amount``. So noise changes no total in the long run, and second k
    has the same factor whoever asks.

    >>> from ebbflow.workloads import Constant
    >>> load = Noise(load=Constant(level_per_s=1000), amount=0.1, seed=3)
    >>> rates = load.rate_per_s(np.arange(0.0, 10_000.0))
    >>> round(float(rates.mean()), -1), round(float(rates.std()), -1)
    (1000.0, 100.0)
    >>> str(load)
    'noise(constant(1000), amount=0.1, seed=3)'
    """

    shape: ClassVar[str] = "noise"
    load: Annotated[Load, LOAD("load", "what is made noisy")]
    amount: Annotated[float, SPREAD("amount", "standard deviation, as a share of the rate")]
    seed: Annotated[int, SEED("seed", "which noise")] = 0

    @property
    def duration_s(self) -> float:
        """As of the load itself."""
        return self.load.duration_s

    @property
    def span_s(self) -> float:
        """As of the load itself."""
        return self.load.span_s

    @property
    def sample_step_s(self) -> float:
        """As of the load itself: noise tells nothing that was not recorded."""
        return self.load.sample_step_s

    def _factor(self, times_s: Floats) -> Floats:
        variance = math.log1p(self.amount**2)
        seconds = np.floor(times_s).astype(np.uint64)
        return np.asarray(np.exp(math.sqrt(variance) * normal(self.seed, seconds) - variance / 2))

    def _rate_per_s(self, times_s: Floats) -> Floats:
        return self.load.rate_per_s(times_s) * self._factor(times_s)

    def _rows_between(self, edges_s: Floats) -> Floats:
        # the factor is constant within a second, so cut at whole seconds and add the pieces up again
        fine_s, old = refined(edges_s, 1.0)
        rows = self.load.rows_between(fine_s) * self._factor(fine_s[:-1])
        return np.diff(np.concatenate(([0.0], np.cumsum(rows)))[old])
