"""The nodes that are added and removed together with instances.

In a continuous engine all instances run at the same time, so their slots add up. The stages of a micro-batch run one
after the other, so the widest operator of each query counts; queries run at the same time. Growth without free slots
adds nodes. When instances are removed, so are the nodes they filled: those added for instances, and those that were
full at the start. Nodes that others added or left free stay.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from ebbflow.core.decision import Constraint, LedgerEntry
from ebbflow.core.layout import Layout
from ebbflow.core.metrics import Metric
from ebbflow.core.plural import counted
from ebbflow.core.snapshot import Snapshot
from ebbflow.policy.language.english import bounds_in_english
from ebbflow.policy.model import NODES, BoundsRule
from ebbflow.strategies.rules.sizes import ActiveBounds


class InstanceNodes:
    """Tracks, from cycle to cycle, which nodes belong to instances."""

    def __init__(self) -> None:
        self._full = 0
        """Nodes whose slots were all in use at the start, or when their number last changed for another reason."""
        self._added = 0
        """Nodes added for instances since then."""
        self._foreign = 0
        """Nodes added by others since then; they stay."""
        self._sharing = 0
        """Instances that had no slot of their own then, so removing them frees none."""
        self._recalled = 0
        self._previous: int | None = None
        self._requested = 0
        self._acted = False

    def recall(self, entry: LedgerEntry) -> None:
        """Take over an action of an earlier run, oldest first."""
        if entry.changed and entry.outcome is not None:
            before, after = entry.before, entry.outcome.requested
            grew = any(after.parallelism.get(name, 0) > size for name, size in before.parallelism.items())
            change = after.main_nodes - before.main_nodes
            if grew or change < 0:
                self._recalled = max(0, self._recalled + change)

    def observe(self, snapshot: Snapshot, *, starting: bool) -> None:
        """Account for a change in the number of nodes. ``starting``: no rule has changed it yet."""
        nodes = snapshot.planned.main_nodes
        change = nodes - (nodes if self._previous is None else self._previous)
        ours = min(max(change, min(self._requested, 0)), max(self._requested, 0))
        self._previous, self._requested = nodes, 0
        beyond = _slots_used(snapshot, snapshot.planned.parallelism) - nodes * _per_node(snapshot)
        starting = starting and not self._acted
        if starting or (ours != change and beyond >= 0):
            self._full = nodes if beyond >= 0 else 0
            self._added = min(self._recalled, nodes) if starting else 0
            self._foreign, self._sharing = 0, max(0, beyond)
            return
        self._added += ours
        self._foreign += change - ours
        if self._foreign < 0:  # others removed more nodes than they had added
            self._added, self._foreign = self._added + self._foreign, 0
        if self._added < 0:
            self._full, self._added = max(0, self._full + self._added), 0
        if not self._added:
            self._sharing = min(self._sharing, max(0, beyond))

    def layout_with(
        self,
        snapshot: Snapshot,
        sizes: Mapping[str, int],
        active: Iterable[ActiveBounds] = (),
        *,
        release_nodes: bool,
    ) -> tuple[Layout, list[Constraint]]:
        """The plan with new sizes and the nodes they need, within the limits and the bounds on nodes.

        ``release_nodes``: instances that are removed release their nodes; false if rules scale in the nodes.
        """
        planned = snapshot.planned
        parallelism = {**planned.parallelism, **{name: size for name, size in sizes.items() if name != NODES}}
        nodes = sizes.get(NODES, planned.main_nodes)
        change = self._change(snapshot, parallelism, release_nodes) if parallelism else 0
        if change > 0 or NODES not in sizes:  # new instances need slots, whatever a rule says about nodes
            nodes = max(nodes, planned.main_nodes + change) if change > 0 else nodes + change
        clamps = []
        for bounds, subject in active:
            if subject == NODES and (within := _towards(bounds, nodes, planned.main_nodes)) != nodes:
                nodes = within
                clamps.append(Constraint(name=bounds.name, why=bounds_in_english(bounds)))
        allowed = snapshot.limits.clamp(nodes)
        if allowed != nodes:
            why = f"{counted(nodes, 'node')} wanted, {snapshot.limits} allowed"
            clamps.append(Constraint(name="limits", why=why))
        by_rules = max(0, sizes.get(NODES, planned.main_nodes) - planned.main_nodes)
        added = allowed - planned.main_nodes
        self._requested = max(0, added - by_rules) if added > 0 else added
        self._acted = True
        layout = Layout(nodes=planned.nodes, parallelism=parallelism, placement=planned.placement)
        return layout.with_nodes(allowed), clamps

    def _change(self, snapshot: Snapshot, parallelism: Mapping[str, int], release_nodes: bool) -> int:
        """How many nodes to add, or remove if negative, for a new parallelism."""
        planned, per_node = snapshot.planned, _per_node(snapshot)
        slots = planned.main_nodes * per_node
        used, wanted = _slots_used(snapshot, planned.parallelism), _slots_used(snapshot, parallelism)
        if wanted > used:
            return math.ceil(max(0, wanted - max(used, slots + self._sharing)) / per_node)
        if wanted < used and release_nodes:
            free = slots - self._foreign * per_node - wanted
            added = min(self._added, max(0, free + self._sharing) // per_node)
            return -max(added, min(self._full + self._added, max(0, free) // per_node))
        return 0


def _towards(bounds: BoundsRule, nodes: int, now: int) -> int:
    """The number of nodes moved towards the bounds: inside them, or at least no further outside than now."""
    nodes = max(nodes, min(now, bounds.at_least)) if bounds.at_least is not None else nodes
    return min(nodes, max(now, bounds.at_most)) if bounds.at_most is not None else nodes


def _per_node(snapshot: Snapshot) -> int:
    return max(1, snapshot.slots_per_node)


def _slots_used(snapshot: Snapshot, parallelism: Mapping[str, int]) -> int:
    """The slots that these instances use at the same time."""
    if any(len(snapshot.windows.of(name, Metric.OPERATOR_QUEUE)) for name in parallelism):
        return sum(parallelism.values())
    query_of = {operator.name: operator.query for operator in snapshot.pipeline.operators}
    widest: dict[str, int] = {}
    for name, size in parallelism.items():
        query = query_of.get(name, "")
        widest[query] = max(size, widest.get(query, 0))
    return sum(widest.values())
