"""The store as the loop uses it: writing never fails and never keeps the loop waiting.

A full disk, a lock held by another process or a deleted file must not stop scaling. While the file cannot be written,
ledger rows stay in memory and acts go to the log as well, so that an act is always written down before it is carried
out. Every few seconds the file is tried again, and what was kept is written in its order. ``alarm`` says what is wrong.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import msgspec

from ebbflow.core.batches import Batch
from ebbflow.core.clock import Clock
from ebbflow.core.duration import format_duration
from ebbflow.core.failures import LogLimit
from ebbflow.core.plural import counted
from ebbflow.core.readings import Reading
from ebbflow.errors import StoreError
from ebbflow.monitoring.store import LedgerRow, Store

log = logging.getLogger(__name__)

RETRY_EVERY_S = 5.0
MOST_ROWS = 10_000
"""Ledger rows kept in memory, at about 1 kB each. Beyond that, the oldest holds are dropped, then the oldest acts."""
REWRITTEN = 1_000
"""Newest ledger rows that are written again into a file that replaces a deleted one."""
LONGEST_WAIT_S = 0.2
"""Longest wait for a lock that another process holds."""
_encode = msgspec.json.encode


@dataclass(frozen=True, kw_only=True)
class _Trouble:
    why: str
    since_s: float
    """Monotonic time."""


class BufferedStore:
    """Writes to a ``Store``, or keeps in memory what cannot be written."""

    keeps = True

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        store.wait_at_most(LONGEST_WAIT_S)
        self._rows: dict[int, LedgerRow] = {}
        """Rows that are not in the file, by temporary id; those are negative."""
        self._recent: dict[int, LedgerRow] = {}
        """The newest rows in the file, by id."""
        self._ids: dict[int, int] = {}
        """The ids that rows got in the file, by temporary id."""
        self._last_temporary = 0
        self._dropped = 0
        self._trouble: _Trouble | None = None
        self._retry_s = 0.0
        self._log_limit = LogLimit()

    @property
    def alarm(self) -> str:
        """What is wrong with the store, for people; empty if nothing is."""
        trouble = self._trouble
        if trouble is None:
            return ""
        since = format_duration(max(1.0, round(self._clock.monotonic_s() - trouble.since_s)))
        kept = f"{counted(len(self._rows), 'ledger row')} kept in memory"
        dropped = f", {self._dropped} dropped" if self._dropped else ""
        return f"cannot write for {since}: {trouble.why}; {kept}{dropped}"

    def add(
        self,
        readings: Iterable[Reading],
        batches: Iterable[Batch] = (),
        first_batches: Iterable[Batch] = (),
    ) -> None:
        """Store readings and finished batches."""
        self._store.buffer(readings, batches, first_batches)
        if self._may_write() and self._store.is_due:
            self._attempt(self._store.flush)

    def append_ledger(self, time_s: float, verdict: str, body: Mapping[str, object]) -> int:
        """Write a ledger row durably and return its id; a negative one if it is only in memory."""
        row = LedgerRow(time_s=time_s, verdict=verdict, body=_encode(body).decode())
        if self._may_write():
            ids: list[int] = []
            if self._attempt(lambda: ids.extend(self._store.append_rows([row]))):
                self._remember(ids[0], row)
                return ids[0]
        self._last_temporary -= 1
        self._rows[self._last_temporary] = row
        if verdict == "act":
            log.warning("the store cannot be written; ledger row: %s", row.body)
        while len(self._rows) > MOST_ROWS:
            holds = (key for key, kept in self._rows.items() if kept.verdict == "hold")
            del self._rows[next(holds, next(iter(self._rows)))]
            self._dropped += 1
        return self._last_temporary

    def amend_ledger(self, bodies: Mapping[int, Mapping[str, object]]) -> None:
        """Replace the bodies of ledger rows, by id."""
        in_file: dict[int, str] = {}
        for key, body in bodies.items():
            entry_id = self._ids.get(key, key)
            text = _encode(body).decode()
            if key in self._rows:
                self._rows[key] = msgspec.structs.replace(self._rows[key], body=text)
            elif entry_id > 0:
                in_file[entry_id] = text
                if entry_id in self._recent:
                    self._recent[entry_id] = msgspec.structs.replace(self._recent[entry_id], body=text)
        if in_file and self._may_write():
            self._attempt(lambda: self._store.amend_rows(in_file))

    # -- trouble -----------------------------------------------------------------------------------

    def _may_write(self) -> bool:
        """Whether to write now. While writing fails, it is tried again every few seconds, kept rows first."""
        if self._trouble is None:
            if self._store.file_is_there():
                return True
            self._begin_trouble("the file was deleted or replaced")
            self._retry_s = 0.0  # a new one can be made at once
        if self._clock.monotonic_s() < self._retry_s:
            return False
        return self._attempt(self._catch_up)

    def _catch_up(self) -> None:
        """Write what was kept in memory. Raises ``StoreError`` if that fails."""
        if not self._store.file_is_there():
            self._store.open_again()
            self._store.append_rows(
                [msgspec.structs.replace(row, entry_id=entry_id) for entry_id, row in self._recent.items()]
            )
        ids = self._store.append_rows(list(self._rows.values()))
        for (temporary, row), entry_id in zip(self._rows.items(), ids, strict=True):
            self._ids[temporary] = entry_id
            self._remember(entry_id, row)
        self._rows.clear()
        while len(self._ids) > MOST_ROWS:
            del self._ids[next(iter(self._ids))]
        self._store.flush()

    def _remember(self, entry_id: int, row: LedgerRow) -> None:
        self._recent[entry_id] = row
        if len(self._recent) > REWRITTEN:
            del self._recent[next(iter(self._recent))]

    def _attempt(self, write: Callable[[], object]) -> bool:
        """Whether writing succeeded."""
        try:
            write()
        except StoreError as error:
            self._begin_trouble(str(error))
            return False
        if self._trouble is not None:
            log.warning("the store %s is written again", self._store.path)
            self._trouble, self._dropped = None, 0
        return True

    def _begin_trouble(self, why: str) -> None:
        now_s = self._clock.monotonic_s()
        since_s = now_s if self._trouble is None else self._trouble.since_s
        self._trouble = _Trouble(why=why, since_s=since_s)
        self._retry_s = now_s + RETRY_EVERY_S
        if self._log_limit.allows(now_s):
            log.warning("store %s: %s; scaling continues%s", self._store.path, why, self._log_limit.note())
