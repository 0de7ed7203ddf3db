"""When each row of a load arrives: what a source of rows and a simulator both ask."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ebbflow.core.curve import Curve, Floats
from ebbflow.errors import LoadError
from ebbflow.workloads.load import Load

# A load that was counted: how many rows had come at which time.


@dataclass(frozen=True, kw_only=True)
class Counted(Load):
    """Rows as they were counted, evenly between one count and the next. It ends with the last count.

    >>> load = Counted(source="run.jsonl", arrived=Curve.of([(0, 0), (10, 100), (15, 400)]))
    >>> load.rate_per_s(np.array([0.0, 9.9, 10.0, 15.0])), load.duration_s
    (array([10., 10., 60.,  0.]), 15.0)
    >>> str(load)
    'recorded(run.jsonl)'
    """

    source: str
    """Where it was counted, for people."""
    arrived: Curve
    """(time, rows so far): times ascend from 0, rows never fall."""

    def __post_init__(self) -> None:
        times_s, rows = self.arrived.times_s, self.arrived.values
        if len(times_s) < 2 or times_s[0] != 0.0 or np.any(np.diff(times_s) <= 0):
            raise LoadError(f"the counts of {self.source} must be at two times or more that ascend from 0")
        if not np.all(np.isfinite(rows)) or np.any(np.diff(rows) < 0):
            raise LoadError(f"the counts of {self.source} must be finite and never fall")

    @property
    def duration_s(self) -> float:
        """When the last count was."""
        return float(self.arrived.times_s[-1])

    @property
    def span_s(self) -> float:
        """The same: it has an end."""
        return self.duration_s

    @property
    def sample_step_s(self) -> float:
        """The median distance of its counts."""
        return float(np.median(np.diff(self.arrived.times_s)))

    def _rate_per_s(self, times_s: Floats) -> Floats:
        slopes = np.diff(self.arrived.values) / np.diff(self.arrived.times_s)
        index = np.searchsorted(self.arrived.times_s, times_s, side="right") - 1
        return np.asarray(slopes[np.clip(index, 0, len(slopes) - 1)])

    def _rows_between(self, edges_s: Floats) -> Floats:
        return np.diff(self.arrived.interpolated(edges_s))

    def __str__(self) -> str:
        return f"recorded({self.source})"


Ints = npt.NDArray[np.int64]

_TICK_BITS = 20
_TICKS_PER_ROW = 1 << _TICK_BITS
_MOST_TICKS = 1 << 62
_CHUNK_S = 4096
_KEPT_CHUNKS = 64
HORIZON_S = 5 * 365 * 86400
"""How far a load is followed. Further than any run, and near enough to be reached in seconds."""
_FAR_S = 2.0 * HORIZON_S
"""Where an endless load would end: beyond the horizon, so never reached."""


class Arrivals:
    """The cumulative curve of a load, in whole rows: rows_by(t) = ⌊∫₀ᵗ rate⌋, and its inverse.

    Row i arrives when the integral reaches i + 1. Within each second of the load rows come evenly. The curve
    is kept in whole ticks of 2⁻²⁰ rows at whole seconds, rounded from the exact integral, so that it

    - never falls, and is the same whoever asks in whatever order, in this process or another;
    - has an exact inverse: ``times_of`` gives the first float t with rows_by(t) ≥ i + 1;
    - loses nothing to rounding: 104 rows held over 300 s are 104 rows at the end.

    It is computed as far as it is asked for, in chunks, of which only the last few stay in memory. Pickled,
    it is the load alone.

    >>> from ebbflow.workloads import parse_load
    >>> arrivals = Arrivals(parse_load("constant(4)"))
    >>> arrivals.rows_by(2.5)
    10
    >>> arrivals.times_of(8, 3)
    array([2.25, 2.5 , 2.75])
    """

    def __init__(self, load: Load) -> None:
        self.load = load
        self._endless = math.isinf(load.duration_s)
        self._end_s = _FAR_S if self._endless else load.duration_s
        # the last second of a load may be a part of one
        self._last_second = math.ceil(self._end_s) - 1
        self._last_length_s = self._end_s - self._last_second
        # per chunk: ticks before it, and the part of a tick that rounding left over
        self._bases: list[tuple[int, float]] = [(0, 0.0)]
        self._silent_since_s = 0.0
        self._tables: dict[int, Ints] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[Arrivals], tuple[Load]]:
        return (type(self), (self.load,))

    def __repr__(self) -> str:
        return f"Arrivals({self.load})"

    @property
    def total_rows(self) -> int | None:
        """How many rows come in all; None if the load does not end."""
        return None if self._endless else self._rows_at_end()

    def rows_by(self, time_s: float) -> int:
        """Rows that have arrived by a time: ⌊∫₀ᵗ rate⌋."""
        if not time_s > 0:
            return 0
        if time_s >= self._end_s:
            return self._rows_at_end()
        second = int(time_s)
        table = self._table(second // _CHUNK_S)
        offset = second % _CHUNK_S
        low = int(table[offset])
        rise = int(table[offset + 1]) - low
        way = time_s - second
        if second == self._last_second:
            way /= self._last_length_s
        return (low + min(int(way * rise), rise)) >> _TICK_BITS

    def rows_by_each(self, times_s: Floats) -> Ints:
        """``rows_by`` of many times at once, in any order.

        >>> from ebbflow.workloads import Constant
        >>> Arrivals(Constant(level_per_s=10)).rows_by_each(np.array([2.0, -1.0, 0.55]))
        array([20,  0,  5])
        """
        times_s = np.asarray(times_s, dtype=np.float64)
        rows = np.zeros(times_s.shape, dtype=np.int64)
        over = times_s >= self._end_s
        if over.any():
            rows[over] = self._rows_at_end()
        running = (times_s > 0) & ~over
        chunks = np.where(running, times_s, 0.0) // _CHUNK_S
        for chunk in np.unique(chunks[running]):
            here = running & (chunks == chunk)
            rows[here] = self._rows_in(int(chunk), times_s[here])
        return rows

    def times_of(self, first_row: int, count: int) -> Floats:
        """When each of ``count`` rows arrives, from row ``first_row`` on; infinite for rows that never do.

        >>> from ebbflow.workloads import parse_load
        >>> Arrivals(parse_load("step(base=0, peak=2, at=10s)")).times_of(0, 4)
        array([10.5, 11. , 11.5, 12. ])
        """
        if first_row < 0 or count < 0:
            raise ValueError(f"rows are counted from 0; there are no {count} rows from row {first_row} on")
        times_s = np.full(count, math.inf)
        if count == 0:
            return times_s
        if first_row + count > _MOST_TICKS >> _TICK_BITS:
            raise LoadError(f"row {first_row + count} of a load cannot be counted; the limit is 2^42 rows")
        targets = np.arange(first_row + 1, first_row + count + 1, dtype=np.int64) << _TICK_BITS
        self._follow_to_ticks(int(targets[-1]))
        bases = np.array([ticks for ticks, _ in self._bases], dtype=np.int64)
        cuts = np.searchsorted(targets, bases, side="right")
        for chunk in np.flatnonzero(np.diff(cuts)):
            here = slice(cuts[chunk], cuts[chunk + 1])
            times_s[here] = self._times_in(int(chunk), targets[here])
        return times_s

    def _rows_in(self, chunk: int, times_s: Floats) -> Ints:
        """``rows_by`` for times in one chunk, both its ends included; the same arithmetic on arrays."""
        table = self._table(chunk)
        offset = np.minimum(times_s.astype(np.int64) - chunk * _CHUNK_S, _CHUNK_S - 1)
        second = offset + chunk * _CHUNK_S
        low = table[offset]
        rise = table[offset + 1] - low
        way = times_s - second
        way = np.where(second == self._last_second, way / self._last_length_s, way)
        return np.asarray((low + np.minimum((way * rise).astype(np.int64), rise)) >> _TICK_BITS)

    def _times_in(self, chunk: int, targets: Ints) -> Floats:
        """First float at which each of the ticks, which fall into one chunk, is reached."""
        table = self._table(chunk)
        offset = np.searchsorted(table, targets, side="left") - 1
        low = table[offset]
        second = offset + chunk * _CHUNK_S
        length_s = np.where(second == self._last_second, self._last_length_s, 1.0)
        times_s = second + (targets - low) / (table[offset + 1] - low) * length_s
        # the quotient is right to a few units in the last place; step to the exact first float
        rows = targets >> _TICK_BITS
        while (early := self._rows_in(chunk, times_s) < rows).any():
            times_s[early] = np.nextafter(times_s[early], math.inf)
        while True:
            before_s = np.nextafter(times_s, 0.0)
            late = (before_s >= chunk * _CHUNK_S) & (self._rows_in(chunk, before_s) >= rows)
            if not late.any():
                return np.asarray(times_s)
            times_s[late] = before_s[late]

    def _rows_at_end(self) -> int:
        chunks = self._last_second // _CHUNK_S + 1
        self._follow_to_chunk(chunks)
        return self._bases[chunks][0] >> _TICK_BITS

    def _table(self, chunk: int) -> Ints:
        """Ticks at each second of a chunk, both ends included."""
        table = self._tables.get(chunk)
        if table is None:
            self._follow_to_chunk(chunk)
            with self._lock:
                table = self._compute(chunk)[0]
        return table

    def _follow_to_chunk(self, chunk: int) -> None:
        if chunk * _CHUNK_S > HORIZON_S:
            raise self._too_far()
        while len(self._bases) <= chunk:
            self._extend()

    def _follow_to_ticks(self, ticks: int) -> None:
        """Extend the curve until it has risen so far, or will rise no more."""
        span_s = self.load.span_s
        while self._bases[-1][0] < ticks:
            reached_s = (len(self._bases) - 1) * _CHUNK_S
            if reached_s >= self._end_s:
                return
            # nothing came for a whole span, after the first: a load that is level or repeats brings no more
            if reached_s - max(self._silent_since_s, span_s) >= span_s + _CHUNK_S:
                return
            self._extend()

    def _extend(self) -> None:
        with self._lock:
            chunk = len(self._bases) - 1
            if chunk * _CHUNK_S > HORIZON_S:
                raise self._too_far()
            _, base, silent = self._compute(chunk)
            if not silent:
                self._silent_since_s = (chunk + 1) * _CHUNK_S
            self._bases.append(base)

    def _too_far(self) -> LoadError:
        return LoadError(f"the load {self.load} is followed for 5 years; what was asked for comes later")

    def _compute(self, chunk: int) -> tuple[Ints, tuple[int, float], bool]:
        """Table of a chunk whose base is known, base of the next, and whether nothing comes in it.

        The sum within a chunk is in floats, from 0, where they are finest; between chunks it is in integers.
        """
        ticks, rest = self._bases[chunk]
        edges_s = np.arange(chunk * _CHUNK_S, (chunk + 1) * _CHUNK_S + 1, dtype=np.float64)
        rows = np.concatenate(([0.0], np.cumsum(self.load.rows_between(edges_s))))
        exact = rows * _TICKS_PER_ROW + rest
        if not ticks + exact[-1] < _MOST_TICKS:
            raise LoadError(
                f"the load {self.load} brings more than 2^42 rows in {edges_s[-1]:g} s; "
                "lower its rate, or look for a wrong count in what it was read from"
            )
        risen = np.rint(exact).astype(np.int64)
        table = ticks + risen
        while len(self._tables) >= _KEPT_CHUNKS:
            del self._tables[next(iter(self._tables))]
        self._tables[chunk] = table
        rise = int(risen[-1])
        return table, (ticks + rise, float(exact[-1]) - rise), bool(rows[-1] == 0)
