"""What the flow of the continuous engine runs through: operators, streams between clusters, nodes alike."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

Instances = tuple[tuple[int, int], ...]
"""(operator, how many of it on a node), ascending."""


@dataclass
class Wire:
    """A stream between clusters: rows wait for its bandwidth, then are under way for some steps."""

    rows_per_s: float
    steps: int
    waiting: float = 0.0
    under_way: deque[float] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.under_way.extend([0.0] * self.steps)

    @property
    def rows(self) -> float:
        """All rows on it."""
        return self.waiting + math.fsum(self.under_way)

    def passed(self, rows: float) -> float:
        """Rows that come out in a step in which some go in."""
        return self.under_way[0] if self.steps else min(self.waiting + rows, self.rows_per_s)

    def push(self, rows: float) -> None:
        """Let the step happen."""
        sent = min(self.waiting + rows, self.rows_per_s)
        self.waiting += rows - sent
        if self.steps:
            self.under_way.popleft()
            self.under_way.append(sent)


@dataclass(frozen=True)
class Vertex:
    """An operator, as far as the flow is concerned."""

    pipeline: int
    streams: tuple[tuple[int, float], ...]
    """(upstream operator, selectivity) of each stream that enters it; none enters a source."""
    service_per_s: float
    per_source_row: float
    queue_bound_rows: float | None


@dataclass(frozen=True)
class Crowd:
    """Nodes of a cluster that are equally fast and have the same instances on them."""

    nodes: int
    cores: float
    """That its instances can use."""
    speed: float
    instances: Instances


def alike(crowds: Sequence[Crowd]) -> dict[tuple[float, Instances], int]:
    """Crowds that differ in speed at most are of one kind: (cores, instances) of each, with its number."""
    kinds: dict[tuple[float, Instances], int] = {}
    for crowd in crowds:
        kinds.setdefault((crowd.cores, crowd.instances), len(kinds))
    return kinds


@lru_cache(maxsize=256)
def fullest(nodes: frozenset[tuple[float, Instances]]) -> list[tuple[float, Instances]]:
    """Those (cores, instances) that no other has at least as full: if none of them is crowded, no node is.

    >>> fullest(frozenset({(2, ((0, 1), (1, 1))), (2, ((1, 1),)), (1, ((1, 1),))}))
    [(1, ((1, 1),)), (2, ((0, 1), (1, 1)))]
    """
    counts = {node: dict(node[1]) for node in nodes}
    return [
        (cores, instances)
        for cores, instances in sorted(nodes)
        if not any(
            other != (cores, instances) and other[0] <= cores and all(on.get(i, 0) >= n for i, n in instances)
            for other, on in counts.items()
        )
    ]


def last_operators(vertices: Sequence[Vertex], pipelines: int) -> list[list[int]]:
    """Of each pipeline, the operators that tell how many source rows all of its operators have done.

    Who takes in one stream only has done no more than the operator that it comes from. So sinks tell, and who feeds
    nothing but joins: a join has done the mean of its branches, and a row is through when all of them are.

    >>> read, left, right = (Vertex(0, streams, 1.0, 1.0, None) for streams in ((), ((0, 1.0),), ((0, 1.0),)))
    >>> join = Vertex(0, ((1, 1.0), (2, 1.0)), 1.0, 2.0, None)
    >>> last_operators([read, left, right], 1), last_operators([read, left, right, join], 1)
    ([[1, 2]], [[1, 2, 3]])
    """
    sees = [v.per_source_row > 0 for v in vertices]
    before = {v.streams[0][0] for v, some in zip(vertices, sees, strict=True) if some and len(v.streams) == 1}
    return [
        [i for i, v in enumerate(vertices) if v.pipeline == pipeline and sees[i] and i not in before]
        for pipeline in range(pipelines)
    ]
