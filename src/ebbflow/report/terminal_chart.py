"""A chart of a load and its forecast in characters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ebbflow.core.curve import Floats
from ebbflow.report.wording import number

_BAND, _MEDIAN, _PAST = "░", "━", "•"


def forecast_chart(
    past: Sequence[float], low: Sequence[float], median: Sequence[float], high: Sequence[float], *, width: int = 78,
    height: int = 12,
) -> list[str]:  # fmt: skip
    """Lines of text: the past as dots, then the median of the forecast within its band, from 0 up.

    >>> for line in forecast_chart([2, 4, 6], [5, 4], [7, 8], [9, 12], width=22, height=4):
    ...     print(line)
      12 ┤          │   ░░
         ┤       •••│━━━━━
         ┤    •••   │░░░░░
       0 ┤••••      │
    """
    label = max(len(number(max([*past, *high], default=0.0))), 1) + 2
    columns = max(10, width - label - 3)
    ahead = max(1, min(len(median) * 4, columns // 3)) if len(median) else 0
    before = columns - ahead
    grid = [[" "] * columns for _ in range(height)]
    top = max([*past, *high], default=0.0) or 1.0

    def row(value: float) -> int:
        return height - 1 - min(height - 1, max(0, round(value / top * (height - 1))))

    for column, value in enumerate(_in_columns(past, before)):
        grid[row(value)][column] = _PAST
    bands = zip(*(_in_columns(values, ahead) for values in (low, median, high)), strict=True)
    for column, (bottom, middle, highest) in enumerate(bands, start=before):
        for line in range(row(highest), row(bottom) + 1):
            grid[line][column] = _BAND
        grid[row(middle)][column] = _MEDIAN
    scale = {0: number(top), height - 1: "0"}
    return [
        f"{scale.get(line, ''):>{label}} ┤{''.join(cells[:before])}│{''.join(cells[before:])}".rstrip()
        for line, cells in enumerate(grid)
    ]


def _in_columns(values: Sequence[float], columns: int) -> list[float]:
    """One value for each column: the mean of those that share it, or the only one that covers it.

    >>> _in_columns([1, 2, 3, 4], 2), _in_columns([1, 2], 4)
    ([1.5, 3.5], [1.0, 1.0, 2.0, 2.0])
    """
    if not len(values) or columns < 1:
        return []
    given: Floats = np.asarray(values, dtype=np.float64)
    if len(given) <= columns:
        return [float(given[column * len(given) // columns]) for column in range(columns)]
    return [float(np.mean(part)) for part in np.array_split(given, columns)]
