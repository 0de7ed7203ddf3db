"""What was written, and the check that every written row can be read at QUORUM: none lost, none stale, none damaged.

Each process of the load generator appends to a file of its own: a line when it sends a write, and one when the write
was acknowledged. A write that was sent and not acknowledged may or may not be there. So of each key the
version must be at least the last one acknowledged, and one of those sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TextIO

import msgspec

from ebbflow.errors import InputError
from ebbflow.targets.cassandra.connection import Connection
from ebbflow.targets.cassandra.load.rows import key_of, select_statement, version_of

SENT, ACKNOWLEDGED = "s", "a"
_CONCURRENCY = 64
_ATTEMPTS = 3


class WriteLog:
    """The file of one process."""

    def __init__(self, path: Path) -> None:
        self._file: TextIO = path.open("a", encoding="ascii")

    def add(self, kind: str, index: int, version: int) -> None:
        """Note a write that is ``SENT`` or ``ACKNOWLEDGED``."""
        self._file.write(f"{kind} {index} {version}\n")

    def flush(self) -> None:
        """Hand what was written to the system, where it survives this process."""
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Written:
    """The versions of each row that were acknowledged and sent."""

    def __init__(self) -> None:
        self.acknowledged: dict[int, int] = {}
        self.sent: dict[int, int] = {}

    def fill(self, indices: Iterable[int], version: int) -> None:
        """Rows that were written at first, all acknowledged."""
        for index in indices:
            self._put(self.acknowledged, index, version)

    def read(self, path: Path) -> None:
        """Add the file of a process. A last line that was cut off is ignored."""
        for number, line in enumerate(path.read_text(encoding="ascii").splitlines(keepends=True), 1):
            if not line.endswith("\n"):
                continue
            words = line.split()
            try:
                kind, index, version = words[0], int(words[1]), int(words[2])
                versions = {SENT: self.sent, ACKNOWLEDGED: self.acknowledged}[kind]
            except (ValueError, KeyError, IndexError):
                raise InputError(
                    f"{path}, line {number} is not a line of a load generator: {line[:60]!r}"
                ) from None
            self._put(versions, index, version)

    @staticmethod
    def _put(versions: dict[int, int], index: int, version: int) -> None:
        versions[index] = max(version, versions.get(index, 0))


class WrittenCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The result of reading all rows back."""

    rows: int
    lost: int = 0
    """Rows that are not there."""
    stale: int = 0
    """Rows older than the last acknowledged write."""
    damaged: int = 0
    """Rows whose columns do not fit together, or that nobody wrote."""
    unreadable: int = 0
    """Rows that could not be read."""
    examples: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every row is there as written."""
        return not (self.lost or self.stale or self.damaged or self.unreadable)


def judge(row: Mapping[str, Any] | None, acknowledged: int, sent: int | None) -> str:
    """What is wrong with a row: ``lost``, ``stale`` or ``damaged``; empty if nothing is.

    >>> judge(None, 1, None)
    'lost'
    """
    if row is None:
        return "lost"
    version = version_of(row)
    if version is None or version > max(acknowledged, sent or 0):
        return "damaged"
    return "stale" if version < acknowledged else ""


def check_written(
    connection: Connection,
    keyspace: str,
    written: Written,
    *,
    on_read: Callable[[int], None] = lambda _: None,
) -> WrittenCheck:
    """Read every acknowledged row at QUORUM and judge it. Reads that fail are repeated."""
    from cassandra import ConsistencyLevel
    from cassandra.concurrent import execute_concurrent_with_args

    statement = connection.session.prepare(select_statement(keyspace))
    statement.consistency_level = ConsistencyLevel.QUORUM
    left = sorted(written.acknowledged)
    counts = {"lost": 0, "stale": 0, "damaged": 0}
    examples: list[str] = []
    done = 0
    for _ in range(_ATTEMPTS):
        failed = []
        results = execute_concurrent_with_args(
            connection.session, statement, ((key_of(index),) for index in left), concurrency=_CONCURRENCY,
            results_generator=True, raise_on_first_error=False,
        )  # fmt: skip
        for index, (ok, answer) in zip(left, results, strict=True):
            if not ok:
                failed.append(index)
                continue
            done += 1
            on_read(done)
            wrong = judge(answer.one(), written.acknowledged[index], written.sent.get(index))
            if wrong:
                counts[wrong] += 1
                examples.append(f"{wrong}: row {index}")
        left = failed
    return WrittenCheck(
        rows=len(written.acknowledged), unreadable=len(left), examples=tuple(examples[:10]), **counts
    )
