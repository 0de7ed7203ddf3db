"""Equal tasks on slots that are not equally fast: who gets how many does not depend on how long a task is."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple

SAME_S = 1e-9
"""What ends so close together ends at once. Two tasks of a fast slot take as long as one of a slot half as fast, and
which is first must not hang on the last digit: the next task would go to the other."""


class Deal(NamedTuple):
    """A stage of equal tasks, in units of what one of them takes at speed 1."""

    wall: float
    """From the first start to the last end."""
    work: float
    """All tasks together."""
    longest: float


def deal(speeds: Sequence[float], tasks: int) -> Deal:
    """Every slot takes the next task as soon as it is free; of several at once the first in the row.

    >>> deal([1.0, 0.5], 6)  # four on the fast one, two on the slow one
    Deal(wall=4.0, work=8.0, longest=2.0)
    >>> deal([1.0, 0.5], 1)
    Deal(wall=1.0, work=1.0, longest=1.0)
    """
    takes = [1.0 / speed for speed in speeds]
    free = [(0.0, slot) for slot in range(len(takes))]  # in order, so it is a heap
    wall = work = longest = 0.0
    while tasks:
        now = free[0][0]
        at_once = []
        while free and free[0][0] <= now + SAME_S:
            at_once.append(heapq.heappop(free)[1])
        at_once.sort()
        for slot in at_once[:tasks]:
            end = now + takes[slot]
            heapq.heappush(free, (end, slot))
            wall, work, longest = max(wall, end), work + takes[slot], max(longest, takes[slot])
        tasks -= min(tasks, len(at_once))
    return Deal(wall, work, longest)
