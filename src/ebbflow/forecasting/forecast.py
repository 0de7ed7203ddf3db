"""The interface of forecasters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

MINUTE_S = 60.0
HORIZON_MINUTES = 5
"""Minutes ahead, with one value each (Elysium §5.1)."""

Loads = Sequence[tuple[float, float]]
"""(time in seconds, rows per second), oldest first."""


@runtime_checkable
class Forecast(Protocol):
    """Predicts the load of the next minutes."""

    @property
    def basis(self) -> str:
        """What the last prediction was based on, as a text for people."""
        ...

    def predict(self, loads: Loads, now_s: float) -> Sequence[float]:
        """Rows per second in each of the next five minutes; empty if there are no loads."""
        ...
