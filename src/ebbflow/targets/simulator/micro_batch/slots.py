"""Which task runs where and when, on slots that come and go and that several queries share.

A free slot goes to the batch that began first, whatever stage it is in: Spark's own order within an application
(``spark.scheduler.mode=FIFO``: jobs by number, then stages). Nothing is ever taken from a task that runs. Slots
are taken in the order of their nodes. A node that joins takes tasks that wait; one that leaves finishes what it
runs and takes no more; on one that dies the running task is lost and goes to the end of its stage.

Tasks of a stage that start together on equally fast nodes end together, and full waves on all slots follow each
other undisturbed until the nodes change; so the work is O(1) for each stage then, else O(waves), never O(tasks).
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from ebbflow.targets.simulator.nodes import Node, Strength
from ebbflow.targets.simulator.nodes.dealing import SAME_S
from ebbflow.targets.simulator.nodes.pool import NodePool


@dataclass(slots=True, eq=False)
class _Group:
    """Tasks that run at the same time, wave after wave; ordered by their end."""

    end_s: float
    number: int
    start_s: float
    takes_s: float
    """Each wave, and so each task."""
    waves: int
    stage: StageAtWork
    seconds: float
    """Of a task at speed 1."""
    nodes: list[Node]
    """One for each task of a wave."""

    def __lt__(self, other: _Group) -> bool:
        return self.end_s < other.end_s or (self.end_s == other.end_s and self.number < other.number)


class StageAtWork:
    """The tasks of one stage of one batch: (seconds at speed 1, how many) in the order of their start.

    ``order``: stages with less go first. The results hold once ``done``.
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


class Slots:
    """The slots of a cluster.

    >>> import numpy as np
    >>> from ebbflow.targets.simulator.nodes import NodeKind
    >>> pool = NodePool(NodeKind(lead_time_s=2.5), 1, np.random.default_rng(0))
    >>> _ = pool.set_nodes(0.0, 2, busy=True)
    >>> slots, stage = Slots(pool), StageAtWork((0.0, 0), [(1.0, 6)])
    >>> slots.submit(0.0, stage)
    >>> while not stage.done:  # alone until 2.5 s, then two at a time
    ...     at_s = slots.next_s()
    ...     _ = slots.step(at_s)
    ...     slots.hand_out(at_s)
    >>> at_s
    4.5
    """

    def __init__(self, pool: NodePool) -> None:
        self._pool = pool
        self._now_s = 0.0
        self._number = count()
        self._coming: list[tuple[float, tuple[float, int], StageAtWork]] = []
        self._waiting: list[StageAtWork] = []
        """Stages with tasks that nobody runs, first served first."""
        self._running: list[_Group] = []
        self._busy: dict[Node, int] = {}
        self._there: Strength | None = None
        self._nodes: dict[int, Node] = {}
        """Who worked when free slots were last counted, by number."""
        self._free: list[int] = []
        """Of their slots those that are free, by the number of the node: a heap."""
        self._version = pool.version

    @property
    def idle(self) -> bool:
        """Whether nothing runs, waits or is announced."""
        return not (self._running or self._waiting or self._coming)

    @property
    def busy_nodes(self) -> dict[Node, int]:
        """Nodes with running tasks, and how many."""
        return self._busy

    def submit(self, ready_s: float, stage: StageAtWork) -> None:
        """Announce a stage whose tasks can start from a time on."""
        if self.idle:
            self._now_s = ready_s
        heapq.heappush(self._coming, (ready_s, stage.order, stage))

    def next_s(self) -> float:
        """When something happens next, as far as is known; infinite if nothing ever does."""
        if self.idle:
            return math.inf
        if self._version != self._pool.version:
            self._cut_short()
        soonest_s = self._running[0].end_s if self._running else math.inf
        if self._coming:
            soonest_s = min(soonest_s, self._coming[0][0])
        if self._running or self._waiting:
            soonest_s = min(soonest_s, self._pool.strength(self._now_s).until_s)
        return soonest_s

    def step(self, at_s: float) -> list[StageAtWork]:
        """End what ends at the time that ``next_s`` told; returns the stages that are over. Who gets the free
        slots is settled by ``hand_out``, when those whose stage is over have submitted their next one."""
        self._now_s = at_s
        over = []
        while self._running and self._running[0].end_s <= at_s + SAME_S:
            group = heapq.heappop(self._running)
            stage = group.stage
            stage.running -= len(group.nodes)
            self._account(group, group.waves)
            self._release(group.nodes)
            if stage.done:
                over.append(stage)
        if self._pool.some_leave:
            self._lose_the_dead(at_s)
        return over

    def roll_on(self, before_s: float, until_s: float) -> None:
        """The plain case, quickly: tasks end on some slots, and as many that wait follow on the same slots.

        It goes on until something else happens; before a time, and up to another. What ``step`` and ``hand_out`` would
        make of it is the same to the bit.
        """
        running, waiting, there = self._running, self._waiting, self._there
        if not waiting or there is None or there.speed is None or self._free or self._pool.some_leave:
            return
        if there is not self._pool.strength(self._now_s):
            return
        before_s = min(before_s, there.until_s, self._coming[0][0] - SAME_S if self._coming else math.inf)
        while waiting and (several := len(running)) > 1:  # all slots in one group go wave by wave
            group, stage = running[0], waiting[0]
            at_s, slots, left = group.end_s, len(group.nodes), group.stage
            if at_s >= before_s or at_s > until_s or (left.running == slots and not left.waiting):
                break
            same_s = at_s + SAME_S
            if running[1].end_s <= same_s or (several > 2 and running[2].end_s <= same_s):
                break
            seconds, tasks = stage.waiting[0]
            if tasks < slots:
                break
            self._account(group, group.waves)
            left.running -= slots
            stage.running += slots
            if at_s < stage.first_s:
                stage.first_s = at_s
            if tasks > slots:
                stage.waiting[0] = (seconds, tasks - slots)
            else:
                stage.waiting.popleft()
                if not stage.waiting:
                    waiting.pop(0)
            takes_s = seconds / there.speed
            group.stage, group.seconds, group.takes_s, group.waves = stage, seconds, takes_s, 1
            group.number, group.start_s, group.end_s = next(self._number), at_s, at_s + takes_s
            heapq.heapreplace(running, group)
            self._now_s = at_s

    def hand_out(self, at_s: float) -> None:
        """Give free slots to the tasks that wait."""
        while self._coming and self._coming[0][0] <= at_s + SAME_S:
            self._wait(heapq.heappop(self._coming)[2])
        if not self._waiting:
            return
        there, busy = self._pool.strength(at_s), self._busy
        if there is not self._there:
            self._count_free(there)
        nothing_runs = not busy  # a node that leaves has no free slots, but may have tasks
        while self._waiting and self._free:
            stage = self._waiting[0]
            seconds, tasks = stage.waiting.popleft()
            chosen, waves = self._take(tasks), 1
            if nothing_runs and len(chosen) == there.slots and there.speed is not None:
                waves = self._waves(at_s, seconds / there.speed, tasks // there.slots, stage)
            tasks -= len(chosen) * waves
            if tasks:
                stage.waiting.appendleft((seconds, tasks))
            elif not stage.waiting:
                self._waiting.pop(0)
            stage.running += len(chosen)
            stage.first_s = min(stage.first_s, at_s)
            for speed, nodes in _by_speed(chosen, there.speed, at_s):
                takes_s = seconds / speed
                end_s = at_s + waves * takes_s
                group = _Group(end_s, next(self._number), at_s, takes_s, waves, stage, seconds, nodes)
                heapq.heappush(self._running, group)
            for node in chosen:
                busy[node] = busy.get(node, 0) + 1

    def _count_free(self, there: Strength) -> None:
        """Which slots are free, counted anew: the nodes have changed."""
        self._there, slots, busy = there, self._pool.kind.slots, self._busy
        self._nodes = {node.number: node for node in there.nodes}
        # They are in the order of their numbers, and so is this: it is a heap.
        self._free = [node.number for node in there.nodes for _ in range(slots - busy.get(node, 0))]

    def _take(self, most: int) -> list[Node]:
        """Free slots, in the order of their nodes."""
        free, nodes = self._free, self._nodes
        if most >= len(free):
            self._free = []
            return [nodes[number] for number in sorted(free)]
        return [nodes[heapq.heappop(free)] for _ in range(most)]

    def _waves(self, at_s: float, takes_s: float, most: int, stage: StageAtWork) -> int:
        """How many full waves follow each other: until the nodes change or an older batch's stage comes."""
        older_s = [ready_s for ready_s, order, _ in self._coming if order < stage.order]
        until_s = min([self._pool.strength(at_s).until_s, *older_s])
        return most if at_s + most * takes_s <= until_s else _begun(at_s, takes_s, until_s)

    def _cut_short(self) -> None:
        """The nodes change: waves that would begin after that are not settled any more."""
        self._version = self._pool.version
        for group in self._running:
            if group.waves == 1:
                continue
            changes_s = self._pool.strength(group.start_s).until_s
            if group.end_s <= changes_s:
                continue
            begun = min(group.waves, _begun(group.start_s, group.takes_s, changes_s))
            if begun < group.waves:
                tasks = (group.waves - begun) * len(group.nodes)
                group.stage.waiting.appendleft((group.seconds, tasks))
                self._wait(group.stage)
                group.end_s, group.waves = group.start_s + begun * group.takes_s, begun
        heapq.heapify(self._running)

    def _account(self, group: _Group, waves: int) -> None:
        """Note the time that the tasks of some waves took."""
        if waves:
            stage, takes_s = group.stage, group.takes_s
            stage.task_time_s += takes_s * len(group.nodes) * waves
            if takes_s > stage.longest_task_s:
                stage.longest_task_s = takes_s

    def _wait(self, stage: StageAtWork) -> None:
        if stage not in self._waiting:
            self._waiting.append(stage)
            self._waiting.sort(key=lambda s: s.order)

    def _release(self, nodes: Sequence[Node]) -> None:
        busy = self._busy
        for node in nodes:
            left = busy[node] - 1
            if left:
                busy[node] = left
            else:
                del busy[node]
            if node.number in self._nodes:  # else it leaves
                heapq.heappush(self._free, node.number)

    def _lose_the_dead(self, at_s: float) -> None:
        """Tasks on nodes that have died run again, after all others of their stage."""
        dead = {node for node in self._busy if node.died and node.stop_s <= at_s}
        if not dead:
            return
        for group in sorted(self._running):
            alive = [node for node in group.nodes if node not in dead]
            lost = len(group.nodes) - len(alive)
            if lost:
                self._account(group, group.waves - 1)
                group.start_s, group.waves = group.end_s - group.takes_s, 1
                group.stage.running -= lost
                group.stage.waiting.append((group.seconds, lost))
                self._wait(group.stage)
                group.nodes = alive
        self._running = sorted(group for group in self._running if group.nodes)  # which is a heap
        for node in dead:
            del self._busy[node]


def _begun(start_s: float, takes_s: float, until_s: float) -> int:
    """Waves that begin before a time, at least the first.

    >>> _begun(0.0, 2.0, 6.0), _begun(0.0, 2.0, 6.1)
    (3, 4)
    """
    return max(1, math.ceil((until_s - start_s) / takes_s)) if takes_s > 0 else 1


def _by_speed(nodes: list[Node], common: float | None, at_s: float) -> Iterator[tuple[float, list[Node]]]:
    """Nodes that are equally fast, together."""
    if common is not None:
        yield common, nodes
        return
    groups: dict[float, list[Node]] = {}
    for node in nodes:
        groups.setdefault(node.speed_at(at_s), []).append(node)
    yield from groups.items()
