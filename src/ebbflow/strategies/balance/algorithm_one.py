"""Algorithm 1 of DoDo (§6.2.2): which operators move between which clusters.

Clusters in decreasing order of mean load; the first is paired with the last, the second with the last but one, and so
on. For each pair (C₁, C₂):

    if ES_C1 − ES_C2 > load threshold and ρ(C₁, C₂) < correlation threshold:
        for P of C₁ in decreasing order of (ρ(P, C₁ without P) − ρ(P, C₂)) / 2:
            if (ES_P + moved) · N₁/N₂ < (ES_C1 − ES_C2) / 2: move P

ES_P in line 7 is the load that P puts on a node of C₁, s_P / N₁. Only then the sentence before the algorithm is true
that the load of C₂ grows by ES_P · N₁/N₂. So the condition is (s_P + moved) / N₂ < (ES_C1 − ES_C2) / 2.

This cannot move an operator back at the same loads. Back needs s_P/N₁ < d′/2 with d′ = s_P/N₁ + s_P/N₂ − d, hence
s_P/N₁ + d < s_P/N₂, but the first move needed s_P/N₂ < d/2.

The variant without capacity ("only focused on maximizing the correlation", §6.3.2) moves the first operator of the
order, whatever line 7 says: the line is the only one with N. It is the baseline that fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from ebbflow.core.curve import Floats
from ebbflow.core.parameters import Flag, Number
from ebbflow.strategies.balance.loads import Loads
from ebbflow.strategies.balance.statistics import correlation

LEAST_RELIEF = 0.1
"""With prices, the moves of a pair must together relieve C₁ by this share of the difference."""


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """When Algorithm 1 moves operators between two clusters. The paper does not give its values."""

    load_threshold: Annotated[
        float,
        Number(
            "Least difference of the mean loads of two clusters, in shares of a node.",
            unit="share",
            at_least=0,
        ),
    ] = 0.2
    correlation_threshold: Annotated[
        float,
        Number(
            "Balance two clusters only if the correlation of their loads is below this; 1: whatever it is.",
            at_least=-1,
            at_most=1,
        ),
    ] = 1.0
    capacity: Annotated[
        bool, Flag("Whether the numbers of nodes count; without, the variant of the paper that fails.")
    ] = True


@dataclass(frozen=True, kw_only=True)
class Move:
    """An operator to be moved."""

    operator: str
    source: str
    target: str
    load: float
    """s = λ·p, in nodes."""
    source_load: float
    """Loads of both clusters before, and after this move and those before it."""
    target_load: float
    source_after: float
    target_after: float
    correlation: float
    """ρ of the two clusters."""


def pairs(loads: Loads) -> list[tuple[int, int]]:
    """Clusters with nodes, the most loaded with the least, the second with the last but one, …; ties in their order.

    >>> loads = Loads(operators=("a", "b", "c"), clusters=("x", "y", "z"), nodes=np.array([1.0, 1.0, 1.0]),
    ...               placed=np.array([0, 1, 2]), series=np.array([[0.2], [0.9], [0.5]]))
    >>> pairs(loads)  # y with x; z is in the middle
    [(1, 0)]
    """
    order = [int(c) for c in np.argsort(-loads.means, kind="stable") if loads.nodes[c] > 0]
    return [(order[i], order[-1 - i]) for i in range(len(order) // 2)]


def plan(
    loads: Loads, thresholds: Thresholds, *, movable: Floats | None = None, price: Floats | None = None
) -> list[Move]:
    """The moves of one assessment.

    ``movable``: for each operator whether it may move; all by default. ``price``: for each operator, the nodes by which
    a move must relieve the cluster that it leaves to be worth its cost; with capacity only.

    Clusters of 6 nodes and 1 node (§6.4). The second is fully busy, with 0.95 by the count. Moved, the count adds
    0.95/6 to the first, less than half of the difference, 0.6/2. So does top with it, 1/6; at a price of 0.01 nodes top
    stays, because it relieves nothing.

    >>> loads = Loads(operators=("extract", "count", "top"), clusters=("six", "one"), nodes=np.array([6.0, 1.0]),
    ...               placed=np.array([0, 1, 1]), series=np.array([[2.4], [0.95], [0.05]]))
    >>> [(m.operator, m.target, round(m.target_after, 2)) for m in plan(loads, Thresholds())]
    [('count', 'six', 0.56), ('top', 'six', 0.57)]
    >>> [m.operator for m in plan(loads, Thresholds(), price=np.full(3, 0.01))]
    ['count']
    """
    moves: list[Move] = []
    for hot, cold in pairs(loads):
        difference = float(loads.means[hot] - loads.means[cold])
        if not difference > thresholds.load_threshold:
            continue
        series = loads.of_clusters
        alike = float(correlation(series[hot], series[cold]))
        if thresholds.correlation_threshold < 1 and not alike < thresholds.correlation_threshold:
            continue
        moves += _of_pair(loads, hot, cold, alike, thresholds, movable, price)
    return moves


def _of_pair(
    loads: Loads, hot: int, cold: int, alike: float, thresholds: Thresholds,
    movable: Floats | None, price: Floats | None,
) -> list[Move]:  # fmt: skip
    n_hot, n_cold = float(loads.nodes[hot]), float(loads.nodes[cold])
    load_hot, load_cold = float(loads.means[hot]), float(loads.means[cold])
    size = loads.operator_means

    def peak(moved: float) -> float:
        """The higher load of the two clusters after this much has moved."""
        return max(load_hot - moved / n_hot, load_cold + moved / n_cold)

    order = [k for k in ranking(loads, hot, cold) if movable is None or movable[k]]
    chosen: list[int] = []
    moved = 0.0
    if not thresholds.capacity:
        chosen = order[:1]
    for k in order if thresholds.capacity else ():
        load = float(size[k])
        affordable = price is None or (peak(moved) - peak(moved + load)) * n_hot > price[k]
        if affordable and (load + moved) / n_cold < (load_hot - load_cold) / 2:
            chosen.append(k)
            moved += load
    if thresholds.capacity and price is not None:
        for k in sorted(
            chosen, key=lambda k: float(size[k])
        ):  # a small one may be unnecessary after a large one
            without = moved - float(size[k])
            if (peak(without) - peak(moved)) * n_hot <= price[k]:
                chosen.remove(k)
                moved = without
        if load_hot - peak(moved) < LEAST_RELIEF * (load_hot - load_cold):
            return []
    moves: list[Move] = []
    moved = 0.0
    for k in chosen:
        moved += float(size[k])
        moves.append(
            Move(
                operator=loads.operators[k],
                source=loads.clusters[hot],
                target=loads.clusters[cold],
                load=float(size[k]),
                source_load=load_hot,
                target_load=load_cold,
                source_after=max(0.0, load_hot - moved / n_hot),
                target_after=load_cold + moved / n_cold,
                correlation=alike,
            )
        )
    return moves


def ranking(loads: Loads, hot: int, cold: int) -> list[int]:
    """The operators of C₁ in decreasing order of (ρ(P, C₁ without P) − ρ(P, C₂)) / 2; of equal ones the largest first.

    >>> rising, falling = [1.0, 2.0, 3.0], [3.0, 2.0, 1.0]
    >>> loads = Loads(operators=("up", "too", "down", "there"), clusters=("x", "y"), nodes=np.array([1.0, 1.0]),
    ...               placed=np.array([0, 0, 0, 1]), series=np.array([rising, rising, falling, falling]))
    >>> [loads.operators[k] for k in ranking(loads, 0, 1)]  # alone with what rises with it, and apart from what falls
    ['up', 'too', 'down']
    """
    here = np.flatnonzero(loads.placed == hot)
    if not len(here):
        return []
    own = loads.series[here]
    others = loads.of_clusters[hot] * loads.nodes[hot] - own
    score = (correlation(own, others) - correlation(own, loads.of_clusters[cold])) / 2
    size = loads.operator_means[here]
    # rounded, because loads that follow the same source have the same correlation up to rounding
    order = sorted(range(len(here)), key=lambda k: (-round(float(score[k]), 9), -float(size[k]), k))
    return [int(here[k]) for k in order]
