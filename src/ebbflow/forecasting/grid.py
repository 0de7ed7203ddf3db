"""The horizons at which forecasts are judged, and what lies between them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ebbflow.core.curve import Floats

Ints = npt.NDArray[np.int64]

GRID: Ints = np.array((1, 2, 4, 8, 15, 30))
"""Horizons in steps. Errors, weights and bands are kept for these; between them they are interpolated."""
LONGEST = int(GRID[-1])


def between(table: Floats, horizons: Ints, axis: int = 0) -> Floats:
    """Interpolate a table whose ``axis`` is the grid. Beyond the longest horizon its values continue.

    >>> between(np.arange(6.0), np.array([1, 3, 30, 100])).tolist()
    [0.0, 1.5, 5.0, 5.0]
    """
    right = np.searchsorted(GRID, np.minimum(horizons, LONGEST))
    left = np.maximum(right - 1, 0)
    share = np.where(
        right > left,
        (np.minimum(horizons, LONGEST) - GRID[left]) / (GRID[right] - GRID[left] + (right == left)),
        1.0,
    )
    moved = np.moveaxis(table, axis, -1)
    return np.moveaxis(moved[..., left] * (1.0 - share) + moved[..., right] * share, -1, axis)
