"""Coordination in the store of a fleet, an SQLite file: for one controller, and hosts on its machine.

Members write a heartbeat. A member counts as there while its process exists and its last heartbeat is younger than
``there_for_s``. Records are written in transactions that are synced to disk.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from ebbflow.core.clock import Clock
from ebbflow.errors import OutdatedError, TargetError
from ebbflow.targets.fleet.coordination import Member, Record, Wish

THERE_FOR_S = 15.0
"""A machine that swaps or compiles delays heartbeats by seconds; a process that has ended is noticed at once."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS fleet_members(
    kind TEXT NOT NULL, name TEXT NOT NULL, body TEXT NOT NULL, boot TEXT NOT NULL, beat_s REAL NOT NULL,
    PRIMARY KEY(kind, name));
CREATE TABLE IF NOT EXISTS fleet_records(query TEXT PRIMARY KEY, version INTEGER NOT NULL, body TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS fleet_wish(id INTEGER PRIMARY KEY CHECK(id = 1), wish TEXT NOT NULL);
"""
_HOST, _CONTROLLER, _LEADER = "host", "controller", "leader"


class StoreCoordination:
    """The port, in an SQLite file."""

    def __init__(self, path: Path, clock: Clock, *, there_for_s: float = THERE_FOR_S) -> None:
        self._path = path
        self._clock = clock
        self._there_for_s = there_for_s
        self._lock = threading.RLock()
        with self._errors():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(path, check_same_thread=False, timeout=10.0, isolation_level=None)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.executescript(_SCHEMA)

    # -- members -------------------------------------------------------------------------------

    def join(self, host: Member) -> None:
        """Announce a host that has started."""
        with self._transaction():
            self._put(_HOST, host.name, host)

    def stay(self, host: Member) -> bool:
        """Announce that a host is still there; False if another has taken its place."""
        with self._errors():
            done = self._db.execute(
                "UPDATE fleet_members SET beat_s = ? WHERE kind = ? AND name = ? AND boot = ?",
                (self._clock.now_s(), _HOST, host.name, host.boot),
            )
            return done.rowcount == 1

    def leave(self, host: Member) -> None:
        """Withdraw a host, unless another has taken its place."""
        with self._errors():
            self._db.execute(
                "DELETE FROM fleet_members WHERE kind = ? AND name = ? AND boot = ?",
                (_HOST, host.name, host.boot),
            )

    def hosts(self) -> Mapping[str, Member]:
        """Hosts that are there, by application."""
        return {each.name: each for each in self._there(_HOST)}

    def lead(self, controller: Member) -> bool:
        """Ask for leadership, or keep it; whether this controller leads."""
        with self._transaction():
            leader = next(iter(self._there(_CONTROLLER)), None)
            if leader is not None and leader.boot != controller.boot:
                return False
            self._put(_CONTROLLER, _LEADER, controller)
            return True

    def leader(self) -> Member | None:
        """The controller that leads."""
        return next(iter(self._there(_CONTROLLER)), None)

    def resign(self, controller: Member) -> None:
        """Give leadership up."""
        with self._errors():
            self._db.execute(
                "DELETE FROM fleet_members WHERE kind = ? AND boot = ?", (_CONTROLLER, controller.boot)
            )

    def _put(self, kind: str, name: str, member: Member) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO fleet_members VALUES (?, ?, ?, ?, ?)",
            (kind, name, msgspec.json.encode(member).decode(), member.boot, self._clock.now_s()),
        )

    def _there(self, kind: str) -> list[Member]:
        with self._errors():
            rows = self._db.execute(
                "SELECT body, beat_s FROM fleet_members WHERE kind = ? ORDER BY name", (kind,)
            ).fetchall()
        now_s = self._clock.now_s()
        found = [
            msgspec.json.decode(body, type=Member)
            for body, beat_s in rows
            if abs(now_s - beat_s) <= self._there_for_s
        ]
        return [member for member in found if not member.owner.is_gone]

    # -- records -------------------------------------------------------------------------------

    def records(self) -> Mapping[str, Record]:
        """Records by query."""
        with self._errors():
            rows = self._db.execute("SELECT body FROM fleet_records ORDER BY query").fetchall()
        found = [msgspec.json.decode(body, type=Record) for (body,) in rows]
        return {record.query: record for record in found}

    def record(self, query: str) -> Record | None:
        """The record of a query."""
        with self._errors():
            row = self._db.execute("SELECT body FROM fleet_records WHERE query = ?", (query,)).fetchone()
        return None if row is None else msgspec.json.decode(row[0], type=Record)

    def change(self, before: Record | None, after: Record) -> Record:
        """Replace a record; ``OutdatedError`` if it is no longer ``before``."""
        version = 1 if before is None else before.version + 1
        changed = msgspec.structs.replace(after, version=version)
        body = msgspec.json.encode(changed).decode()
        with self._errors():
            if before is None:
                done = self._db.execute(
                    "INSERT OR IGNORE INTO fleet_records VALUES (?, ?, ?)", (after.query, version, body)
                )
            else:
                done = self._db.execute(
                    "UPDATE fleet_records SET version = ?, body = ? WHERE query = ? AND version = ?",
                    (version, body, after.query, before.version),
                )
        if done.rowcount != 1:
            raise OutdatedError(f"someone else has changed the record of query {after.query}")
        return changed

    def remove(self, record: Record) -> None:
        """Remove the record of a query."""
        with self._errors():
            self._db.execute(
                "DELETE FROM fleet_records WHERE query = ? AND version = ?", (record.query, record.version)
            )

    # -- wishes --------------------------------------------------------------------------------

    def wish(self) -> Wish:
        """What users asked for."""
        with self._errors():
            row = self._db.execute("SELECT wish FROM fleet_wish").fetchone()
        return Wish.RUN if row is None else Wish(row[0])

    def set_wish(self, wish: Wish) -> None:
        """Ask for something."""
        with self._errors():
            self._db.execute("INSERT OR REPLACE INTO fleet_wish VALUES (1, ?)", (wish.value,))

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        """A transaction that locks out other writers from its beginning."""
        with self._errors():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                self._db.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        with self._lock:
            try:
                yield
            except (sqlite3.Error, OSError, msgspec.MsgspecError) as error:
                raise TargetError(f"the store {self._path} does not answer: {error}") from error
