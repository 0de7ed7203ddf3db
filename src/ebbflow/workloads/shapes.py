"""Load shapes with a formula: what the seeds drive their pipelines with.

All are endless, start at their trough and stay between ``base`` and ``peak``. Each knows its integral, so
that rows are counted exactly however narrow a peak is.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import numpy.typing as npt

from ebbflow.core.curve import Floats
from ebbflow.errors import LoadError
from ebbflow.workloads.hashing import Words, hashed, uniform
from ebbflow.workloads.load import Shape, refined
from ebbflow.workloads.parameters import COUNT, MOMENT, PERIOD, RATE, SEED, SHARE, write_number

Base = Annotated[float, RATE("base", "rows per second at the trough")]
Peak = Annotated[float, RATE("peak", "rows per second at the peak")]
Period = Annotated[float, PERIOD("period", "after which it starts again")]


@dataclass(frozen=True, kw_only=True)
class Constant(Shape):
    """Always the same: rate(t) = level.

    >>> Constant(level_per_s=50).rate_per_s(np.array([0.0, 1e6]))
    array([50., 50.])
    """

    shape: ClassVar[str] = "constant"
    level_per_s: Annotated[float, RATE("rate", "rows per second, always")]

    @property
    def span_s(self) -> float:
        """A second is as good as any."""
        return 1.0

    def _rate_per_s(self, times_s: Floats) -> Floats:
        return np.full_like(times_s, self.level_per_s)

    def _rows_between(self, edges_s: Floats) -> Floats:
        return self.level_per_s * np.diff(edges_s)


@dataclass(frozen=True, kw_only=True)
class _Wave(Shape):
    """A shape between base and peak: rate(t) = base + (peak − base) · height(t), height from 0 to 1."""

    base_per_s: Base
    peak_per_s: Peak

    def _check(self) -> None:
        if self.peak_per_s < self.base_per_s:
            peak, base = write_number(self.peak_per_s), write_number(self.base_per_s)
            raise LoadError(
                f"{self.shape} has its peak {peak} below its base {base}; "
                f"did you mean base={peak}, peak={base}?"
            )

    @abstractmethod
    def _height(self, times_s: Floats) -> Floats:
        """Height above the base, as a share of the way to the peak."""

    @abstractmethod
    def _area(self, times_s: Floats) -> Floats:
        """∫ height dt up to each of the ascending times, in seconds; from where does not matter."""

    def _rate_per_s(self, times_s: Floats) -> Floats:
        # as a mean of the two ends, because base + (peak − base) need not be peak in floats
        height = self._height(times_s)
        return self.base_per_s * (1.0 - height) + self.peak_per_s * height

    def _rows_between(self, edges_s: Floats) -> Floats:
        rise_per_s = self.peak_per_s - self.base_per_s
        return self.base_per_s * np.diff(edges_s) + rise_per_s * np.diff(self._area(edges_s))


@dataclass(frozen=True, kw_only=True)
class Step(_Wave):
    """One jump that stays: base before ``at``, peak from then on.

    >>> Step(base_per_s=10, peak_per_s=90, at_s=60).rate_per_s(np.array([59.0, 60.0, 1e5]))
    array([10., 90., 90.])
    """

    shape: ClassVar[str] = "step"
    at_s: Annotated[float, MOMENT("at", "when it jumps")]

    @property
    def span_s(self) -> float:
        """As long after the jump as before it, so that a picture shows both."""
        return max(1.0, 2.0 * self.at_s)

    def _height(self, times_s: Floats) -> Floats:
        return (times_s >= self.at_s).astype(np.float64)

    def _area(self, times_s: Floats) -> Floats:
        return np.maximum(times_s - self.at_s, 0.0)


@dataclass(frozen=True, kw_only=True)
class Stair(_Wave):
    """Up in equal steps and down again, each level held; then it stays at the base (Elysium, §6).

    Level j of 0 … 2·steps has the height min(j, 2·steps − j) / steps.

    >>> Stair(base_per_s=0, peak_per_s=20, steps=2, hold_s=10).rate_per_s(np.arange(5.0, 60.0, 10.0))
    array([ 0., 10., 20., 10.,  0.,  0.])
    """

    shape: ClassVar[str] = "stair"
    steps: Annotated[int, COUNT("steps", "how many steps up, and as many down")]
    hold_s: Annotated[float, PERIOD("hold", "how long it stays on each level")]

    @property
    def span_s(self) -> float:
        """All levels, up and down."""
        return (2 * self.steps + 1) * self.hold_s

    def _height(self, times_s: Floats) -> Floats:
        level = np.floor(times_s / self.hold_s)
        return np.asarray(np.maximum(np.minimum(level, 2 * self.steps - level), 0.0) / self.steps)

    def _area(self, times_s: Floats) -> Floats:
        edges_s = self.hold_s * np.arange(2 * self.steps + 2)
        heights = self._height(np.asarray(edges_s[:-1] + 0.5 * self.hold_s, dtype=np.float64))
        return np.interp(times_s, edges_s, np.concatenate(([0.0], np.cumsum(heights * self.hold_s))))


@dataclass(frozen=True, kw_only=True)
class _Repeating(_Wave):
    """A wave that starts again after each period; heights and areas come from one period."""

    period_s: Period

    @property
    def span_s(self) -> float:
        """One period."""
        return self.period_s

    @abstractmethod
    def _phase_height(self, phase: Floats) -> Floats:
        """Height at a phase from 0 to 1."""

    @abstractmethod
    def _phase_area(self, phase: Floats) -> Floats:
        """∫ height from phase 0, in periods."""

    def _height(self, times_s: Floats) -> Floats:
        return np.clip(self._phase_height(np.mod(times_s, self.period_s) / self.period_s), 0.0, 1.0)

    def _area(self, times_s: Floats) -> Floats:
        # floor_divide and mod agree on which period a time belongs to; a quotient would not
        rounds, within_s = np.divmod(times_s, self.period_s)
        whole = self._phase_area(np.ones(1))[0]
        return np.asarray(self.period_s * (rounds * whole + self._phase_area(within_s / self.period_s)))


@dataclass(frozen=True, kw_only=True)
class Square(_Repeating):
    """Base, then peak for the last ``duty`` of each period (Rules, §5.2.6: 40 s at 10, 20 s at 20).

    >>> Square(base_per_s=10, peak_per_s=20, period_s=60, duty=1/3).rate_per_s(np.array([0.0, 39.0, 41.0]))
    array([10., 10., 20.])
    """

    shape: ClassVar[str] = "square"
    duty: Annotated[float, SHARE("duty", "share of the period at the peak")] = 0.5

    def _phase_height(self, phase: Floats) -> Floats:
        return (phase >= 1.0 - self.duty).astype(np.float64)

    def _phase_area(self, phase: Floats) -> Floats:
        return np.maximum(phase - (1.0 - self.duty), 0.0)


@dataclass(frozen=True, kw_only=True)
class Sine(_Repeating):
    """A sine that starts at its trough: height = (1 − cos 2πt/period) / 2.

    >>> Sine(base_per_s=100, peak_per_s=900, period_s=600).rate_per_s(np.array([0.0, 150.0, 300.0]))
    array([100., 500., 900.])
    """

    shape: ClassVar[str] = "sine"

    def _phase_height(self, phase: Floats) -> Floats:
        return np.asarray(0.5 - 0.5 * np.cos(2.0 * np.pi * phase))

    def _phase_area(self, phase: Floats) -> Floats:
        return np.asarray(0.5 * phase - np.sin(2.0 * np.pi * phase) / (4.0 * np.pi))


@dataclass(frozen=True, kw_only=True)
class Sawtooth(_Repeating):
    """A straight rise from base to peak, and a drop at the end of each period: height = phase.

    >>> Sawtooth(base_per_s=0, peak_per_s=60, period_s=60).rate_per_s(np.array([0.0, 30.0, 59.0, 60.0]))
    array([ 0., 30., 59.,  0.])
    """

    shape: ClassVar[str] = "sawtooth"

    def _phase_height(self, phase: Floats) -> Floats:
        return phase

    def _phase_area(self, phase: Floats) -> Floats:
        return 0.5 * phase * phase


@dataclass(frozen=True, kw_only=True)
class Day(_Repeating):
    """A day of a web service, compressed into ``period``: night, steep morning, dip after midday, evening.

    Between the knots below the height moves on half a cosine, so that it is smooth and has its extremes
    at the knots: h = a + (b − a)·(1 − cos πu)/2, ∫h = a·u + (b − a)·(u − sin(πu)/π)/2.

    >>> day = Day(base_per_s=100, peak_per_s=1000, period_s=86400)
    >>> hours = np.array([0.0, 4.0, 12.0, 14.5, 20.0, 23.999])
    >>> np.round(day.rate_per_s(hours * 3600))
    array([ 100.,  127.,  838.,  694., 1000.,  100.])
    """

    shape: ClassVar[str] = "day"
    _HOURS: ClassVar[Floats] = np.array([0.0, 4.0, 9.5, 12.0, 14.5, 20.0, 24.0])
    _HEIGHTS: ClassVar[Floats] = np.array([0.0, 0.03, 0.75, 0.82, 0.66, 1.0, 0.0])

    def _knots(self, phase: Floats) -> tuple[npt.NDArray[np.intp], Floats, Floats, Floats]:
        """Index of the knot before each phase, the heights there and after, and the way between."""
        knots = self._HOURS / 24.0
        index = np.clip(np.searchsorted(knots, phase, side="right") - 1, 0, len(knots) - 2)
        way = (phase - knots[index]) / (knots[index + 1] - knots[index])
        return index, self._HEIGHTS[index], self._HEIGHTS[index + 1], way

    def _phase_height(self, phase: Floats) -> Floats:
        _, before, after, way = self._knots(phase)
        return np.asarray(before + (after - before) * (0.5 - 0.5 * np.cos(np.pi * way)))

    def _phase_area(self, phase: Floats) -> Floats:
        widths = np.diff(self._HOURS) / 24.0
        means = 0.5 * (self._HEIGHTS[1:] + self._HEIGHTS[:-1])
        until = np.concatenate(([0.0], np.cumsum(widths * means)))
        index, before, after, way = self._knots(phase)
        eased = 0.5 * (way - np.sin(np.pi * way) / np.pi)
        return np.asarray(until[index] + widths[index] * (before * way + (after - before) * eased))


@dataclass(frozen=True, kw_only=True)
class Periodic(_Wave):
    """Base with peaks of random length at random moments, ``peaks`` of them in each period.

    After the PeriodicRandomSource of Rules (§5.2.5), which knows two rates. Each period is divided into as
    many equal slots as peaks; each slot has one peak, a tenth to a half as long as the slot, anywhere in
    it. No two periods are alike: how often peaks come can be learned, when the next comes cannot.

    >>> load = Periodic(base_per_s=10, peak_per_s=20, period_s=600, peaks=5, seed=1)
    >>> sorted(float(rate) for rate in set(load.rate_per_s(np.arange(0.0, 600.0))))
    [10.0, 20.0]
    """

    shape: ClassVar[str] = "periodic"
    period_s: Period
    peaks: Annotated[int, COUNT("peaks", "how many peaks there are in each period")] = 3
    seed: Annotated[int, SEED("seed", "which random moments and lengths")] = 0

    def _check(self) -> None:
        super()._check()
        if self.period_s < self.peaks:
            raise LoadError(
                f"periodic has {self.peaks} peaks in a period of {write_number(self.period_s)}s; "
                f"each needs at least a second"
            )

    @property
    def span_s(self) -> float:
        """One period."""
        return self.period_s

    def _place(self, times_s: Floats) -> tuple[Floats, Floats, Floats]:
        """Phase of each time in its slot, and the phases at which that slot's peak begins and ends."""
        slot, phase = np.divmod(times_s * (self.peaks / self.period_s), 1.0)
        counters: Words = slot.astype(np.uint64) * np.uint64(2)
        length = 0.1 + 0.4 * uniform(hashed(self.seed, counters))
        begin = (1.0 - length) * uniform(hashed(self.seed, counters + np.uint64(1)))
        return phase, begin, begin + length

    def _height(self, times_s: Floats) -> Floats:
        phase, begin, end = self._place(times_s)
        return ((phase >= begin) & (phase < end)).astype(np.float64)

    def _area(self, times_s: Floats) -> Floats:
        slot_s = self.period_s / self.peaks
        fine_s, _ = refined(times_s, slot_s)
        low_s, high_s = fine_s[:-1], fine_s[1:]
        slot_start_s = slot_s * np.floor((low_s + high_s) / 2 / slot_s)
        _, begin, end = self._place((low_s + high_s) / 2)
        until_s = np.minimum(high_s, slot_start_s + end * slot_s)
        since_s = np.maximum(low_s, slot_start_s + begin * slot_s)
        covered_s = np.concatenate(([0.0], np.cumsum(np.maximum(until_s - since_s, 0.0))))
        return np.asarray(covered_s[np.searchsorted(fine_s, times_s)])
