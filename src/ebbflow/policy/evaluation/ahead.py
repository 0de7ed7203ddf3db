"""Forecasts for conditions about the future: of a load by the forecasters, of everything else by its trend.

A forecaster learns from the past what follows. That is right for a load, which comes from outside. A queue, the
freshness or the CPU follows from the load *and from what the rule did about it*: after every peak the rule has acted,
so a forecaster learns that peaks pass by themselves, and the rule waits for that in vain. Their line through the last
minutes (``measures.Trend``) says where they are heading as things are.

The forecaster is the default one (``forecasting.mixture``), which falls back to the last value where that is better. It
needs about a millisecond for a step, so rules on the same load and time share one.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence

import msgspec

from ebbflow.core.metrics import Metric
from ebbflow.forecasting.load_forecast import LoadForecast
from ebbflow.forecasting.registry import DEFAULT, make_forecaster
from ebbflow.policy.model import Trigger
from ebbflow.policy.values import MeasureKind

LOADS = frozenset({Metric.ARRIVAL_RATE.key})
"""Metrics that scaling does not change."""
MEDIAN = 0.5
STEPS_AHEAD = 30
"""Steps between now and the forecast time, unless readings are further apart. The mixture judges its experts at this
horizon, among others."""


class Expected(msgspec.Struct, frozen=True, gc=False):
    """A forecast value, and what it is based on."""

    value: float
    basis: str


class ConditionForecast:
    """The median of the forecast of one load, ``ahead_s`` from its last reading.

    It learns the means of even steps: a thirtieth of ``ahead_s``, or the interval of the readings if that is longer. It
    starts when readings span ``ahead_s``.

    >>> soon = ConditionForecast(80.0)
    >>> for t in range(0, 1200, 10):
    ...     soon.add(float(t), 100.0 + 10.0 * (t // 10 % 6))  # a sawtooth with a period of a minute
    >>> round(soon.expected.value, -1)  # it was 150 at 1190 s, so it will be 110 at 1270 s
    110.0
    """

    def __init__(self, ahead_s: float) -> None:
        self.ahead_s = ahead_s
        self.expected: Expected | None = None
        """The forecast for ``ahead_s`` from now; None before the first."""
        self._early: list[tuple[float, float]] = []
        """Readings before the length of a step is known."""
        self._newest_s = -math.inf
        self._load: LoadForecast | None = None

    def add(self, time_s: float, value: float) -> None:
        """Learn a reading. One that is not newer than the last is known already, from another rule."""
        if time_s <= self._newest_s:
            return
        interval_s, self._newest_s = time_s - self._newest_s, time_s
        if self._load is not None:
            self._learn(self._load, [(time_s, value)])
            return
        if interval_s > self.ahead_s + 0.01:  # too far apart for a forecast
            self._early.clear()
        self._early.append((time_s, value))
        if time_s - self._early[0][0] >= self.ahead_s - 0.01:
            gaps_s = (after - before for (before, _), (after, _) in itertools.pairwise(self._early))
            step_s = max(self.ahead_s / STEPS_AHEAD, statistics.median(gaps_s))
            self._load = LoadForecast(make_forecaster(DEFAULT, step_s), step_s=step_s)
            self._learn(self._load, self._early)
            self._early.clear()

    def _learn(self, load: LoadForecast, readings: Sequence[tuple[float, float]]) -> None:
        """Learn readings; a forecast changes only with a complete step."""
        completed = [load.add(time_s, value) for time_s, value in readings]
        if not any(completed):
            return
        forecast = load.until(self._newest_s + self.ahead_s, (MEDIAN,))
        if forecast is not None:
            self.expected = Expected(float(forecast.at(MEDIAN)[-1]), forecast.basis)


class Forecasts:
    """The forecasts of the loads in a policy, shared by conditions on the same load and time."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str, float], ConditionForecast] = {}

    def of(self, trigger: Trigger, operator: str) -> ConditionForecast | None:
        """The forecast that a trigger of a rule on an operator compares; None unless it is that of a load.

        >>> from ebbflow.policy import above, metric, minutes, per_second, rows
        >>> load, many = metric("arrival-rate"), above(per_second(rows(900)))
        >>> soon, later = (load.is_forecast_to_be(many, ahead=minutes(m)) for m in (2, 5))
        >>> forecasts = Forecasts()
        >>> forecasts.of(soon, "split") is forecasts.of(soon, "split"), forecasts.of(later, "split").ahead_s
        (True, 300.0)
        >>> print(forecasts.of(metric("backlog").is_forecast_to_be(above(rows(9)), ahead=minutes(2)), "split"))
        None
        """
        measure = trigger.measure
        if measure.kind is not MeasureKind.FORECAST or measure.span is None or trigger.metric not in LOADS:
            return None
        key = (trigger.metric, trigger.of or "", operator, measure.span.seconds)
        return self._known.setdefault(key, ConditionForecast(measure.span.seconds))
