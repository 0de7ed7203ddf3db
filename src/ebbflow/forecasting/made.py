"""Forecasts kept until their step has come."""

from __future__ import annotations

import numpy as np

from ebbflow.core.curve import Floats
from ebbflow.forecasting.grid import GRID, LONGEST
from ebbflow.forecasting.state import Stateful

ROWS = np.arange(len(GRID))


class Made(Stateful):
    """Keeps tables made at the last steps, one row per horizon of the grid, and returns the rows for a step.

    >>> made = Made((), (2,))
    >>> made.keep(7, 5.0, np.ones((len(GRID), 2)))
    >>> valid, values, pairs = made.due(9)  # only the forecast two steps ahead was made for step 9
    >>> valid.tolist(), values[1], pairs[1].tolist()
    ([0.0, 1.0, 0.0, 0.0, 0.0, 0.0], np.float64(5.0), [1.0, 1.0])
    """

    def __init__(self, *shapes: tuple[int, ...]) -> None:
        self._at = np.full(LONGEST + 1, np.iinfo(np.int64).min)
        self._tables = [np.zeros((LONGEST + 1, len(GRID), *shape)) for shape in shapes]

    def keep(self, index: int, *tables: Floats | float) -> None:
        """Keep what was made at a step."""
        slot = index % len(self._at)
        self._at[slot] = index
        for kept, table in zip(self._tables, tables, strict=True):
            kept[slot] = table

    def due(self, index: int) -> tuple[Floats, ...]:
        """For each horizon whether a forecast for this step was made (1 or 0), then its row of each table."""
        made = index - GRID
        slots = made % len(self._at)
        valid = (self._at[slots] == made).astype(np.float64)
        return (valid, *(kept[slots, ROWS] for kept in self._tables))
