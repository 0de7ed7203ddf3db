"""Training: a new model replaces the one in use only if it is better, and never delays the loop."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Iterator

import numpy as np
import psutil
import pytest

from ebbflow.core.clock import SystemClock, wait_until
from ebbflow.core.curve import Floats
from ebbflow.errors import InputError
from ebbflow.forecasting import make_forecaster
from ebbflow.forecasting.experts.trained import TrainedExpert
from ebbflow.forecasting.history import History
from ebbflow.forecasting.single import Single
from ebbflow.forecasting.trained import Arima, Boosting, Net, Press
from ebbflow.forecasting.trained.arima import ArimaModel
from ebbflow.forecasting.trained.model import TrainingLoad
from ebbflow.forecasting.trained.press import SignatureModel
from ebbflow.forecasting.training import Background, Inline, Job, Ticket, TrainingResult, train
from ebbflow.testing import check_forecaster


def daily(days: float, seed: int = 0) -> Floats:
    minutes = np.arange(int(days * 1440))
    noise = np.random.default_rng(seed).normal(0, 20, len(minutes))
    return np.maximum(0.0, 500.0 + 300.0 * np.sin(2 * np.pi * minutes / 1440) + noise)


def load(values: Floats) -> TrainingLoad:
    return TrainingLoad.of(values, end_s=60.0 * len(values), step_s=60.0)


class Manual:
    """A clock in seconds that a test moves."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Manual:
    return Manual()


@pytest.fixture
def background(clock: Manual) -> Iterator[Background]:
    trainer = Background(limit_s=30.0, clock=clock)
    yield trainer
    trainer.close()


def finished(trainer: Background, ticket: Ticket) -> TrainingResult:
    system = SystemClock()

    def done() -> bool:
        trainer.step()
        return ticket.poll() is not None

    assert wait_until(done, system, within_s=60.0)
    result = ticket.poll()
    assert result is not None
    return result


def test_a_better_model_is_taken_and_fitted_to_everything() -> None:
    result = train(Job(method=Press(), series=load(np.tile(np.arange(20.0), 12) + 50.0)))
    assert result.model == SignatureModel(start_s=220 * 60.0, loads=tuple(np.arange(20.0) + 50.0))
    assert result.reason.startswith("trained on 240 steps: error 0.00 × that of the last value on 72 steps")


def test_a_model_worse_than_the_one_in_use_is_discarded() -> None:
    values = np.tile(np.arange(20.0), 12) + 50.0
    in_use = SignatureModel(start_s=0.0, loads=tuple(np.arange(20.0) + 50.0))
    result = train(Job(method=Arima(), series=load(values), model=in_use, trained_until_s=190 * 60.0))
    assert result.model is None
    assert "discarded" in result.reason
    assert "on 50 steps, the model in use 0.00" in result.reason
    # Without the one in use it would have been taken.
    assert train(Job(method=Arima(), series=load(values))).model is not None


def test_a_load_that_cannot_be_foreseen_keeps_the_last_value() -> None:
    walk = 1000.0 + np.random.default_rng(4).choice([-1.0, 1.0], 2000).cumsum()
    result = train(Job(method=Press(), series=load(walk)))
    assert result.model is None
    assert "discarded: error" in result.reason


def test_too_few_steps_are_refused() -> None:
    with pytest.raises(InputError, match="100 steps are too few to train and test; wait for"):
        train(Job(method=Net(), series=load(daily(100 / 1440))))


def test_a_background_job_gives_the_same_model_as_an_inline_one(background: Background) -> None:
    job = Job(method=Boosting(trees=10), series=load(daily(2)))
    ticket = background.submit(job)
    assert finished(background, ticket) == Inline().submit(job).poll()


def test_a_killed_training_leaves_the_model_in_use(
    background: Background, caplog: pytest.LogCaptureFixture
) -> None:
    slow = Net(epochs=100_000, patience=100_000, most_work=10**9)
    expert, history = TrainedExpert("net", slow), History(60.0)
    in_use = ArimaModel(differences=1, constant=0.0, ar=(0.5,), ma=())
    expert.restore({"model": {"type": "arima", "differences": 1, "constant": 0.0, "ar": [0.5], "ma": []},
                    "trained_until_s": 0.0, "trained": "", "next": 300, "outcome": ""})  # fmt: skip
    expert.train_with(background)
    for minute, value in enumerate(daily(300 / 1440), start=1):
        history.push(60.0 * minute, float(value))
        expert.update(history)
    ticket = expert._ticket
    assert ticket is not None
    assert ticket.pid is None, "the process starts between cycles"  # type: ignore[attr-defined]
    background.step()
    assert ticket.poll() is None, "it runs"
    os.kill(ticket.pid, signal.SIGKILL)  # type: ignore[attr-defined]
    assert finished(background, ticket).reason == "failed: signal 9"
    history.push(301 * 60.0, 500.0)
    with caplog.at_level(logging.WARNING, "ebbflow"):
        expert.update(history)
    assert "forecaster net: failed: signal 9" in caplog.text
    assert expert.model == in_use


def test_a_training_beyond_its_time_is_ended(background: Background, clock: Manual) -> None:
    slow = Net(epochs=100_000, patience=100_000, most_work=10**9)
    ticket = background.submit(Job(method=slow, series=load(daily(1))))
    waiting = background.submit(Job(method=Press(), series=load(daily(1))))
    background.step()
    pid = ticket.pid  # type: ignore[attr-defined]
    assert psutil.pid_exists(pid)
    clock.now_s = 29.0
    background.step()
    assert ticket.poll() is None
    assert waiting.pid is None, "one job at a time"  # type: ignore[attr-defined]
    clock.now_s = 31.0
    assert finished(background, ticket).reason == "discarded: not done within 30 s"
    assert not psutil.pid_exists(pid)
    assert finished(background, waiting).error_ratio is not None


def test_a_training_beyond_its_memory_fails_with_a_reason() -> None:
    trainer = Background(memory_mb=60.0)
    hungry = Net(most_examples=40_000, hidden=200, epochs=5)
    reason = finished(trainer, trainer.submit(Job(method=hungry, series=load(daily(30))))).reason
    assert reason.startswith("failed: ")
    assert "memory" in reason.lower() or "allocate" in reason.lower()


def test_closing_ends_the_process(background: Background) -> None:
    slow = Net(epochs=100_000, patience=100_000, most_work=10**9)
    ticket = background.submit(Job(method=slow, series=load(daily(1))))
    background.step()
    pid = ticket.pid  # type: ignore[attr-defined]
    background.close()
    assert not psutil.pid_exists(pid)
    result = ticket.poll()
    assert result is not None
    assert result.reason == "cancelled"


def test_learning_and_forecasting_go_on_while_a_training_runs(background: Background) -> None:
    forecaster = Single("boosting", TrainedExpert("boosting", Boosting(trees=40)), 60.0)
    forecaster.train_with(background)
    values = daily(1)
    longest_s = 0.0
    expert = forecaster._expert
    assert isinstance(expert, TrainedExpert)
    for minute, value in enumerate(values, start=1):
        began_s = time.thread_time()  # other processes of this machine do not count
        forecaster.learn(60.0 * minute, float(value))
        forecaster.forecast(30)
        longest_s = max(longest_s, time.thread_time() - began_s)
        background.step()
    assert longest_s < 0.05, "inline, the training alone takes longer"
    system = SystemClock()
    minute = len(values)

    def learned() -> bool:
        nonlocal minute
        minute += 1
        forecaster.learn(60.0 * minute, float(values[minute % 1440]))
        background.step()
        return expert.model is not None

    assert wait_until(learned, system, within_s=60.0)


def test_training_is_due_when_the_history_has_doubled_and_then_once_a_day() -> None:
    class Counting:
        def __init__(self) -> None:
            self.sizes: list[int] = []

        def submit(self, job: Job) -> Ticket:
            self.sizes.append(len(job.series))
            return Inline().submit(Job(method=Press(), series=load(np.ones(100))))

    counting, history = Counting(), History(60.0)
    expert = TrainedExpert("press", Press(), counting)
    for minute in range(1, 5000):
        history.push(60.0 * minute, 5.0)
        expert.update(history)
    assert counting.sizes == [80, 160, 320, 640, 1280, 2560, 4000]


def test_the_basis_says_what_was_trained_or_why_nothing_is() -> None:
    forecaster = Single("press", TrainedExpert("press", Press()), 60.0)

    def basis(until: int, values: Floats) -> str:
        for minute in range(until - len(values) + 1, until + 1):
            forecaster.learn(60.0 * minute, float(values[minute - until - 1]))
        made = forecaster.forecast(1)
        assert made is not None
        return made.basis

    waves = np.tile(np.arange(10.0), 40) + 50.0
    assert basis(79, waves[:79]) == "last value, because press is not trained yet"
    assert basis(80, waves[79:80]) == (
        "press, trained on 80 steps: error 0.00 × that of the last value on 50 steps, the last value 1.00"
    )


@pytest.mark.parametrize(
    "method",
    [Arima(), Boosting(trees=5), Net(epochs=5), Press()],
    ids=lambda each: type(each).__name__.lower(),
)
def test_trained_forecasters_keep_the_contract(method: Arima | Boosting | Net | Press) -> None:
    name = type(method).__name__.lower()
    check_forecaster(lambda step_s: Single(name, TrainedExpert(name, method), step_s))
    assert make_forecaster(name, 60.0).name == name
