"""Nodes that come late, differ, slow down and die.

A node's life: asked for → (lead time) → works → told to leave → drains → gone. It is paid for from asking
until it is gone, as on Spark; one told to leave works on until the running batch ends, at most ``drain_s``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from ebbflow.core.ports import USUAL_LEAD_TIME_S
from ebbflow.errors import InputError
from ebbflow.targets.simulator.faults import SlowNode
from ebbflow.targets.simulator.nodes.dealing import Deal, deal

# What the engine itself takes of a node: dispatching tuples, threads, its own processes (Elysium §5.2, Figure 8).


@dataclass(frozen=True, kw_only=True)
class Overhead:
    """CPU of a node that is not its instances': used = idle + (1 + per_core) · Σ CPU of its instances, in cores.

    >>> storm = Overhead(idle_cores=0.4, per_core=0.2)
    >>> storm.used_cores(2.0), storm.left_cores(4)  # 3 cores of instances make four busy
    (2.8, 3.0)
    """

    idle_cores: float = 0.0
    """Taken whatever happens."""
    per_core: float = 0.0
    """Taken for each core that instances use: tuples have to be carried to them and on."""

    def __post_init__(self) -> None:
        if not (self.idle_cores >= 0 and self.per_core >= 0):
            raise InputError(
                f"an overhead of {self.idle_cores:g} cores and {self.per_core:g} a core; both must be 0 or more"
            )

    def used_cores(self, instances_cores: float) -> float:
        """Cores in use where instances use so many."""
        return self.idle_cores + (1.0 + self.per_core) * instances_cores

    def left_cores(self, cores: int) -> float:
        """Cores that instances can use of a node's."""
        return (cores - self.idle_cores) / (1.0 + self.per_core)


SLOWEST, FASTEST = 1e-6, 1e6
"""Beyond, times of tasks leave what floats can add up."""


@dataclass(frozen=True, kw_only=True)
class NodeKind:
    """What nodes are like."""

    slots: int = 1
    """Tasks a node runs at once; cores, to the continuous engine."""
    lead_time_s: float = USUAL_LEAD_TIME_S
    """From asking for a node to its first work."""
    lead_noise: float = 0.0
    """σ of the lognormal factor on the lead time (median 1)."""
    speeds: tuple[float, ...] = (1.0,)
    """Speeds of the nodes in the order in which they are asked for, round and round."""
    drain_s: float = 10.0
    """How long a leaving node goes on taking tasks of a batch that runs."""
    overhead: Overhead = field(default_factory=Overhead)
    """What the continuous engine takes of a node for itself; micro-batches have theirs in tasks and driver."""

    def __post_init__(self) -> None:
        if self.slots < 1:
            raise InputError(f"nodes of {self.slots} slots cannot work; the fewest is 1")
        if not 0 <= self.lead_time_s < math.inf:
            when = "in the past" if self.lead_time_s < 0 else "never over"
            raise InputError(f"a lead time of {self.lead_time_s:g} s would be {when}; it must be 0s or more")
        if not 0 <= self.lead_noise < math.inf:
            raise InputError(f"a lead noise of {self.lead_noise:g}; it must be 0 or more, and finite")
        if not self.speeds or not all(SLOWEST <= speed <= FASTEST for speed in self.speeds):
            shown = ", ".join(f"{speed:g}" for speed in self.speeds)
            raise InputError(
                f"node-speeds is [{shown}]; it must be one speed or more from {SLOWEST:g} to {FASTEST:g}, "
                "like [1.0, 0.5]"
            )
        if not self.drain_s >= 0:
            raise InputError(f"nodes that drain for {self.drain_s:g} s; it must be 0s or more")
        if not self.left_cores > 0:
            raise InputError(
                f"an overhead of {self.overhead.idle_cores:g} cores leaves nothing of {self.slots}; it must be less"
            )

    @property
    def left_cores(self) -> float:
        """Cores that the engine leaves to instances."""
        return self.overhead.left_cores(self.slots)

    def cpu_share(self, instances_cores: float) -> float:
        """Part of a node's cores in use where its instances use so many."""
        return min(1.0, self.overhead.used_cores(instances_cores) / self.slots)


@dataclass(eq=False)
class Node:
    """One node. ``stop_s``: it takes no task from then on; ``gone_s``: it is no longer paid for."""

    number: int
    asked_s: float
    join_s: float
    speed: float
    stop_s: float = math.inf
    gone_s: float = math.inf
    died: bool = False
    slow: SlowNode | None = None

    @property
    def lead_time_s(self) -> float:
        """From asking for it until it was there."""
        return self.join_s - self.asked_s

    def stays_after(self, time_s: float) -> bool:
        """Whether nobody knows at a time that it will go; a death is not known before it happens."""
        return self.stop_s == math.inf or (self.died and self.stop_s > time_s)

    def speed_at(self, time_s: float) -> float:
        """Its speed at a time; a task keeps the one it started with."""
        slow = self.slow
        return self.speed * slow.factor if slow and slow.from_s <= time_s < slow.until_s else self.speed


@dataclass(frozen=True, kw_only=True)
class Strength:
    """What the nodes can do together over a stretch of time in which nothing changes."""

    from_s: float
    until_s: float
    nodes: tuple[Node, ...]
    slots: int
    speed: float | None
    """Of every node; None where they differ."""
    speeds: tuple[float, ...] = ()
    """Of each slot, where they differ."""
    _deals: dict[int, Deal] = field(default_factory=dict, init=False, compare=False)

    def deal(self, tasks: int) -> Deal:
        """How equal tasks are spread where speeds differ."""
        found = self._deals.get(tasks)
        if found is None:
            found = self._deals[tasks] = deal(self.speeds, tasks)
        return found


@dataclass(frozen=True, kw_only=True)
class Census:
    """How many nodes a monitor counts over a stretch of time in which that does not change."""

    from_s: float
    until_s: float
    there: int
    """There, and nobody knows that they will go."""
    coming: int
    asked_s: float
    """When the last of those that come was asked for."""
    leaving: int
    requested: int
    """Asked for and not taken back."""
    held: int
    """Paid for."""
