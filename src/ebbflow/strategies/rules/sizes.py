"""The sizes that rules change: how large something is, was at the start, and when it last changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from ebbflow.core.decision import Constraint, LedgerEntry
from ebbflow.core.duration import format_duration
from ebbflow.core.layout import Layout
from ebbflow.core.snapshot import Snapshot
from ebbflow.policy.model import EACH_OPERATOR, NODES, Bounds, Policy, Rule

# How far a rule may go: its own limit, what the cluster can hold, and the bounds of the calendar.
#
# An operator for which nobody says how far grows up to the slots that all nodes allowed have. Who says so may go past
# them, because tasks can wait for their turn, but not to a size that no cluster survives: ``MOST_PER_SLOT``.


MOST_PER_SLOT = 8
"""Instances to a slot, or to one of the original size, past which no limit and no bounds lead. Two or three tasks to a
core is what Spark's own guide advises."""


class InForce(NamedTuple):
    """Bounds that hold now, and what is sized by them."""

    bounds: Bounds
    subject: str


def slots_at_most(snapshot: Snapshot) -> int:
    """Slots of all nodes allowed."""
    return max(1, snapshot.limits.max_nodes * snapshot.slots_per_node)


def _most(subject: str, original: int, snapshot: Snapshot) -> int:
    """The largest size there may be, whatever a policy says."""
    if subject == NODES:
        return snapshot.limits.max_nodes
    return MOST_PER_SLOT * max(slots_at_most(snapshot), original)


def limited(
    rule: Rule, stepped: int, subject: str, original: int, snapshot: Snapshot
) -> tuple[int, Constraint | None]:
    """The size within the rule's own limit, and what held it if anything did."""
    if not rule.out:
        least = 1 if rule.never_below is None else rule.never_below.size(original, most=False)
        least = max(least, snapshot.limits.min_nodes if subject == NODES else 1)
        if stepped >= least:
            return stepped, None
        return least, Constraint(name="never below", why=f"{stepped} would be below {least}")
    largest = _most(subject, original, snapshot)
    if rule.never_above is not None:
        most = rule.never_above.size(original, most=True)
    else:
        most = largest if subject == NODES else slots_at_most(snapshot)
    if stepped <= min(most, largest):
        return stepped, None
    if most > largest and subject != NODES:
        why = f"{stepped} would be above {largest}, {MOST_PER_SLOT} to each slot there can be"
        return largest, Constraint(name="slots", why=why)
    most = min(most, largest)
    return most, Constraint(name="never above", why=f"{stepped} would be above {most}")


def bounded(
    rule: Rule, size: int, subject: str, in_force: Iterable[InForce]
) -> tuple[int, Constraint | None]:
    """The size within all bounds that a rule would go past, and the tightest of those."""
    held: Constraint | None = None
    for bounds, sized in in_force:
        edge = bounds.at_most if rule.out else bounds.at_least
        if sized == subject and edge is not None and ((size > edge) if rule.out else (size < edge)):
            side = "most" if rule.out else "least"
            size, held = (
                edge,
                Constraint(name=bounds.name, why=f"bounds '{bounds.name}' keep at {side} {edge}"),
            )
    return size, held


def kept(bounds: Bounds, wanted: int, subject: str, original: int, snapshot: Snapshot) -> int:
    """The size that bounds leave of the one wanted."""
    size = max(wanted, min(bounds.at_least or 1, _most(subject, original, snapshot)))
    size = min(size, bounds.at_most) if bounds.at_most is not None else size
    return snapshot.limits.clamp(size) if subject == NODES else size


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


# What a policy names and is not there: told once, because a rule about it never does anything.


NAMES_AFTER_S = 30.0
"""Queries of a job start one by one: a name may be missing so long."""
READINGS_AFTER_S = 300.0
"""What only a finished batch tells may take a while."""


class MissingNames:
    """Looks for them twice after the start of a policy: for names, and later for readings."""

    def __init__(self) -> None:
        self.start_over()

    def start_over(self) -> None:
        """Another policy, or another time."""
        self._since_s: float | None = None
        self._told_names = self._told_readings = False

    def news(
        self,
        policy: Policy,
        unheard: Callable[[], Mapping[str, Iterable[str]]],
        sizes: Sizes,
        snapshot: Snapshot,
    ) -> list[str]:
        """What is to be told now."""
        if self._since_s is None:
            self._since_s = snapshot.now_s
        lasts_s = snapshot.now_s - self._since_s
        found: list[str] = []
        if lasts_s >= NAMES_AFTER_S and not self._told_names:
            self._told_names = True
            found += _nameless(policy, sizes, snapshot)
        if lasts_s >= READINGS_AFTER_S and not self._told_readings:
            self._told_readings = True
            since = format_duration(READINGS_AFTER_S)
            found += [
                f"rule '{name}' waits for {' and '.join(silent)}, of which nothing was read in {since}"
                for name, silent in unheard().items()
            ]
        return found


def _nameless(policy: Policy, sizes: Sizes, snapshot: Snapshot) -> Iterator[str]:
    there = ", ".join(snapshot.pipeline.order) or "none"
    for kind, parts in (("rule", policy.rules), ("bounds", policy.bounds)):
        for part in parts:
            if part.operator != EACH_OPERATOR and not sizes.known(part.operator, snapshot):
                name = "name" if kind == "bounds" else "names"
                yield f"{kind} '{part.name}' {name} operator {part.operator}, which is not there; there are {there}"
