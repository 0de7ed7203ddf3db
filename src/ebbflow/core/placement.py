"""Even placement of instances on nodes."""

from __future__ import annotations

from collections.abc import Sequence

Placement = tuple[tuple[int, ...], ...]
"""For each operator, in order, its instances on each node."""


def even(parallelism: Sequence[int], nodes: int, assigned: int = 0) -> Placement:
    """Assign instances round-robin: instance k, counted over all operators, runs on node k mod N (Storm's default).

    ``assigned``: instances of other pipelines that were assigned before; counting continues from there.

    >>> even([3, 2, 1], 2)
    ((2, 1), (1, 1), (0, 1))
    >>> even([1, 1], 3, assigned=2)
    ((0, 0, 1), (1, 0, 0))
    """
    placement = []
    for instances in parallelism:
        counts = [0] * nodes
        if nodes:
            each, more = divmod(instances, nodes)
            counts = [each] * nodes
            for k in range(more):
                counts[(assigned + k) % nodes] += 1
            assigned += instances
        placement.append(tuple(counts))
    return tuple(placement)
