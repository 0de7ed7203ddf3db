"""When each row of a load arrives: used by row sources and by the simulator."""

from __future__ import annotations

import math
import threading

import numpy as np
import numpy.typing as npt

from ebbflow.core.curve import Floats
from ebbflow.errors import LoadError
from ebbflow.workloads.load import Load

Ints = npt.NDArray[np.int64]

_TICK_BITS = 20
_TICKS_PER_ROW = 1 << _TICK_BITS
_MAX_TICKS = 1 << 62
_CHUNK_S = 4096
_CACHED_CHUNKS = 64
HORIZON_S = 5 * 365 * 86400
"""The longest time for which a load is evaluated: longer than any run, yet computed in seconds."""
_FAR_S = 2.0 * HORIZON_S
"""The end of an endless load: beyond the horizon, so never reached."""


class Arrivals:
    """The cumulative curve of a load in whole rows, rows_by(t) = ⌊∫₀ᵗ rate⌋, and its inverse.

    Row i arrives when the integral reaches i + 1. Rows arrive evenly within each second. The curve is stored at
    whole seconds in ticks of 2⁻²⁰ rows, rounded from the exact integral. Therefore it

    - never decreases, and does not depend on the process or the order of requests;
    - has an exact inverse: ``times_of`` returns the first float t with rows_by(t) ≥ i + 1;
    - loses nothing to rounding: 104 rows spread over 300 s are 104 rows at the end.

    It is computed on demand in chunks, of which only the most recent are cached. Only the load is pickled.

    >>> from ebbflow.workloads import parse_load
    >>> arrivals = Arrivals(parse_load("constant(4)"))
    >>> arrivals.rows_by(2.5)
    10
    >>> arrivals.times_of(8, 3)
    array([2.25, 2.5 , 2.75])
    """

    def __init__(self, load: Load) -> None:
        self.load = load
        self._end_s = _FAR_S if math.isinf(load.duration_s) else load.duration_s
        # the last second of a load may be a partial one
        self._last_second = math.ceil(self._end_s) - 1
        self._last_length_s = self._end_s - self._last_second
        # per chunk: ticks before it, and the rounding remainder of a tick
        self._bases: list[tuple[int, float]] = [(0, 0.0)]
        self._last_rows_s = 0.0
        self._tables: dict[int, Ints] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[Arrivals], tuple[Load]]:
        return (type(self), (self.load,))

    def __repr__(self) -> str:
        return f"Arrivals({self.load})"

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
        part = time_s - second
        if second == self._last_second:
            part /= self._last_length_s
        return (low + min(int(part * rise), rise)) >> _TICK_BITS

    def rows_by_each(self, times_s: Floats) -> Ints:
        """``rows_by`` for many times, in any order.

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
        """Arrival times of ``count`` rows starting at ``first_row``; infinite for rows that never arrive.

        >>> from ebbflow.workloads import parse_load
        >>> Arrivals(parse_load("step(base=0, peak=2, at=10s)")).times_of(0, 4)
        array([10.5, 11. , 11.5, 12. ])
        """
        if first_row < 0 or count < 0:
            raise ValueError(f"invalid range of {count} rows from row {first_row}: rows are numbered from 0")
        times_s = np.full(count, math.inf)
        if count == 0:
            return times_s
        if first_row + count > _MAX_TICKS >> _TICK_BITS:
            raise LoadError(f"row {first_row + count} is beyond the limit of 2^42 rows for a load")
        targets = np.arange(first_row + 1, first_row + count + 1, dtype=np.int64) << _TICK_BITS
        self._extend_to_ticks(int(targets[-1]))
        bases = np.array([ticks for ticks, _ in self._bases], dtype=np.int64)
        cuts = np.searchsorted(targets, bases, side="right")
        for chunk in np.flatnonzero(np.diff(cuts)):
            here = slice(cuts[chunk], cuts[chunk + 1])
            times_s[here] = self._times_in(int(chunk), targets[here])
        return times_s

    def _rows_in(self, chunk: int, times_s: Floats) -> Ints:
        """``rows_by`` for times in one chunk, both ends included: the same arithmetic on arrays."""
        table = self._table(chunk)
        offset = np.minimum(times_s.astype(np.int64) - chunk * _CHUNK_S, _CHUNK_S - 1)
        second = offset + chunk * _CHUNK_S
        low = table[offset]
        rise = table[offset + 1] - low
        part = times_s - second
        part = np.where(second == self._last_second, part / self._last_length_s, part)
        return np.asarray((low + np.minimum((part * rise).astype(np.int64), rise)) >> _TICK_BITS)

    def _times_in(self, chunk: int, targets: Ints) -> Floats:
        """The first float at which each tick count is reached; all fall into one chunk."""
        table = self._table(chunk)
        offset = np.searchsorted(table, targets, side="left") - 1
        low = table[offset]
        second = offset + chunk * _CHUNK_S
        length_s = np.where(second == self._last_second, self._last_length_s, 1.0)
        times_s = second + (targets - low) / (table[offset + 1] - low) * length_s
        # the quotient is accurate to a few units in the last place: step to the exact first float
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
        self._extend_to_chunk(chunks)
        return self._bases[chunks][0] >> _TICK_BITS

    def _table(self, chunk: int) -> Ints:
        """Ticks at each second of a chunk, both ends included."""
        table = self._tables.get(chunk)
        if table is None:
            self._extend_to_chunk(chunk)
            with self._lock:
                table = self._compute(chunk)[0]
        return table

    def _extend_to_chunk(self, chunk: int) -> None:
        if chunk * _CHUNK_S > HORIZON_S:
            raise self._too_far()
        while len(self._bases) <= chunk:
            self._extend()

    def _extend_to_ticks(self, ticks: int) -> None:
        """Extend the curve until it reaches a number of ticks or can no longer rise."""
        span_s = self.load.span_s
        while self._bases[-1][0] < ticks:
            reached_s = (len(self._bases) - 1) * _CHUNK_S
            if reached_s >= self._end_s:
                return
            # no rows for a whole span after the first: a load that is level or repeats brings no more
            if reached_s - max(self._last_rows_s, span_s) >= span_s + _CHUNK_S:
                return
            self._extend()

    def _extend(self) -> None:
        with self._lock:
            chunk = len(self._bases) - 1
            if chunk * _CHUNK_S > HORIZON_S:
                raise self._too_far()
            _, base, empty = self._compute(chunk)
            if not empty:
                self._last_rows_s = (chunk + 1) * _CHUNK_S
            self._bases.append(base)

    def _too_far(self) -> LoadError:
        return LoadError(f"the load {self.load} is evaluated for at most 5 years; the request is beyond that")

    def _compute(self, chunk: int) -> tuple[Ints, tuple[int, float], bool]:
        """The table of a chunk whose base is known, the base of the next chunk, and whether the chunk has no rows.

        Sums are floats from 0 within a chunk, where floats are most precise, and integers between chunks.
        """
        ticks, rest = self._bases[chunk]
        edges_s = np.arange(chunk * _CHUNK_S, (chunk + 1) * _CHUNK_S + 1, dtype=np.float64)
        rows = np.concatenate(([0.0], np.cumsum(self.load.rows_between(edges_s))))
        exact = rows * _TICKS_PER_ROW + rest
        if not ticks + exact[-1] < _MAX_TICKS:
            raise LoadError(
                f"the load {self.load} brings more than 2^42 rows in {edges_s[-1]:g} s; "
                "lower its rate, or check its source for a wrong count"
            )
        risen = np.rint(exact).astype(np.int64)
        table = ticks + risen
        while len(self._tables) >= _CACHED_CHUNKS:
            del self._tables[next(iter(self._tables))]
        self._tables[chunk] = table
        rise = int(risen[-1])
        return table, (ticks + rise, float(exact[-1]) - rise), bool(rows[-1] == 0)
