"""One file of the trace, read as columns: events in the order of the file, and the rows that are no events.

Clean files, which is nearly all, are read by Arrow in one go. A file with a row that cannot be read is read
again line by line, so that the row can be told: its line, its text, and what is wrong with it.

Time never goes back: an event counts at the latest time of the rows before it, and within the part's own
bounds, which the folder knows from the first rows of the parts. A trace in order is not changed by that.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ebbflow.errors import InputError
from ebbflow.workloads.google_cluster.events import AFTER_THE_TRACE_US, COLUMNS, LATEST_US, EventType

if TYPE_CHECKING:
    import pyarrow as pa

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_READ = ("time", "job", "task", "machine", "event", "cpu", "memory", "disk")
_NEEDED = ("time", "job", "task", "event")
_REQUESTS = ("cpu", "memory", "disk")
_WHOLE = r"^\s*[0-9]{1,18}\s*$"
_NUMBER = r"^\s*([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?\s*$"
_MOST_TEXT = 300


@dataclass(frozen=True, kw_only=True)
class Rejected:
    """A row that is no event."""

    line: int
    """Counted from 1."""
    time_us: int
    """Of the row before it."""
    reason: str
    text: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    """The events of a file that name a machine, and a count of those that do not."""

    row: Ints
    """Which row of the file, to keep its order."""
    time_us: Ints
    job: Ints
    task: Ints
    machine: Ints
    event: Ints
    cpu: Floats
    memory: Floats
    disk: Floats
    elsewhere_us: Ints
    """Times of the events without a machine, which are dropped."""
    rejected: tuple[Rejected, ...] = ()

    @property
    def last_us(self) -> int | None:
        """Time of the last event, None without one."""
        last = [int(times[-1]) for times in (self.time_us, self.elsewhere_us) if len(times)]
        return max(last, default=None)

    def between(self, from_us: int, until_us: int) -> Part:
        """What is of a time in [from, until)."""
        first, end = np.searchsorted(self.time_us, (from_us, until_us))
        first_else, end_else = np.searchsorted(self.elsewhere_us, (from_us, until_us))
        cut = {
            name: getattr(self, name)[first:end]
            for name in ("row", "time_us", "job", "task", "machine", "event", "cpu", "memory", "disk")
        }
        return Part(
            **cut,
            elsewhere_us=self.elsewhere_us[first_else:end_else],
            rejected=tuple(r for r in self.rejected if from_us <= r.time_us < until_us),
        )


def read_part(path: Path, floor_us: int = 0, ceiling_us: int = LATEST_US) -> Part:
    """Read a file; times are kept within the bounds."""
    try:
        table = _read_clean(path)
        if table is not None:
            return _part(table, np.arange(table.num_rows), [], floor_us, ceiling_us)
        table, rows, problems = _read_with_problems(path)
    except (OSError, EOFError) as error:
        raise InputError(f"cannot read {path}: {error}") from None
    return _part(table, rows, problems, floor_us, ceiling_us)


def first_time_us(path: Path) -> int | None:
    """Time of the first row that has one, None without; reads no further."""
    try:
        with _opened(path) as lines:
            for line in lines:
                time = line.split(b",", 1)[0].strip()
                if line.count(b",") + 1 == len(COLUMNS) and time.isdigit() and int(time) <= LATEST_US:
                    return int(time)
    except (OSError, EOFError) as error:
        raise InputError(f"cannot read {path}: {error}") from None
    return None


def _opened(path: Path) -> Any:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")


# -- clean files -------------------------------------------------------------------------------------


def _read_clean(path: Path) -> pa.Table | None:
    """The columns, or None where a row of the file cannot be read."""
    import pyarrow as pa
    from pyarrow import csv

    types = {name: pa.int64() for name in ("time", "job", "task", "machine")}
    types |= {"event": pa.int8()} | {name: pa.float64() for name in _REQUESTS}
    try:
        with pa.input_stream(str(path), compression="gzip" if path.suffix == ".gz" else None) as stream:
            table = csv.read_csv(
                stream,
                read_options=csv.ReadOptions(column_names=COLUMNS, use_threads=False, block_size=4 << 20),
                parse_options=csv.ParseOptions(quote_char=False),
                convert_options=csv.ConvertOptions(
                    column_types=types, include_columns=_READ, null_values=[""], check_utf8=False
                ),
            )
    except pa.ArrowInvalid:
        return None
    return table if _is_clean(table) else None


def _is_clean(table: pa.Table) -> bool:
    if any(table.column(name).null_count for name in _NEEDED):
        return False
    if table.num_rows == 0:
        return True
    time, event = _ints(table, "time"), _ints(table, "event")
    requests = [_floats(table, name) for name in _REQUESTS]
    return bool(
        time.min() >= 0
        and time.max() <= LATEST_US
        and event.min() >= 0
        and event.max() <= max(EventType)
        and min(_ints(table, name).min() for name in ("job", "task", "machine")) >= 0
        and all((values >= 0).all() and np.isfinite(values).all() for values in requests)
    )


# -- files with rows that cannot be read -------------------------------------------------------------


def _read_with_problems(path: Path) -> tuple[pa.Table, Ints, list[tuple[int, str, str]]]:
    """(the events as columns, the row of each, (row, what is wrong with it, its text) of the others)."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv

    with _opened(path) as stream:
        lines = [line.rstrip(b"\r") for line in stream.read().split(b"\n")]
    if lines and not lines[-1]:
        lines.pop()
    problems: list[tuple[int, str, str]] = []
    kept: list[int] = []
    for row, line in enumerate(lines):
        columns = line.count(b",") + 1
        if columns == len(COLUMNS):
            kept.append(row)
        elif line.strip():
            problems.append((row, f"{columns} columns instead of {len(COLUMNS)}", _text(line)))
    if not kept:
        empty = pa.schema([(n, pa.float64() if n in _REQUESTS else pa.int64()) for n in _READ]).empty_table()
        return empty, np.empty(0, np.int64), problems
    texts = csv.read_csv(
        pa.BufferReader(b"\n".join(lines[row] for row in kept) + b"\n"),
        read_options=csv.ReadOptions(column_names=COLUMNS, use_threads=False, block_size=64 << 20),
        parse_options=csv.ParseOptions(quote_char=False),
        convert_options=csv.ConvertOptions(
            column_types=dict.fromkeys(COLUMNS, pa.binary()), include_columns=_READ, check_utf8=False
        ),
    )
    wrong = np.full(texts.num_rows, "", dtype=object)
    for name in _READ:
        column = texts.column(name).combine_chunks()
        empty_text = pc.equal(column, b"").to_numpy(zero_copy_only=False)
        pattern = _NUMBER if name in _REQUESTS else r"^\s*[0-8]\s*$" if name == "event" else _WHOLE
        fits = pc.match_substring_regex(column, pattern).to_numpy(zero_copy_only=False)
        if name not in _NEEDED:
            fits = fits | empty_text
        for index in np.flatnonzero(~fits & (wrong == "")):
            wrong[index] = _reason(name, column[int(index)].as_py())
    rows = np.array(kept, dtype=np.int64)
    good = wrong == ""
    table = _cast(texts.filter(pa.array(good)))
    late = _ints(table, "time") > LATEST_US
    huge = ~np.all([np.isfinite(_floats(table, name)) for name in _REQUESTS], axis=0)
    where = np.flatnonzero(good)
    for index in np.flatnonzero(late | huge):
        wrong[where[index]] = (
            "a time more than a year after the start" if late[index] else "an endless request"
        )
    problems += [(int(rows[i]), str(wrong[i]), _text(lines[rows[i]])) for i in np.flatnonzero(wrong != "")]
    fine = ~(late | huge)
    return table.filter(pa.array(fine)), rows[good][fine], sorted(problems)


def _reason(name: str, value: bytes) -> str:
    text = _text(value)
    if name == "time" and value.strip() == str(AFTER_THE_TRACE_US).encode():
        return "a time after the end of the trace"
    if not text.strip():
        return f"no {name}"
    if name == "event":
        return f"'{text}' is no event type; they are 0 to {max(EventType).value}"
    kind = "a request of 0 or more" if name in _REQUESTS else "a whole number"
    return f"{name} '{text}' is not {kind}"


def _text(line: bytes) -> str:
    return line[:_MOST_TEXT].decode("utf-8", errors="replace")


def _cast(texts: pa.Table) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = []
    for name in _READ:
        column = pc.utf8_trim_whitespace(texts.column(name).cast(pa.string()))
        column = pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
        columns.append(column.cast(pa.float64() if name in _REQUESTS else pa.int64()))
    return pa.table(columns, names=list(_READ))


# -- columns -----------------------------------------------------------------------------------------


def _ints(table: pa.Table, name: str) -> Ints:
    import pyarrow as pa

    column = table.column(name)
    if column.null_count:
        column = column.fill_null(0)
    values: Ints = column.cast(pa.int64()).to_numpy()
    return values


def _floats(table: pa.Table, name: str) -> Floats:
    column = table.column(name)
    values: Floats = (column.fill_null(0.0) if column.null_count else column).to_numpy()
    return values


def _part(
    table: pa.Table, rows: Ints, problems: list[tuple[int, str, str]], floor_us: int, ceiling_us: int
) -> Part:
    time_us = np.maximum.accumulate(np.clip(_ints(table, "time"), floor_us, ceiling_us))
    before = np.searchsorted(rows, [row for row, _, _ in problems]) - 1
    rejected = tuple(
        Rejected(
            line=row + 1, time_us=int(time_us[index]) if index >= 0 else floor_us, reason=reason, text=text
        )
        for (row, reason, text), index in zip(problems, before, strict=True)
    )
    has_machine: npt.NDArray[np.bool_] = table.column("machine").is_valid().to_numpy()
    return Part(
        row=rows[has_machine],
        time_us=time_us[has_machine],
        job=_ints(table, "job")[has_machine],
        task=_ints(table, "task")[has_machine],
        machine=_ints(table, "machine")[has_machine],
        event=_ints(table, "event")[has_machine],
        cpu=_floats(table, "cpu")[has_machine],
        memory=_floats(table, "memory")[has_machine],
        disk=_floats(table, "disk")[has_machine],
        elsewhere_us=time_us[~has_machine],
        rejected=rejected,
    )
