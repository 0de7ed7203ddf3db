"""A forecaster made of one expert and its bands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ebbflow.core.curve import Floats
from ebbflow.forecasting.bands import TRACKED, Bands
from ebbflow.forecasting.experts.expert import Expert
from ebbflow.forecasting.grid import GRID
from ebbflow.forecasting.history import History
from ebbflow.forecasting.made import Made
from ebbflow.forecasting.port import LEVELS, Forecast, Forecaster

if TYPE_CHECKING:
    from ebbflow.forecasting.training import Trainer


@dataclass(frozen=True, kw_only=True, eq=False)
class _Points:
    """Points and the limits of their bands, one row per horizon of the grid."""

    points: Floats
    limits: Floats


class Single(Forecaster):
    """One expert's points with conformal bands of its own errors.

    >>> from ebbflow.forecasting.experts.last_value import LastValue
    >>> last = Single("last-value", LastValue(), 60.0)
    >>> for minute, load in enumerate((100.0, 110.0, 100.0, 90.0, 100.0)):
    ...     last.learn(60.0 * (minute + 1), load)
    >>> last.forecast(2).at(0.5).tolist()
    [100.0, 100.0]
    """

    def __init__(self, name: str, expert: Expert, step_s: float) -> None:
        if len(expert.names) != 1:
            raise ValueError(f"{name} has {len(expert.names)} rows; a single forecaster has one")
        self.name = name
        self._step_s = step_s
        self._expert = expert
        self._history = History(step_s)
        self._bands = Bands()
        self._made = Made(_Points, points=(), limits=(len(TRACKED),))

    def learn(self, time_s: float, value: float) -> None:
        """Learn the mean load of the step that ends at ``time_s``."""
        history = self._history
        if not history.push(time_s, value):
            return
        if history.seen == 1:
            self._bands.start(value)
        else:
            due = self._made.due(history.index)
            self._bands.learn(value, due.tables.points, due.tables.limits, due.valid)
        self._expert.update(history)
        points = np.maximum(self._expert.ahead(history, GRID).ravel(), 0.0)
        self._made.keep(history.index, _Points(points=points, limits=self._bands.limits(points)))

    def train_with(self, trainer: Trainer) -> None:
        """Train with this trainer from now on."""
        self._expert.train_with(trainer)

    def forecast(self, steps: int, levels: Sequence[float] = LEVELS) -> Forecast | None:
        """Forecast the next steps; None before the first value."""
        history = self._history
        if not history.seen:
            return None
        horizons = np.arange(1, steps + 1)
        points = np.maximum(self._expert.ahead(history, horizons).ravel(), 0.0)
        return Forecast(
            start_s=history.end_s,
            step_s=self._step_s,
            levels=tuple(levels),
            values=self._bands.at(np.asarray(levels, dtype=np.float64), points, horizons),
            basis=self._expert.basis,
        )
