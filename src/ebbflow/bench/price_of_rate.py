"""What a rate costs: the fewest nodes, in the mean over time, that keep it up.

A pipeline is one or more stages that take turns: a row goes through all of them, and at any time one of them
runs. n nodes pass a_i(n) rows/s through stage i while it runs. Stage i runs a share τ_in of the time on n
nodes:

    n̄(r) = min Σ n·τ_in  with  Σ_n τ_in·a_i(n) ≥ r for each stage  and  Σ τ_in = 1

where the time that no stage needs is idle, on min_nodes.

So each stage may have nodes of its own number: many while a wide stage runs, one while a narrow one does. The
dual has one price y_i for a row in each stage and one, μ, for time:

    n̄(r) = max over μ ≥ −min_nodes of r·Σ y_i(μ) − μ,   y_i(μ) = min over n of (n + μ) / a_i(n).

n̄ is convex, a maximum of straight lines. Every y_i rises with μ and is concave, so the best μ, and with it
every price y_i, rises with r: ``bench.oracle`` needs that.

**Corners.** y_i(μ) is reached at the corner of the concave envelope of a_i that the line from (−μ, 0) touches.
As μ rises from −min_nodes, each stage moves from corner to corner, all beginning at min_nodes; the stage whose
move comes at the lowest μ is next. Between two moves the sizes are n_i, and r = 1 / Σ 1/a_i(n_i) at a mean of
r·Σ n_i/a_i(n_i) nodes is a corner of n̄.

**More than max_nodes** may work for a while: those told to leave finish their tasks beside new ones. Who is short of
time in a stage can have as many as it takes there, and save them in another. So of several stages time has no price,
μ ≤ 0: the last line is r·Σ y_i(0), up to the highest rate of max_nodes. Where n nodes do no more each than max_nodes
do, it holds for any n: (n + μ) / a_i(n) ≥ (1 + μ/n) · max_nodes / a_i(max_nodes) ≥ y_i(μ). One stage alone has nothing
to save elsewhere; n̄ is its envelope.

Of tasks on slots, a_i(n) = min(p_i, S·n)/c_i: with p_i ≥ S·min_nodes in each of several stages n̄ is the work,
r·Σ c_i/S, up to the highest rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from ebbflow.core.curve import Floats
from ebbflow.core.limits import Limits
from ebbflow.errors import InputError, LimitsError

Rates = Sequence[float] | Sequence[Sequence[float]] | Floats
"""Rows/s of 0, 1, 2 … nodes; one such line for each stage where there are several."""


def price_of_rate(stages_rows_per_s: Rates, limits: Limits) -> tuple[Floats, Floats]:
    """Corners (mean nodes, rate) of n̄, both ascending; at lower rates than the first it is min_nodes.

    Of one stage they are its envelope: a size that cuts no wave (5 of 4, 8) is below the line between its neighbours.

    >>> nodes, rates = price_of_rate([0, 100, 200, 300, 400, 400, 400, 400, 800], Limits.parse("2:8"))
    >>> nodes.tolist(), rates.tolist()
    ([2.0, 8.0], [200.0, 800.0])

    A wide stage on 4 nodes and then a narrow one on 1: 80 rows/s, a fifth of the time on 4. The same on 4 throughout
    would cost 4.

    >>> nodes, rates = price_of_rate([[0, 100, 200, 300, 400], [0, 100, 100, 100, 100]], Limits.parse("1:4"))
    >>> nodes.round(3).tolist(), rates.round(3).tolist()
    ([1.0, 1.6], [50.0, 80.0])

    Three tasks on nodes of two slots, after a wide stage: 2 nodes throughout keep up 12/7 rows/s. Who has more of
    them for a while in the wide stage has time for the three tasks on 1, and pays for 12/7 in the mean.

    >>> nodes, rates = price_of_rate([[0, 2, 4], [0, 2, 3]], Limits.parse("1:2"))
    >>> nodes.round(3).tolist(), rates.round(3).tolist()
    ([1.0, 1.333, 1.714], [1.0, 1.333, 1.714])
    """
    stages = [_envelope(rates, limits) for rates in np.atleast_2d(np.asarray(stages_rows_per_s, np.float64))]
    at = [corners[0] for corners in stages]
    points = [_together(at)]
    for price, stage, corner in sorted(
        (_price_of_time(before, after), stage, after)
        for stage, corners in enumerate(stages)
        for before, after in pairwise(corners)
    ):
        if price > 0.0 and len(stages) > 1:
            points.append(_faster(points[-1], _together([corners[-1] for corners in stages])))
            break
        at[stage] = corner
        points.append(_together(at))
    nodes, rates = np.array(points).T
    kept = np.append(np.diff(rates) > 0.0, True)  # of several moves at one price, the last
    return nodes[kept], rates[kept]


def _together(at: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """(mean nodes, rate) of stages that take turns, each on its own nodes; 0 rows/s if one of them stands still."""
    if any(rate == 0.0 for _, rate in at):
        return min(nodes for nodes, _ in at), 0.0
    rate = 1.0 / sum(1.0 / own for _, own in at)
    return rate * sum(nodes / own for nodes, own in at), rate


def _faster(at: tuple[float, float], highest: tuple[float, float]) -> tuple[float, float]:
    """The highest rate at the same nodes for each row/s."""
    (nodes, rate), (_, most) = at, highest
    return (nodes * most / rate, most) if rate else at


def _price_of_time(before: tuple[float, float], after: tuple[float, float]) -> float:
    """The μ at which two corners of a stage are as good: (n + μ) / a is the same."""
    (nodes_a, rate_a), (nodes_b, rate_b) = before, after
    return (nodes_b * rate_a - nodes_a * rate_b) / (rate_b - rate_a)


def _envelope(rates: Floats, limits: Limits) -> list[tuple[float, float]]:
    """Corners (nodes, rate) of the concave envelope of a stage over the allowed sizes, rates ascending."""
    if len(rates) <= limits.max_nodes:
        raise LimitsError(
            f"capacity is given for up to {len(rates) - 1} nodes but the limits are {limits}; "
            f"give {limits.max_nodes + 1} values, for 0 to {limits.max_nodes} nodes"
        )
    if not np.all(np.isfinite(rates)) or rates[0] < 0 or np.any(np.diff(rates) < 0):
        raise InputError("capacity must be finite, 0 or more, and never fall with more nodes")
    corners: list[tuple[float, float]] = []
    for size in range(limits.min_nodes, limits.max_nodes + 1):
        rate = float(rates[size])
        if corners and rate <= corners[-1][1]:
            continue  # a larger size that is no faster
        while len(corners) >= 2:
            (size_a, rate_a), (size_b, rate_b) = corners[-2:]
            if (rate_b - rate_a) * (size - size_b) > (rate - rate_b) * (size_b - size_a):
                break
            corners.pop()
        corners.append((float(size), rate))
    return corners
