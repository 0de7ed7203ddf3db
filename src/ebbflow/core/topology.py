"""The nodes of a datastore, and which changes of their number are safe.

A node of a datastore holds data, so it can neither come nor go at once: it joins (data streams to it), is active, and
is decommissioned (data streams away). Targets that scale a datastore put a ``Topology`` into their observations. The
rules here say which sizes are safe. Guards apply them to decisions (``guards.topology``), and the actuator applies
them again before each step, because minutes pass between a decision and its last step.

What the rules prevent is what operators of Cassandra learned: see the documentation of Cassandra, *Adding, replacing,
moving and removing nodes*, and Pascal, section 6.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import msgspec

from ebbflow.core.parameters import PYTHON_ONLY
from ebbflow.core.plural import counted


class NodeState(StrEnum):
    """The states of a node (Pascal, section 3): inactive → joining → active → decommissioning → inactive."""

    INACTIVE = "inactive"
    JOINING = "joining"
    ACTIVE = "active"
    DECOMMISSIONING = "decommissioning"


class StoreNode(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One node of a datastore."""

    address: str
    state: NodeState = NodeState.ACTIVE
    up: bool = True
    """Whether it answers."""
    rack: str = "rack1"
    seed: bool = False
    """Whether joining nodes ask it for the others. Seeds are not removed."""
    data_bytes: float | None = None
    """Data it stores; None if unknown."""
    disk_free_bytes: float | None = None
    """Free space for data; None if unknown."""
    streams: int = 0
    """Data transfers that run from or to it."""
    cleanups: int = 0
    """Cleanups that run on it."""
    repairs: int = 0
    """Repairs that it coordinates or takes part in."""
    needs_cleanup: bool = False
    """Whether it may hold data of ranges that it handed over to a node that joined."""


class Topology(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The nodes of a datastore at one time.

    >>> ring = Topology(nodes=(StoreNode(address="a"), StoreNode(address="b", state=NodeState.JOINING)))
    >>> [node.address for node in ring.active], [node.address for node in ring.changing]
    (['a'], ['b'])
    """

    nodes: tuple[StoreNode, ...]
    replication_factor: int = 1
    """The largest among the keyspaces."""
    steps_left: int = 0
    """Steps of a change under way that are not done yet, the current one included."""
    unfinished: str = ""
    """A half-finished change that must be dealt with first; empty if there is none."""

    def in_state(self, *states: NodeState) -> tuple[StoreNode, ...]:
        """Nodes in one of these states."""
        return tuple(node for node in self.nodes if node.state in states)

    @property
    def active(self) -> tuple[StoreNode, ...]:
        """Nodes that serve requests, whether or not they are up now."""
        return self.in_state(NodeState.ACTIVE)

    @property
    def changing(self) -> tuple[StoreNode, ...]:
        """Nodes that join or leave now."""
        return self.in_state(NodeState.JOINING, NodeState.DECOMMISSIONING)


# -- which nodes ------------------------------------------------------------------------------------------


def next_to_join(topology: Topology) -> StoreNode | None:
    """The inactive node to start next: one of the rack with the fewest active nodes; None if none is left.

    >>> ring = [StoreNode(address="a", rack="r1"), StoreNode(address="b", rack="r1", state=NodeState.INACTIVE),
    ...         StoreNode(address="c", rack="r2", state=NodeState.INACTIVE)]
    >>> next_to_join(Topology(nodes=tuple(ring))).address
    'c'
    """
    sizes = _rack_sizes(topology.active)
    free = topology.in_state(NodeState.INACTIVE)
    return min(free, key=lambda node: sizes[node.rack], default=None)


def next_to_leave(topology: Topology) -> StoreNode | None:
    """The active node to remove next: the last one of the largest rack, no seed; None if no node may go.

    A rack is emptied only if enough racks for all replicas are left.
    """
    order = leaving_order(topology)
    return order[0] if order else None


def leaving_order(topology: Topology) -> list[StoreNode]:
    """The nodes that may leave, one after the other.

    Replicas are spread over racks. Emptying one of the last ``replication_factor`` racks would put two replicas into
    one rack, so the loss of that rack would lose data.

    >>> ring = Topology(replication_factor=2, nodes=(
    ...     StoreNode(address="a", rack="r1"), StoreNode(address="b", rack="r2"), StoreNode(address="c", rack="r1")))
    >>> [node.address for node in leaving_order(ring)]
    ['c']
    """
    left = list(topology.active)
    order: list[StoreNode] = []
    while True:
        sizes = _rack_sizes(left)
        may_empty = len(sizes) > topology.replication_factor
        free = [node for node in left if not node.seed and (sizes[node.rack] > 1 or may_empty)]
        if len(sizes) == 1:
            free = [node for node in free if len(left) > 1]
        if not free:
            return order
        largest = max(sizes[node.rack] for node in free)
        leaving = [node for node in free if sizes[node.rack] == largest][-1]
        order.append(leaving)
        left.remove(leaving)


def _rack_sizes(nodes: Sequence[StoreNode]) -> Counter[str]:
    return Counter(node.rack for node in nodes)


# -- rules ------------------------------------------------------------------------------------------------


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """The nearest safe size, and why it is not the wanted one; ``why`` is empty if it is."""

    size: int
    why: str = ""


class Rule(ABC):
    """Says which sizes are safe."""

    name: str

    @abstractmethod
    def allowed(self, topology: Topology, size: int, wanted: int) -> Verdict:
        """The safe size nearest to ``wanted``, between it and the present ``size``."""


class NoChangeWhile(Rule):
    """Blocks every change while something is going on."""

    def allowed(self, topology: Topology, size: int, wanted: int) -> Verdict:
        """The present size, or the wanted one."""
        why = self.reason(topology) if wanted != size else ""
        return Verdict(size if why else wanted, why)

    @abstractmethod
    def reason(self, topology: Topology) -> str:
        """Why nothing may change; empty if it may."""


class NotBelowReplicationFactor(Rule):
    """Never fewer nodes than replicas: rows would have fewer copies than promised.

    >>> ring = Topology(replication_factor=3, nodes=tuple(StoreNode(address=a) for a in "abcde"))
    >>> NotBelowReplicationFactor().allowed(ring, 5, 2).size
    3
    """

    name = "replication factor"

    def allowed(self, topology: Topology, size: int, wanted: int) -> Verdict:
        """At least as many nodes as replicas."""
        floor = min(size, topology.replication_factor)
        if wanted >= floor:
            return Verdict(wanted)
        return Verdict(floor, f"{counted(wanted, 'node')} wanted, but each row has {floor} replicas")


class OneChangeAtATime(NoChangeWhile):
    """Never two topology changes at once: two joining nodes may pick the same tokens, and ranges may be lost."""

    name = "one change at a time"

    def reason(self, topology: Topology) -> str:
        """A node joins or leaves, or steps of the last change are left."""
        if topology.changing:
            return " and ".join(f"{node.address} is {node.state}" for node in topology.changing)
        left = topology.steps_left
        return (
            f"{counted(left, 'step')} of the last change {'is' if left == 1 else 'are'} left" if left else ""
        )


class NoUnfinishedChange(NoChangeWhile):
    """No new change while one is half finished, such as a node that died while it joined."""

    name = "unfinished change"

    def reason(self, topology: Topology) -> str:
        """What is half finished."""
        return topology.unfinished


class AllNodesUp(NoChangeWhile):
    """No change while a node is down: its ranges cannot be streamed from it, and it would miss the change."""

    name = "nodes down"

    def reason(self, topology: Topology) -> str:
        """Nodes that are down."""
        down = [node.address for node in topology.active if not node.up]
        return f"{', '.join(down)} {'is' if len(down) == 1 else 'are'} down" if down else ""


class NoBackgroundWork(NoChangeWhile):
    """No change while data moves: streams, cleanups and repairs assume that ranges stay where they are."""

    name = "streams, cleanup or repair"

    def reason(self, topology: Topology) -> str:
        """What runs, and where."""
        running = [
            f"{counted(count, what)} on {node.address}"
            for node in topology.nodes
            for what, count in (
                ("stream", node.streams),
                ("cleanup", node.cleanups),
                ("repair", node.repairs),
            )
            if count
        ]
        return ", ".join(running)


class CleanupBeforeScaleIn(Rule):
    """No scale-in before the cleanup that each scale-out needs.

    A node that handed a range over keeps its old rows until a cleanup. If the range comes back to it in a
    scale-in, rows deleted meanwhile come back too, once their tombstones are gone.
    """

    name = "cleanup"

    def allowed(self, topology: Topology, size: int, wanted: int) -> Verdict:
        """Growth only."""
        due = [node.address for node in topology.active if node.needs_cleanup]
        if wanted >= size or not due:
            return Verdict(wanted)
        return Verdict(size, f"{', '.join(due)} {'needs' if len(due) == 1 else 'need'} a cleanup first")


class RackAwareness(Rule):
    """No scale-in that leaves fewer racks than replicas, and none that would remove a seed."""

    name = "racks"

    def allowed(self, topology: Topology, size: int, wanted: int) -> Verdict:
        """As many nodes as may leave."""
        removable = len(leaving_order(topology))
        floor = size - min(removable, max(0, size))
        if wanted >= floor:
            return Verdict(wanted)
        racks = len(_rack_sizes(topology.active))
        why = (
            f"only {counted(removable, 'node')} may leave: {counted(racks, 'rack')} for "
            f"{counted(topology.replication_factor, 'replica')}, and seeds stay"
        )
        return Verdict(floor, why)


class DiskHeadRoom(Rule):
    """No scale-in without disk space for the data of the leaving nodes on each of the others.

    moved = Σ data of leaving nodes ÷ staying nodes  must be  ≤ free_share · free space, on each staying node

    The rest of the free space is for compaction, which writes new files before it removes the old ones.
    """

    name = "disk space"

    def __init__(self, *, free_share: Annotated[float, PYTHON_ONLY] = 0.5) -> None:
        self._free_share = free_share

    def allowed(self, topology: Topology, size: int, wanted: int) -> Verdict:
        """The fewest nodes with enough free disk for the data."""
        order = leaving_order(topology)
        for leaving in range(1, size - wanted + 1):
            why = self._lacks_space(topology, order[:leaving])
            if why:
                return Verdict(size - leaving + 1, why)
        return Verdict(wanted)

    def _lacks_space(self, topology: Topology, leaving: Sequence[StoreNode]) -> str:
        staying = [node for node in topology.active if node not in leaving]
        unknown = [node.address for node in leaving if node.data_bytes is None]
        unknown += [node.address for node in staying if node.disk_free_bytes is None]
        if unknown:
            return f"data or free space of {', '.join(unknown)} is unknown"
        moved = sum(node.data_bytes or 0.0 for node in leaving) / max(1, len(staying))
        tight = min(staying, key=lambda node: node.disk_free_bytes or 0.0, default=None)
        if tight is None or moved <= self._free_share * (tight.disk_free_bytes or 0.0):
            return ""
        return (
            f"{moved / 1e9:.3g} GB would come to {tight.address}, which has {(tight.disk_free_bytes or 0.0) / 1e9:.3g} "
            f"GB free and needs {1 - self._free_share:.0%} of that for compaction"
        )


def safety_rules(*, free_share: float = 0.5) -> tuple[Rule, ...]:
    """All rules, in the order in which they apply.

    >>> [rule.name for rule in safety_rules()][:3]
    ['unfinished change', 'one change at a time', 'nodes down']
    """
    return (
        NoUnfinishedChange(),
        OneChangeAtATime(),
        AllNodesUp(),
        NoBackgroundWork(),
        CleanupBeforeScaleIn(),
        RackAwareness(),
        DiskHeadRoom(free_share=free_share),
        NotBelowReplicationFactor(),
    )


def objection(rules: Sequence[Rule], topology: Topology, change: int) -> str:
    """Why a step of ``change`` nodes (+1 or -1) is not safe now; empty if it is."""
    size = len(topology.active)
    for rule in rules:
        verdict = rule.allowed(topology, size, size + change)
        if verdict.why:
            return f"{rule.name}: {verdict.why}"
    return ""
