"""Forecasters that have to be trained: ARIMA, boosted trees on lags, the papers' net, and PRESS."""

from __future__ import annotations

from ebbflow.forecasting.trained.arima import Arima, ArimaModel
from ebbflow.forecasting.trained.boosting import Boosting, BoostingModel
from ebbflow.forecasting.trained.net import Net, NetModel
from ebbflow.forecasting.trained.press import MarkovModel, Press, SignatureModel

AnyMethod = Arima | Boosting | Net | Press
AnyModel = ArimaModel | BoostingModel | MarkovModel | NetModel | SignatureModel

__all__ = ["AnyMethod", "AnyModel", "Arima", "Boosting", "Net", "Press"]
