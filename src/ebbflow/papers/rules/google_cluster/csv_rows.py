"""Rows of task events as columns, out of CSV: in one go where all can be read, line by line where one cannot.

A row that is no event is told with what is wrong with it; its text is kept. What is a number is for Arrow to say both
times, and what is an event for ``row_checks``: a row is what it is whether or not another one can be read.
"""

from __future__ import annotations

import gzip
import re
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ebbflow.papers.rules.google_cluster.events import COLUMNS
from ebbflow.papers.rules.google_cluster.row_checks import (
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


@dataclass(frozen=True, kw_only=True, eq=False)
class Found:
    """What the rows of a file are."""

    table: pa.Table
    """The events as columns."""
    rows: Ints
    """Which row each of them is."""
    problems: list[Problem]
    """The others."""


READ = ("time", "job", "task", "machine", "event", "cpu", "memory", "disk")
_BLANKS = " \t"
_WHOLE = r"^[ \t]*[0-9]{1,18}[ \t]*$"
_NUMBER = r"^[ \t]*([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?[ \t]*$"
_MAY_BE_WHOLE = re.compile(rb"-?[0-9][0-9a-fxA-FX]*$")
_MAY_BE_NUMBER = re.compile(rb"[-+]?[0-9.inIN][-+0-9a-zA-Z.]*$")
_MOST_TEXT = 300


def types() -> dict[str, pa.DataType]:
    """What each column of ``READ`` holds."""
    import pyarrow as pa

    found = {name: pa.int64() for name in ("time", "job", "task", "machine")}
    return found | {"event": pa.int8()} | {name: pa.float64() for name in REQUESTS}


def events(path: Path, next_us: int | None) -> Found:
    """All of a file."""
    import pyarrow as pa

    with pa.input_stream(str(path), compression="gzip" if path.suffix == ".gz" else None) as stream:
        clean = _clean(stream, next_us)
    if clean is not None:
        return found_in(clean)
    with _opened(path) as whole:
        return with_problems(whole.read().splitlines(), next_us)


def first_events(path: Path, rows: int, next_us: int | None) -> tuple[pa.Table, bool]:
    """(events among the first lines, whether that is all of the file)."""
    import pyarrow as pa

    with _opened(path) as stream:
        lines = [line for piece in islice(stream, rows) for line in piece.splitlines()]
        is_all = not stream.read(1)
    after_us = next_us if is_all else None
    clean = _clean(pa.BufferReader(b"\n".join(lines) + b"\n"), after_us) if lines else None
    return (with_problems(lines, after_us).table if clean is None else clean), is_all


def _opened(path: Path) -> Any:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")


def _clean(stream: Any, next_us: int | None) -> pa.Table | None:
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
    return table if is_clean(table, next_us) else None


def found_in(table: pa.Table) -> Found:
    """Of rows that are all events."""
    return Found(table=table, rows=np.arange(table.num_rows), problems=[])


def with_problems(lines: list[bytes], next_us: int | None) -> Found:
    """The events among lines, and what is wrong with the others."""
    import pyarrow as pa

    problems: list[Problem] = []
    kept: list[int] = []
    for row, line in enumerate(lines):
        columns = line.count(b",") + 1
        if columns == len(COLUMNS):
            kept.append(row)
        elif line.strip():
            problems.append((row, f"{columns} columns instead of {len(COLUMNS)}", _text(line)))
    if not kept:
        empty = pa.schema([(n, pa.float64() if n in REQUESTS else pa.int64()) for n in READ]).empty_table()
        return Found(table=empty, rows=np.empty(0, np.int64), problems=problems)
    texts = _texts([lines[row] for row in kept])
    wrong = _unread(texts)
    good = np.ones(texts.num_rows, bool)
    good[list(wrong)] = False
    table, where = _cast(texts.filter(pa.array(good))), np.flatnonzero(good)
    for index, reason in value_problems(table, next_us).items():
        wrong[int(where[index])] = reason
    problems += [(kept[index], reason, _text(lines[kept[index]])) for index, reason in wrong.items()]
    fine = np.ones(texts.num_rows, bool)
    fine[list(wrong)] = False
    rows = np.array(kept, np.int64)[fine]
    return Found(table=table.filter(pa.array(fine[where])), rows=rows, problems=sorted(problems))


def _texts(lines: list[bytes]) -> pa.Table:
    import pyarrow as pa
    from pyarrow import csv

    block = max(64 << 20, 2 * max(map(len, lines)))  # a line must fit
    return csv.read_csv(
        pa.BufferReader(b"\n".join(lines) + b"\n"),
        read_options=csv.ReadOptions(column_names=COLUMNS, use_threads=False, block_size=block),
        parse_options=csv.ParseOptions(quote_char=False),
        convert_options=csv.ConvertOptions(
            column_types=dict.fromkeys(COLUMNS, pa.binary()), include_columns=READ, check_utf8=False
        ),
    )


def _unread(texts: pa.Table) -> dict[int, str]:
    """Row → which of its values is no number."""
    import pyarrow as pa
    import pyarrow.compute as pc

    wrong: dict[int, str] = {}
    for name in READ:
        column = texts.column(name).combine_chunks()
        usual = pc.match_substring_regex(column, _NUMBER if name in REQUESTS else _WHOLE)
        if name not in NEEDED:
            usual = pc.or_(usual, pc.equal(column, b""))
        rows = np.flatnonzero(~usual.to_numpy(zero_copy_only=False))
        odd = column.take(pa.array(rows)).dictionary_encode()
        said = [None if _reads(v, name) else unread(name, _text(v)) for v in odd.dictionary.to_pylist()]
        for row, index in zip(rows.tolist(), odd.indices.to_pylist(), strict=True):
            reason = said[index]
            if reason is not None:
                wrong.setdefault(row, reason)
    return wrong


def _reads(value: bytes, name: str) -> bool:
    """Whether Arrow makes a number of it: 007, -0 and 0x1F are some. It is slow to say no, so it is asked only where
    it may say yes."""
    import pyarrow as pa

    text = value.strip(_BLANKS.encode())
    is_request = name in REQUESTS
    if not (_MAY_BE_NUMBER if is_request else _MAY_BE_WHOLE).match(text):
        return False
    try:
        pa.array([text.decode()]).cast(pa.float64() if is_request else pa.int64())
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
