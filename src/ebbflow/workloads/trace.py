"""A recorded load, stretched and sped up to fit the cluster at hand."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import numpy as np
import numpy.typing as npt

from ebbflow.core.curve import Floats
from ebbflow.errors import LoadError
from ebbflow.workloads.load import Shape
from ebbflow.workloads.parameters import FACTOR, FILE, FLAG, MOMENT, RATE, SEED, choice, write_duration
from ebbflow.workloads.trace_file import Samples, read_samples

_MOST_PER_S = 1e12
_DRAWN_CELLS = 4096
"""About how many cells are drawn at a time."""


@dataclass(frozen=True, kw_only=True)
class Trace(Shape):
    """A load read from a file of (time, events in the interval that starts then).

    ``peak`` stretches it so that the highest sample of the section shown becomes that many rows per second.
    ``speed`` compresses time: at 60 an hour passes in a minute. Without ``peak`` the same events then come
    in less time, so rates are multiplied by ``speed``; with it they stay at ``peak``.
    ``start`` and ``end`` cut a section, in the trace's own time from its first row.
    ``repeat`` starts again at the end, for ever.

    ``between`` says how the load moves inside a coarse sample. Interpolation leaks the
    future through its slope and flatters whoever extrapolates.

    - ``hold``: constant within each interval.
    - ``draw``: random arrivals within each interval, by ``seed``. They are independent of each other, as in a
      Poisson process, in cells of about a second; the interval keeps its sum.
    - ``line``: straight from each sample to the next. For pictures, not for scores.

    A distance of more than 1.5 steps between rows is a gap, in which nothing arrives. The file is read when
    the load is made; a pickled trace carries its section with it and needs the file no more.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "day.csv"
    >>> _ = file.write_text("minute,events\\n0,60\\n1,240\\n2,120\\n")
    >>> Trace(file=str(file)).rate_per_s(np.array([0.0, 60.0, 120.0, 180.0]))
    array([1., 4., 2., 0.])
    >>> fast = Trace(file=str(file), peak_per_s=100, speed=60)
    >>> fast.duration_s, fast.rate_per_s(np.array([0.0, 1.0]))
    (3.0, array([ 25., 100.]))
    """

    shape: ClassVar[str] = "trace"
    file: Annotated[str, FILE("file", "CSV of time,events, plain or gzipped")]
    peak_per_s: Annotated[float | None, RATE("peak", "rows per second of the highest sample")] = None
    speed: Annotated[float, FACTOR("speed", "seconds of the trace per second")] = 1.0
    between: Annotated[
        str, choice("hold", "draw", "line")("between", "how it moves inside a coarse sample")
    ] = "hold"
    start_s: Annotated[float, MOMENT("start", "where to start, in the trace's time")] = 0.0
    end_s: Annotated[float | None, MOMENT("end", "where to end, in the trace's time")] = None
    repeat: Annotated[bool, FLAG("repeat", "whether to start again at the end")] = False
    seed: Annotated[int, SEED("seed", "which random arrivals, where they are drawn")] = 0
    _section: Section = field(init=False, repr=False, compare=False)

    def _check(self) -> None:
        if self.end_s is not None and self.end_s <= self.start_s:
            start, end = write_duration(self.start_s), write_duration(self.end_s)
            raise LoadError(f"trace {self.file} would end at {end}, before it starts at {start}")
        object.__setattr__(self, "_section", _cut(self, read_samples(self.file)))

    @property
    def duration_s(self) -> float:
        """How long the section takes to play; infinite if it repeats."""
        return math.inf if self.repeat else self.span_s

    @property
    def span_s(self) -> float:
        """How long the section takes to play once."""
        return self._section.span_s

    @property
    def sample_step_s(self) -> float:
        """The median distance of its samples, as they are played."""
        return self._section.step_s

    def _rate_per_s(self, times_s: Floats) -> Floats:
        return self._section.rate_per_s(np.mod(times_s, self.span_s))

    def _rows_between(self, edges_s: Floats) -> Floats:
        if not self.repeat:
            return np.diff(self._section.rows_until(edges_s))
        laps, within_s = np.divmod(edges_s, self.span_s)
        total = self._section.until[-1]
        return np.asarray(np.diff(laps) * total + np.diff(self._section.rows_until(within_s)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Section:
    """The part of a trace that is played, in played seconds: intervals, and the rate at both their ends."""

    span_s: float
    step_s: float
    starts_s: Floats
    ends_s: Floats
    left_per_s: Floats
    right_per_s: Floats
    until: Floats
    """Rows before each interval, and in all: one more than there are intervals."""
    draws: Draws | None = None

    def _find(self, times_s: Floats) -> tuple[npt.NDArray[np.intp], Floats, Floats]:
        """Interval of each time, its length, and how far in the time is: 1 in the gap after it."""
        index = np.maximum(np.searchsorted(self.starts_s, times_s, side="right") - 1, 0)
        starts_s = self.starts_s[index]
        lengths_s = self.ends_s[index] - starts_s
        return index, lengths_s, np.clip((times_s - starts_s) / lengths_s, 0.0, 1.0)

    def rate_per_s(self, times_s: Floats) -> Floats:
        """Rows per second at times within the section."""
        index, lengths_s, way = self._find(times_s)
        if self.draws is not None:
            rate = self.draws.rows_per_interval(index, way) / lengths_s
        else:
            rate = self.left_per_s[index] * (1.0 - way) + self.right_per_s[index] * way
        return np.where((times_s >= self.starts_s[index]) & (times_s < self.ends_s[index]), rate, 0.0)

    def rows_until(self, times_s: Floats) -> Floats:
        """Rows from the start of the section to each time."""
        index, lengths_s, way = self._find(times_s)
        if self.draws is not None:
            inside = self.draws.rows_until(index, way)
        else:
            left, right = self.left_per_s[index], self.right_per_s[index]
            inside = lengths_s * way * (left + (right - left) * way / 2)
        # an interval that is over has exactly its own rows, whatever the rounding on the way
        return np.where(way < 1, self.until[index] + inside, self.until[index + 1])


class Draws:
    """Random arrivals within intervals: each interval's rows fall independently into equal cells.

    cells ~ Multinomial(⌊rows⌋, 1/n), and the rest of a row spread evenly. Drawn block by block, as asked
    for; each block has a generator of its own, so the order of asking does not matter.
    """

    def __init__(self, *, rows: Floats, cells: int, seed: int) -> None:
        self._rows, self._cells, self._seed = rows, cells, seed
        self._block = max(1, _DRAWN_CELLS // cells)
        self._drawn: dict[int, Floats] = {}

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_drawn": {}}

    def _until(self, block: int) -> Floats:
        """Rows up to the start of each cell, and in all, of each interval of a block."""
        drawn = self._drawn.get(block)
        if drawn is None:
            rows = self._rows[block * self._block : (block + 1) * self._block]
            whole = np.floor(rows)
            random = np.random.Generator(np.random.Philox(key=np.array([self._seed, block], dtype=np.uint64)))
            falls = random.multinomial(whole.astype(np.int64), np.full(self._cells, 1.0 / self._cells))
            cells = falls + ((rows - whole) / self._cells)[:, None]
            drawn = np.concatenate((np.zeros((len(rows), 1)), np.cumsum(cells, axis=1)), axis=1)
            drawn[:, -1] = rows
            while len(self._drawn) >= 32:
                self._drawn.pop(next(iter(self._drawn)), None)
            self._drawn[block] = drawn
        return drawn

    def _around(
        self, index: npt.NDArray[np.intp], way: Floats
    ) -> tuple[npt.NDArray[np.intp], Floats, Floats]:
        """Cell that each way falls into, and the rows of its interval up to the cell's start and end."""
        cell = np.clip((way * self._cells).astype(np.intp), 0, self._cells - 1)
        before, after = np.empty_like(way), np.empty_like(way)
        blocks = index // self._block
        for block in np.unique(blocks):
            here = blocks == block
            until = self._until(int(block))
            place = index[here] - block * self._block
            before[here], after[here] = until[place, cell[here]], until[place, cell[here] + 1]
        return cell, before, after

    def rows_per_interval(self, index: npt.NDArray[np.intp], way: Floats) -> Floats:
        """Rate at each way into an interval, in rows per length of the interval."""
        _, before, after = self._around(index, way)
        return (after - before) * self._cells

    def rows_until(self, index: npt.NDArray[np.intp], way: Floats) -> Floats:
        """Rows of the interval up to each way into it."""
        cell, before, after = self._around(index, way)
        return before + (after - before) * np.minimum(way * self._cells - cell, 1.0)


def _cut(trace: Trace, samples: Samples) -> Section:
    """The section that a trace asks for: cut, sped up, stretched."""
    begins_s, ends_s = samples.times_s, samples.ends_s
    rates = samples.events / (ends_s - begins_s) * trace.speed
    start_s, whole_s = trace.start_s, float(ends_s[-1])
    end_s = whole_s if trace.end_s is None else min(trace.end_s, whole_s)
    if start_s >= end_s:
        raise LoadError(
            f"trace {trace.file} is over at {write_duration(whole_s)}; "
            f"start={write_duration(start_s)} must lie before that"
        )
    begins_s, ends_s = np.clip(begins_s, start_s, end_s), np.clip(ends_s, start_s, end_s)
    kept = ends_s > begins_s
    if not kept.any():
        raise LoadError(f"trace {trace.file} has only a gap in its section; move start or end")
    begins_s, ends_s, rates = begins_s[kept], ends_s[kept], rates[kept]
    if trace.peak_per_s is not None:
        if not rates.any():
            raise LoadError(
                f"trace {trace.file} has no events in its section, so it cannot be stretched to a peak; "
                "leave peak out or move start or end"
            )
        rates = rates / rates.max() * trace.peak_per_s
    if not rates.max() <= _MOST_PER_S:
        raise LoadError(
            f"trace {trace.file} reaches {rates.max():g} rows per second; at most 1e12 can be played"
        )
    right = rates
    if trace.between == "line":
        adjacent = np.append(ends_s[:-1] == begins_s[1:], False)
        right = np.where(adjacent, np.roll(rates, -1), rates)
    rows = (ends_s - begins_s) / trace.speed * (rates + right) / 2
    cells = max(1, round(samples.step_s / trace.speed))
    drawn = trace.between == "draw" and cells > 1
    return Section(
        span_s=(end_s - start_s) / trace.speed,
        step_s=samples.step_s / trace.speed,
        starts_s=(begins_s - start_s) / trace.speed,
        ends_s=(ends_s - start_s) / trace.speed,
        left_per_s=rates,
        right_per_s=right,
        until=np.concatenate(([0.0], np.cumsum(rows))),
        draws=Draws(rows=rows, cells=cells, seed=trace.seed) if drawn else None,
    )
