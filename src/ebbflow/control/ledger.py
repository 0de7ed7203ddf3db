"""The ledger: every act and every hold, what was expected of it and what it achieved.

An entry is written before the act it describes (so that a crash in between leaves a trace), amended
with the outcome right after, and once more when the time of its expected effect has come.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from msgspec.structs import replace

from ebbflow.core.decision import Decision, LedgerEntry, Outcome
from ebbflow.core.layout import Layout
from ebbflow.core.readings import Windows

ACT, HOLD = "act", "hold"


class LedgerStore(Protocol):
    """Where ledger rows go; ``monitoring.store.Store`` is one."""

    def append_ledger(self, time_s: float, verdict: str, body: dict[str, Any]) -> int:
        """Write a row durably and return its id."""
        ...

    def amend_ledger(self, bodies: Mapping[int, dict[str, Any]]) -> None:
        """Replace the bodies of rows, given by their ids, all at once."""
        ...


class Ledger:
    """Writes entries through to a store and keeps the recent ones at hand."""

    def __init__(self, store: LedgerStore, *, keep: int = 1_000) -> None:
        self._store = store
        self._writes = getattr(store, "keeps", True)
        """False for a store that only numbers entries: no use in spelling them out."""
        self._recent: deque[LedgerEntry] = deque(maxlen=keep)
        self._unsettled: dict[int, LedgerEntry] = {}
        self.reconfigurations = 0
        self.written = 0
        """Entries so far, at hand or not."""
        self.first_id: int | None = None

    @property
    def entries(self) -> list[LedgerEntry]:
        """Recent entries, oldest first."""
        return list(self._recent)

    @property
    def last(self) -> LedgerEntry | None:
        """The newest entry."""
        return self._recent[-1] if self._recent else None

    def open(self, time_s: float, strategy: str, before: Layout, decision: Decision) -> LedgerEntry:
        """Record a decision before anything is done about it."""
        verdict = ACT if decision.wanted.difference(before) else HOLD

        def numbered(entry_id: int) -> LedgerEntry:
            return LedgerEntry(
                entry_id=entry_id,
                time_s=time_s,
                strategy=strategy,
                verdict=verdict,
                before=before,
                decision=decision,
            )

        body = numbered(0).to_json() if self._writes else {}
        entry = numbered(self._store.append_ledger(time_s, verdict, body))
        self._recent.append(entry)
        self.written += 1
        if self.first_id is None:
            self.first_id = entry.entry_id
        if decision.expected is not None:
            self._unsettled[entry.entry_id] = entry
        return entry

    def close(self, entry: LedgerEntry, outcome: Outcome) -> LedgerEntry:
        """Record what came of asking."""
        closed = replace(entry, outcome=outcome)
        self._amend([closed])
        self.reconfigurations += closed.changed and closed.verdict == ACT
        return closed

    def settle(
        self, now_s: float, subject: str, windows: Windows, *, within_s: float = 60.0
    ) -> list[LedgerEntry]:
        """Write the achieved effect beside the expected one, where its time has come.

        The value is the first reading at or after the expected time, so it is a measurement of the
        world the decision made and not of the one before it; and no later than ``within_s`` after it, because
        by then the world is another one again. What was not measured in that time stays unknown.
        """
        settled: list[LedgerEntry] = []
        over: list[int] = []
        for entry in self._unsettled.values():
            expected = entry.decision.expected
            assert expected is not None
            if now_s < expected.at_s:
                continue
            after = windows.of(subject, expected.metric).since(expected.at_s)
            if after and after[0][0] <= expected.at_s + within_s:
                settled.append(entry.settled(after[0][1]))
            if after or now_s > expected.at_s + within_s:
                over.append(entry.entry_id)
        if settled:
            self._amend(settled)
        for entry_id in over:
            del self._unsettled[entry_id]
        return settled

    def forget_expectations(self) -> None:
        """What is expected stays unknown: its times are none any more."""
        self._unsettled.clear()

    def _amend(self, entries: Sequence[LedgerEntry]) -> None:
        if self._writes:
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
