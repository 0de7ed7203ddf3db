"""The load of a datastore: readings in, the largest load of any time ahead out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ebbflow.core.curve import Curve
from ebbflow.forecasting.approximated import Percentile
from ebbflow.forecasting.load_forecast import MOST_STEPS
from ebbflow.forecasting.port import Forecast
from ebbflow.forecasting.registry import make_forecaster
from ebbflow.forecasting.steps import Steps

if TYPE_CHECKING:
    from ebbflow.forecasting.training import Trainer


@dataclass(frozen=True)
class LoadAhead:
    """A load from now on, as a curve: the present one, then the forecast of each step at the middle of the step."""

    curve: Curve
    basis: str

    @classmethod
    def of(
        cls, now_s: float, present_per_s: float, forecast: Forecast | None, level: float, speed: float
    ) -> LoadAhead:
        """From a forecast made in the time of the calendar, which passes ``speed`` times as fast."""
        if forecast is None:
            return cls(Curve.of([(now_s, present_per_s)]), "the present load")
        middles_s = (forecast.ends_s - forecast.step_s / 2) / speed
        later = middles_s > now_s
        times_s = np.concatenate(([now_s], middles_s[later]))
        rates = np.concatenate(([present_per_s], forecast.at(level)[later]))
        return cls(Curve(times_s, rates), forecast.basis)

    def largest(self, since_s: float, until_s: float) -> float:
        """The largest load between two times.

        >>> ahead = LoadAhead(Curve.of([(0.0, 10.0), (60.0, 40.0), (120.0, 20.0)]), "")
        >>> ahead.largest(0.0, 30.0), ahead.largest(30.0, 90.0), ahead.largest(90.0, 90.0)
        (25.0, 40.0, 30.0)
        """
        times_s, rates = self.curve.times_s, self.curve.values
        inside = rates[(times_s > since_s) & (times_s < until_s)]
        edges = self.curve.interpolated(np.asarray([since_s, until_s]))
        return float(max(edges.max(), inside.max(initial=0.0)))

    def overload(self, holds_per_s: float, tolerance_s: float) -> tuple[float, float] | None:
        """(start, end) of the first time in which the load stays above a rate and more than ``tolerance_s`` seconds of
        work pile up; None if there is none. The end is infinite if the curve ends above the rate.

        >>> ahead = LoadAhead(Curve.of([(0.0, 90.0), (8.0, 120.0), (16.0, 80.0), (24.0, 120.0)]), "")
        >>> ahead.overload(64.0, 5.0), ahead.overload(128.0, 0.0)
        ((0.0, inf), None)
        >>> tuple(map(round, ahead.overload(100.0, 0.1))), ahead.overload(100.0, 9.0)
        ((3, 12), (20.0, inf))
        """
        times_s, over = self.curve.times_s, self.curve.values / holds_per_s - 1.0
        start_s, work_s = (float(times_s[0]) if over[0] > 0 else None), 0.0
        for k in range(1, len(times_s)):
            before, after = float(over[k - 1]), float(over[k])
            began_s, ended_s = float(times_s[k - 1]), float(times_s[k])
            crosses_s = (
                began_s + (ended_s - began_s) * before / (before - after) if before != after else ended_s
            )
            if start_s is None and after > 0:
                start_s, work_s = crosses_s, (ended_s - crosses_s) * after / 2
            elif start_s is not None and after > 0:
                work_s += (ended_s - began_s) * (before + after) / 2
            elif start_s is not None:
                work_s += (crosses_s - began_s) * before / 2
                if work_s > tolerance_s:
                    return start_s, crosses_s
                start_s, work_s = None, 0.0
        return None if start_s is None else (start_s, math.inf)


class LoadModel:
    """Learns a load in even steps as its approximated trace, and forecasts it.

    Forecasters know the calendar. A trace that is replayed faster passes ``speed`` seconds of it in a second.
    """

    def __init__(
        self,
        forecaster: str,
        *,
        step_s: float,
        percentile_over_s: float,
        speed: float,
        levels: Sequence[float],
    ) -> None:
        self.step_s = step_s
        self._speed, self._levels = speed, tuple(levels)
        self._steps = Steps(step_s)
        self._edge = Percentile(steps=round(percentile_over_s / step_s)) if percentile_over_s else None
        self._forecaster = make_forecaster(forecaster, step_s * speed)
        self._present_per_s: float | None = None
        self._learned_s = -math.inf
        self._known: tuple[Forecast | None, float] = (None, -math.inf)
        """The last forecast, and until when it reaches."""

    @property
    def present_per_s(self) -> float | None:
        """The load of the last step; None before the first."""
        return self._present_per_s

    def train_with(self, trainer: Trainer) -> None:
        """Train with this trainer from now on."""
        self._forecaster.train_with(trainer)

    def add(self, readings: Iterable[tuple[float, float]]) -> None:
        """Add readings (time, rate)."""
        for time_s, rate_per_s in readings:
            for end_s, mean_per_s in self._steps.add(time_s, rate_per_s):
                self.learn(end_s, mean_per_s)

    def learn(self, end_s: float, mean_per_s: float) -> None:
        """Learn the mean load of a step."""
        self._present_per_s = mean_per_s if self._edge is None else self._edge.add(mean_per_s)
        self._forecaster.learn(self._speed * end_s, self._present_per_s)
        self._learned_s = end_s
        self._known = (None, -math.inf)

    def ahead(self, now_s: float, until_s: float, level: float) -> LoadAhead:
        """The load from now until a time, at a quantile of the forecast."""
        assert self._present_per_s is not None, "nothing was learned yet"
        found, reach_s = self._known
        if found is None or reach_s < until_s:
            steps = max(1, math.ceil((until_s - self._learned_s) / self.step_s - 1e-9) + 1)
            found = self._forecaster.forecast(min(steps, MOST_STEPS), self._levels)
            self._known = (found, self._learned_s + steps * self.step_s)
        return LoadAhead.of(now_s, self._present_per_s, found, level, self._speed)
