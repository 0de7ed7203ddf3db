"""The sizes that rules change: how large something is, was at the start, and when it last changed.

Slots and nodes: the instances of a continuous engine run side by side, so they count together. The stages of a
micro-batch run one after the other, so of each query the widest counts; queries run side by side. Where growth
finds no free slot it brings nodes for itself; instances that go leave with the nodes they filled, if all
slots were taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from ebbflow.core.decision import Constraint, LedgerEntry
from ebbflow.core.layout import Layout
from ebbflow.core.metrics import Metric
from ebbflow.core.snapshot import Snapshot
from ebbflow.policy.english import bounds_in_english
from ebbflow.policy.model import NODES, Bounds
from ebbflow.strategies.rule_limits import InForce

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
        self._starting = True
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
            if subject == NODES and self._starting:
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
        self._starting = now_s - self._stands_since_s < SETTLED_S

    def acts(self, wanted: Layout, snapshot: Snapshot) -> None:
        """Something is about to be decided: nodes that change from now on were scaled."""
        if wanted.main_nodes != snapshot.planned.main_nodes:
            self._starting = False

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


def with_sizes(
    snapshot: Snapshot, sizes: Mapping[str, int], in_force: Iterable[InForce] = (), *, gives_back: bool
) -> tuple[Layout, list[Constraint]]:
    """The plan with other sizes, and the nodes that go with them, within the limits and the bounds on nodes.

    ``gives_back``: shrinking operators leave with their nodes; not where rules about nodes decide on those.
    """
    planned = snapshot.planned
    parallelism = {**planned.parallelism, **{name: size for name, size in sizes.items() if name != NODES}}
    nodes = sizes.get(NODES, planned.main_nodes)
    change = _nodes_for(snapshot, parallelism, gives_back) if parallelism else 0
    if change > 0 or NODES not in sizes:  # growing operators need their slots, whatever a rule says of nodes
        nodes = max(nodes, planned.main_nodes + change) if change > 0 else nodes + change
    clamps = []
    for bounds, subject in in_force:
        if subject == NODES and (within := _no_farther(bounds, nodes, planned.main_nodes)) != nodes:
            nodes = within
            clamps.append(Constraint(name=bounds.name, why=bounds_in_english(bounds)))
    allowed = snapshot.limits.clamp(nodes)
    if allowed != nodes:
        clamps.append(Constraint(name="limits", why=f"{nodes} nodes wanted, {snapshot.limits} allowed"))
    layout = Layout(nodes=planned.nodes, parallelism=parallelism, placement=planned.placement)
    return layout.with_nodes(allowed), clamps


def _no_farther(bounds: Bounds, nodes: int, now: int) -> int:
    """A number of nodes that does not leave bounds, or not more than now."""
    nodes = max(nodes, min(now, bounds.at_least)) if bounds.at_least is not None else nodes
    return min(nodes, max(now, bounds.at_most)) if bounds.at_most is not None else nodes


def _nodes_for(snapshot: Snapshot, parallelism: Mapping[str, int], gives_back: bool) -> int:
    """How many nodes more (or fewer) other parallelisms take."""
    planned, per_node = snapshot.planned, max(1, snapshot.slots_per_node)
    slots = planned.main_nodes * per_node
    taken, wanted = _at_once(snapshot, planned.parallelism), _at_once(snapshot, parallelism)
    if wanted > taken:
        return math.ceil(max(0, wanted - max(taken, slots)) / per_node)
    if wanted < taken and taken >= slots and gives_back:
        return -(max(0, slots - wanted) // per_node)  # instances beyond the slots filled none
    return 0


def _at_once(snapshot: Snapshot, parallelism: Mapping[str, int]) -> int:
    """Slots that so many instances take at the same time."""
    if any(len(snapshot.windows.of(name, Metric.OPERATOR_QUEUE)) for name in parallelism):
        return sum(parallelism.values())
    query_of = {operator.name: operator.query for operator in snapshot.pipeline.operators}
    widest: dict[str, int] = {}
    for name, size in parallelism.items():
        query = query_of.get(name, "")
        widest[query] = max(size, widest.get(query, 0))
    return sum(widest.values())
