"""The last value: what every other forecast has to beat."""

from __future__ import annotations

import numpy as np

from ebbflow.core.curve import Floats
from ebbflow.forecasting.experts.expert import Expert, Named
from ebbflow.forecasting.grid import Ints
from ebbflow.forecasting.history import History


class LastValue(Expert):
    """The load stays as it is: ŷ(t+h) = y(t)."""

    names = ("last value",)

    def ahead(self, history: History, horizons: Ints) -> Floats:
        """The last value at every horizon."""
        return np.full(len(horizons), history.values[-1])


FORECASTERS: Named = {"last-value": lambda _step_s: LastValue()}
