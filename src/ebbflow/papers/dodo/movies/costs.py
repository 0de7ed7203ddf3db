"""What fresh lists cost, by batch job and by stream (§5.4).

A batch job on all ratings so far takes T(D) = c · D^k seconds for D ratings, fitted to measured times. To refresh the
lists every F seconds it is busy for T(D)/F of the time, and cannot keep up if T(D) > F on the machine at hand. The
stream always runs, on ⌈λ/μ⌉ machines for λ ratings per second, if one machine holds μ. Both are billed by the second:

    batch   T(D)/F machines
    stream  ⌈λ/μ⌉ machines

So the stream is cheaper if the lists must be fresher than F* = T(D)/⌈λ/μ⌉. With D = λ · t, the data of the time t, this
gives for each freshness the arrival rate from which on the stream is cheaper.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

DAY_S = 86_400.0
USD_PER_CORE_HOUR = 0.065
"""The price of an instance with one core in the paper (Table 6), used for both."""


@dataclass(frozen=True, kw_only=True)
class BatchModel:
    """Time of the batch job: T(D) = factor · D^exponent.

    >>> model = BatchModel.fitted([(1000, 2.0), (2000, 4.0), (4000, 8.0)])
    >>> round(model.exponent, 3), round(model.seconds(3000), 3)
    (1.0, 6.0)
    """

    factor: float
    exponent: float

    @classmethod
    def fitted(cls, times: Sequence[tuple[int, float]]) -> BatchModel:
        """By least squares on logarithms, from at least two sizes."""
        sizes, seconds = np.log(np.array(times, np.float64)).T
        exponent, offset = np.polyfit(sizes, seconds, 1)
        return cls(factor=float(math.exp(offset)), exponent=float(exponent))

    def seconds(self, ratings: float) -> float:
        """Time of the job on so many ratings."""
        return float(self.factor * ratings**self.exponent)


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Cost of both on machines with some cores.

    >>> costs = Costs(batch=BatchModel(factor=0.001, exponent=1.0), stream_per_s=10_000.0, cores=2)
    >>> round(costs.batch_usd_per_day(1_000_000, refresh_s=3600.0), 2), costs.stream_usd_per_day(200.0)
    (0.87, 3.12)
    >>> costs.batch_usd_per_day(1_000_000, refresh_s=600.0) is None  # a run takes 1,000 s
    True
    >>> round(costs.break_even_freshness_s(1_000_000, rate_per_s=200.0))
    1000
    """

    batch: BatchModel
    stream_per_s: float
    """Ratings per second that the stream holds on one machine."""
    cores: int

    def batch_usd_per_day(self, ratings: float, *, refresh_s: float) -> float | None:
        """Cost of the batch job, with this much data; None if a run takes longer than the refresh."""
        took_s = self.batch.seconds(ratings)
        return None if took_s > refresh_s else took_s / refresh_s * self._machine_usd_per_day

    def stream_usd_per_day(self, rate_per_s: float) -> float:
        """Cost of the stream."""
        return self.machines(rate_per_s) * self._machine_usd_per_day

    def machines(self, rate_per_s: float) -> int:
        """Machines that the stream needs."""
        return max(1, math.ceil(rate_per_s / self.stream_per_s))

    def break_even_freshness_s(self, ratings: float, *, rate_per_s: float) -> float:
        """The stream is cheaper if lists must be fresher than this."""
        return self.batch.seconds(ratings) / self.machines(rate_per_s)

    def break_even_rate_per_s(self, refresh_s: float, *, data_s: float = DAY_S) -> float | None:
        """From this arrival rate on the stream is cheaper, with the data of a time.

        None if it is not up to ten times what one machine holds; beyond that nothing was measured. Searched upwards in
        steps of 2 %, because the cost of the stream has steps.
        """
        rate = 0.01
        while rate < 10 * self.stream_per_s:
            if self.break_even_freshness_s(rate * data_s, rate_per_s=rate) >= refresh_s:
                return rate
            rate *= 1.02
        return None

    @property
    def _machine_usd_per_day(self) -> float:
        return self.cores * 24 * USD_PER_CORE_HOUR
