"""Rows of task events as columns, out of CSV: in one go where all can be read, line by line where one cannot.

A row that is no event is told with what is wrong with it; its text is kept.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ebbflow.workloads.google_cluster.events import AFTER_THE_TRACE_US, COLUMNS, LATEST_US, EventType

if TYPE_CHECKING:
    import pyarrow as pa

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Problem = tuple[int, str, str]
"""(row, what is wrong with it, its text)"""

READ = ("time", "job", "task", "machine", "event", "cpu", "memory", "disk")
_NEEDED = ("time", "job", "task", "event")
_REQUESTS = ("cpu", "memory", "disk")
_WHOLE = r"^\s*[0-9]{1,18}\s*$"
_NUMBER = r"^\s*([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?\s*$"
_MOST_TEXT = 300


def types() -> dict[str, pa.DataType]:
    """What each column of ``READ`` holds."""
    import pyarrow as pa

    found = {name: pa.int64() for name in ("time", "job", "task", "machine")}
    return found | {"event": pa.int8()} | {name: pa.float64() for name in _REQUESTS}


def opened(path: Path) -> Any:
    """The bytes of a file, gunzipped."""
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")


def lines_of(path: Path) -> list[bytes]:
    """All lines of a file."""
    with opened(path) as stream:
        lines = [line.rstrip(b"\r") for line in stream.read().split(b"\n")]
    if lines and not lines[-1]:
        lines.pop()
    return lines


def clean_table(path: Path) -> pa.Table | None:
    """The columns, or None where a row of the file cannot be read."""
    import pyarrow as pa
    from pyarrow import csv

    try:
        with pa.input_stream(str(path), compression="gzip" if path.suffix == ".gz" else None) as stream:
            table = csv.read_csv(
                stream,
                read_options=csv.ReadOptions(column_names=COLUMNS, use_threads=False, block_size=4 << 20),
                parse_options=csv.ParseOptions(quote_char=False),
                convert_options=csv.ConvertOptions(
                    column_types=types(), include_columns=READ, null_values=[""], check_utf8=False
                ),
            )
    except pa.ArrowInvalid:
        return None
    return table if is_clean(table) else None


def is_clean(table: pa.Table) -> bool:
    """Whether every row is an event."""
    if any(table.column(name).null_count for name in _NEEDED):
        return False
    if table.num_rows == 0:
        return True
    time, event = ints(table, "time"), ints(table, "event")
    requests = [floats(table, name) for name in _REQUESTS]
    return bool(
        time.min() >= 0
        and time.max() <= LATEST_US
        and event.min() >= 0
        and event.max() <= max(EventType)
        and min(ints(table, name).min() for name in ("job", "task", "machine")) >= 0
        and all((values >= 0).all() and np.isfinite(values).all() for values in requests)
    )


def with_problems(lines: list[bytes]) -> tuple[pa.Table, Ints, list[Problem]]:
    """(the events as columns, the row of each, what is wrong with the others)."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv

    problems: list[Problem] = []
    kept: list[int] = []
    for row, line in enumerate(lines):
        columns = line.count(b",") + 1
        if columns == len(COLUMNS):
            kept.append(row)
        elif line.strip():
            problems.append((row, f"{columns} columns instead of {len(COLUMNS)}", _text(line)))
    if not kept:
        empty = pa.schema([(n, pa.float64() if n in _REQUESTS else pa.int64()) for n in READ]).empty_table()
        return empty, np.empty(0, np.int64), problems
    texts = csv.read_csv(
        pa.BufferReader(b"\n".join(lines[row] for row in kept) + b"\n"),
        read_options=csv.ReadOptions(column_names=COLUMNS, use_threads=False, block_size=64 << 20),
        parse_options=csv.ParseOptions(quote_char=False),
        convert_options=csv.ConvertOptions(
            column_types=dict.fromkeys(COLUMNS, pa.binary()), include_columns=READ, check_utf8=False
        ),
    )
    wrong = np.full(texts.num_rows, "", dtype=object)
    for name in READ:
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
    late = ints(table, "time") > LATEST_US
    huge = ~np.all([np.isfinite(floats(table, name)) for name in _REQUESTS], axis=0)
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
    for name in READ:
        column = pc.utf8_trim_whitespace(texts.column(name).cast(pa.string()))
        column = pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
        columns.append(column.cast(pa.float64() if name in _REQUESTS else pa.int64()))
    return pa.table(columns, names=list(READ))


def ints(table: pa.Table, name: str) -> Ints:
    """A column; 0 where there is nothing."""
    import pyarrow as pa

    column = table.column(name)
    if column.null_count:
        column = column.fill_null(0)
    values: Ints = column.cast(pa.int64()).to_numpy()
    return values


def floats(table: pa.Table, name: str) -> Floats:
    """A column; 0 where there is nothing."""
    column = table.column(name)
    values: Floats = (column.fill_null(0.0) if column.null_count else column).to_numpy()
    return values
