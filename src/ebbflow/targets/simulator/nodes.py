"""Clusters of nodes that join after a lead time, differ in speed, slow down and die.

The life of a node: requested → (lead time) → working → asked to leave → draining → released. As on Spark, it is paid
for from request to release. A leaving node works on until the running batch ends, but at most for ``drain_s``.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ebbflow.core.curve import Curve, count_over_time
from ebbflow.core.ports import DEFAULT_LEAD_TIME_S
from ebbflow.errors import InputError
from ebbflow.targets.simulator.faults import Fault, NodeDies, SlowNode

MIN_SPEED, MAX_SPEED = 1e-6, 1e6
"""Speeds for which sums of task times stay accurate in floats."""
SAME_S = 1e-9
"""Events closer than this are simultaneous. Two tasks on a fast slot take as long as one on a slot half as fast;
rounding must not decide which ends first, because the next task would go to the other slot."""


@dataclass(frozen=True, kw_only=True)
class EngineOverhead:
    """CPU that a continuous engine itself takes of a node (Elysium §5.2, Figure 8), in cores:

    used = idle + (1 + per_core) · Σ CPU of the instances

    >>> storm = EngineOverhead(idle_cores=0.4, per_core=0.2)
    >>> storm.used_cores(2.0), storm.instance_cores(4)  # instances that use 3 cores keep 4 cores busy
    (2.8, 3.0)
    """

    idle_cores: float = 0.0
    """Used at any load."""
    per_core: float = 0.0
    """Used per core of the instances, to transfer tuples."""

    def __post_init__(self) -> None:
        if not (self.idle_cores >= 0 and self.per_core >= 0):
            raise InputError(
                f"an overhead of {self.idle_cores:g} cores and {self.per_core:g} per core; both must be 0 or more"
            )

    def used_cores(self, instances_cores: float) -> float:
        """Cores of a node in use when its instances use a number of cores."""
        return self.idle_cores + (1.0 + self.per_core) * instances_cores

    def instance_cores(self, cores: int) -> float:
        """Cores of a node that its instances can use."""
        return (cores - self.idle_cores) / (1.0 + self.per_core)


@dataclass(frozen=True, kw_only=True)
class NodeKind:
    """The properties of a cluster's nodes."""

    slots: int = 1
    """Tasks that run at once on a node; for the continuous engine, its cores."""
    lead_time_s: float = DEFAULT_LEAD_TIME_S
    """From the request for a node to its first work."""
    lead_noise: float = 0.0
    """σ of the lognormal factor on the lead time (median 1)."""
    speeds: tuple[float, ...] = (1.0,)
    """Node speeds in the order of requests, repeated cyclically."""
    drain_s: float = 10.0
    """How long a leaving node still takes tasks of a running batch."""
    overhead: EngineOverhead = field(default_factory=EngineOverhead)
    """CPU of the continuous engine itself. Micro-batches have per-task and driver costs instead."""

    def __post_init__(self) -> None:
        if self.slots < 1:
            raise InputError(f"nodes have {self.slots} slots; they need at least 1")
        if not 0 <= self.lead_time_s < math.inf:
            raise InputError(f"a lead time of {self.lead_time_s:g} s; it must be 0s or more, and finite")
        if not 0 <= self.lead_noise < math.inf:
            raise InputError(f"a lead noise of {self.lead_noise:g}; it must be 0 or more, and finite")
        if not self.speeds or not all(MIN_SPEED <= speed <= MAX_SPEED for speed in self.speeds):
            shown = ", ".join(f"{speed:g}" for speed in self.speeds)
            raise InputError(
                f"node-speeds is [{shown}]; it must be one or more speeds from {MIN_SPEED:g} to {MAX_SPEED:g}, "
                "like [1.0, 0.5]"
            )
        if not self.drain_s >= 0:
            raise InputError(f"a drain time of {self.drain_s:g} s; it must be 0s or more")
        if not self.instance_cores > 0:
            raise InputError(
                f"an overhead of {self.overhead.idle_cores:g} cores leaves nothing of {self.slots}; it must be less"
            )

    @property
    def instance_cores(self) -> float:
        """Cores of a node that its instances can use."""
        return self.overhead.instance_cores(self.slots)

    def pool(
        self, initial: int, rng: np.random.Generator, faults: Sequence[Fault] = (), *, step_s: float = 0.0
    ) -> NodePool:
        """The nodes of one cluster, ``initial`` of which have joined."""
        return NodePool(self, initial, rng, faults, step_s=step_s)

    def cpu_share(self, instances_cores: float) -> float:
        """The CPU utilisation of a node whose instances use a number of cores."""
        return min(1.0, self.overhead.used_cores(instances_cores) / self.slots)


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A cluster beside the main one, with its own kind of nodes."""

    nodes: NodeKind = field(default_factory=NodeKind)
    initial_nodes: int = 1

    def __post_init__(self) -> None:
        if self.initial_nodes < 0:
            raise InputError(f"a cluster with {self.initial_nodes} initial nodes; the minimum is 0")


@dataclass(frozen=True, kw_only=True)
class Link:
    """The network between any two clusters. Each stream has the whole bandwidth.

    >>> Link(mb_per_s=12.5, latency_s=0.3).rows_per_s(row_kb=0.5)
    25000.0
    """

    mb_per_s: float = 12.5
    """For rows and for moving state; 100 Mb/s, as between the nodes of DoDo (§6.4)."""
    latency_s: float = 0.0
    """Transit time of a row; the continuous engine rounds it up to whole steps."""

    def __post_init__(self) -> None:
        if not self.mb_per_s > 0 or not 0 <= self.latency_s < math.inf:
            raise InputError(
                f"a link of {self.mb_per_s:g} MB/s and {self.latency_s:g} s; "
                "the bandwidth must be above 0, the latency 0s or more"
            )

    def rows_per_s(self, row_kb: float) -> float:
        """The rows of a given size that a stream can carry per second."""
        return self.mb_per_s * 1000.0 / row_kb

    @property
    def steps(self) -> int:
        """The latency in whole steps of 1 s."""
        return math.ceil(self.latency_s - 1e-9)


@dataclass(eq=False)
class Node:
    """A node. From ``stop_s`` on it takes no tasks; from ``released_s`` on it is not paid for."""

    number: int
    requested_s: float
    join_s: float
    speed: float
    stop_s: float = math.inf
    released_s: float = math.inf
    died: bool = False
    slow: SlowNode | None = None

    @property
    def lead_time_s(self) -> float:
        """From its request until it joined."""
        return self.join_s - self.requested_s

    def stays_after(self, time_s: float) -> bool:
        """Whether it is expected to stay at a time; a death is not known before it happens."""
        return self.stop_s == math.inf or (self.died and self.stop_s > time_s)

    def speed_at(self, time_s: float) -> float:
        """Its speed at a time. A task keeps the speed it started with."""
        slow = self.slow
        return self.speed * slow.factor if slow and slow.from_s <= time_s < slow.until_s else self.speed


class TaskSchedule(NamedTuple):
    """Equal tasks on unequal slots, in units of a task's time at speed 1."""

    wall: float
    """From the first start to the last end."""
    work: float
    """Sum of all task times."""
    longest: float


def schedule_equal_tasks(speeds: Sequence[float], tasks: int) -> TaskSchedule:
    """Every slot takes the next task as soon as it is free; simultaneous slots in order.

    How many tasks a slot gets does not depend on how long a task is.

    >>> schedule_equal_tasks([1.0, 0.5], 6)  # four on the fast slot, two on the slow one
    TaskSchedule(wall=4.0, work=8.0, longest=2.0)
    >>> schedule_equal_tasks([1.0, 0.5], 1)
    TaskSchedule(wall=1.0, work=1.0, longest=1.0)
    """
    task_times = [1.0 / speed for speed in speeds]
    free = [(0.0, slot) for slot in range(len(task_times))]  # sorted, hence a heap
    wall = work = longest = 0.0
    while tasks:
        now = free[0][0]
        free_now = []
        while free and free[0][0] <= now + SAME_S:
            free_now.append(heapq.heappop(free)[1])
        free_now.sort()
        for slot in free_now[:tasks]:
            end = now + task_times[slot]
            heapq.heappush(free, (end, slot))
            wall, work, longest = max(wall, end), work + task_times[slot], max(longest, task_times[slot])
        tasks -= min(tasks, len(free_now))
    return TaskSchedule(wall, work, longest)


@dataclass(frozen=True, kw_only=True)
class ActiveNodes:
    """The nodes that take tasks in an interval without changes."""

    from_s: float
    until_s: float
    nodes: tuple[Node, ...]
    slots: int
    speed: float | None
    """The common speed of the nodes; None if they differ."""
    slot_speeds: tuple[float, ...] = ()
    """The speed of each slot if they differ."""
    _schedules: dict[int, TaskSchedule] = field(default_factory=dict, init=False, compare=False)

    def schedule(self, tasks: int) -> TaskSchedule:
        """How equal tasks run on slots of different speeds."""
        found = self._schedules.get(tasks)
        if found is None:
            found = self._schedules[tasks] = schedule_equal_tasks(self.slot_speeds, tasks)
        return found


@dataclass(frozen=True, kw_only=True)
class NodeCounts:
    """The nodes that a monitor counts in an interval without changes."""

    from_s: float
    until_s: float
    working: int
    """Joined and expected to stay."""
    joining: int
    last_request_s: float
    """The time of the last request among the joining nodes."""
    leaving: int
    requested: int
    """Requested and not cancelled."""
    held: int
    """Paid for."""


class NodePool:
    """The nodes of one cluster. ``set_nodes`` requests or releases nodes; ``advance`` lets time pass."""

    def __init__(
        self, kind: NodeKind, initial: int, rng: np.random.Generator, faults: Sequence[Fault] = (),
        *, step_s: float = 0.0,
    ) -> None:  # fmt: skip
        """``step_s``: the step of an engine that works in whole steps. A dead node is paid to the end of its step."""
        self.kind = kind
        self.version = 0
        """Changes whenever plans for the future may be invalid."""
        self.any_leaving = False
        """Whether a node was asked to leave, or died, and is not yet accounted for."""
        self._step_s = step_s
        self._rng = rng
        self._history: list[Node] = []
        self._alive: list[Node] = []
        self._pending_faults = sorted(
            (f for f in faults if isinstance(f, NodeDies | SlowNode)),
            key=lambda f: f.at_s if isinstance(f, NodeDies) else f.from_s,
        )
        self._joining: list[Node] = []
        """Requested nodes whose lead time is not yet known."""
        self._joined: list[Node] = []
        """Requested nodes that joined since ``take_joined``."""
        self._lead_estimate_s: float | None = None
        self._active: ActiveNodes | None = None
        self._counts: NodeCounts | None = None
        self._last_change_s = 0.0
        """When the last change known so far takes effect."""
        self._past_changes_s: list[float] = []
        """When released nodes joined and stopped, ascending."""
        for _ in range(initial):
            self._add(0.0, 0.0)

    # -- state ---------------------------------------------------------------------------------

    def active(self, time_s: float) -> ActiveNodes:
        """The nodes that take tasks at a time, and until when that is known to hold."""
        known = self._active
        if known is not None and known.from_s <= time_s < known.until_s:
            return known
        working = tuple(n for n in self._alive if n.join_s <= time_s < n.stop_s)
        changes_s = [math.inf]
        for node in self._alive:
            slow = (node.slow.from_s, node.slow.until_s) if node.slow else ()
            changes_s += [t for t in (node.join_s, node.stop_s, *slow) if t > time_s]
        speeds = [node.speed_at(time_s) for node in working]
        equal = len(set(speeds)) == 1
        self._active = ActiveNodes(
            from_s=time_s,
            until_s=min(changes_s),
            nodes=working,
            slots=len(working) * self.kind.slots,
            speed=speeds[0] if equal else None,
            slot_speeds=() if equal else tuple([speed for speed in speeds for _ in range(self.kind.slots)]),
        )
        return self._active

    def counts(self, time_s: float) -> NodeCounts:
        """The node counts at a time."""
        known = self._counts
        if known is not None and known.from_s <= time_s < known.until_s:
            return known
        joining = self.joining(time_s)
        changes_s = [t for n in self._alive for t in (n.join_s, n.stop_s, n.released_s) if t > time_s]
        self._counts = NodeCounts(
            from_s=time_s,
            until_s=min(changes_s, default=math.inf),
            working=len(self.working(time_s)),
            joining=len(joining),
            last_request_s=max((n.requested_s for n in joining), default=0.0),
            leaving=len([n for n in self.leaving if n.released_s > time_s]),
            requested=self.requested,
            held=len([n for n in self._alive if n.released_s > time_s]),
        )
        return self._counts

    @property
    def alive(self) -> Sequence[Node]:
        """Nodes requested and not released, oldest first."""
        return self._alive

    def working(self, time_s: float) -> list[Node]:
        """Nodes that have joined and are expected to stay."""
        return [n for n in self._alive if n.join_s <= time_s and n.stays_after(time_s)]

    def joining(self, time_s: float) -> list[Node]:
        """Requested nodes that have not joined."""
        return [n for n in self._alive if n.join_s > time_s]

    @property
    def leaving(self) -> list[Node]:
        """Nodes asked to leave and not released yet."""
        return [n for n in self._alive if n.stop_s < math.inf]

    @property
    def requested(self) -> int:
        """The number of nodes requested and not cancelled."""
        return len([n for n in self._alive if n.stop_s == math.inf])

    @property
    def lead_time_s(self) -> float:
        """A decaying mean of the observed lead times; the usual lead time before the first."""
        return DEFAULT_LEAD_TIME_S if self._lead_estimate_s is None else self._lead_estimate_s

    def changed_between(self, start_s: float, end_s: float) -> bool:
        """Whether a node joined or stopped in (start, end]. A cancelled request did neither."""
        if start_s >= self._last_change_s:
            return False
        past_s = self._past_changes_s
        after = bisect_right(past_s, start_s)
        if after < len(past_s) and past_s[after] <= end_s:
            return True
        return any(start_s < n.join_s <= end_s or start_s < n.stop_s <= end_s for n in self._alive)

    def held(self) -> Curve:
        """Nodes paid for, over time."""
        return count_over_time((n.requested_s, n.released_s) for n in self._history)

    def at_work(self) -> Curve:
        """Nodes that had joined and were not released, over time."""
        return count_over_time((n.join_s, n.released_s) for n in self._history if n.join_s < n.released_s)

    # -- changes -------------------------------------------------------------------------------

    def advance(self, until_s: float) -> None:
        """Apply faults and observe lead times up to a time."""
        while self._pending_faults:
            fault = self._pending_faults[0]
            at_s = fault.at_s if isinstance(fault, NodeDies) else fault.from_s
            if at_s > until_s:
                break
            self._pending_faults.pop(0)
            working = self.working(at_s)
            if working:
                self._apply_fault(working[fault.node % len(working)], fault)
        joined = [n for n in self._joining if n.join_s <= until_s]
        if joined:
            self._joining = [n for n in self._joining if n.join_s > until_s]
        for node in joined:
            lead_s, old = node.lead_time_s, self._lead_estimate_s
            self._lead_estimate_s = lead_s if old is None else 0.7 * old + 0.3 * lead_s
        self._joined += joined

    def take_joined(self) -> list[Node]:
        """Nodes that joined since the last call."""
        joined, self._joined = self._joined, []
        return joined

    def set_nodes(self, now_s: float, wanted: int, *, busy: bool) -> int:
        """Request a number of nodes; returns how many are requested now.

        To shrink, pending requests are cancelled first, newest first. Then the youngest nodes leave: at once if
        nothing runs on them (``busy`` is false), else after draining.
        """
        staying = [n for n in self._alive if n.stop_s == math.inf]
        before = len(staying)
        # leaving nodes that still take tasks are kept rather than replaced
        recallable = [n for n in self.leaving if not n.died and n.stop_s > now_s]
        for node in recallable[: max(0, wanted - before)]:
            node.stop_s = math.inf
            staying.append(node)
        for _ in range(wanted - len(staying)):
            self._request(now_s)
        surplus = sorted(staying, key=lambda n: (n.join_s > now_s, n.requested_s, n.number), reverse=True)
        leavers = surplus[: max(0, len(staying) - wanted)]
        for node in leavers:
            drains = busy and node.join_s <= now_s
            node.stop_s = now_s + self.kind.drain_s if drains else now_s
            self.any_leaving = True
            self._last_change_s = max(self._last_change_s, node.stop_s)
        self._remove([node for node in leavers if not (busy and node.join_s <= now_s)], now_s)
        self._joining = [n for n in self._joining if n.stop_s == math.inf or n.join_s <= now_s]
        if wanted != before:
            self._changed()
        return self.requested

    def release(self, time_s: float, *, between_batches: bool, busy: Container[Node] = ()) -> None:
        """Release leaving nodes that are not ``busy``: all of them between batches, else those past ``stop_s``."""
        if not self.any_leaving:
            return
        leavers = [
            n
            for n in self.leaving
            if n not in busy and (n.stop_s <= time_s or (between_batches and not n.died))
        ]
        for node in leavers:
            node.stop_s = min(node.stop_s, time_s)
        self._remove(leavers, time_s)
        self.any_leaving = bool(self.leaving)

    def _request(self, now_s: float) -> None:
        """Request one more node, which joins after a lead time."""
        lead_s, noise = self.kind.lead_time_s, self.kind.lead_noise
        if noise:
            lead_s *= math.exp(noise * self._rng.standard_normal())
        self._joining.append(self._add(now_s, now_s + lead_s))

    def _add(self, requested_s: float, join_s: float) -> Node:
        number = len(self._history)
        self._last_change_s = max(self._last_change_s, join_s)
        speed = self.kind.speeds[number % len(self.kind.speeds)]
        node = Node(number=number, requested_s=requested_s, join_s=join_s, speed=speed)
        self._history.append(node)
        self._alive.append(node)
        self._changed()
        return node

    def _apply_fault(self, node: Node, fault: NodeDies | SlowNode) -> None:
        if isinstance(fault, SlowNode):
            node.slow = fault
        else:
            # it stays in the pool until the stage that it was in is accounted for
            node.died = self.any_leaving = True
            node.stop_s = fault.at_s
            self._last_change_s = max(self._last_change_s, fault.at_s)
            step_s = self._step_s
            node.released_s = math.ceil(fault.at_s / step_s) * step_s if step_s else fault.at_s
            self._request(fault.at_s)
        self._changed()

    def _remove(self, nodes: Sequence[Node], time_s: float) -> None:
        """Remove several nodes in one pass over the pool."""
        if not nodes:
            return
        for node in nodes:
            node.released_s = min(node.released_s, time_s)
            if node.join_s < node.stop_s:
                self._past_changes_s += (node.join_s, node.stop_s)
        self._past_changes_s.sort()  # cheap: all but the end is sorted
        removed = set(nodes)
        self._alive = [node for node in self._alive if node not in removed]
        self._changed()

    def _changed(self) -> None:
        self.version += 1
        self._active = self._counts = None
