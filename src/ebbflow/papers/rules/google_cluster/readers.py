"""Read task events from CSV and Parquet files as columns, and find the rows that are not valid events.

Arrow reads a file in one go. If any row is invalid, the file is read again line by line, so that each invalid row can
be reported with its text and the reason. Both ways use Arrow to parse numbers and ``events.invalid_rows`` to check
them, so a row is read the same whether or not another row is valid.

Parquet files have the 13 columns of the trace in its order, under any names. A column must have a type that holds its
numbers exactly: a timestamp, a boolean or a fraction is not a whole number, and a 32-bit float rounds. Other files are
refused. Invalid rows of Parquet are found as in CSV: the columns that are read are written out as lines.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ebbflow.errors import InputError
from ebbflow.papers.rules.google_cluster.events import (
    REQUESTS,
    REQUIRED,
    TRACE_COLUMNS,
    Ints,
    all_valid,
    invalid_rows,
    invalid_value,
)

if TYPE_CHECKING:
    import pyarrow as pa

InvalidRow = tuple[int, str, str]
"""(row, reason, text)"""
USED = ("time", "job", "task", "machine", "event", "cpu", "memory", "disk")
"""The columns that are read."""
PARQUET = ".parquet"

_BLANKS = " \t"
_WHOLE = r"^[ \t]*[0-9]{1,18}[ \t]*$"
_NUMBER = r"^[ \t]*([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?[ \t]*$"
_MAYBE_WHOLE = re.compile(rb"-?[0-9][0-9a-fxA-FX]*$")
_MAYBE_NUMBER = re.compile(rb"[-+]?[0-9.inIN][-+0-9a-zA-Z.]*$")
_MAX_TEXT = 300
_USED_INDEXES = [TRACE_COLUMNS.index(name) for name in USED]
_PARQUET_BATCH = 64


@dataclass(frozen=True, kw_only=True, eq=False)
class ParsedRows:
    """The rows of a file."""

    table: pa.Table
    """The columns of the valid events."""
    rows: Ints
    """The row number of each valid event."""
    invalid: list[InvalidRow]


def read_events(path: Path, next_us: int | None) -> ParsedRows:
    """Read a whole file; ``next_us`` is the time of the first event after it."""
    if path.suffix == PARQUET:
        file = _parquet_file(path)
        return _checked_parquet(_used_columns(file.read(_used_names(file), use_threads=False)), next_us)
    import pyarrow as pa

    with pa.input_stream(str(path), compression="gzip" if path.suffix == ".gz" else None) as stream:
        valid = _csv_in_one_go(stream, next_us)
    if valid is not None:
        return _all_rows(valid)
    with _opened(path) as whole:
        return _by_line(whole.read().splitlines(), next_us)


def read_first_events(path: Path, rows: int, next_us: int | None) -> tuple[pa.Table, bool]:
    """Return the valid events among the first rows, and whether these are all rows of the file."""
    import pyarrow as pa

    if path.suffix == PARQUET:
        file = _parquet_file(path, memory_map=True)
        if file.metadata.num_rows <= rows:
            return read_events(path, next_us).table, True
        batches, count = [], 0
        for batch in file.iter_batches(
            batch_size=_PARQUET_BATCH, columns=_used_names(file), use_threads=False
        ):
            batches.append(batch)
            count += batch.num_rows
            if count >= rows:
                break
        return _checked_parquet(_used_columns(pa.Table.from_batches(batches)), None).table, False
    with _opened(path) as stream:
        lines = [line for piece in islice(stream, rows) for line in piece.splitlines()]
        is_all = not stream.read(1)
    after_us = next_us if is_all else None
    valid = _csv_in_one_go(pa.BufferReader(b"\n".join(lines) + b"\n"), after_us) if lines else None
    return (_by_line(lines, after_us).table if valid is None else valid), is_all


def _all_rows(table: pa.Table) -> ParsedRows:
    return ParsedRows(table=table, rows=np.arange(table.num_rows), invalid=[])


def _types() -> dict[str, pa.DataType]:
    import pyarrow as pa

    types = {name: pa.int64() for name in ("time", "job", "task", "machine")}
    return types | {"event": pa.int8()} | {name: pa.float64() for name in REQUESTS}


# -- CSV ---------------------------------------------------------------------------------------------


def _opened(path: Path) -> Any:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")


def _csv_in_one_go(stream: Any, next_us: int | None) -> pa.Table | None:
    """Return the events, or None if any row is invalid."""
    import pyarrow as pa
    from pyarrow import csv

    try:
        table = csv.read_csv(
            stream,
            read_options=csv.ReadOptions(column_names=TRACE_COLUMNS, use_threads=False, block_size=4 << 20),
            parse_options=csv.ParseOptions(quote_char=False),
            convert_options=csv.ConvertOptions(
                column_types=_types(), include_columns=USED, null_values=[""], check_utf8=False
            ),
        )
    except pa.ArrowInvalid:
        return None
    return table if all_valid(table, next_us) else None


def _by_line(lines: list[bytes], next_us: int | None) -> ParsedRows:
    """Separate the valid events among lines from the invalid ones."""
    import pyarrow as pa

    invalid: list[InvalidRow] = []
    complete: list[int] = []
    for row, line in enumerate(lines):
        columns = line.count(b",") + 1
        if columns == len(TRACE_COLUMNS):
            complete.append(row)
        elif line.strip():
            invalid.append((row, f"{columns} columns instead of {len(TRACE_COLUMNS)}", _text(line)))
    if not complete:
        empty = pa.schema([(n, pa.float64() if n in REQUESTS else pa.int64()) for n in USED]).empty_table()
        return ParsedRows(table=empty, rows=np.empty(0, np.int64), invalid=invalid)
    texts = _text_columns([lines[row] for row in complete])
    reasons = _invalid_numbers(texts)
    numbers = np.ones(texts.num_rows, bool)
    numbers[list(reasons)] = False
    table, where = _cast(texts.filter(pa.array(numbers))), np.flatnonzero(numbers)
    for index, reason in invalid_rows(table, next_us).items():
        reasons[int(where[index])] = reason
    invalid += [(complete[index], reason, _text(lines[complete[index]])) for index, reason in reasons.items()]
    valid = np.ones(texts.num_rows, bool)
    valid[list(reasons)] = False
    rows = np.array(complete, np.int64)[valid]
    return ParsedRows(table=table.filter(pa.array(valid[where])), rows=rows, invalid=sorted(invalid))


def _text_columns(lines: list[bytes]) -> pa.Table:
    import pyarrow as pa
    from pyarrow import csv

    block = max(64 << 20, 2 * max(map(len, lines)))  # a line must fit
    return csv.read_csv(
        pa.BufferReader(b"\n".join(lines) + b"\n"),
        read_options=csv.ReadOptions(column_names=TRACE_COLUMNS, use_threads=False, block_size=block),
        parse_options=csv.ParseOptions(quote_char=False),
        convert_options=csv.ConvertOptions(
            column_types=dict.fromkeys(TRACE_COLUMNS, pa.binary()), include_columns=USED, check_utf8=False
        ),
    )


def _invalid_numbers(texts: pa.Table) -> dict[int, str]:
    """Map each row with a value that is not a number to the reason."""
    import pyarrow as pa
    import pyarrow.compute as pc

    reasons: dict[int, str] = {}
    for name in USED:
        column = texts.column(name).combine_chunks()
        usual = pc.match_substring_regex(column, _NUMBER if name in REQUESTS else _WHOLE)
        if name not in REQUIRED:
            usual = pc.or_(usual, pc.equal(column, b""))
        rows = np.flatnonzero(~usual.to_numpy(zero_copy_only=False))
        unusual = column.take(pa.array(rows)).dictionary_encode()
        by_value = [
            None if _is_number(value, name) else invalid_value(name, _text(value))
            for value in unusual.dictionary.to_pylist()
        ]
        for row, index in zip(rows.tolist(), unusual.indices.to_pylist(), strict=True):
            reason = by_value[index]
            if reason is not None:
                reasons.setdefault(row, reason)
    return reasons


def _is_number(value: bytes, name: str) -> bool:
    """Return whether Arrow parses the value as a number: it accepts 007, -0 and 0x1F.

    Arrow is slow to refuse a value, so a pattern refuses most of them first.
    """
    import pyarrow as pa

    text = value.strip(_BLANKS.encode())
    is_request = name in REQUESTS
    if not (_MAYBE_NUMBER if is_request else _MAYBE_WHOLE).match(text):
        return False
    try:
        pa.array([text.decode()]).cast(pa.float64() if is_request else pa.int64())
    except (pa.ArrowInvalid, UnicodeDecodeError):
        return False
    return True


def _text(line: bytes) -> str:
    return line[:_MAX_TEXT].decode("utf-8", errors="replace")


def _cast(texts: pa.Table) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = []
    for name in USED:
        column = pc.ascii_trim(texts.column(name).cast(pa.string()), characters=_BLANKS)
        column = pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
        columns.append(column.cast(pa.float64() if name in REQUESTS else pa.int64()))
    return pa.table(columns, names=list(USED))


# -- Parquet -----------------------------------------------------------------------------------------


def _parquet_file(path: Path, *, memory_map: bool = False) -> Any:
    """Open a file whose columns can hold task events."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path, memory_map=memory_map)
    except pa.ArrowInvalid as error:
        raise InputError(f"cannot read {path}: {error}") from None
    schema = file.schema_arrow
    if len(schema) != len(TRACE_COLUMNS):
        raise InputError(
            f"cannot read {path}: it has {len(schema)} columns; task events have {len(TRACE_COLUMNS)}"
        )
    for index, name in zip(_USED_INDEXES, USED, strict=True):
        kind = schema.field(index).type
        if not _can_hold(kind, name):
            is_request = name in REQUESTS
            raise InputError(
                f"cannot read {path}: column {index + 1} is the {name}, a {'' if is_request else 'whole '}number, but "
                f"has type {kind}; write it as {'floats' if is_request else 'integers'}"
            )
    return file


def _used_names(file: Any) -> list[str] | None:
    """Return the names of the columns to read, or None for all columns if names are ambiguous."""
    names = file.schema_arrow.names
    if len(set(names)) < len(names) or any("." in name for name in names):  # Arrow reads a.b as field b of a
        return None
    return [names[index] for index in _USED_INDEXES]


def _used_columns(table: pa.Table) -> pa.Table:
    """Return the columns to read under the trace's names, requests as 64-bit floats."""
    import pyarrow as pa

    columns = []
    chosen = zip(
        USED, _USED_INDEXES if table.num_columns == len(TRACE_COLUMNS) else range(len(USED)), strict=True
    )
    for name, index in chosen:
        column = table.column(index)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if name in REQUESTS and (pa.types.is_floating(column.type) or pa.types.is_decimal(column.type)):
            column = column.cast(pa.float64())
        columns.append(column)
    return pa.table(columns, list(USED))


def _checked_parquet(table: pa.Table, next_us: int | None) -> ParsedRows:
    import pyarrow as pa

    types = _types()
    try:
        cast = pa.table([table.column(name).cast(kind) for name, kind in types.items()], list(types))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return _by_line(_csv_lines(table), next_us)
    return _all_rows(cast) if all_valid(cast, next_us) else _by_line(_csv_lines(table), next_us)


def _csv_lines(table: pa.Table) -> list[bytes]:
    """Return the rows as lines of CSV; columns that are not read stay empty."""
    empty = [""] * table.num_rows
    columns = [_texts(table.column(name), name) if name in USED else empty for name in TRACE_COLUMNS]
    return [",".join(row).encode() for row in zip(*columns, strict=True)]


def _texts(column: Any, name: str) -> Iterator[str]:
    import pyarrow as pa

    if pa.types.is_floating(column.type) and name not in REQUESTS:
        # pandas stores whole numbers beside missing ones as floats; write 600000000, not 6e+08
        values = (
            str(int(value)) if value is not None and value.is_integer() else value
            for value in column.to_pylist()
        )
    elif _is_bytes(column.type):
        values = (None if v is None else v.decode("utf-8", errors="replace") for v in column.to_pylist())
    else:
        values = iter(column.cast(pa.string()).to_pylist())
    for value in values:
        text = "" if value is None else str(value)
        yield text.replace(",", ";").replace("\n", "\\n").replace("\r", "\\r")


def _can_hold(kind: Any, name: str) -> bool:
    """Return whether a type holds the numbers of a column exactly."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_decimal(kind):
        return name in REQUESTS or kind.scale == 0
    if pa.types.is_floating(kind):
        return name in REQUESTS or kind == pa.float64()  # a shorter type rounds ids and times
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_null, _is_bytes)
    return any(is_type(kind) for is_type in (pa.types.is_integer, *texts))


def _is_bytes(kind: Any) -> bool:
    import pyarrow as pa

    types = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
    return any(is_type(kind) for is_type in types)
