"""Which task runs where and when: list scheduling on slots as they are there."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ebbflow.targets.simulator.nodes import Node


@dataclass(frozen=True, kw_only=True)
class Placed:
    """A stage placed on slots."""

    end_s: float
    """When its last task ends; infinite if there is nobody to run it."""
    task_time_s: float
    longest_task_s: float


def list_schedule(start_s: float, tasks_s: Sequence[float], nodes: Iterable[Node], slots: int) -> Placed:
    """Every task, in order, goes to the slot that is free first. Exact, in O(tasks · log slots).

    A node that joins in the middle takes tasks that still wait; one that leaves finishes what it runs and
    takes no more; on one that dies the running task is lost, and runs again on another.

    >>> node = Node(number=0, asked_s=0.0, join_s=0.0, speed=1.0)
    >>> late = Node(number=1, asked_s=0.0, join_s=2.5, speed=1.0)
    >>> list_schedule(0.0, [1.0] * 6, [node, late], 1).end_s  # alone until 2.5 s, then two at a time
    4.5
    """
    free = [
        (max(start_s, n.join_s), n.number, slot, n)
        for n in nodes
        for slot in range(slots)
        if n.stop_s > start_s
    ]
    heapq.heapify(free)
    waiting = [(start_s, seconds) for seconds in reversed(tasks_s)]
    end_s, spent_s, longest_s = start_s, 0.0, 0.0
    while waiting:
        ready_s, seconds = waiting.pop()
        while free and free[0][0] >= free[0][3].stop_s:
            heapq.heappop(free)
        if not free:
            return Placed(end_s=math.inf, task_time_s=spent_s, longest_task_s=longest_s)
        at_s, number, slot, node = heapq.heappop(free)
        at_s = max(at_s, ready_s)
        if at_s >= node.stop_s:
            waiting.append((ready_s, seconds))
            continue
        takes_s = seconds / node.speed_at(at_s)
        if node.died and at_s + takes_s > node.stop_s:
            waiting.insert(0, (node.stop_s, seconds))
            continue
        heapq.heappush(free, (at_s + takes_s, number, slot, node))
        end_s, spent_s, longest_s = max(end_s, at_s + takes_s), spent_s + takes_s, max(longest_s, takes_s)
    return Placed(end_s=end_s, task_time_s=spent_s, longest_task_s=longest_s)
