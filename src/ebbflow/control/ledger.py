"""The ledger: every act and every hold, the effect expected of it and the effect measured.

An entry is written before its act, so that a crash in between leaves a trace. It is amended with the outcome right
after, and once more when its expected effect can be measured.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec.structs import replace

from ebbflow.core.decision import Decision, LedgerEntry, Outcome
from ebbflow.core.layout import Layout
from ebbflow.core.readings import Windows

ACT, HOLD = "act", "hold"


class LedgerStore(Protocol):
    """Stores ledger entries as rows of JSON values: ``monitoring.store.Store``, or ``MemoryStore``."""

    @property
    def keeps(self) -> bool:
        """False if the store only numbers entries and drops their bodies."""
        ...

    def append_ledger(self, time_s: float, verdict: str, body: Mapping[str, object]) -> int:
        """Write a row durably and return its id."""
        ...

    def amend_ledger(self, bodies: Mapping[int, Mapping[str, object]]) -> None:
        """Replace the bodies of rows, by id, in one transaction."""
        ...


class Ledger:
    """Writes entries to a store and keeps the newest in memory."""

    def __init__(self, store: LedgerStore, *, keep: int = 1_000) -> None:
        self._store = store
        self._recent: deque[LedgerEntry] = deque(maxlen=keep)
        self._unsettled: dict[int, LedgerEntry] = {}
        """Entries whose expected effect has not been measured yet, by id."""
        self.reconfigurations = 0

    @property
    def entries(self) -> list[LedgerEntry]:
        """The newest entries, oldest first."""
        return list(self._recent)

    @property
    def last(self) -> LedgerEntry | None:
        """The newest entry."""
        return self._recent[-1] if self._recent else None

    def open(self, now_s: float, strategy: str, before: Layout, decision: Decision) -> LedgerEntry:
        """Record a decision, before anything is done about it."""
        draft = LedgerEntry(
            entry_id=0,
            time_s=now_s,
            strategy=strategy,
            verdict=ACT if decision.wanted.difference(before) else HOLD,
            before=before,
            decision=decision,
        )
        body = draft.to_json() if self._store.keeps else {}
        entry = replace(draft, entry_id=self._store.append_ledger(now_s, draft.verdict, body))
        self._recent.append(entry)
        if decision.expected is not None:
            self._unsettled[entry.entry_id] = entry
        return entry

    def close(self, entry: LedgerEntry, outcome: Outcome) -> LedgerEntry:
        """Record what the target did about a decision."""
        closed = replace(entry, outcome=outcome)
        self._amend([closed])
        self.reconfigurations += closed.changed and closed.verdict == ACT
        return closed

    def settle(
        self, now_s: float, subject: str, windows: Windows, *, within_s: float = 60.0
    ) -> list[LedgerEntry]:
        """Write the measured effect beside the expected one, for every entry whose time has come.

        The measured value is the first reading at or after the expected time: an earlier one would describe the
        layout before the change. A reading later than ``within_s`` is ignored, because other changes may have caused
        it; the effect then stays unknown.
        """
        settled: list[LedgerEntry] = []
        over: list[int] = []
        for entry_id, entry in self._unsettled.items():
            expected = entry.decision.expected
            if expected is None or now_s < (due_s := expected.at_s):
                continue
            after = windows.of(subject, expected.metric).since(due_s)
            if after and after[0][0] <= due_s + within_s:
                settled.append(entry.settled(after[0][1]))
            if after or now_s > due_s + within_s:
                over.append(entry_id)
        if settled:
            self._amend(settled)
        for entry_id in over:
            del self._unsettled[entry_id]
        return settled

    def _amend(self, entries: Sequence[LedgerEntry]) -> None:
        if self._store.keeps:
            self._store.amend_ledger({entry.entry_id: entry.to_json() for entry in entries})
        new = {entry.entry_id: entry for entry in entries}
        for entry_id in new.keys() & self._unsettled.keys():
            self._unsettled[entry_id] = new[entry_id]
        for index in range(len(self._recent) - 1, -1, -1):
            if not new:
                break
            entry = new.pop(self._recent[index].entry_id, None)
            if entry is not None:
                self._recent[index] = entry
