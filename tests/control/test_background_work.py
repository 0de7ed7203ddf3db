"""Work in the background of a running job: stepped between cycles, ended with the loop."""

from __future__ import annotations

import pytest
from attach_parts import parts_of

from ebbflow.core.decision import Decision, hold
from ebbflow.core.ports import BackgroundWork, Strategy
from ebbflow.core.snapshot import Snapshot
from ebbflow.forecasting.experts.trained import TrainedExpert
from ebbflow.forecasting.single import Single
from ebbflow.forecasting.training import Background
from ebbflow.strategies import make_strategy
from ebbflow.strategies.proactive import Proactive


class Work:
    def __init__(self) -> None:
        self.done: list[str] = []

    def step(self) -> None:
        self.done.append("step")

    def close(self) -> None:
        self.done.append("close")


class Working(Strategy):
    name = "working"

    def __init__(self) -> None:
        self.work = Work()

    def in_background(self) -> BackgroundWork:
        return self.work

    def decide(self, snapshot: Snapshot) -> Decision:
        return hold(snapshot.planned, "nothing to do", "n = n")


def test_attach_steps_the_work_of_a_strategy_after_each_cycle_and_ends_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    strategy, seen = Working(), []
    parts = parts_of(monkeypatch, strategy=strategy, on_cycle=seen.append)
    assert strategy.work.done == ["close"], "the loop of this test runs no cycle before it is stopped"
    parts["on_cycle"]("report")
    assert (strategy.work.done, seen) == (["close", "step"], ["report"])


def test_forecasters_are_trained_in_the_background_only_if_the_loop_says_so() -> None:
    strategy = Proactive(forecaster="boosting")

    def trainer() -> object:
        forecast = strategy._known._arrivals_of("app").forecast
        assert forecast is not None
        assert isinstance(forecast.forecaster, Single)
        assert isinstance(forecast.forecaster._expert, TrainedExpert)
        return forecast.forecaster._expert._trainer

    assert not isinstance(trainer(), Background)
    work = strategy.in_background()
    assert isinstance(work, Background)
    assert trainer() is work
    assert make_strategy("symbiotic").in_background() is None
