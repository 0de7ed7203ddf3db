"""The assignment of tasks to slots that come and go and that several queries share.

A free slot goes to the batch that started first, whatever its stage, as Spark does within an application
(``spark.scheduler.mode=FIFO``: jobs by number, then stages). Running tasks are never preempted. Slots are taken in
the order of their nodes. A node that joins takes waiting tasks; a node that leaves finishes its tasks and takes no
more; the running tasks of a node that dies are lost and go to the end of their stage.

Tasks of a stage that start together on equally fast nodes end together, and full waves on all slots follow each other
until the nodes change. The work per stage is then O(1), otherwise O(waves), but never O(tasks).
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from ebbflow.targets.simulator.nodes import SAME_S, ActiveNodes, Node, NodePool


class RunningStage:
    """The tasks of one stage of one batch: (seconds at speed 1, count) in the order of their start.

    Stages with a lower ``order`` go first. The times are final once it is ``done``.
    """

    def __init__(self, order: tuple[float, int], tasks: Sequence[tuple[float, int]]) -> None:
        self.order = order
        self.waiting: deque[tuple[float, int]] = deque(tasks)
        self.running = 0
        self.first_s = math.inf
        """When its first task started."""
        self.task_time_s = 0.0
        self.longest_task_s = 0.0

    @property
    def done(self) -> bool:
        """Whether all its tasks have ended."""
        return not self.running and not self.waiting


@dataclass(slots=True, eq=False)
class _Group:
    """Tasks of a stage that run in parallel, wave after wave; ordered by their end."""

    end_s: float
    number: int
    start_s: float
    task_s: float
    """The duration of a task, and so of a wave."""
    waves: int
    stage: RunningStage
    seconds: float
    """The duration of a task at speed 1."""
    nodes: list[Node]
    """One for each task of a wave."""

    def __lt__(self, other: _Group) -> bool:
        return self.end_s < other.end_s or (self.end_s == other.end_s and self.number < other.number)


class Slots:
    """The slots of a cluster.

    >>> import numpy as np
    >>> from ebbflow.targets.simulator.nodes import NodeKind
    >>> pool = NodePool(NodeKind(lead_time_s=2.5), 1, np.random.default_rng(0))
    >>> _ = pool.set_nodes(0.0, 2, busy=True)
    >>> slots, stage = Slots(pool), RunningStage((0.0, 0), [(1.0, 6)])
    >>> slots.submit(0.0, stage)
    >>> while not stage.done:  # one task at a time until 2.5 s, then two
    ...     at_s = slots.next_event_s()
    ...     _ = slots.end_tasks(at_s)
    ...     slots.assign_tasks(at_s)
    >>> at_s
    4.5
    """

    def __init__(self, pool: NodePool) -> None:
        self._pool = pool
        self._pool_version = pool.version
        self._now_s = 0.0
        self._group_numbers = count()
        self._submitted: list[tuple[float, tuple[float, int], RunningStage]] = []
        """Stages that are not ready yet: a heap."""
        self._waiting: list[RunningStage] = []
        """Stages with waiting tasks, in the order of service."""
        self._running: list[_Group] = []
        self._busy: dict[Node, int] = {}
        self._active: ActiveNodes | None = None
        """The nodes when free slots were last counted."""
        self._nodes: dict[int, Node] = {}
        """The same by number."""
        self._free: list[int] = []
        """Their free slots by node number: a heap."""

    @property
    def idle(self) -> bool:
        """Whether no task runs, waits or is submitted."""
        return not (self._running or self._waiting or self._submitted)

    @property
    def busy_nodes(self) -> dict[Node, int]:
        """Nodes with running tasks, and how many."""
        return self._busy

    def submit(self, ready_s: float, stage: RunningStage) -> None:
        """Submit a stage whose tasks can start from a time on."""
        if self.idle:
            self._now_s = ready_s
        heapq.heappush(self._submitted, (ready_s, stage.order, stage))

    def next_event_s(self) -> float:
        """The time of the next known event; infinite if there is none."""
        if self.idle:
            return math.inf
        if self._pool_version != self._pool.version:
            self._truncate_waves()
        soonest_s = self._running[0].end_s if self._running else math.inf
        if self._submitted:
            soonest_s = min(soonest_s, self._submitted[0][0])
        if self._running or self._waiting:
            soonest_s = min(soonest_s, self._pool.active(self._now_s).until_s)
        return soonest_s

    def end_tasks(self, at_s: float) -> list[RunningStage]:
        """End the tasks that end at ``next_event_s``; returns the finished stages.

        ``assign_tasks`` fills the free slots after the batches of finished stages have submitted their next ones.
        """
        self._now_s = at_s
        done = []
        while self._running and self._running[0].end_s <= at_s + SAME_S:
            group = heapq.heappop(self._running)
            stage = group.stage
            stage.running -= len(group.nodes)
            self._account(group, group.waves)
            self._free_slots(group.nodes)
            if stage.done:
                done.append(stage)
        if self._pool.any_leaving:
            self._requeue_lost_tasks(at_s)
        return done

    def run_waves(self, before_s: float, until_s: float) -> None:
        """A fast path for the common case: tasks end on some slots, and as many waiting ones start on the same slots.

        It runs until any other event, before one time and up to another. The result is the same to the bit as with
        ``end_tasks`` and ``assign_tasks``.
        """
        running, waiting, active = self._running, self._waiting, self._active
        if not waiting or active is None or active.speed is None or self._free or self._pool.any_leaving:
            return
        if active is not self._pool.active(self._now_s):
            return
        submitted_s = self._submitted[0][0] - SAME_S if self._submitted else math.inf
        before_s = min(before_s, active.until_s, submitted_s)
        while waiting and (groups := len(running)) > 1:  # a single group on all slots runs wave by wave
            group, stage = running[0], waiting[0]
            at_s, slots, ending = group.end_s, len(group.nodes), group.stage
            if at_s >= before_s or at_s > until_s or (ending.running == slots and not ending.waiting):
                break
            same_s = at_s + SAME_S
            if running[1].end_s <= same_s or (groups > 2 and running[2].end_s <= same_s):
                break
            seconds, tasks = stage.waiting[0]
            if tasks < slots:
                break
            self._account(group, group.waves)
            ending.running -= slots
            stage.running += slots
            if at_s < stage.first_s:
                stage.first_s = at_s
            if tasks > slots:
                stage.waiting[0] = (seconds, tasks - slots)
            else:
                stage.waiting.popleft()
                if not stage.waiting:
                    waiting.pop(0)
            task_s = seconds / active.speed
            group.stage, group.seconds, group.task_s, group.waves = stage, seconds, task_s, 1
            group.number, group.start_s, group.end_s = next(self._group_numbers), at_s, at_s + task_s
            heapq.heapreplace(running, group)
            self._now_s = at_s

    def assign_tasks(self, at_s: float) -> None:
        """Assign waiting tasks to free slots."""
        while self._submitted and self._submitted[0][0] <= at_s + SAME_S:
            self._enqueue(heapq.heappop(self._submitted)[2])
        if not self._waiting:
            return
        active, busy = self._pool.active(at_s), self._busy
        if active is not self._active:
            self._count_free_slots(active)
        nothing_runs = not busy  # a leaving node has no free slots but may have tasks
        while self._waiting and self._free:
            stage = self._waiting[0]
            seconds, tasks = stage.waiting.popleft()
            chosen, waves = self._take_slots(tasks), 1
            if nothing_runs and len(chosen) == active.slots and active.speed is not None:
                waves = self._full_waves(at_s, seconds / active.speed, tasks // active.slots, stage)
            tasks -= len(chosen) * waves
            if tasks:
                stage.waiting.appendleft((seconds, tasks))
            elif not stage.waiting:
                self._waiting.pop(0)
            stage.running += len(chosen)
            stage.first_s = min(stage.first_s, at_s)
            for speed, nodes in _by_speed(chosen, active.speed, at_s):
                task_s = seconds / speed
                end_s = at_s + waves * task_s
                number = next(self._group_numbers)
                heapq.heappush(
                    self._running, _Group(end_s, number, at_s, task_s, waves, stage, seconds, nodes)
                )
            for node in chosen:
                busy[node] = busy.get(node, 0) + 1

    def _count_free_slots(self, active: ActiveNodes) -> None:
        """Count the free slots again after the nodes have changed."""
        self._active, slots, busy = active, self._pool.kind.slots, self._busy
        self._nodes = {node.number: node for node in active.nodes}
        # sorted by node number, hence a heap
        self._free = [node.number for node in active.nodes for _ in range(slots - busy.get(node, 0))]

    def _take_slots(self, most: int) -> list[Node]:
        """Take up to ``most`` free slots, in the order of their nodes."""
        free, nodes = self._free, self._nodes
        if most >= len(free):
            self._free = []
            return [nodes[number] for number in sorted(free)]
        return [nodes[heapq.heappop(free)] for _ in range(most)]

    def _full_waves(self, at_s: float, task_s: float, most: int, stage: RunningStage) -> int:
        """The number of consecutive full waves until the nodes change or a stage of an older batch is ready."""
        older_s = [ready_s for ready_s, order, _ in self._submitted if order < stage.order]
        until_s = min([self._pool.active(at_s).until_s, *older_s])
        return most if at_s + most * task_s <= until_s else _waves_begun(at_s, task_s, until_s)

    def _truncate_waves(self) -> None:
        """The nodes change: put waves that would begin after that back into the queue."""
        self._pool_version = self._pool.version
        for group in self._running:
            if group.waves == 1:
                continue
            changes_s = self._pool.active(group.start_s).until_s
            if group.end_s <= changes_s:
                continue
            begun = min(group.waves, _waves_begun(group.start_s, group.task_s, changes_s))
            if begun < group.waves:
                tasks = (group.waves - begun) * len(group.nodes)
                group.stage.waiting.appendleft((group.seconds, tasks))
                self._enqueue(group.stage)
                group.end_s, group.waves = group.start_s + begun * group.task_s, begun
        heapq.heapify(self._running)

    def _account(self, group: _Group, waves: int) -> None:
        """Add the times of the tasks of some waves to their stage."""
        if waves:
            stage, task_s = group.stage, group.task_s
            stage.task_time_s += task_s * len(group.nodes) * waves
            if task_s > stage.longest_task_s:
                stage.longest_task_s = task_s

    def _enqueue(self, stage: RunningStage) -> None:
        if stage not in self._waiting:
            self._waiting.append(stage)
            self._waiting.sort(key=lambda s: s.order)

    def _free_slots(self, nodes: Sequence[Node]) -> None:
        busy = self._busy
        for node in nodes:
            left = busy[node] - 1
            if left:
                busy[node] = left
            else:
                del busy[node]
            if node.number in self._nodes:  # otherwise it leaves
                heapq.heappush(self._free, node.number)

    def _requeue_lost_tasks(self, at_s: float) -> None:
        """Put the tasks of dead nodes at the end of their stage."""
        dead = {node for node in self._busy if node.died and node.stop_s <= at_s}
        if not dead:
            return
        for group in sorted(self._running):
            alive = [node for node in group.nodes if node not in dead]
            lost = len(group.nodes) - len(alive)
            if lost:
                self._account(group, group.waves - 1)
                group.start_s, group.waves = group.end_s - group.task_s, 1
                group.stage.running -= lost
                group.stage.waiting.append((group.seconds, lost))
                self._enqueue(group.stage)
                group.nodes = alive
        self._running = sorted(group for group in self._running if group.nodes)  # sorted, hence a heap
        for node in dead:
            del self._busy[node]


def _waves_begun(start_s: float, task_s: float, until_s: float) -> int:
    """Waves that begin before a time, at least the first.

    >>> _waves_begun(0.0, 2.0, 6.0), _waves_begun(0.0, 2.0, 6.1)
    (3, 4)
    """
    return max(1, math.ceil((until_s - start_s) / task_s)) if task_s > 0 else 1


def _by_speed(nodes: list[Node], common: float | None, at_s: float) -> Iterator[tuple[float, list[Node]]]:
    """Groups of equally fast nodes."""
    if common is not None:
        yield common, nodes
        return
    groups: dict[float, list[Node]] = {}
    for node in nodes:
        groups.setdefault(node.speed_at(at_s), []).append(node)
    yield from groups.items()
