"""Rows of task events as columns, out of Parquet: the 13 columns of the trace in its order, whatever their names.

A column must be of a type that can hold its numbers as they are: a moment, a truth value or a decimal fraction is no
whole number, a 32-bit float rounds them, and such a file is refused. A row that is no event is found as in CSV: rows
are written out as lines, of the columns that are read, and these are looked through.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ebbflow.errors import InputError
from ebbflow.papers.rules.google_cluster.csv_rows import READ, Found, found_in, types, with_problems
from ebbflow.papers.rules.google_cluster.events import COLUMNS
from ebbflow.papers.rules.google_cluster.row_checks import REQUESTS, is_clean

if TYPE_CHECKING:
    import pyarrow as pa

ENDING = ".parquet"
_PLACES = [COLUMNS.index(name) for name in READ]
_ROWS_AT_ONCE = 64


def events(path: Path, next_us: int | None) -> Found:
    """All of a file."""
    file = _file(path)
    return _found(_columns(file.read(_wanted(file), use_threads=False)), next_us)


def first_events(path: Path, rows: int, next_us: int | None) -> tuple[pa.Table, bool]:
    """(events among the first rows, whether that is all of the file)."""
    import pyarrow as pa

    file = _file(path, memory_map=True)
    if file.metadata.num_rows <= rows:
        return events(path, next_us).table, True
    batches, count = [], 0
    for batch in file.iter_batches(batch_size=_ROWS_AT_ONCE, columns=_wanted(file), use_threads=False):
        batches.append(batch)
        count += batch.num_rows
        if count >= rows:
            break
    return _found(_columns(pa.Table.from_batches(batches)), None).table, False


def _found(table: pa.Table, next_us: int | None) -> Found:
    """One judge for a whole file and for its beginning."""
    clean = _clean(table, next_us)
    return with_problems(_lines(table), next_us) if clean is None else found_in(clean)


def _clean(table: pa.Table, next_us: int | None) -> pa.Table | None:
    import pyarrow as pa

    try:
        cast = pa.table([table.column(name).cast(kind) for name, kind in types().items()], list(types()))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    return cast if is_clean(cast, next_us) else None


def _columns(table: pa.Table) -> pa.Table:
    """The columns that are read, under their names; requests as the numbers they are for both ways to read them."""
    import pyarrow as pa

    found = []
    chosen = zip(READ, _PLACES if table.num_columns == len(COLUMNS) else range(len(READ)), strict=True)
    for name, place in chosen:
        column = table.column(place)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if name in REQUESTS and (pa.types.is_floating(column.type) or pa.types.is_decimal(column.type)):
            column = column.cast(pa.float64())
        found.append(column)
    return pa.table(found, list(READ))


def _lines(table: pa.Table) -> list[bytes]:
    """The rows as lines of CSV; columns that are not read are left empty."""
    empty = [""] * table.num_rows
    columns = [_texts(table.column(name), name) if name in READ else empty for name in COLUMNS]
    return [",".join(row).encode() for row in zip(*columns, strict=True)]


def _texts(column: Any, name: str) -> Iterator[str]:
    import pyarrow as pa

    if pa.types.is_floating(column.type) and name not in REQUESTS:
        # whole numbers beside missing ones, as pandas has them: not 6e+08
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


def _file(path: Path, *, memory_map: bool = False) -> Any:
    """The file, if its columns can be those of task events."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path, memory_map=memory_map)
    except pa.ArrowInvalid as error:
        raise InputError(f"cannot read {path}: {error}") from None
    schema = file.schema_arrow
    if len(schema) != len(COLUMNS):
        raise InputError(f"cannot read {path}: it has {len(schema)} columns; task events have {len(COLUMNS)}")
    for place, name in zip(_PLACES, READ, strict=True):
        kind = schema.field(place).type
        if not _holds(kind, name):
            is_request = name in REQUESTS
            raise InputError(
                f"cannot read {path}: column {place + 1} is the {name}, a {'' if is_request else 'whole '}number; here "
                f"it is {kind}; write it as {'floats' if is_request else 'integers'}"
            )
    return file


def _wanted(file: Any) -> list[str] | None:
    """Names of the columns that are read; None, for all of them, where names do not tell columns apart."""
    own = file.schema_arrow.names
    if len(set(own)) < len(own) or any("." in name for name in own):  # Arrow takes a.b for what is in a
        return None
    return [own[place] for place in _PLACES]


def _holds(kind: Any, name: str) -> bool:
    """Whether a type can hold the numbers of a column as they are."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_decimal(kind):
        return name in REQUESTS or kind.scale == 0
    if pa.types.is_floating(kind):
        return name in REQUESTS or kind == pa.float64()  # a shorter one has rounded ids and times
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_null, _is_bytes)
    return any(is_it(kind) for is_it in (pa.types.is_integer, *texts))


def _is_bytes(kind: Any) -> bool:
    import pyarrow as pa

    tests = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
    return any(is_it(kind) for is_it in tests)
