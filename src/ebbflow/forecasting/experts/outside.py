"""A forecaster as an expert of the mixture."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ebbflow.core.curve import Floats
from ebbflow.forecasting.experts.expert import Expert
from ebbflow.forecasting.grid import Ints
from ebbflow.forecasting.history import History
from ebbflow.forecasting.port import Forecaster

if TYPE_CHECKING:
    from ebbflow.forecasting.training import Trainer


class Outside(Expert):
    """The median of any ``Forecaster``. As long as it has none, the last value."""

    def __init__(self, forecaster: Forecaster) -> None:
        self.names = (forecaster.name,)
        self._forecaster = forecaster

    def update(self, history: History) -> None:
        """Pass the last step on."""
        self._forecaster.learn(history.end_s, float(history.values[-1]))

    def train_with(self, trainer: Trainer) -> None:
        """Pass the trainer on."""
        self._forecaster.train_with(trainer)

    def ahead(self, history: History, horizons: Ints) -> Floats:
        """The forecaster's median."""
        made = self._forecaster.forecast(int(horizons[-1]), (0.5,))
        if made is None:
            return np.full(len(horizons), history.values[-1])
        return np.asarray(made.at(0.5)[horizons - 1])
