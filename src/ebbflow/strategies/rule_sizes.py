"""The sizes that rules change: how large something is, was at the start, and when it last changed."""

from __future__ import annotations

from ebbflow.core.decision import LedgerEntry
from ebbflow.core.layout import Layout
from ebbflow.core.snapshot import Snapshot
from ebbflow.policy.model import NODES

SETTLED_S = 30.0
"""Nodes join one by one when a job starts. Until their number has stood so long, or a rule acts on it, it is the
original one, and its changes are no scaling."""


class Sizes:
    """Follows the plan from look to look."""

    def __init__(self) -> None:
        self.original: dict[str, int] = {}
        self.last_out_s: dict[str, float] = {}
        self.last_in_s: dict[str, float] = {}
        self._before: dict[str, int] = {}
        self._fused: set[str] = set()
        self._looked_s = 0.0
        """When the last look was: what changed since was decided then."""
        self.starting = True
        """Whether nodes that come are still the original ones."""
        self._stands_since_s: float | None = None

    def recall(self, entry: LedgerEntry) -> None:
        """An act of before the start, oldest first: guard times go on counting from it."""
        if not entry.changed or entry.outcome is None:
            return
        before, after = (_of(layout) for layout in (entry.before, entry.outcome.requested))
        for subject in before.keys() & after.keys():
            if after[subject] != before[subject]:
                last_s = self.last_out_s if after[subject] > before[subject] else self.last_in_s
                last_s[subject] = entry.time_s

    def look(self, snapshot: Snapshot) -> None:
        """Take in the plan: what grew or shrank since the last look."""
        now = _of(snapshot.planned)
        for subject, size in now.items():
            self.original.setdefault(subject, size)
            before = self._before.get(subject, size)
            if subject == NODES and self.starting:
                self._start(size, before, snapshot.now_s)
            elif size > before:
                self.last_out_s[subject] = self._looked_s
            elif size < before:
                self.last_in_s[subject] = self._looked_s
        self._before = now
        self._looked_s = snapshot.now_s

    def _start(self, nodes: int, before: int, now_s: float) -> None:
        if nodes != before or self._stands_since_s is None:
            self._stands_since_s = now_s
        self.original[NODES] = nodes
        self.starting = now_s - self._stands_since_s < SETTLED_S

    def start_over(self, now_s: float) -> None:
        """The clock was set back: no change was later than now."""
        for last_s in (self.last_out_s, self.last_in_s):
            last_s.update({subject: min(then_s, now_s) for subject, then_s in last_s.items()})
        self._looked_s = now_s
        if self._stands_since_s is not None:
            self._stands_since_s = min(self._stands_since_s, now_s)

    def acts(self, wanted: Layout, snapshot: Snapshot) -> None:
        """Something is about to be decided: nodes that change from now on were scaled."""
        if wanted.main_nodes != snapshot.planned.main_nodes:
            self.starting = False

    def known(self, operator: str, snapshot: Snapshot) -> bool:
        """Whether there is such a thing to scale."""
        return (
            operator == NODES
            or operator in snapshot.planned.parallelism
            or operator in snapshot.pipeline.order
        )

    def subject(self, operator: str, snapshot: Snapshot) -> str:
        """What is sized for it: itself, or the nodes where it has no parallelism of its own."""
        fused = operator != NODES and operator not in snapshot.planned.parallelism
        (self._fused.add if fused else self._fused.discard)(operator)
        return NODES if fused else operator

    def subject_of(self, operator: str) -> str:
        """The same, as last seen."""
        return NODES if operator in self._fused else operator

    @staticmethod
    def now(subject: str, snapshot: Snapshot) -> int:
        """How large it is planned to be."""
        if subject == NODES:
            return snapshot.planned.main_nodes
        return snapshot.planned.parallelism.get(subject, 1)


def _of(layout: Layout) -> dict[str, int]:
    return {NODES: layout.main_nodes, **layout.parallelism}
