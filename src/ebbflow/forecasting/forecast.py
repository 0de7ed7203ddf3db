"""The port of a forecaster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

MINUTE_S = 60.0
HORIZON_MINUTES = 5
"""How far ahead it is told what comes: a value for each minute (Elysium §5.1)."""

Loads = Sequence[tuple[float, float]]
"""(time in seconds, rows per second), oldest first."""


@runtime_checkable
class Forecast(Protocol):
    """Says what load the next minutes bring."""

    @property
    def said(self) -> str:
        """By what it went the last time, for a person."""
        ...

    def predict(self, loads: Loads, now_s: float) -> Sequence[float]:
        """Rows per second in each of the next five minutes. Nothing only where there is no load to go by."""
        ...
