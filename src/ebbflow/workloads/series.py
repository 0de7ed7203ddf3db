"""A load as the means of even steps: the series on which forecasters are tried.

A recorded load is never interpolated. Its steps consist of whole samples, and a step of which less than half was
recorded is missing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ebbflow.core.curve import Floats
from ebbflow.core.duration import format_duration
from ebbflow.core.plural import counted
from ebbflow.errors import LoadError, StepError
from ebbflow.forecasting.backtest import LoadSeries
from ebbflow.workloads.load import Load
from ebbflow.workloads.trace import Trace

OUTAGE_S = 600.0
"""Zeros for this long, in a load that is hardly ever 0, are an outage of the recording."""
_OUTAGE_SAMPLES = 10
_RARELY = 0.05
"""A load is hardly ever 0 if a smaller share of its samples is."""
_AT_A_TIME = 256
"""Steps of a formula that are integrated at once, which bounds the memory for loads that change every second."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Counted:
    """Rows that were counted in intervals.

    >>> minutes = 60.0 * np.arange(7)
    >>> load = Counted(starts_s=minutes[:-1], ends_s=minutes[1:], rows=np.array([60, 180, 60, 60, 120, 0]), step_s=60.0)
    >>> load.series(120.0, most=10).values.tolist()
    [2.0, 1.0, 1.0]
    >>> load.series(90.0, most=10)
    Traceback (most recent call last):
    ...
    ebbflow.errors.StepError: steps of 1m30s are not a multiple of the 1m between its samples
    """

    starts_s: Floats
    ends_s: Floats
    rows: Floats
    step_s: float
    """Usual length of an interval."""
    even: bool = True
    """False if intervals end at any time, as those of readings do; each belongs to the step in which it ends."""
    note: str = ""
    """What readers must know about the samples."""

    def series(self, step_s: float, *, most: int) -> LoadSeries:
        """The last ``most`` steps that are not missing."""
        if step_s < self.step_s * (1 - 1e-6):
            raise StepError(
                f"steps of {format_duration(step_s)} are shorter than the {format_duration(self.step_s)} between "
                "its samples"
            )
        samples = step_s / self.step_s
        if self.even and abs(samples - round(samples)) > 1e-6 * samples:
            raise StepError(
                f"steps of {format_duration(step_s)} are not a multiple of the {format_duration(self.step_s)} "
                "between its samples"
            )
        base_s = self._first_edge_s(step_s)
        at_s = self.starts_s + self.step_s / 2 if self.even else self.ends_s
        slots = np.floor((at_s - base_s) / step_s).astype(np.int64)
        if not self.even:  # a reading at an edge describes the time before it
            slots = (np.ceil((at_s - base_s) / step_s) - 1).astype(np.int64)
        first = int(np.searchsorted(slots, 0))
        slots, lengths_s, rows = slots[first:], (self.ends_s - self.starts_s)[first:], self.rows[first:]
        if not len(slots):
            return LoadSeries(step_s=step_s, ends_s=np.zeros(0), values=np.zeros(0))
        begins = np.concatenate(([0], np.flatnonzero(np.diff(slots)) + 1))
        covered_s, sums = np.add.reduceat(lengths_s, begins), np.add.reduceat(rows, begins)
        ends_s = base_s + step_s * (slots[begins] + 1)
        complete = (covered_s >= step_s / 2) & (ends_s <= self.ends_s[-1] + self.step_s / 2)
        values = sums[complete] / covered_s[complete]
        return LoadSeries(step_s=step_s, ends_s=ends_s[complete][-most:], values=values[-most:])

    def _first_edge_s(self, step_s: float) -> float:
        """The first sample at which steps end at round times, as 12:05; the first of all if that would cost many."""
        start_s = float(self.starts_s[0])
        skipped = math.floor((-start_s % step_s) / self.step_s + 1e-6)
        return start_s + skipped * self.step_s if skipped <= len(self.rows) / 10 else start_s


@dataclass(frozen=True, kw_only=True, eq=False)
class Computed:
    """A load that is known at every time: a formula, or traces in an expression.

    >>> from ebbflow.workloads import parse_load
    >>> Computed(load=parse_load("square(base=0, peak=10, period=2m)")).series(60.0, most=3).values.tolist()
    [0.0, 10.0, 0.0]
    """

    load: Load
    note: str = ""

    @property
    def step_s(self) -> float:
        """The sampling interval; 0 for a formula."""
        return self.load.sample_step_s

    def series(self, step_s: float, *, most: int) -> LoadSeries:
        """The last ``most`` steps of a load that ends, the first ones of a load that does not."""
        sample_s = self.load.sample_step_s
        if sample_s and (step_s < sample_s or abs(step_s / sample_s - round(step_s / sample_s)) > 1e-6):
            raise StepError(
                f"steps of {format_duration(step_s)} are not a multiple of the {format_duration(sample_s)} between "
                "its samples"
            )
        end_s = self.load.duration_s
        if sample_s and math.isinf(end_s):  # a trace that repeats, or that is added to a formula
            end_s = self.load.span_s
        whole = math.floor(min(end_s / step_s, 1e15) + 1e-9)
        first = max(0, whole - most) if math.isfinite(end_s) else 0
        edges_s = step_s * np.arange(first, first + min(most, whole) + 1, dtype=np.float64)
        parts = [
            self.load.rows_between(edges_s[begin : begin + _AT_A_TIME + 1])
            for begin in range(0, len(edges_s) - 1, _AT_A_TIME)
        ]
        rows = np.concatenate(parts) if parts else np.zeros(0)
        return LoadSeries(step_s=step_s, ends_s=edges_s[1:], values=rows / step_s)


def samples_of(load: Load, *, keep_zeros: bool = False, keep_last_zeros: bool = False) -> Counted | Computed:
    """The samples of a trace, or the load itself if it is a formula.

    In a trace that is hardly ever 0, zeros for ten minutes and ten samples or more count as an outage of the
    recording: its steps are missing. ``keep_last_zeros`` keeps those at the end, which may be the present load.
    """
    if not isinstance(load, Trace):
        return Computed(load=load)
    section = load.section
    rows, kept = np.diff(section.until), np.ones(len(section.starts_s), dtype=bool)
    note = ""
    if not keep_zeros:
        kept = ~_outages(rows, section.step_s, keep_last=keep_last_zeros)
        lost = int(np.sum(~kept))
        if lost:
            note = (
                f"{counted(lost, 'sample')} of 0 within an outage of {format_duration(OUTAGE_S)} or more count as "
                "missing (--keep-zeros keeps them)"
            )
    return Counted(
        starts_s=section.origin_s + section.starts_s[kept],
        ends_s=section.origin_s + section.ends_s[kept],
        rows=rows[kept],
        step_s=section.step_s,
        note=note,
    )


def readings_of(times_s: Floats, rates_per_s: Floats) -> Counted:
    """Readings of a rate, each of which describes the time since the one before, or since one interval after a gap."""
    if len(times_s) < 2:
        raise LoadError(f"there are only {counted(len(times_s), 'reading')} of the arrival rate")
    apart_s = np.diff(times_s)
    step_s = float(np.median(apart_s))
    lengths_s = np.append(step_s, np.where(apart_s > 10 * step_s, step_s, apart_s))
    return Counted(
        starts_s=times_s - lengths_s,
        ends_s=times_s,
        rows=rates_per_s * lengths_s,
        step_s=step_s,
        even=False,
    )


def _outages(rows: Floats, step_s: float, *, keep_last: bool) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which samples belong to an outage."""
    zero = rows == 0
    found = np.zeros(len(rows), dtype=bool)
    if not zero.any() or zero.mean() >= _RARELY:
        return found
    edges = np.flatnonzero(np.diff(np.concatenate(([False], zero, [False])).astype(np.int8)))
    for begin, end in zip(edges[::2], edges[1::2], strict=True):
        long = end - begin >= max(_OUTAGE_SAMPLES, OUTAGE_S / step_s)
        if long and not (keep_last and end == len(rows)):
            found[begin:end] = True
    return found
