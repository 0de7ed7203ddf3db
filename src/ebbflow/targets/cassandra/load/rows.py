"""The table of Pascal §7.2.1: a key and ten columns of 20 characters, filled by key and version.

The content of a row follows from its key and its version, so a reader can tell a stale or damaged row from a right one.
The version is the time of the write in microseconds, which is also its timestamp: later writes win.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ebbflow.errors import InputError, TargetError
from ebbflow.targets.cassandra.connection import Connection

COLUMNS = tuple(f"field{i}" for i in range(1, 11))
WIDTH = 20
TABLE = "rows"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,47}")
_CONCURRENCY = 64


def key_of(index: int) -> str:
    """The key of the row with this number, which looks random."""
    return hashlib.blake2b(index.to_bytes(8, "big"), digest_size=10).hexdigest()


def fields_of(key: str, version: int) -> tuple[str, ...]:
    """The columns of a version of a row: the version itself, and text that follows from it.

    >>> fields = fields_of(key_of(7), 1_700_000_000_000_000)
    >>> len(fields), {len(field) for field in fields}, version_of({"key": key_of(7), **dict(zip(COLUMNS, fields))})
    (10, {20}, 1700000000000000)
    """
    text = hashlib.shake_256(f"{key}:{version}".encode()).hexdigest(WIDTH // 2 * (len(COLUMNS) - 1))
    return (f"{version:0{WIDTH}d}", *(text[i : i + WIDTH] for i in range(0, len(text), WIDTH)))


def version_of(row: Mapping[str, Any]) -> int | None:
    """The version of a row; None if its columns do not fit together."""
    found = tuple(row[column] for column in COLUMNS)
    if not isinstance(found[0], str) or not found[0].isdigit():
        return None
    version = int(found[0])
    return version if found == fields_of(row["key"], version) else None


def check_keyspace(name: str) -> str:
    """A name that needs no quotes; ``InputError`` otherwise."""
    if not _NAME.fullmatch(name):
        raise InputError(f"'{name}' is not a keyspace name; write small letters, digits and _")
    return name


def insert_statement(keyspace: str) -> str:
    """CQL that writes a row: key, ten columns, timestamp."""
    names, marks = ", ".join(("key", *COLUMNS)), ", ".join("?" * (1 + len(COLUMNS)))
    return f"INSERT INTO {check_keyspace(keyspace)}.{TABLE} ({names}) VALUES ({marks}) USING TIMESTAMP ?"  # noqa: S608


def select_statement(keyspace: str) -> str:
    """CQL that reads a row by its key."""
    return f"SELECT key, {', '.join(COLUMNS)} FROM {check_keyspace(keyspace)}.{TABLE} WHERE key = ?"  # noqa: S608


def create_table(connection: Connection, keyspace: str, *, replication_factor: int, data_center: str) -> None:
    """Create keyspace and table, if they are not there."""
    check_keyspace(keyspace)
    replication = f"{{'class': 'NetworkTopologyStrategy', '{data_center}': {replication_factor}}}"
    connection.query(f"CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = {replication}")
    columns = ", ".join(f"{column} text" for column in COLUMNS)
    connection.query(f"CREATE TABLE IF NOT EXISTS {keyspace}.{TABLE} (key text PRIMARY KEY, {columns})")


def fill(
    connection: Connection,
    keyspace: str,
    indices: Iterable[int],
    version: int,
    *,
    on_written: Callable[[int], None] = lambda _: None,
) -> None:
    """Write one version of many rows at QUORUM. Raises ``TargetError`` if a row cannot be written."""
    from cassandra import ConsistencyLevel
    from cassandra.concurrent import execute_concurrent_with_args

    statement = connection.session.prepare(insert_statement(keyspace))
    statement.consistency_level = ConsistencyLevel.QUORUM

    def arguments() -> Iterable[tuple[object, ...]]:
        for index in indices:
            key = key_of(index)
            yield (key, *fields_of(key, version), version)

    results = execute_concurrent_with_args(
        connection.session, statement, arguments(), concurrency=_CONCURRENCY, results_generator=True,
        raise_on_first_error=False,
    )  # fmt: skip
    for written, (ok, answer) in enumerate(results, 1):
        if not ok:
            raise TargetError(f"row {written} of {keyspace} cannot be written: {answer}")
        on_written(written)
