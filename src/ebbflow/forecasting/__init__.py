"""What load comes next: forecasters, and a mixture of them that is used while it beats the last value.

``make_forecaster(name, step_s)`` creates one; ``FORECASTERS`` names all. The port is ``Forecaster``; ``Steps`` makes
even steps of readings.
"""

from __future__ import annotations

from ebbflow.forecasting.port import LEVELS, Forecast, Forecaster
from ebbflow.forecasting.registry import FORECASTERS, make_forecaster
from ebbflow.forecasting.steps import Steps

__all__ = ["FORECASTERS", "LEVELS", "Forecast", "Forecaster", "Steps", "make_forecaster"]
