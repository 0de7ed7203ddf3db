"""A forecaster that always forecasts the same loads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ebbflow.forecasting.port import LEVELS, Forecast, Forecaster


class Foreseen(Forecaster):
    """Forecasts these loads for the next steps, the last of them from then on. All quantiles are equal."""

    name = "foreseen"

    def __init__(self, *loads_per_s: float, step_s: float = 10.0, basis: str = "an oracle") -> None:
        self._loads, self._step_s, self._basis = loads_per_s, step_s, basis
        self.learned: list[tuple[float, float]] = []

    def learn(self, time_s: float, value: float) -> None:
        self.learned.append((time_s, value))

    def forecast(self, steps: int, levels: Sequence[float] = LEVELS) -> Forecast | None:
        if not self.learned:
            return None
        ahead = [self._loads[min(k, len(self._loads) - 1)] for k in range(steps)]
        return Forecast(
            start_s=self.learned[-1][0],
            step_s=self._step_s,
            levels=tuple(levels),
            values=np.asarray([ahead] * len(levels)),
            basis=self._basis,
        )
