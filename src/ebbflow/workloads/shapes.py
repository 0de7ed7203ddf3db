"""Load shapes given by a formula, and noise on any load.

Shapes are endless, start at their trough and stay between ``base`` and ``peak``. Each knows its integral, so rows are
counted exactly however narrow a peak is.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import numpy.typing as npt

from ebbflow.core.curve import Floats
from ebbflow.core.duration import format_duration
from ebbflow.core.parameters import Duration, Number, Whole
from ebbflow.errors import LoadError
from ebbflow.workloads.hashing import Words, hashed, normal, uniform
from ebbflow.workloads.load import Derived, Load, LoadKind, Rate, Shape, refined, seed_kind

MIN_PERIOD_S = 0.001

Base = Annotated[float, Rate("rows per second at the trough")]
Peak = Annotated[float, Rate("rows per second at the peak")]
Period = Annotated[float, Duration("length of one cycle", at_least=MIN_PERIOD_S)]


@dataclass(frozen=True, kw_only=True)
class Constant(Shape):
    """A constant rate: rate(t) = level.

    >>> Constant(level_per_s=50).rate_per_s(np.array([0.0, 1e6]))
    array([50., 50.])
    """

    shape: ClassVar[str] = "constant"
    level_per_s: Annotated[float, Rate("rows per second", key="rate")]

    @property
    def span_s(self) -> float:
        """Any length will do."""
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
            peak, base = (Rate("").write(each) for each in (self.peak_per_s, self.base_per_s))
            raise LoadError(
                f"{self.shape} has its peak {peak} below its base {base}; "
                f"did you mean base={peak}, peak={base}?"
            )

    @abstractmethod
    def _height(self, times_s: Floats) -> Floats:
        """Height above the base, from 0 (base) to 1 (peak)."""

    @abstractmethod
    def _area(self, times_s: Floats) -> Floats:
        """∫ height dt up to each of the ascending times, in seconds, from any fixed start."""

    def _rate_per_s(self, times_s: Floats) -> Floats:
        # a weighted mean, because in floats base + (peak − base) may differ from peak
        height = self._height(times_s)
        return self.base_per_s * (1.0 - height) + self.peak_per_s * height

    def _rows_between(self, edges_s: Floats) -> Floats:
        rise_per_s = self.peak_per_s - self.base_per_s
        return self.base_per_s * np.diff(edges_s) + rise_per_s * np.diff(self._area(edges_s))


@dataclass(frozen=True, kw_only=True)
class Step(_Wave):
    """A single jump: base before ``at``, peak from then on.

    >>> Step(base_per_s=10, peak_per_s=90, at_s=60).rate_per_s(np.array([59.0, 60.0, 1e5]))
    array([10., 90., 90.])
    """

    shape: ClassVar[str] = "step"
    at_s: Annotated[float, Duration("when it jumps")]

    @property
    def span_s(self) -> float:
        """Twice the time to the jump, so that a plot shows both levels."""
        return max(1.0, 2.0 * self.at_s)

    def _height(self, times_s: Floats) -> Floats:
        return (times_s >= self.at_s).astype(np.float64)

    def _area(self, times_s: Floats) -> Floats:
        return np.maximum(times_s - self.at_s, 0.0)


@dataclass(frozen=True, kw_only=True)
class Stair(_Wave):
    """Up in equal steps and down again, then level at the base (Elysium, §6).

    Level j = 0 … 2·steps has the height min(j, 2·steps − j) / steps.

    >>> Stair(base_per_s=0, peak_per_s=20, steps=2, hold_s=10).rate_per_s(np.arange(5.0, 60.0, 10.0))
    array([ 0., 10., 20., 10.,  0.,  0.])
    """

    shape: ClassVar[str] = "stair"
    steps: Annotated[int, Whole("number of steps up, and again down", at_least=1, at_most=1000)]
    hold_s: Annotated[float, Duration("time on each level", at_least=MIN_PERIOD_S)]

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
    """A wave that repeats; subclasses define height and area of one period."""

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
        # divmod assigns a time to the same period for both parts; a separate quotient might not
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
    duty: Annotated[float, Number("share of the period at the peak", above=0, below=1)] = 0.5

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
    """A linear rise from base to peak with a drop at the end of each period: height = phase.

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
    """A day of a web service, scaled to ``period``: night, steep morning, dip after midday, evening peak.

    Between knots the height follows half a cosine, so it is smooth and has its extremes at the knots:
    h = a + (b − a)·(1 − cos πu)/2, ∫h = a·u + (b − a)·(u − sin(πu)/π)/2.

    >>> day = Day(base_per_s=100, peak_per_s=1000, period_s=86400)
    >>> hours = np.array([0.0, 4.0, 12.0, 14.5, 20.0, 23.999])
    >>> np.round(day.rate_per_s(hours * 3600))
    array([ 100.,  127.,  838.,  694., 1000.,  100.])
    """

    shape: ClassVar[str] = "day"
    _HOURS: ClassVar[Floats] = np.array([0.0, 4.0, 9.5, 12.0, 14.5, 20.0, 24.0])
    _HEIGHTS: ClassVar[Floats] = np.array([0.0, 0.03, 0.75, 0.82, 0.66, 1.0, 0.0])

    def _knots(self, phase: Floats) -> tuple[npt.NDArray[np.intp], Floats, Floats, Floats]:
        """For each phase: index of the knot before it, the heights of that knot and the next, the position between."""
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
    """Base with ``peaks`` peaks of random length at random times in each period.

    Modelled on the PeriodicRandomSource of Rules (§5.2.5), which has two rates. Each period is divided into one
    slot per peak. A peak lasts a tenth to a half of its slot and lies anywhere in it. Periods differ, so the
    frequency of peaks can be learned, but not when the next one comes.

    >>> load = Periodic(base_per_s=10, peak_per_s=20, period_s=600, peaks=5, seed=1)
    >>> sorted(float(rate) for rate in set(load.rate_per_s(np.arange(0.0, 600.0))))
    [10.0, 20.0]
    """

    shape: ClassVar[str] = "periodic"
    period_s: Period
    peaks: Annotated[int, Whole("number of peaks in each period", at_least=1, at_most=1000)] = 3
    seed: Annotated[int, seed_kind("selects the random times and lengths")] = 0

    def _check(self) -> None:
        super()._check()
        if self.period_s < self.peaks:
            raise LoadError(
                f"periodic has {self.peaks} peaks in a period of {format_duration(self.period_s)}; "
                f"each needs at least a second"
            )

    @property
    def span_s(self) -> float:
        """One period."""
        return self.period_s

    def _place(self, times_s: Floats) -> tuple[Floats, Floats, Floats]:
        """The phase of each time in its slot, and the phases at which that slot's peak begins and ends."""
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


@dataclass(frozen=True, kw_only=True)
class Noise(Derived, Shape):
    """Another load multiplied by a random factor that changes every second.

    factor(k) = exp(σ·z(k) − σ²/2) with σ² = ln(1 + amount²) and z(k) standard normal, a hash of (seed, k). It
    is never negative and has mean 1 and standard deviation ``amount``, so noise does not change the long-run total.

    >>> from ebbflow.workloads import Constant
    >>> load = Noise(load=Constant(level_per_s=1000), amount=0.1, seed=3)
    >>> rates = load.rate_per_s(np.arange(0.0, 10_000.0))
    >>> round(float(rates.mean()), -1), round(float(rates.std()), -1)
    (1000.0, 100.0)
    >>> str(load)
    'noise(constant(1000), amount=0.1, seed=3)'
    """

    shape: ClassVar[str] = "noise"
    load: Annotated[Load, LoadKind("the load to add noise to")]
    amount: Annotated[float, Number("standard deviation, as a share of the rate", at_least=0, at_most=10)]
    seed: Annotated[int, seed_kind("selects the random factors")] = 0

    def _factor(self, times_s: Floats) -> Floats:
        variance = math.log1p(self.amount**2)
        seconds = np.floor(times_s).astype(np.uint64)
        return np.asarray(np.exp(math.sqrt(variance) * normal(self.seed, seconds) - variance / 2))

    def _rate_per_s(self, times_s: Floats) -> Floats:
        return self.load.rate_per_s(times_s) * self._factor(times_s)

    def _rows_between(self, edges_s: Floats) -> Floats:
        # the factor is constant within a second: split at whole seconds, then sum the pieces
        fine_s, old = refined(edges_s, 1.0)
        rows = self.load.rows_between(fine_s) * self._factor(fine_s[:-1])
        return np.diff(np.concatenate(([0.0], np.cumsum(rows)))[old])
