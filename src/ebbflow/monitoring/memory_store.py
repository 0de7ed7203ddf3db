"""A store that keeps nothing on a disk: for simulated runs, whose ledger the loop itself remembers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ebbflow.core.batches import Batch
from ebbflow.core.readings import Reading


class MemoryStore:
    """Numbers ledger rows; keeps them, readings and batches only if asked to: a day has millions of them.

    >>> store = MemoryStore(keep=True)
    >>> store.append_ledger(0.0, "hold", {}), store.append_ledger(1.0, "act", {"reason": "more rows"})
    (1, 2)
    >>> store.ledger[2]
    (1.0, 'act', {'reason': 'more rows'})
    """

    def __init__(self, *, keep: bool = False) -> None:
        self.readings: list[Reading] = []
        self.batches: list[Batch] = []
        self.ledger: dict[int, tuple[float, str, dict[str, Any]]] = {}
        self.keeps = keep
        self._last_id = 0

    def add(self, readings: Iterable[Reading], batches: Iterable[Batch] = ()) -> None:
        """Take in readings and finished batches."""
        if self.keeps:
            self.readings += readings
            self.batches += batches

    def append_ledger(self, time_s: float, verdict: str, body: dict[str, Any]) -> int:
        """The id of a new row."""
        self._last_id += 1
        if self.keeps:
            self.ledger[self._last_id] = (time_s, verdict, body)
        return self._last_id

    def amend_ledger(self, bodies: Mapping[int, dict[str, Any]]) -> None:
        """Replace the bodies of rows."""
        for entry_id, body in bodies.items() if self.keeps else ():
            time_s, verdict, _ = self.ledger[entry_id]
            self.ledger[entry_id] = (time_s, verdict, body)
