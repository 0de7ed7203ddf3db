"""Recorded loads: trace files, and the rows that were counted in a run."""

from __future__ import annotations

import csv
import functools
import gzip
import io
import math
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt

from ebbflow.core.curve import Curve, Floats
from ebbflow.core.duration import format_duration
from ebbflow.core.parameters import Choice, Duration, Flag, Kind, Number
from ebbflow.errors import LoadError
from ebbflow.workloads.load import MAX_ROWS_PER_S, Load, Rate, Shape, seed_kind

if TYPE_CHECKING:
    import pyarrow as pa

_DRAWN_CELLS = 4096
"""The approximate number of cells drawn at a time."""


@dataclass(frozen=True, kw_only=True)
class Recorded(Load):
    """The rows that were counted in a run, spread evenly between counts. It ends with the last count.

    >>> load = Recorded(source="run.jsonl", arrived=Curve.of([(0, 0), (10, 100), (15, 400)]))
    >>> load.rate_per_s(np.array([0.0, 9.9, 10.0, 15.0])), load.duration_s
    (array([10., 10., 60.,  0.]), 15.0)
    >>> str(load)
    'recorded(run.jsonl)'
    """

    source: str
    """Where the counts come from, for display."""
    arrived: Curve
    """(time, rows so far): times ascend from 0, rows never decrease."""

    def __post_init__(self) -> None:
        times_s, rows = self.arrived.times_s, self.arrived.values
        if len(times_s) < 2 or times_s[0] != 0.0 or np.any(np.diff(times_s) <= 0):
            raise LoadError(f"the counts of {self.source} need two or more times, ascending from 0")
        if not np.all(np.isfinite(rows)) or np.any(np.diff(rows) < 0):
            raise LoadError(f"the counts of {self.source} must be finite and never decrease")

    @property
    def duration_s(self) -> float:
        """The time of the last count."""
        return float(self.arrived.times_s[-1])

    @property
    def span_s(self) -> float:
        """The duration."""
        return self.duration_s

    @property
    def sample_step_s(self) -> float:
        """The median interval between counts."""
        return float(np.median(np.diff(self.arrived.times_s)))

    def _rate_per_s(self, times_s: Floats) -> Floats:
        slopes = np.diff(self.arrived.values) / np.diff(self.arrived.times_s)
        index = np.searchsorted(self.arrived.times_s, times_s, side="right") - 1
        return np.asarray(slopes[np.clip(index, 0, len(slopes) - 1)])

    def _rows_between(self, edges_s: Floats) -> Floats:
        return np.diff(self.arrived.interpolated(edges_s))

    def __str__(self) -> str:
        return f"recorded({self.source})"


class FileName(Kind):
    """The name of a file."""

    type_name = "file"
    must = "the name of a file"

    def accept(self, value: Any) -> str:
        """The name."""
        if not super().accept(value):
            raise ValueError(value)
        return str(value)


@dataclass(frozen=True, kw_only=True)
class Trace(Shape):
    """A load from a file of (time, events in the interval that starts at that time).

    - ``peak`` scales the load so that the highest sample of the selected section is that many rows per second.
    - ``speed`` compresses time: at 60 an hour passes in a minute. Without ``peak`` the rates are multiplied by
      ``speed``, because the same events arrive in less time.
    - ``start`` and ``end`` select a section, in the trace's own time from its first row.
    - ``repeat`` starts over at the end, forever.
    - ``between`` selects the load within a sample interval. ``hold``: constant. ``draw``: random arrivals by
      ``seed``, independent as in a Poisson process, in cells of about a second; each interval keeps its sum.
      ``line``: linear from sample to sample. Use it for plots, not for scores: interpolation reveals the future
      through its slope and favours strategies that extrapolate.

    More than 1.5 steps between rows is a gap, in which nothing arrives. The file is read when the load is created.
    A pickled trace contains its section and no longer needs the file.

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
    file: Annotated[str, FileName("CSV of time,events, plain or gzipped")]
    peak_per_s: Annotated[float | None, Rate("rows per second at the highest sample")] = None
    speed: Annotated[float, Number("seconds of the trace per second", above=0, at_most=1e9)] = 1.0
    between: Annotated[str, Choice("the load within a sample interval", ("hold", "draw", "line"))] = "hold"
    start_s: Annotated[float, Duration("start of the section, in the trace's time")] = 0.0
    end_s: Annotated[float | None, Duration("end of the section, in the trace's time")] = None
    repeat: Annotated[bool, Flag("whether to start over at the end")] = False
    seed: Annotated[int, seed_kind("selects the random arrivals of between=draw")] = 0
    _section: Section = field(init=False, repr=False, compare=False)

    def _check(self) -> None:
        if self.end_s is not None and self.end_s <= self.start_s:
            start, end = format_duration(self.start_s), format_duration(self.end_s)
            raise LoadError(f"trace {self.file} would end at {end}, before its start at {start}")
        object.__setattr__(self, "_section", _cut(self, read_samples(self.file)))

    @property
    def duration_s(self) -> float:
        """The replay time of the section; infinite if it repeats."""
        return math.inf if self.repeat else self.span_s

    @property
    def span_s(self) -> float:
        """The replay time of the section, once."""
        return self._section.span_s

    @property
    def sample_step_s(self) -> float:
        """The median interval between samples, in replayed seconds."""
        return self._section.step_s

    @property
    def section(self) -> Section:
        """The selected part of the file, once."""
        return self._section

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
    """The selected part of a trace in replayed seconds: intervals, and the rate at both ends of each."""

    span_s: float
    step_s: float
    starts_s: Floats
    ends_s: Floats
    left_per_s: Floats
    right_per_s: Floats
    until: Floats
    """Rows before each interval, then the total: one entry more than intervals."""
    origin_s: float = 0.0
    """Start of the section in the time of the file; 0 if the speed is not 1."""
    draws: Draws | None = None

    def _find(self, times_s: Floats) -> tuple[npt.NDArray[np.intp], Floats, Floats]:
        """The interval of each time, its length, and the position in it from 0 to 1 (1 in the gap after it)."""
        index = np.maximum(np.searchsorted(self.starts_s, times_s, side="right") - 1, 0)
        starts_s = self.starts_s[index]
        lengths_s = self.ends_s[index] - starts_s
        return index, lengths_s, np.clip((times_s - starts_s) / lengths_s, 0.0, 1.0)

    def rate_per_s(self, times_s: Floats) -> Floats:
        """Rows per second at times within the section."""
        index, lengths_s, position = self._find(times_s)
        if self.draws is not None:
            rate = self.draws.rows_per_interval(index, position) / lengths_s
        else:
            rate = self.left_per_s[index] * (1.0 - position) + self.right_per_s[index] * position
        return np.where((times_s >= self.starts_s[index]) & (times_s < self.ends_s[index]), rate, 0.0)

    def rows_until(self, times_s: Floats) -> Floats:
        """Rows from the start of the section to each time."""
        index, lengths_s, position = self._find(times_s)
        if self.draws is not None:
            inside = self.draws.rows_until(index, position)
        else:
            left, right = self.left_per_s[index], self.right_per_s[index]
            inside = lengths_s * position * (left + (right - left) * position / 2)
        # a finished interval has exactly its own rows, without rounding errors
        return np.where(position < 1, self.until[index] + inside, self.until[index + 1])


class Draws:
    """Random arrivals within intervals: the rows of an interval fall independently into equal cells.

    cells ~ Multinomial(⌊rows⌋, 1/n), with the fraction of a row spread evenly. Blocks are drawn on demand; each has
    its own generator, so the order of requests does not matter.
    """

    def __init__(self, *, rows: Floats, cells: int, seed: int) -> None:
        self._rows, self._cells, self._seed = rows, cells, seed
        self._block = max(1, _DRAWN_CELLS // cells)
        self._drawn: dict[int, Floats] = {}

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_drawn": {}}

    def _until(self, block: int) -> Floats:
        """For each interval of a block: rows before each cell, then the total."""
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
        self, index: npt.NDArray[np.intp], position: Floats
    ) -> tuple[npt.NDArray[np.intp], Floats, Floats]:
        """The cell of each position, and the rows of its interval before the cell and up to its end."""
        cell = np.clip((position * self._cells).astype(np.intp), 0, self._cells - 1)
        before, after = np.empty_like(position), np.empty_like(position)
        blocks = index // self._block
        for block in np.unique(blocks):
            here = blocks == block
            until = self._until(int(block))
            place = index[here] - block * self._block
            before[here], after[here] = until[place, cell[here]], until[place, cell[here] + 1]
        return cell, before, after

    def rows_per_interval(self, index: npt.NDArray[np.intp], position: Floats) -> Floats:
        """The rate at each position in an interval, in rows per interval length."""
        _, before, after = self._around(index, position)
        return (after - before) * self._cells

    def rows_until(self, index: npt.NDArray[np.intp], position: Floats) -> Floats:
        """Rows of the interval up to each position in it."""
        cell, before, after = self._around(index, position)
        return before + (after - before) * np.minimum(position * self._cells - cell, 1.0)


def _cut(trace: Trace, samples: TraceSamples) -> Section:
    """The section that a trace selects, with its speed and peak applied."""
    begins_s, ends_s = samples.times_s, samples.ends_s
    rates = samples.events / (ends_s - begins_s) * trace.speed
    start_s, whole_s = trace.start_s, float(ends_s[-1])
    end_s = whole_s if trace.end_s is None else min(trace.end_s, whole_s)
    if start_s >= end_s:
        raise LoadError(
            f"trace {trace.file} ends at {format_duration(whole_s)}; "
            f"start={format_duration(start_s)} must be earlier"
        )
    begins_s, ends_s = np.clip(begins_s, start_s, end_s), np.clip(ends_s, start_s, end_s)
    selected = ends_s > begins_s
    if not selected.any():
        raise LoadError(f"trace {trace.file} has only a gap in the selected section; move start or end")
    begins_s, ends_s, rates = begins_s[selected], ends_s[selected], rates[selected]
    if trace.peak_per_s is not None:
        if not rates.any():
            raise LoadError(
                f"trace {trace.file} has no events in the selected section, so it cannot be scaled to a peak; "
                "leave out peak, or move start or end"
            )
        rates = rates / rates.max() * trace.peak_per_s
    if not rates.max() <= MAX_ROWS_PER_S:
        raise LoadError(f"trace {trace.file} reaches {rates.max():g} rows per second; the limit is 1e12")
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
        origin_s=samples.origin_s + start_s if trace.speed == 1 else 0.0,
        draws=Draws(rows=rows, cells=cells, seed=trace.seed) if drawn else None,
    )


# -- trace files ---------------------------------------------------------------------------------

_GZIP_MAGIC = b"\x1f\x8b"
_UNITS_S = {
    **dict.fromkeys(("ms", "msec", "msecs", "milli", "millis", "millisecond", "milliseconds"), 1e-3),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
}
"""Seconds by whole words of the heading, so that "daytime" does not mean days."""
_MAX_TIME_S = 1e11
"""Larger numbers are not seconds: the year would be 5138."""
_FORMAT = "a trace has two columns, time,events, like 60,1250"


@dataclass(frozen=True, kw_only=True, eq=False)
class TraceSamples:
    """The content of a trace file: interval starts (ascending from 0) and the events in each interval."""

    times_s: Floats
    events: Floats
    origin_s: float = 0.0
    """The first time as the file has it: seconds since the epoch for timestamps."""

    @property
    def step_s(self) -> float:
        """The median interval between times."""
        return float(np.median(np.diff(self.times_s)))

    @property
    def ends_s(self) -> Floats:
        """The end of each interval: the start of the next, or one step later if that is over 1.5 steps away.

        The rest is a gap: no events are recorded there, so none are replayed.
        """
        times_s, step_s = self.times_s, self.step_s
        gap = np.diff(times_s) > 1.5 * step_s
        return np.append(np.where(gap, times_s[:-1] + step_s, times_s[1:]), times_s[-1] + step_s)


def read_samples(file: str) -> TraceSamples:
    """Read a trace file; ``LoadError`` names the file and the invalid line.

    The file is CSV, plain or gzipped, of (time, events in the interval that starts at that time). The first column is
    a number of seconds, or of milliseconds, minutes, hours or days if its heading says so (``time_ms``, ``minute``),
    or an ISO timestamp (UTC if it has no zone). A file uses one form throughout. The heading is optional for seconds
    and timestamps. Lines may end in LF, CR LF or CR. An unchanged file is read only once.
    """
    path = Path(file).expanduser()
    try:
        state = path.stat()
    except OSError:
        raise LoadError(f"there is no trace file '{file}' (looked for {path.absolute()})") from None
    return _read_once(file, str(path.absolute()), state.st_mtime_ns, state.st_size)


@functools.lru_cache(maxsize=8)
def _read_once(file: str, path: str, _modified_ns: int, _size: int) -> TraceSamples:
    content = _content(file, Path(path)).removeprefix(b"\xef\xbb\xbf")
    if b"\0" in content[:4096]:
        raise LoadError(f"trace {file} is not UTF-8 text: it has zero bytes; save it as plain or gzipped CSV")
    try:
        times, events = _read_with_arrow(content)
    except ValueError:  # includes Arrow's errors; reading line by line finds the invalid line
        times, events = _read_lines(file, content)
    if len(times) < 2:
        found = "no rows" if len(times) == 0 else "only one row, so the length of its interval is unknown"
        raise LoadError(f"trace {file} has {found}; it needs at least two rows of time,events")
    if not _is_valid(times, events):
        times, events = _read_lines(file, content)
    samples = TraceSamples(times_s=times - times[0], events=events, origin_s=float(times[0]))
    samples.times_s.flags.writeable = samples.events.flags.writeable = False  # they are cached and shared
    return samples


def _content(file: str, path: Path) -> bytes:
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if content.startswith(_GZIP_MAGIC) else content
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise LoadError(f"trace {file} is not a whole gzip file: {error}") from None
    except OSError as error:
        raise LoadError(f"trace {file} cannot be read: {error.strerror or error}") from None


def _is_valid(times: Floats, events: Floats) -> bool:
    return bool(
        np.all(np.isfinite(times))
        and np.all(np.isfinite(events))
        and np.all(events >= 0)
        and np.all(np.diff(times) > 0)
        and np.all(np.abs(times) <= _MAX_TIME_S)
    )


def _read_with_arrow(content: bytes) -> tuple[Floats, Floats]:
    """Times in seconds and events, read by Arrow; ``ValueError`` if Arrow cannot read the file."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    lines = io.BytesIO(content)
    first = lines.readline().decode(errors="replace").strip().split(",")
    heading, unit_s = _heading(first)
    row = lines.readline().decode(errors="replace").strip().split(",") if heading else first
    stamped = _number(row[0]) is None
    table = arrow_csv.read_csv(
        pa.BufferReader(content),
        read_options=arrow_csv.ReadOptions(
            column_names=["time", "events"],
            skip_rows_after_names=int(heading),
            use_threads=False,  # a small file, and Arrow's threads may outlive the interpreter
        ),
        convert_options=arrow_csv.ConvertOptions(
            column_types={"time": pa.timestamp("us") if stamped else pa.float64(), "events": pa.float64()},
            null_values=[],
        ),
    )
    times = table["time"].cast(pa.int64()).cast(pa.float64(), safe=False) if stamped else table["time"]
    return _floats(times) * (1e-6 if stamped else unit_s), _floats(table["events"])


def _floats(column: pa.ChunkedArray) -> Floats:
    # from the buffer, because to_numpy would import pandas, which takes longer than reading a trace
    array = column.combine_chunks()
    if len(array) == 0:
        return np.zeros(0)
    return np.frombuffer(array.buffers()[1], count=len(array), offset=8 * array.offset)


def _read_lines(file: str, content: bytes) -> tuple[Floats, Floats]:
    """The same, line by line: names an invalid line, and reads forms that Arrow does not."""
    times: list[float] = []
    events: list[float] = []
    unit_s, kind_before = 1.0, ""
    for position, (number, fields) in enumerate(_lines(file, content)):
        where = f"trace {file}, line {number}"
        if len(fields) != 2:
            columns = "1 column" if len(fields) == 1 else f"{len(fields)} columns"
            raise LoadError(f"{where} has {columns}; {_FORMAT}")
        if position == 0:
            heading, unit_s = _heading(fields)
            if heading:
                continue
        time_s, kind = _time_s(fields[0], unit_s)
        if time_s is None or not math.isfinite(time_s):
            raise LoadError(f"{where}: '{fields[0]}' is neither a number nor a timestamp; {_FORMAT}")
        if abs(time_s) > _MAX_TIME_S:
            raise LoadError(
                f"{where}: '{fields[0]}' is too large for seconds; if these are milliseconds, name the column time_ms"
            )
        if times and kind != kind_before:
            raise LoadError(f"{where}: '{fields[0]}' is {kind}, but the row before has {kind_before}")
        kind_before = kind
        if times and time_s <= times[-1]:
            raise LoadError(f"{where} goes back in time: '{fields[0]}' is not later than the row before")
        count = _number(fields[1])
        if count is None or not math.isfinite(count):
            raise LoadError(f"{where}: '{fields[1]}' is not a number of events; {_FORMAT}")
        if count < 0:
            raise LoadError(f"{where} has {fields[1]} events; the count must be 0 or more")
        times.append(time_s)
        events.append(count)
    return np.array(times), np.array(events)


def _lines(file: str, content: bytes) -> Iterator[tuple[int, list[str]]]:
    """Line number and fields of each line that is not blank."""
    text = io.StringIO(content.decode(errors="replace"), newline=None)
    reader = csv.reader(text, skipinitialspace=True)
    while True:
        try:
            fields = next(reader, None)
        except csv.Error as error:
            raise LoadError(f"trace {file}, line {reader.line_num}: {error}; {_FORMAT}") from None
        if fields is None:
            return
        if fields and (len(fields) > 1 or fields[0].strip()):
            yield reader.line_num, [field.strip() for field in fields]


def _heading(fields: list[str]) -> tuple[bool, float]:
    """Whether the first line is a heading, and the seconds in the unit it names."""
    if len(fields) != 2 or _time_s(fields[0], 1.0)[0] is not None or _number(fields[1]) is not None:
        return False, 1.0
    words = re.findall("[a-z]+", fields[0].lower())
    return True, next((_UNITS_S[word] for word in words if word in _UNITS_S), 1.0)


def _time_s(text: str, unit_s: float) -> tuple[float | None, str]:
    """A time in seconds and its form; None if the text is not a time."""
    number = _number(text)
    if number is not None:
        return number * unit_s, "a number"
    try:
        stamp = datetime.fromisoformat(text)
    except ValueError:
        return None, ""
    return (stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)).timestamp(), "a timestamp"


def _number(text: str) -> float | None:
    """A number; None for other text, including ``1_000``, which only Python accepts."""
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None
