"""Trace files: CSV, plain or gzipped, of (time, events in the interval that starts then).

The first column is a number of seconds, or of milliseconds, minutes, hours or days if its heading says so
(``time_ms``, ``minute``), or an ISO timestamp (without a zone: UTC), but not now this and now that. The heading may
be missing if times are seconds or timestamps. Lines end in any of the three ways.
Arrow reads the file; only where it stumbles is the file read again line by line, to name the line.
"""

from __future__ import annotations

import csv
import functools
import gzip
import io
import math
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ebbflow.core.curve import Floats
from ebbflow.errors import LoadError

if TYPE_CHECKING:
    import pyarrow as pa

_GZIP_MAGIC = b"\x1f\x8b"
_UNITS_S = {
    **dict.fromkeys(("ms", "msec", "msecs", "milli", "millis", "millisecond", "milliseconds"), 1e-3),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
}
"""Seconds by words of the heading: whole words, so that a daytime is no day."""
_LATEST_S = 1e11
"""Numbers above are no seconds: the year would be 5138."""
_FORM = "a trace has two columns, time,events, like 60,1250"


@dataclass(frozen=True, kw_only=True, eq=False)
class Samples:
    """What a trace file says: when intervals start (from 0, ascending), and the events in each."""

    times_s: Floats
    events: Floats

    @property
    def step_s(self) -> float:
        """The median distance of neighbouring times."""
        return float(np.median(np.diff(self.times_s)))

    @property
    def ends_s(self) -> Floats:
        """When each interval ends: as the next starts, or after one step if that is over 1.5 steps away.

        What lies between is a gap. In a gap nothing is known to have come, so nothing comes.
        """
        times_s, step_s = self.times_s, self.step_s
        gap = np.diff(times_s) > 1.5 * step_s
        return np.append(np.where(gap, times_s[:-1] + step_s, times_s[1:]), times_s[-1] + step_s)


def read_samples(file: str) -> Samples:
    """Read a trace file; ``LoadError`` names the file and the line where something is wrong.

    A file that has not changed since is not read again.
    """
    path = Path(file).expanduser()
    try:
        state = path.stat()
    except OSError:
        raise LoadError(f"there is no trace file '{file}' (looked for {path.absolute()})") from None
    return _read_once(file, str(path.absolute()), state.st_mtime_ns, state.st_size)


@functools.lru_cache(maxsize=8)
def _read_once(file: str, path: str, _modified_ns: int, _size: int) -> Samples:
    content = _content(file, Path(path)).removeprefix(b"\xef\xbb\xbf")
    if b"\0" in content[:4096]:
        raise LoadError(
            f"trace {file} is no text in UTF-8: it has zero bytes; save it as plain CSV or gzipped CSV"
        )
    try:
        times, events = _fast(content)
    except ValueError:  # what Arrow raises, too; the careful reader says what is wrong and where
        times, events = _careful(file, content)
    if len(times) < 2:
        found = "no rows" if len(times) == 0 else "only one row, which does not say how long its interval is"
        raise LoadError(f"trace {file} has {found}; it needs at least two rows of time,events")
    if not _sound(times, events):
        times, events = _careful(file, content)
    samples = Samples(times_s=times - times[0], events=events)
    samples.times_s.flags.writeable = samples.events.flags.writeable = False  # they are shared
    return samples


def _content(file: str, path: Path) -> bytes:
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if content.startswith(_GZIP_MAGIC) else content
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise LoadError(f"trace {file} is not a whole gzip file: {error}") from None
    except OSError as error:
        raise LoadError(f"trace {file} cannot be read: {error.strerror or error}") from None


def _sound(times: Floats, events: Floats) -> bool:
    return bool(
        np.all(np.isfinite(times))
        and np.all(np.isfinite(events))
        and np.all(events >= 0)
        and np.all(np.diff(times) > 0)
        and np.all(np.abs(times) <= _LATEST_S)
    )


def _fast(content: bytes) -> tuple[Floats, Floats]:
    """Times in seconds and events, by Arrow. ``ValueError`` where it does not understand the file."""
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
            use_threads=False,  # a small file; threads of its own may still be there when the interpreter ends
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


def _careful(file: str, content: bytes) -> tuple[Floats, Floats]:
    """The same, line by line: finds the line that is wrong, and reads forms that Arrow does not."""
    times: list[float] = []
    events: list[float] = []
    unit_s, kind_before = 1.0, ""
    for position, (number, fields) in enumerate(_lines(file, content)):
        where = f"trace {file}, line {number}"
        if len(fields) != 2:
            columns = "1 column" if len(fields) == 1 else f"{len(fields)} columns"
            raise LoadError(f"{where} has {columns}; {_FORM}")
        if position == 0:
            heading, unit_s = _heading(fields)
            if heading:
                continue
        time_s, kind = _time_s(fields[0], unit_s)
        if time_s is None or not math.isfinite(time_s):
            raise LoadError(f"{where}: '{fields[0]}' is neither a number nor a timestamp; {_FORM}")
        if abs(time_s) > _LATEST_S:
            raise LoadError(
                f"{where}: '{fields[0]}' is no number of seconds; if these are milliseconds, head the column time_ms"
            )
        if times and kind != kind_before:
            raise LoadError(f"{where}: '{fields[0]}' is {kind}, the row before has {kind_before}")
        kind_before = kind
        if times and time_s <= times[-1]:
            raise LoadError(f"{where} goes back in time: '{fields[0]}' is not later than the row before it")
        count = _number(fields[1])
        if count is None or not math.isfinite(count):
            raise LoadError(f"{where}: '{fields[1]}' is not a number of events; {_FORM}")
        if count < 0:
            raise LoadError(f"{where} has {fields[1]} events; there cannot be fewer than 0")
        times.append(time_s)
        events.append(count)
    return np.array(times), np.array(events)


def _lines(file: str, content: bytes) -> Iterator[tuple[int, list[str]]]:
    """Number and fields of each line that is not blank."""
    text = io.StringIO(content.decode(errors="replace"), newline=None)
    reader = csv.reader(text, skipinitialspace=True)
    while True:
        try:
            fields = next(reader, None)
        except csv.Error as error:
            raise LoadError(f"trace {file}, line {reader.line_num}: {error}; {_FORM}") from None
        if fields is None:
            return
        if fields and (len(fields) > 1 or fields[0].strip()):
            yield reader.line_num, [field.strip() for field in fields]


def _heading(fields: list[str]) -> tuple[bool, float]:
    """Whether a first line is a heading, and the seconds in the unit it names."""
    if len(fields) != 2 or _time_s(fields[0], 1.0)[0] is not None or _number(fields[1]) is not None:
        return False, 1.0
    words = re.findall("[a-z]+", fields[0].lower())
    return True, next((_UNITS_S[word] for word in words if word in _UNITS_S), 1.0)


def _time_s(text: str, unit_s: float) -> tuple[float | None, str]:
    """A time in seconds, and what it is; None if it is none."""
    number = _number(text)
    if number is not None:
        return number * unit_s, "a number"
    try:
        stamp = datetime.fromisoformat(text)
    except ValueError:
        return None, ""
    return (stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)).timestamp(), "a timestamp"


def _number(text: str) -> float | None:
    """``1_000`` is a number to Python alone."""
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None
