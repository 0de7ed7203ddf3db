"""Algorithm 2 of DoDo (§7.1.1): how many nodes each cluster gets.

    add nodes      if ES_C > max:            I_L = I_C · (ES_C − max) / max
    remove nodes   if ES_C < min and I_C > 2: I_L = I_C · (ES_C − k·max) / (k·max)

ES_C is the mean load of a node, Σ s / I_C. After adding, it is max; after removing, about k·max.

Two slips of the printed algorithm are corrected as the text has it. Line 11 divides ES_C − max by k·max. The text says
that nodes are removed "so that the average load of each node in the cluster is approximately k · max", which is the
formula above; with the printed one, a cluster at ES_C = min = max/2 and k = 0.5 would lose all of its nodes. Line 6
compares the nodes of one cluster with the capacity, which the text calls a limit on "the overall numbers of instances
in all clusters". The thesis does not say who gets the last nodes; here they go one by one to the cluster with the
highest load.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

FEWEST = 2
"""Clusters of this size or smaller lose no node."""


def nodes_to_add(nodes: int, load: float, max_load: float) -> int:
    """I_L for a cluster that is loaded too much, rounded up; 0 if it is not.

    >>> nodes_to_add(4, 1.0, 0.8), nodes_to_add(4, 1.1, 0.8), nodes_to_add(4, 0.8, 0.8)
    (1, 2, 0)
    """
    return math.ceil(nodes * (load - max_load) / max_load - 1e-9) if load > max_load else 0


def nodes_to_remove(nodes: int, load: float, *, min_load: float, ideal_load: float) -> int:
    """−I_L for a cluster that is loaded too little, rounded down so that the load stays at most ideal; else 0.

    ``ideal_load`` = k·max.

    >>> nodes_to_remove(10, 0.2, min_load=0.3, ideal_load=0.6)  # 10 · 0.4/0.6 = 6.67: four nodes are left, at 0.5
    6
    >>> nodes_to_remove(3, 0.0, min_load=0.3, ideal_load=0.6), nodes_to_remove(2, 0.0, min_load=0.3, ideal_load=0.6)
    (1, 0)
    """
    if not load < min_load or nodes <= FEWEST:
        return 0
    surplus = math.floor(nodes * (ideal_load - load) / ideal_load + 1e-9)
    return min(max(0, surplus), nodes - FEWEST)


def share_out(
    wanted: Mapping[str, int], held: Mapping[str, int], work: Mapping[str, float], most: int
) -> dict[str, int]:
    """Nodes of each cluster if all together may have ``most``: those held, and more one by one to the highest load.

    ``work``: Σ s of each cluster. No cluster gets more than it wants, or less than it holds.

    >>> share_out({"a": 6, "b": 4}, {"a": 4, "b": 2}, {"a": 4.4, "b": 2.8}, most=7)  # 1.1 and 1.4
    {'a': 4, 'b': 3}
    """
    given = dict(held)
    while sum(given.values()) < most:
        short = [name for name in given if wanted.get(name, 0) > given[name]]
        if not short:
            break
        given[max(short, key=lambda name: work.get(name, 0.0) / max(given[name], 1e-9))] += 1
    return given


def even_loads(wanted: Mapping[str, int], work: Mapping[str, float], most: int) -> dict[str, int]:
    """Nodes of each cluster so that the highest load is the lowest possible with ``most``; no more than wanted.

    >>> even_loads({"a": 12, "b": 6}, {"a": 10.8, "b": 4.5}, most=15)  # 1.08 and 0.9; 11 and 4 would be 0.98 and 1.13
    {'a': 10, 'b': 5}
    """
    return share_out(wanted, {name: min(1, count) for name, count in wanted.items()}, work, most)
