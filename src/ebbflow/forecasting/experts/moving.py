"""Mean and maximum of a moving window."""

from __future__ import annotations

import numpy as np

from ebbflow.core.curve import Floats
from ebbflow.forecasting.experts.expert import Expert, Named
from ebbflow.forecasting.grid import Ints
from ebbflow.forecasting.history import History


class MovingMean(Expert):
    """The mean of the last ``window`` steps, at every horizon."""

    names = ("moving mean",)

    def __init__(self, window: int = 5) -> None:
        self._window = window

    def ahead(self, history: History, horizons: Ints) -> Floats:
        """The mean of the window."""
        return np.full(len(horizons), history.values[-self._window :].mean())


class MovingMaximum(Expert):
    """The maximum of the last ``window`` steps, at every horizon: the usual cautious choice of autoscalers."""

    names = ("moving maximum",)

    def __init__(self, window: int = 5) -> None:
        self._window = window

    def ahead(self, history: History, horizons: Ints) -> Floats:
        """The maximum of the window."""
        return np.full(len(horizons), history.values[-self._window :].max())


FORECASTERS: Named = {
    "moving-mean": lambda _step_s: MovingMean(),
    "moving-maximum": lambda _step_s: MovingMaximum(),
}
