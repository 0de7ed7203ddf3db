"""The even scheduler: instances are dealt out to nodes like cards."""

from __future__ import annotations

from collections.abc import Sequence

Placement = tuple[tuple[int, ...], ...]
"""For each operator, in order, its instances on each node."""


def even(parallelism: Sequence[int], nodes: int, dealt: int = 0) -> Placement:
    """Round-robin: instance k of all, counted through the operators, goes to node k mod N (Storm's default).

    ``dealt``: how many of other pipelines were dealt out before; counting goes on from there.

    >>> even([3, 2, 1], 2)
    ((2, 1), (1, 1), (0, 1))
    >>> even([1, 1], 3, dealt=2)
    ((0, 0, 1), (1, 0, 0))
    """
    placement = []
    for instances in parallelism:
        counts = [0] * nodes
        if nodes:
            each, more = divmod(instances, nodes)
            counts = [each] * nodes
            for k in range(more):
                counts[(dealt + k) % nodes] += 1
            dealt += instances
        placement.append(tuple(counts))
    return tuple(placement)


def state_moved(before: int, after: int) -> float:
    """Share of the keys that change their instance when a hash ring grows or shrinks: 1 − min/max.

    >>> state_moved(3, 4), state_moved(4, 2)
    (0.25, 0.5)
    """
    return 1.0 - min(before, after) / max(before, after) if max(before, after) else 0.0
