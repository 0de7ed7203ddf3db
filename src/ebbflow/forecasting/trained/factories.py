"""Factories of the trained forecasters, by name in the registry."""

from __future__ import annotations

from ebbflow.forecasting.experts.trained import Trained
from ebbflow.forecasting.port import Forecaster
from ebbflow.forecasting.single import Single
from ebbflow.forecasting.trained.arima import Arima
from ebbflow.forecasting.trained.boosting import Boosting
from ebbflow.forecasting.trained.net import ELYSIUM, Net
from ebbflow.forecasting.trained.press import Press


def arima(step_s: float, _seed: int) -> Forecaster:
    """ARIMA on the square root of the load."""
    return Single("arima", Trained("arima", Arima()), step_s)


def boosting(step_s: float, seed: int) -> Forecaster:
    """Gradient-boosted trees on lags, seasons and calendar."""
    return Single("boosting", Trained("boosting", Boosting(seed=seed)), step_s)


def pascal_net(step_s: float, seed: int) -> Forecaster:
    """The net of Pascal: 4 time features and 10 lags of 5 steps."""
    return Single("net", Trained("net", Net(seed=seed)), step_s)


def elysium_net(step_s: float, seed: int) -> Forecaster:
    """The net of Elysium: 3 time features and 10 lags of a step."""
    return Single(
        "elysium-net", Trained("elysium-net", Net(features=ELYSIUM, lag_steps=1, seed=seed)), step_s
    )


def press(step_s: float, _seed: int) -> Forecaster:
    """PRESS: a repeating signature, else a Markov chain."""
    return Single("press", Trained("press", Press()), step_s)
