"""The store: readings, batches and ledger in one SQLite file that other processes can read while the loop writes.

It uses two connections. Readings and finished batches are buffered and committed within a second, without waiting for
the disk. A ledger row is committed and synced before the call returns. So a crash of the process loses at most the
readings and batches of the last second, and never a ledger row. If the machine itself fails, readings and batches since
the last ledger row may be lost, too.

::

    series(id, subject, metric)                      readings(series, time_s, value)
    ledger(id, time_s, verdict, body JSON)           terms(name, value)
    batches(time_s, query, body JSON)                first_batches(time_s, query, body JSON)
    curves(quantity, subject, time_s, value)

The key of a batch is the time of its end, because batch ids of a new query start at 0 again. Its body is the
``core.batches.Batch``. Stores of older versions lack some tables; opening one for writing adds them, and reading one
finds them empty. First batches of a query have a table of their own: their rows count, but their durations are not
representative. Curves are known exactly once a run is over, such as the arrivals of a simulated run or of a generated
load.
"""

from __future__ import annotations

import contextlib
import math
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from ebbflow.core.batches import Batch, OperatorRun, StageRun
from ebbflow.core.clock import Clock
from ebbflow.core.curve import Curve
from ebbflow.core.metrics import Metric
from ebbflow.core.readings import Reading
from ebbflow.errors import NoStoreError, StoreError


class MemoryStore:
    """A store without a file, for simulations and tests.

    With ``keep=False`` it only numbers ledger rows and drops everything else: a simulated day has millions of
    readings, and the loop itself remembers its decisions.

    >>> store = MemoryStore(keep=True)
    >>> store.append_ledger(0.0, "hold", {}), store.append_ledger(1.0, "act", {"reason": "more rows"})
    (1, 2)
    >>> store.ledger()
    [{'id': 1}, {'reason': 'more rows', 'id': 2}]
    """

    alarm = ""

    def __init__(self, *, keep: bool = False) -> None:
        self.keeps = keep
        self.readings: list[Reading] = []
        self.batches: list[Batch] = []
        self.first_batches: list[Batch] = []
        self.amendments = 0
        """How often ``amend_ledger`` was called."""
        self._bodies: list[Mapping[str, object]] = []
        self._last_id = 0

    def add(
        self,
        readings: Iterable[Reading],
        batches: Iterable[Batch] = (),
        first_batches: Iterable[Batch] = (),
    ) -> None:
        """Store readings and finished batches."""
        if self.keeps:
            self.readings += readings
            self.batches += batches
            self.first_batches += first_batches

    def append_ledger(self, time_s: float, verdict: str, body: Mapping[str, object]) -> int:  # noqa: ARG002
        """Add a ledger row and return its id."""
        self._last_id += 1
        if self.keeps:
            self._bodies.append(body)
        return self._last_id

    def amend_ledger(self, bodies: Mapping[int, Mapping[str, object]]) -> None:
        """Replace the bodies of ledger rows, by id."""
        self.amendments += 1
        for entry_id, body in bodies.items() if self.keeps else ():
            self._bodies[entry_id - 1] = body

    def ledger(self) -> list[dict[str, Any]]:
        """All ledger rows, oldest first, as JSON values."""
        return [{**body, "id": entry_id} for entry_id, body in enumerate(self._bodies, start=1)]


LONGEST_S = 1e9
"""Longest plausible batch or task: 32 years."""
MOST = 10**15
"""Most rows, tasks or slots; squares of larger numbers exceed the precision of the models."""
FARTHEST_S = 250e9
"""Largest distance from 1970. Simulated time starts at 0, so times may be slightly negative."""


def is_plausible(batch: Batch) -> bool:
    """Whether the values of a stored batch are possible; an edited or damaged file may hold others.

    >>> stage = StageRun(index=0, tasks=4, task_time_s=0.4, cpu_time_s=0.3, wall_s=0.1, longest_task_s=0.1)
    >>> def batch(rows: int, *stages: StageRun) -> Batch:
    ...     return Batch(query="q", batch_id=1, started_s=10.0, duration_s=0.5, rows=rows, slots=4,
    ...                  trigger_interval_s=1.0, arrival_rate_per_s=9.0, backlog_rows=None, oldest_arrival_s=9.0,
    ...                  stages=stages)
    >>> is_plausible(batch(100, stage)), is_plausible(batch(-100, stage)), is_plausible(batch(100, stage, stage))
    (True, False, False)
    """
    return (
        _times(batch.duration_s, batch.trigger_interval_s)
        and all(-FARTHEST_S <= time_s <= FARTHEST_S for time_s in (batch.started_s, batch.oldest_arrival_s))
        and _counts(batch.rows, batch.slots, batch.arrival_rate_per_s, batch.backlog_rows or 0.0)
        and all(_stage(run, index) for index, run in enumerate(batch.stages))
        and all(map(_operator, batch.operators))
    )


def _stage(run: StageRun, index: int) -> bool:
    return (
        run.index == index
        and 1 <= run.tasks <= MOST
        and _times(run.task_time_s, run.cpu_time_s, run.wall_s, run.longest_task_s)
    )


def _operator(run: OperatorRun) -> bool:
    return _counts(run.rows_in, run.rows_out, run.instances or 0) and _times(
        run.cpu_s or 0.0, run.busiest_instance_cpu_s or 0.0
    )


def _times(*values_s: float) -> bool:
    """Also False for NaN."""
    return all(0.0 <= value_s <= LONGEST_S for value_s in values_s)


def _counts(*values: float) -> bool:
    return all(0 <= value <= MOST for value in values)


FLUSH_EVERY_S = 1.0
PRUNE_EVERY_S = 3600.0
FIRST_PRUNE_S = 60.0
"""How often old rows are deleted; the first time soon after opening, so that short jobs do it as well."""
MOST_WAITING = 100_000
"""Readings buffered while writing fails (about 10 MB); beyond that the oldest are dropped."""
MOST_BATCHES_WAITING = 10_000
"""Batches buffered while writing fails, at 0.4 to 2 kB each."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS series(
    id INTEGER PRIMARY KEY, subject TEXT NOT NULL, metric TEXT NOT NULL, UNIQUE(subject, metric));
CREATE TABLE IF NOT EXISTS readings(
    series INTEGER NOT NULL, time_s REAL NOT NULL, value REAL NOT NULL,
    PRIMARY KEY(series, time_s)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS ledger(
    id INTEGER PRIMARY KEY AUTOINCREMENT, time_s REAL NOT NULL, verdict TEXT NOT NULL, body TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS ledger_by_verdict ON ledger(verdict, time_s);
CREATE TABLE IF NOT EXISTS terms(name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS batches(
    time_s REAL NOT NULL, query TEXT NOT NULL, body TEXT NOT NULL, PRIMARY KEY(time_s, query));
CREATE TABLE IF NOT EXISTS first_batches(
    time_s REAL NOT NULL, query TEXT NOT NULL, body TEXT NOT NULL, PRIMARY KEY(time_s, query));
CREATE TABLE IF NOT EXISTS curves(
    quantity TEXT NOT NULL, subject TEXT NOT NULL, time_s REAL NOT NULL, value REAL NOT NULL);
"""
_ALWAYS = ("series", "readings", "ledger")
"""Tables that stores of all versions have."""
_TEMPORARY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM)
"""Temporary errors, which do not mean that the file is damaged."""
_encode = msgspec.json.Encoder().encode
_decode_batch = msgspec.json.Decoder(Batch).decode


class LedgerRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A row of the ledger as it is stored."""

    time_s: float
    verdict: str
    body: str
    """JSON."""
    entry_id: int | None = None
    """None for the next one."""


@dataclass(frozen=True, kw_only=True)
class StoredReadings:
    """The readings of some metrics in a store."""

    series: Mapping[tuple[str, Metric], list[tuple[float, float]]]
    """(time, value) by subject and metric, oldest first."""
    dropped: int = 0
    """Number of invalid values: text, infinite or negative."""


@dataclass(frozen=True, kw_only=True)
class StoredBatches:
    """The finished batches in a store."""

    batches: Sequence[Batch]
    """Batches of all queries, by end time."""
    dropped: int = 0
    """Number of batches that cannot be read or are not plausible."""


class Store:
    """Readings, finished batches and ledger of one pipeline.

    >>> import tempfile
    >>> from ebbflow.core.clock import ManualClock
    >>> folder = tempfile.TemporaryDirectory()
    >>> store = Store(Path(folder.name) / "run.sqlite", ManualClock())
    >>> store.add([Reading(1.0, "main", Metric.NODES, 2.0)])
    >>> store.flush()
    >>> store.readings("main", Metric.NODES)
    [(1.0, 2.0)]
    >>> store.close(); folder.cleanup()
    """

    keeps = True
    alarm = ""

    def __init__(
        self,
        path: Path,
        clock: Clock,
        *,
        keep_readings_s: float = 7 * 86400.0,
        keep_holds_s: float = 30 * 86400.0,
        survives_power_loss: bool = True,
    ) -> None:
        """``survives_power_loss``: wait until each ledger entry is on the disk. A simulation can be repeated."""
        self.path = path
        self._survives_power_loss = survives_power_loss
        self._clock = clock
        self._keep_readings_s = keep_readings_s
        self._keep_holds_s = keep_holds_s
        self._lock = threading.RLock()
        self._series: dict[tuple[str, Metric], int] = {}
        self._buffer: list[Reading] = []
        self._batches: list[tuple[float, str, str]] = []
        self._first_batches: list[tuple[float, str, str]] = []
        self._flushed_s = clock.monotonic_s()
        self._prune_at_s = self._flushed_s + FIRST_PRUNE_S
        self._newest_s = float("-inf")
        """Time of the newest row written, from which the age of others counts: the wall clock may leap."""
        self._terms: dict[str, str] = {}
        """The terms of the run, for a file that replaces a deleted one."""
        self._wait_s = 10.0
        self._open()

    def _open(self) -> None:
        path = self.path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            fast, safe = ("NORMAL", "FULL") if self._survives_power_loss else ("OFF", "OFF")
            self._fast = _connect(path, synchronous=fast, wait_s=self._wait_s)
            self._fast.executescript(_SCHEMA)
            self._safe = _connect(path, synchronous=safe, wait_s=self._wait_s)
            self._inode = path.stat().st_ino
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"cannot open the store {path}: {error}") from error

    def wait_at_most(self, seconds: float) -> None:
        """Wait no longer than this for a lock that another process holds."""
        self._wait_s = seconds
        with self._lock, _as_store_error(self.path):
            for connection in (self._fast, self._safe):
                connection.execute(f"PRAGMA busy_timeout = {round(1000 * seconds)}")

    def file_is_there(self) -> bool:
        """Whether the file that is open is still the one at the path."""
        try:
            return self.path.stat().st_ino == self._inode
        except OSError:
            return False

    def open_again(self) -> None:
        """Open the file at the path, or a new one, with the terms of the run and what is still to be written."""
        with self._lock:
            for connection in (self._fast, self._safe):
                with contextlib.suppress(sqlite3.Error):
                    connection.close()
            self._series.clear()
            self._open()
            self.set_terms(self._terms)

    # -- readings and batches ------------------------------------------------------------------

    def add(
        self,
        readings: Iterable[Reading],
        batches: Iterable[Batch] = (),
        first_batches: Iterable[Batch] = (),
    ) -> None:
        """Store readings and finished batches; on disk within a second if ``add`` or ``flush`` is called again.

        NaN values are dropped. A batch that is added twice is stored once.
        """
        with self._lock:
            self.buffer(readings, batches, first_batches)
            if self.is_due:
                self.flush()

    def buffer(
        self,
        readings: Iterable[Reading],
        batches: Iterable[Batch] = (),
        first_batches: Iterable[Batch] = (),
    ) -> None:
        """Keep readings and finished batches for the next ``flush``; the oldest are dropped if there are too many."""
        with self._lock:
            self._batches += map(_batch_row, batches)
            self._first_batches += map(_batch_row, first_batches)
            self._buffer += [reading for reading in readings if reading.value == reading.value]
            for waiting, most in (
                (self._buffer, MOST_WAITING),
                (self._batches, MOST_BATCHES_WAITING),
                (self._first_batches, MOST_BATCHES_WAITING),
            ):
                del waiting[:-most]

    @property
    def is_due(self) -> bool:
        """Whether it is time to ``flush``."""
        return self._clock.monotonic_s() - self._flushed_s >= FLUSH_EVERY_S

    def flush(self) -> None:
        """Write buffered rows, and delete old rows from time to time."""
        with self._lock, _as_store_error(self.path):
            now_s = self._clock.monotonic_s()
            if self._buffer or self._batches or self._first_batches:
                series = self._series
                rows = [
                    (
                        series.get((r.subject, r.metric)) or self._series_id(r.subject, r.metric),
                        r.time_s,
                        r.value,
                    )
                    for r in self._buffer
                ]
                with self._fast:
                    self._fast.executemany("INSERT OR REPLACE INTO readings VALUES (?, ?, ?)", rows)
                    self._fast.executemany("INSERT OR REPLACE INTO batches VALUES (?, ?, ?)", self._batches)
                    self._fast.executemany(
                        "INSERT OR REPLACE INTO first_batches VALUES (?, ?, ?)", self._first_batches
                    )
                times_s = [*(row[1] for row in rows), *(row[0] for row in self._batches)]
                self._newest_s = max(self._newest_s, *times_s) if times_s else self._newest_s
                self._buffer.clear()
                self._batches.clear()
                self._first_batches.clear()
            self._flushed_s = now_s
            if now_s >= self._prune_at_s:
                self._prune(self._newest_s)
                self._prune_at_s = now_s + PRUNE_EVERY_S

    def readings(
        self, subject: str, metric: Metric, since_s: float = float("-inf")
    ) -> list[tuple[float, float]]:
        """(time, value) of one series, oldest first."""
        with self._lock, _as_store_error(self.path):
            rows = self._fast.execute(
                "SELECT time_s, value FROM readings WHERE series = "
                "(SELECT id FROM series WHERE subject = ? AND metric = ?) AND time_s >= ? ORDER BY time_s",
                (subject, metric.key, since_s),
            )
            return [(float(t), float(v)) for t, v in rows]

    def _series_id(self, subject: str, metric: Metric) -> int:
        with _as_store_error(self.path), self._fast:
            self._fast.execute(
                "INSERT OR IGNORE INTO series(subject, metric) VALUES (?, ?)", (subject, metric.key)
            )
            row = self._fast.execute(
                "SELECT id FROM series WHERE subject = ? AND metric = ?", (subject, metric.key)
            ).fetchone()
        self._series[subject, metric] = int(row[0])
        return int(row[0])

    def _prune(self, now_s: float) -> None:
        with self._fast:
            ids = [row[0] for row in self._fast.execute("SELECT id FROM series")]
            self._fast.executemany(
                "DELETE FROM readings WHERE series = ? AND time_s < ?",
                [(i, now_s - self._keep_readings_s) for i in ids],
            )
            # Drop series without readings, but keep the newest: its id must not be reused.
            self._fast.execute(
                "DELETE FROM series WHERE id < (SELECT max(id) FROM series) "
                "AND NOT EXISTS (SELECT 1 FROM readings WHERE readings.series = series.id)"
            )
            left = {row[0] for row in self._fast.execute("SELECT id FROM series")}
            self._fast.execute("DELETE FROM batches WHERE time_s < ?", (now_s - self._keep_readings_s,))
            self._fast.execute("DELETE FROM first_batches WHERE time_s < ?", (now_s - self._keep_readings_s,))
            # Acts are kept forever.
            self._fast.execute(
                "DELETE FROM ledger WHERE verdict = 'hold' AND time_s < ?", (now_s - self._keep_holds_s,)
            )
        self._series = {series: known for series, known in self._series.items() if known in left}

    # -- terms and curves ----------------------------------------------------------------------

    def begin_run(self, terms: Mapping[str, str]) -> None:
        """Store the terms of a new run (SLO, limits, target, start time), and drop terms and curves of the last one."""
        with self._lock, _as_store_error(self.path), self._safe:
            self._safe.execute("DELETE FROM terms")
            self._safe.execute("DELETE FROM curves")
            self._safe.executemany("INSERT INTO terms VALUES (?, ?)", list(terms.items()))
        self._terms = dict(terms)

    def set_terms(self, terms: Mapping[str, str]) -> None:
        """Add terms to those of the current run, or replace them."""
        with self._lock, _as_store_error(self.path), self._safe:
            self._safe.executemany("INSERT OR REPLACE INTO terms VALUES (?, ?)", list(terms.items()))
        self._terms.update(terms)

    def set_curves(self, curves: Mapping[tuple[str, str], Curve]) -> None:
        """Store what is known exactly once the run is over, by quantity and subject; replaces earlier curves."""
        rows = [
            (quantity, subject, float(time_s), float(value))
            for (quantity, subject), curve in curves.items()
            for time_s, value in zip(curve.times_s, curve.values, strict=True)
        ]
        with self._lock, _as_store_error(self.path), self._safe:
            self._safe.execute("DELETE FROM curves")
            self._safe.executemany("INSERT INTO curves VALUES (?, ?, ?, ?)", rows)

    @staticmethod
    def read_curves(path: Path) -> dict[tuple[str, str], Curve]:
        """The curves of the last run by quantity and subject, in the order in which they were stored."""
        points: dict[tuple[str, str], list[tuple[float, float]]] = {}
        with _reader(path) as reader:
            if _has_table(reader, "curves"):
                for quantity, subject, time_s, value in reader.execute("SELECT * FROM curves ORDER BY rowid"):
                    points.setdefault((quantity, subject), []).append((time_s, value))
        return {key: Curve.of(found) for key, found in points.items()}

    @staticmethod
    def read_terms(path: Path) -> dict[str, str]:
        """The terms of the last run; empty for stores of older versions."""
        with _reader(path) as reader:
            known = _has_table(reader, "terms")
            return dict(reader.execute("SELECT name, value FROM terms")) if known else {}

    # -- ledger --------------------------------------------------------------------------------

    def append_ledger(self, time_s: float, verdict: str, body: Mapping[str, object]) -> int:
        """Write a ledger row, synced to disk, and return its id."""
        (entry_id,) = self.append_rows(
            [LedgerRow(time_s=time_s, verdict=verdict, body=_encode(body).decode())]
        )
        return entry_id

    def append_rows(self, rows: Sequence[LedgerRow]) -> list[int]:
        """Write ledger rows in one transaction, synced to disk, and return their ids."""
        ids = []
        with self._lock, _as_store_error(self.path), self._safe:
            for row in rows:
                cursor = self._safe.execute(
                    "INSERT INTO ledger(id, time_s, verdict, body) VALUES (?, ?, ?, ?)",
                    (row.entry_id, row.time_s, row.verdict, row.body),
                )
                assert cursor.lastrowid is not None
                ids.append(cursor.lastrowid)
                self._newest_s = max(self._newest_s, row.time_s)
        return ids

    def amend_ledger(self, bodies: Mapping[int, Mapping[str, object]]) -> None:
        """Replace the bodies of ledger rows, by id, in one transaction."""
        self.amend_rows({entry_id: _encode(body).decode() for entry_id, body in bodies.items()})

    def amend_rows(self, bodies: Mapping[int, str]) -> None:
        """Replace the bodies of ledger rows by JSON text, by id, in one transaction."""
        with self._lock, _as_store_error(self.path), self._safe:
            self._safe.executemany(
                "UPDATE ledger SET body = ? WHERE id = ?",
                [(body, entry_id) for entry_id, body in bodies.items()],
            )

    def ledger(self, since_id: int = 0, *, verdict: str | None = None) -> list[dict[str, Any]]:
        """Ledger rows after an id, oldest first, as JSON values; all, or those of one verdict."""
        with self._lock, _as_store_error(self.path):
            return _ledger_rows(self._fast, since_id, verdict)

    @staticmethod
    def read_ledger(
        path: Path, since_id: int = 0, *, verdict: str | None = None, last: int | None = None
    ) -> list[dict[str, Any]]:
        """Ledger rows of a store file, which another process may be writing, oldest first; all, those of one verdict,
        or the ``last`` of them."""
        with _reader(path) as reader:
            return _ledger_rows(reader, since_id, verdict, last)

    @staticmethod
    def count_ledger(path: Path, since_s: float) -> int:
        """Number of ledger rows at or after a time."""
        with _reader(path) as reader:
            return int(
                reader.execute("SELECT count(*) FROM ledger WHERE time_s >= ?", (since_s,)).fetchone()[0]
            )

    @staticmethod
    def read_readings(
        path: Path, metrics: Iterable[Metric], since_s: float = float("-inf")
    ) -> StoredReadings:
        """Every series of some metrics in a store file."""
        found, dropped = {}, 0
        with _reader(path) as reader:
            for metric in metrics:
                for series, subject in _series(reader, metric):
                    rows = reader.execute(
                        "SELECT time_s, value FROM readings WHERE series = ? AND time_s >= ? ORDER BY time_s",
                        (series, since_s),
                    ).fetchall()
                    points = [row for row in rows if _is_reading(*row)]
                    dropped += len(rows) - len(points)
                    if points:
                        found[subject, metric] = points
        return StoredReadings(series=found, dropped=dropped)

    @staticmethod
    def read_subjects(path: Path, metric: Metric) -> set[str]:
        """The subjects of a metric in a store file."""
        with _reader(path) as reader:
            return {subject for _, subject in _series(reader, metric)}

    @staticmethod
    def read_batches(path: Path) -> StoredBatches:
        """Finished batches in a store file; none in stores of older versions.

        Unreadable batches are skipped and counted.
        """
        found = list(Store.each_batch(path))
        batches = [batch for batch in found if batch is not None]
        batches.sort(key=lambda batch: (batch.ended_s, batch.query))
        return StoredBatches(batches=batches, dropped=len(found) - len(batches))

    @staticmethod
    def each_batch(
        path: Path, since_s: float = float("-inf"), *, first: bool = False
    ) -> Iterator[Batch | None]:
        """Finished batches that ended at or after a time, one by one and oldest first; None for an unreadable one.

        ``first``: the first batches of queries instead.
        """
        table = "first_batches" if first else "batches"
        with _reader(path) as reader:
            if _has_table(reader, table):
                # As bytes: SQLite fails the whole query if a text is not UTF-8.
                sql = f"SELECT CAST(body AS BLOB) FROM {table} WHERE time_s >= ? ORDER BY time_s, query"  # noqa: S608
                for (body,) in reader.execute(sql, (since_s,)):
                    yield _batch(body)

    def close(self) -> None:
        """Flush and close the file."""
        with self._lock, contextlib.closing(self._fast), contextlib.closing(self._safe):
            self.flush()


@contextlib.contextmanager
def _reader(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a store file for reading; ``NoStoreError`` if it is not a store."""
    right = "name the file that a run was given with --store"
    if not path.is_file():
        raise NoStoreError(f"there is no store {path}; {right}")
    try:
        with contextlib.closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as reader:
            if not reader.execute("SELECT 1 FROM sqlite_master").fetchone():
                raise NoStoreError(f"{path} is not a store of Ebbflow: it is empty; {right}")
            for name in _ALWAYS:
                if not _has_table(reader, name):
                    raise NoStoreError(f"{path} is not a store of Ebbflow: it has no table '{name}'; {right}")
            yield reader
    except (sqlite3.Error, msgspec.DecodeError) as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _TEMPORARY:
            raise StoreError(f"store {path}: {error}") from error
        raise NoStoreError(
            f"{path} is not a store of Ebbflow, or it is damaged ({error}); {right}"
        ) from error


def _is_reading(time_s: Any, value: Any) -> bool:
    return (
        isinstance(time_s, float)
        and isinstance(value, float)
        and math.isfinite(time_s)
        and 0 <= value < math.inf
    )


def _batch_row(batch: Batch) -> tuple[float, str, str]:
    return batch.ended_s, batch.query, _encode(batch).decode()


def _batch(body: bytes | None) -> Batch | None:
    try:
        batch = _decode_batch(body or b"")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return batch if is_plausible(batch) else None


def _has_table(reader: sqlite3.Connection, name: str) -> bool:
    found = reader.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (name,))
    return found.fetchone() is not None


def _series(reader: sqlite3.Connection, metric: Metric) -> list[tuple[int, str]]:
    return reader.execute("SELECT id, subject FROM series WHERE metric = ?", (metric.key,)).fetchall()


def _ledger_rows(
    connection: sqlite3.Connection, since_id: int, verdict: str | None = None, last: int | None = None
) -> list[dict[str, Any]]:
    # Newest first, so that only the wanted rows are read.
    rows = connection.execute(
        "SELECT id, body FROM ledger WHERE id > ? AND (? IS NULL OR verdict = ?) ORDER BY id DESC LIMIT ?",
        (since_id, verdict, verdict, -1 if last is None else last),
    ).fetchall()
    return [{**msgspec.json.decode(body), "id": entry_id} for entry_id, body in reversed(rows)]


def _connect(path: Path, *, synchronous: str, wait_s: float) -> sqlite3.Connection:
    connection = sqlite3.connect(path, check_same_thread=False, timeout=wait_s)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    return connection


@contextlib.contextmanager
def _as_store_error(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(f"store {path}: {error}") from error
