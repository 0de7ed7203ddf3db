"""It goes on as it went: the straight line through the last minutes."""

from __future__ import annotations

from ebbflow.errors import InputError
from ebbflow.forecasting.forecast import HORIZON_MINUTES, MINUTE_S, Loads
from ebbflow.forecasting.line import RunningLine

MOST_GROWTH = 3.0
"""A rise is not believed beyond this many times the highest load that it is drawn through."""


class Naive:
    """The line that ``is forecast to be`` of the policies goes by, on for the next minutes; never below 0.

    >>> rising = [(60.0 * k, 100.0 + 10.0 * k) for k in range(6)]
    >>> [round(load) for load in Naive().predict(rising, now_s=300.0)]
    [160, 170, 180, 190, 200]
    >>> Naive().predict([(0.0, 70.0)], now_s=10.0)
    [70.0, 70.0, 70.0, 70.0, 70.0]
    """

    said = "the line through the last minutes"

    def __init__(self, *, span_s: float = 5 * MINUTE_S, horizon: int = HORIZON_MINUTES) -> None:
        """``span_s``: how much of the past it is drawn through."""
        if not span_s > 0 or horizon < 1:
            raise InputError(f"a line through {span_s:g} s for {horizon} minutes; both must be above 0")
        self._span_s, self._horizon = span_s, horizon

    def predict(self, loads: Loads, now_s: float) -> list[float]:
        """Where the line is at the end of each of the next minutes."""
        recent = [point for point in loads if point[0] >= now_s - self._span_s] or list(loads[-1:])
        if not recent:
            return []
        line = RunningLine()
        line.restart(recent)
        most = MOST_GROWTH * max(load for _, load in recent)
        ahead = []
        for minute in range(1, self._horizon + 1):
            load = line.at(now_s + minute * MINUTE_S)
            ahead.append(recent[-1][1] if load is None else min(max(load, 0.0), most))
        return ahead
