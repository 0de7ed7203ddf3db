"""Factories of the forecasters that learn at every step and need no training."""

from __future__ import annotations

from ebbflow.forecasting.experts.autoregression import Autoregression
from ebbflow.forecasting.experts.damped_trend import DampedTrend
from ebbflow.forecasting.experts.holt_winters import HoltWinters
from ebbflow.forecasting.experts.jumps import Jumps
from ebbflow.forecasting.experts.last_value import LastValue
from ebbflow.forecasting.experts.moving import MovingMaximum, MovingMean
from ebbflow.forecasting.experts.seasonal_naive import LastPeriod
from ebbflow.forecasting.experts.smoothing import Smoothing
from ebbflow.forecasting.mixture import Mixture
from ebbflow.forecasting.port import Forecaster
from ebbflow.forecasting.single import Single


def mixture(step_s: float, _seed: int) -> Forecaster:
    """The default: a mixture of the others."""
    return Mixture(step_s)


def last_value(step_s: float, _seed: int) -> Forecaster:
    """The load stays as it is."""
    return Single("last-value", LastValue(), step_s)


def moving_mean(step_s: float, _seed: int) -> Forecaster:
    """Mean of the last five steps."""
    return Single("moving-mean", MovingMean(), step_s)


def moving_maximum(step_s: float, _seed: int) -> Forecaster:
    """Maximum of the last five steps."""
    return Single("moving-maximum", MovingMaximum(), step_s)


def damped_trend(step_s: float, _seed: int) -> Forecaster:
    """Holt's trend, damped."""
    return Single("damped-trend", DampedTrend(), step_s)


def smoothing(step_s: float, _seed: int) -> Forecaster:
    """Simple exponential smoothing."""
    return Single("smoothing", Smoothing(0.3), step_s)


def holt_winters(step_s: float, _seed: int) -> Forecaster:
    """Level, damped trend and the season of the strongest period."""
    return Single("holt-winters", HoltWinters(), step_s)


def seasonal_naive(step_s: float, _seed: int) -> Forecaster:
    """The load one period ago: the found period, else a day."""
    return Single("seasonal-naive", LastPeriod(), step_s)


def jumps(step_s: float, _seed: int) -> Forecaster:
    """The last value plus jumps that recur at this minute of the hour or the day."""
    return Single("jumps", Jumps(), step_s)


def autoregression(step_s: float, _seed: int) -> Forecaster:
    """Ridge regression on lags, periods and the time of day."""
    return Single("autoregression", Autoregression(step_s), step_s)
