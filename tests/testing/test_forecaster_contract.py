"""The contract of forecasters, kept by the built-in ones and broken by bad ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from ebbflow.forecasting import FORECASTERS, LEVELS, Forecast, Forecaster, make_forecaster
from ebbflow.forecasting.experts.trained import TrainedExpert
from ebbflow.forecasting.single import Single
from ebbflow.testing import check_forecaster


def is_trained(forecaster: Forecaster) -> bool:
    return isinstance(forecaster, Single) and isinstance(forecaster._expert, TrainedExpert)


CHEAP = [name for name in FORECASTERS if not is_trained(make_forecaster(name, 60.0))]


@pytest.mark.parametrize("name", CHEAP)
def test_built_in_forecasters_keep_the_contract(name: str) -> None:
    assert name in FORECASTERS
    check_forecaster(lambda step_s: make_forecaster(name, step_s))


class Echo(Forecaster):
    """The last value, with a fault."""

    name = "echo"

    def __init__(self, fault: str) -> None:
        self.fault = fault
        self.end_s: float | None = None
        self.last = 0.0

    def learn(self, time_s: float, value: float) -> None:
        if self.end_s is None or (time_s > self.end_s and np.isfinite(value) and value >= 0):
            self.end_s, self.last = time_s, value
        elif self.fault == "believes bad readings":
            self.last = value

    def forecast(self, steps: int, levels: Sequence[float] = LEVELS) -> Forecast | None:
        if self.end_s is None:
            return None
        values = np.full((len(levels), steps), self.last)
        if self.fault == "negative":
            values -= 200.0
        if self.fault == "not ordered":
            values[0] += 1.0
        if self.fault == "not a number":
            values[:] = np.nan
        if self.fault == "does not scale":
            values += 1.0 if self.last > 1e3 else 0.0
            values = values if self.last < 1e3 else values + 1e5
        if self.fault == "changes itself":
            self.last *= 1.001
        return Forecast(start_s=self.end_s, step_s=60.0, levels=tuple(levels), values=values, basis="echo")


def test_the_last_value_without_a_fault_keeps_the_contract() -> None:
    check_forecaster(lambda _: Echo("none"))


@pytest.mark.parametrize(
    "fault",
    ["believes bad readings", "negative", "not ordered", "not a number", "does not scale", "changes itself"],
)
def test_faults_are_found(fault: str) -> None:
    with pytest.raises(AssertionError):
        check_forecaster(lambda _: Echo(fault))
