"""The port of forecasters: learn a reading, forecast a horizon as quantiles.

A forecaster works on even steps of ``step_s`` seconds, given to its constructor. ``Steps`` makes them from readings.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ebbflow.core.curve import Floats
from ebbflow.errors import InputError
from ebbflow.forecasting.state import Stateful

if TYPE_CHECKING:
    from ebbflow.forecasting.training import Trainer

LEVELS = (0.05, 0.5, 0.95)
"""Quantiles of a forecast unless others are requested: the median and the limits of a 90 % band."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Forecast:
    """The load of the next steps, as quantiles.

    >>> loads = np.array([[90.0, 95.0], [110.0, 130.0]])
    >>> ahead = Forecast(start_s=600.0, step_s=60.0, levels=(0.5, 0.95), values=loads, basis="an example")
    >>> ahead.at(0.5).tolist(), ahead.highest(0.95), ahead.ends_s.tolist()
    ([90.0, 95.0], 130.0, [660.0, 720.0])
    """

    start_s: float
    """End of the last step that was learned."""
    step_s: float
    levels: tuple[float, ...]
    values: Floats
    """One row per level, one column per step: the mean load in that step, in rows per second. Not negative, and not
    decreasing from one level to the next."""
    basis: str
    """What the forecast is based on, as a text for people; the ledger quotes it."""

    @property
    def ends_s(self) -> Floats:
        """End of each step."""
        return self.start_s + self.step_s * np.arange(1, self.values.shape[1] + 1)

    def at(self, level: float) -> Floats:
        """One quantile of every step."""
        if level not in self.levels:
            known = ", ".join(f"{each:g}" for each in self.levels)
            raise InputError(f"the forecast has no quantile {level:g}; it has {known}")
        return np.asarray(self.values[self.levels.index(level)])

    def highest(self, level: float) -> float:
        """The highest value of one quantile."""
        return float(self.at(level).max())


class Forecaster(Stateful, ABC):
    """Forecasts a load. Subclasses need a ``name``, ``learn`` and ``forecast``.

    It works from the first step on: with one value it forecasts that value. Nothing it does takes longer than a cycle
    may; what has to be trained is trained elsewhere (``training``). ``state`` and ``restore`` save and continue what it
    learned, as plain values; override them if it keeps more than numbers, arrays and other ``Stateful`` objects.
    """

    name: str

    @abstractmethod
    def learn(self, time_s: float, value: float) -> None:
        """Learn the mean load of the step that ends at ``time_s``.

        Steps come in order. A missing step is skipped, so a time more than one step after the last one is a gap. Values
        that are not finite or negative, and times not after the last one, are ignored.
        """

    @abstractmethod
    def forecast(self, steps: int, levels: Sequence[float] = LEVELS) -> Forecast | None:
        """Forecast the next steps; None before the first value."""

    def train_with(self, trainer: Trainer) -> None:
        """Train with this trainer from now on. A running job passes one that works in the background; without one,
        forecasters that are trained do so while they learn a step."""
