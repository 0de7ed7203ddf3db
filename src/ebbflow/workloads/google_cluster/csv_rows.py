"""Rows of task events as columns, out of CSV: in one go where all can be read, line by line where one cannot.

A row that is no event is told with what is wrong with it; its text is kept. What is a number is for Arrow to say both
times, and what is an event for ``row_checks``: a row is what it is whether or not another one can be read.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ebbflow.workloads.google_cluster.events import COLUMNS
from ebbflow.workloads.google_cluster.row_checks import (
    NEEDED,
    REQUESTS,
    Ints,
    is_clean,
    unread,
    value_problems,
)

if TYPE_CHECKING:
    import pyarrow as pa

Problem = tuple[int, str, str]
"""(row, what is wrong with it, its text)"""

READ = ("time", "job", "task", "machine", "event", "cpu", "memory", "disk")
_BLANKS = " \t"
_WHOLE = r"^[ \t]*[0-9]{1,18}[ \t]*$"
_NUMBER = r"^[ \t]*([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?[ \t]*$"
_MOST_TEXT = 300


def types() -> dict[str, pa.DataType]:
    """What each column of ``READ`` holds."""
    import pyarrow as pa

    found = {name: pa.int64() for name in ("time", "job", "task", "machine")}
    return found | {"event": pa.int8()} | {name: pa.float64() for name in REQUESTS}


def lines_of(path: Path) -> list[bytes]:
    """All lines of a file."""
    with _opened(path) as stream:
        lines = [line.rstrip(b"\r") for line in stream.read().split(b"\n")]
    if lines and not lines[-1]:
        lines.pop()
    return lines


def first_lines(path: Path) -> Iterator[bytes]:
    """The same, read no further than is asked for."""
    with _opened(path) as stream:
        for line in stream:
            yield line.rstrip(b"\n").rstrip(b"\r")


def _opened(path: Path) -> Any:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")


def clean_table(path: Path) -> pa.Table | None:
    """The columns, or None where a row of the file cannot be read."""
    import pyarrow as pa

    with pa.input_stream(str(path), compression="gzip" if path.suffix == ".gz" else None) as stream:
        return _clean(stream)


def events_of(lines: list[bytes]) -> pa.Table:
    """The events among lines, as columns; quickly if all are."""
    import pyarrow as pa

    clean = _clean(pa.BufferReader(b"\n".join(lines) + b"\n")) if lines else None
    return with_problems(lines)[0] if clean is None else clean


def _clean(stream: Any) -> pa.Table | None:
    import pyarrow as pa
    from pyarrow import csv

    try:
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


def with_problems(lines: list[bytes]) -> tuple[pa.Table, Ints, list[Problem]]:
    """(the events as columns, the row of each, what is wrong with the others)."""
    import pyarrow as pa

    problems: list[Problem] = []
    kept: list[int] = []
    for row, line in enumerate(lines):
        columns = line.count(b",") + 1
        if columns == len(COLUMNS) and b"\r" not in line:
            kept.append(row)
        elif line.strip():
            what = f"{columns} columns instead of {len(COLUMNS)}"
            problems.append((row, "a line end within it" if b"\r" in line else what, _text(line)))
    if not kept:
        empty = pa.schema([(n, pa.float64() if n in REQUESTS else pa.int64()) for n in READ]).empty_table()
        return empty, np.empty(0, np.int64), problems
    texts = _texts([lines[row] for row in kept])
    wrong = _unread(texts)
    good = np.ones(texts.num_rows, bool)
    good[list(wrong)] = False
    table, where = _cast(texts.filter(pa.array(good))), np.flatnonzero(good)
    for index, reason in value_problems(table).items():
        wrong[int(where[index])] = reason
    problems += [(kept[index], reason, _text(lines[kept[index]])) for index, reason in wrong.items()]
    fine = np.ones(texts.num_rows, bool)
    fine[list(wrong)] = False
    return table.filter(pa.array(fine[where])), np.array(kept, np.int64)[fine], sorted(problems)


def _texts(lines: list[bytes]) -> pa.Table:
    import pyarrow as pa
    from pyarrow import csv

    return csv.read_csv(
        pa.BufferReader(b"\n".join(lines) + b"\n"),
        read_options=csv.ReadOptions(column_names=COLUMNS, use_threads=False, block_size=64 << 20),
        parse_options=csv.ParseOptions(quote_char=False),
        convert_options=csv.ConvertOptions(
            column_types=dict.fromkeys(COLUMNS, pa.binary()), include_columns=READ, check_utf8=False
        ),
    )


def _unread(texts: pa.Table) -> dict[int, str]:
    """Row → which of its values is no number."""
    import pyarrow.compute as pc

    wrong: dict[int, str] = {}
    for name in READ:
        column = texts.column(name).combine_chunks()
        usual = pc.match_substring_regex(column, _NUMBER if name in REQUESTS else _WHOLE)
        if name not in NEEDED:
            usual = pc.or_(usual, pc.equal(column, b""))
        for index in np.flatnonzero(~usual.to_numpy(zero_copy_only=False)).tolist():
            value = column[index].as_py()
            if index not in wrong and not _reads(value, name):
                wrong[index] = unread(name, _text(value))
    return wrong


def _reads(value: bytes, name: str) -> bool:
    """Whether Arrow makes a number of it: 007, -0 and 0x1F are some."""
    import pyarrow as pa

    kind = pa.float64() if name in REQUESTS else pa.int64()
    try:
        pa.array([value.strip(_BLANKS.encode()).decode()]).cast(kind)
    except (pa.ArrowInvalid, UnicodeDecodeError):
        return False
    return True


def _text(line: bytes) -> str:
    return line[:_MOST_TEXT].decode("utf-8", errors="replace")


def _cast(texts: pa.Table) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = []
    for name in READ:
        column = pc.ascii_trim(texts.column(name).cast(pa.string()), characters=_BLANKS)
        column = pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
        columns.append(column.cast(pa.float64() if name in REQUESTS else pa.int64()))
    return pa.table(columns, names=list(READ))
