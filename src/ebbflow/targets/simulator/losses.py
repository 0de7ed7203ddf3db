"""Which rows a pipeline lost: from how many had come to a full queue to when they had arrived at the source.

A queue that is full takes no more, so of the rows that had come to it the last ones are lost. With losses of l_k rows
when x_k source rows had come, in the order of x, and L_k = l_1 + … + l_k, the first x source rows leave

    S(x) = min( x − L_before(x), min over x_k ≥ x of (x_k − L_k) )

to be processed: it rises by one for each row, and stands still over those that are lost. Where a pipeline has
branches, a row must be through at all of them: S is the least of theirs.

Exact for losses at one operator. Of rows lost upstream, those that had not come yet to a second operator that loses
rows count as come there: its losses are then put that many rows too late.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ebbflow.core.curve import Curve, Floats


def lost_by_arrival(arrived: Curve, losses: Sequence[Sequence[tuple[float, float]]]) -> Curve:
    """Rows lost among those that had arrived by a time; ``losses``: (x, l) for each branch.

    10 rows/s; 15 rows were lost when 40 had come: rows 25 to 40, which arrived from 2.5 s to 4 s.

    >>> lost = lost_by_arrival(Curve.of([(0, 0), (10, 100)]), [[(40.0, 15.0)]])
    >>> lost.times_s.tolist(), lost.values.tolist()
    ([0.0, 2.5, 4.0, 10.0], [0.0, 0.0, 15.0, 15.0])
    """
    corners = [_corners(each) for each in losses if each]
    if not corners:
        return Curve.of([(0.0, 0.0)])
    # at the corners of all, so that each is a straight line in between
    times_s = np.union1d(arrived.times_s, arrived.time_of(np.concatenate([rows for rows, _ in corners])))
    came = arrived.interpolated(times_s)
    return Curve(times_s, np.max([np.interp(came, rows, lost) for rows, lost in corners], axis=0))


def _corners(losses: Sequence[tuple[float, float]]) -> tuple[Floats, Floats]:
    """Corners (x, x − S(x)) of the rows lost among the first x: where each hole begins, and where it ends."""
    came, rows = np.array(sorted(losses)).T
    total = np.cumsum(rows)
    left = np.minimum.accumulate((came - total)[::-1])[::-1]
    before = np.concatenate(([0.0], came[:-1]))
    begins = np.maximum(left + total - rows, before)
    corners = np.stack((begins, came), axis=1).ravel()
    return corners, np.maximum.accumulate(np.maximum(corners - np.repeat(left, 2), 0.0))
