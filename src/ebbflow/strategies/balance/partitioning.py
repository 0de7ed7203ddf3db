"""Greedy number partitioning weighted by capacity: the placement of operators with steady loads (DoDo, §6.2.1).

Operators in decreasing order of load, each to the cluster whose load would be the lowest with it:

    argmin over c of (Σ s of its operators + s) / N_c

With equal clusters this is the usual greedy heuristic of k-way number partitioning (Korf, IJCAI 2009).
"""

from __future__ import annotations

from collections.abc import Mapping

from ebbflow.errors import InputError


def partition(
    loads: Mapping[str, float], nodes: Mapping[str, int], fixed: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The cluster of each operator. ``fixed``: operators that stay where they are.

    Two nodes and one: 8 goes to the two (4 against 8); 5 to the one (5 against 13/2); 4 to the two (6 against 9).

    >>> partition({"a": 8.0, "b": 5.0, "c": 4.0}, {"main": 2, "west": 1})
    {'a': 'main', 'b': 'west', 'c': 'main'}
    """
    usable = {cluster: count for cluster, count in nodes.items() if count > 0}
    if not usable:
        raise InputError("no cluster has a node to place operators on")
    placed: dict[str, str] = dict(fixed or {})
    total = dict.fromkeys(usable, 0.0)
    for operator, cluster in placed.items():
        if cluster in total:
            total[cluster] += loads.get(operator, 0.0)
    order = sorted((name for name in loads if name not in placed), key=lambda name: (-loads[name], name))
    for name in order:
        chosen = min(usable, key=lambda cluster: (total[cluster] + loads[name]) / usable[cluster])
        placed[name] = chosen
        total[chosen] += loads[name]
    return {name: placed[name] for name in loads}
