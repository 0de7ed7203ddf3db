"""What a point forecaster has to provide. The mixture weights several; ``Single`` makes a forecaster of one.

A module of this package names the experts that can be selected alone: ``FORECASTERS = {"last-value": lambda step_s:
LastValue()}``. The registry finds them; there is no list to edit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ebbflow.core.curve import Floats
from ebbflow.forecasting.grid import Ints
from ebbflow.forecasting.history import History
from ebbflow.forecasting.state import Stateful

if TYPE_CHECKING:
    from ebbflow.forecasting.training import Trainer


class Expert(Stateful, ABC):
    """Forecasts points from the history. It is updated once per step and keeps what it needs."""

    names: tuple[str, ...]
    """One name per row of its forecasts. An expert with several settings returns several rows."""

    def update(self, history: History) -> None:
        """Learn the last step of the history. ``history.missing`` steps before it were filled."""

    @property
    def basis(self) -> str:
        """What its forecasts are based on, as a text for people."""
        return self.names[0]

    def train_with(self, trainer: Trainer) -> None:
        """Train with this trainer from now on."""

    @abstractmethod
    def ahead(self, history: History, horizons: Ints, /) -> Floats:
        """Forecast the load ``horizons`` steps ahead: one row per name, or a vector if there is one name.

        Forecasts below 0 are set to 0 by the caller.
        """


Named = Mapping[str, Callable[[float], Expert]]
"""Experts that can be selected alone, by name: functions of the length of a step in seconds."""
