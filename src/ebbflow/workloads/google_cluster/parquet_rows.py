"""Rows of task events as columns, out of Parquet: the 13 columns of the trace in its order, whatever their names.

What cannot be an event is found as in CSV: such a file is written out as lines, of the columns that are read, and
these are looked through.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ebbflow.errors import InputError
from ebbflow.workloads.google_cluster.csv_rows import READ, types
from ebbflow.workloads.google_cluster.events import COLUMNS
from ebbflow.workloads.google_cluster.row_checks import is_clean

if TYPE_CHECKING:
    import pyarrow as pa

ENDING = ".parquet"


def clean_table(path: Path) -> pa.Table | None:
    """The columns, or None where a row of the file is no event."""
    import pyarrow as pa

    table = _table(path, READ)
    try:
        table = pa.table([table.column(name).cast(kind) for name, kind in types().items()], list(types()))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    return table if is_clean(table) else None


def lines_of(path: Path) -> list[bytes]:
    """The rows as lines of CSV; columns that are not read are left empty."""
    return _lines(_table(path, READ), path)


def first_lines(path: Path) -> Iterator[bytes]:
    """The same, read no further than is asked for."""
    import pyarrow as pa

    file = _file(path, memory_map=True)
    own = file.schema_arrow.names
    for batch in file.iter_batches(batch_size=64, columns=[own[COLUMNS.index(name)] for name in READ]):
        table = pa.Table.from_batches([batch])
        yield from _lines(
            table.rename_columns([COLUMNS[own.index(name)] for name in table.column_names]), path
        )


def _lines(table: pa.Table, path: Path) -> list[bytes]:
    empty = [""] * table.num_rows
    columns = [_texts(table.column(name), path, name) if name in READ else empty for name in COLUMNS]
    return [",".join(row).encode() for row in zip(*columns, strict=True)]


def _texts(column: Any, path: Path, name: str) -> list[str]:
    import pyarrow as pa

    if pa.types.is_floating(column.type) and types()[name] != pa.float64():
        with suppress(pa.ArrowInvalid):  # whole numbers beside missing ones, as pandas has them: not 6e+08
            column = column.cast(pa.int64())
    try:
        texts = column.cast(pa.string()).to_pylist()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        place = COLUMNS.index(name) + 1
        raise InputError(
            f"cannot read {path}: column {place} is the {name}, a number; here it is {column.type}"
        ) from None
    return ["" if text is None else text.replace(",", ";").replace("\n", " ") for text in texts]


def _table(path: Path, names: tuple[str, ...]) -> pa.Table:
    file = _file(path)
    own = file.schema_arrow.names
    table = file.read([own[COLUMNS.index(name)] for name in names], use_threads=False)
    return table.rename_columns(list(names))


def _file(path: Path, *, memory_map: bool = False) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path, memory_map=memory_map)
    except pa.ArrowInvalid as error:
        raise InputError(f"cannot read {path}: {error}") from None
    count = len(file.schema_arrow.names)
    if count != len(COLUMNS):
        raise InputError(f"cannot read {path}: it has {count} columns; task events have {len(COLUMNS)}")
    return file
