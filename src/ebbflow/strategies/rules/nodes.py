"""The nodes that instances bring along and leave with.

The instances of a continuous engine run side by side, so their slots count together. The stages of a micro-batch
run one after the other, so of each query the widest counts; queries run side by side. Where growth finds no free
slot it brings nodes for itself. Instances that go leave with the nodes they filled: those that came for
instances, and those that were full when the rules began. What other people left free stays free.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from ebbflow.core.decision import Constraint, LedgerEntry
from ebbflow.core.layout import Layout
from ebbflow.core.metrics import Metric
from ebbflow.core.snapshot import Snapshot
from ebbflow.policy.language.english import bounds_in_english
from ebbflow.policy.model import NODES, Bounds
from ebbflow.strategies.rules.sizes import InForce


class NodesOfInstances:
    """Counts whose nodes there are, from look to look."""

    def __init__(self) -> None:
        self._full = 0
        """Nodes whose slots were all taken when the rules began, or when someone else last changed their number."""
        self._came = 0
        """Nodes that came for instances since."""
        self._spare = 0
        """Nodes that someone else added since: they stay."""
        self._shared = 0
        """Instances that had no slot of their own then: they have none to leave."""
        self._recalled = 0
        self._before: int | None = None
        self._asked = 0
        self._acted = False

    def recall(self, entry: LedgerEntry) -> None:
        """An act of before the start, oldest first."""
        if entry.changed and entry.outcome is not None:
            before, after = entry.before, entry.outcome.requested
            grew = any(after.parallelism.get(name, 0) > size for name, size in before.parallelism.items())
            change = after.main_nodes - before.main_nodes
            if grew or change < 0:
                self._recalled = max(0, self._recalled + change)

    def look(self, snapshot: Snapshot, *, starting: bool) -> None:
        """Take in the number of nodes; ``starting``: none of them was scaled yet."""
        nodes = snapshot.planned.main_nodes
        change = nodes - (nodes if self._before is None else self._before)
        ours = min(max(change, min(self._asked, 0)), max(self._asked, 0))
        self._before, self._asked = nodes, 0
        beyond = _at_once(snapshot, snapshot.planned.parallelism) - nodes * _per_node(snapshot)
        starting = starting and not self._acted
        if starting or (ours != change and beyond >= 0):
            self._full = nodes if beyond >= 0 else 0
            self._came = min(self._recalled, nodes) if starting else 0
            self._spare, self._shared = 0, max(0, beyond)
            return
        self._came += ours
        self._spare += change - ours
        if self._spare < 0:  # others took away more than they had brought
            self._came, self._spare = self._came + self._spare, 0
        if self._came < 0:
            self._full, self._came = max(0, self._full + self._came), 0
        if not self._came:
            self._shared = min(self._shared, max(0, beyond))

    def with_sizes(
        self,
        snapshot: Snapshot,
        sizes: Mapping[str, int],
        in_force: Iterable[InForce] = (),
        *,
        gives_back: bool,
    ) -> tuple[Layout, list[Constraint]]:
        """The plan with other sizes, and the nodes that go with them, within the limits and the bounds on nodes.

        ``gives_back``: shrinking operators leave with their nodes; not where rules scale nodes in.
        """
        planned = snapshot.planned
        parallelism = {**planned.parallelism, **{name: size for name, size in sizes.items() if name != NODES}}
        nodes = sizes.get(NODES, planned.main_nodes)
        change = self._change(snapshot, parallelism, gives_back) if parallelism else 0
        if (
            change > 0 or NODES not in sizes
        ):  # growing operators need their slots, whatever a rule says of nodes
            nodes = max(nodes, planned.main_nodes + change) if change > 0 else nodes + change
        clamps = []
        for bounds, subject in in_force:
            if subject == NODES and (within := _no_farther(bounds, nodes, planned.main_nodes)) != nodes:
                nodes = within
                clamps.append(Constraint(name=bounds.name, why=bounds_in_english(bounds)))
        allowed = snapshot.limits.clamp(nodes)
        if allowed != nodes:
            clamps.append(Constraint(name="limits", why=f"{nodes} nodes wanted, {snapshot.limits} allowed"))
        for_others = max(0, sizes.get(NODES, planned.main_nodes) - planned.main_nodes)
        asked = allowed - planned.main_nodes
        self._asked = max(0, asked - for_others) if asked > 0 else asked
        self._acted = True
        layout = Layout(nodes=planned.nodes, parallelism=parallelism, placement=planned.placement)
        return layout.with_nodes(allowed), clamps

    def _change(self, snapshot: Snapshot, parallelism: Mapping[str, int], gives_back: bool) -> int:
        """How many nodes more (or fewer) other parallelisms take."""
        planned, per_node = snapshot.planned, _per_node(snapshot)
        slots = planned.main_nodes * per_node
        taken, wanted = _at_once(snapshot, planned.parallelism), _at_once(snapshot, parallelism)
        if wanted > taken:
            return math.ceil(max(0, wanted - max(taken, slots + self._shared)) / per_node)
        if wanted < taken and gives_back:
            free = slots - self._spare * per_node - wanted
            of_those_that_came = min(self._came, max(0, free + self._shared) // per_node)
            return -max(of_those_that_came, min(self._full + self._came, max(0, free) // per_node))
        return 0


def _no_farther(bounds: Bounds, nodes: int, now: int) -> int:
    """A number of nodes that does not leave bounds, or not more than now."""
    nodes = max(nodes, min(now, bounds.at_least)) if bounds.at_least is not None else nodes
    return min(nodes, max(now, bounds.at_most)) if bounds.at_most is not None else nodes


def _per_node(snapshot: Snapshot) -> int:
    return max(1, snapshot.slots_per_node)


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
