"""Signals during the launch of the driver's JVM are deferred until it is up."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import SparkContext

from ebbflow.targets.spark.launch.session import deferred_signals
from ebbflow.targets.spark.launch.submit import run_script

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class EndedError(Exception):
    """What the handlers of these tests raise."""


@pytest.fixture
def handled() -> Iterator[None]:
    """Every signal raises."""

    def end(number: int, _: Any) -> None:
        raise EndedError(signal.Signals(number).name)

    before = {number: signal.signal(number, end) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("handled")
@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_is_deferred_to_the_end_of_the_block(number: signal.Signals) -> None:
    done: list[str] = []

    @deferred_signals()
    def launch() -> None:
        signal.raise_signal(number)
        signal.raise_signal(signal.SIGINT)
        done.append("all of it")

    with pytest.raises(EndedError, match=number.name):
        launch()
    assert done == ["all of it"]
    with pytest.raises(EndedError, match=number.name):
        signal.raise_signal(number)


@pytest.mark.usefixtures("handled")
def test_a_deferred_signal_wins_over_an_error_in_the_block() -> None:
    @deferred_signals()
    def launch() -> None:
        signal.raise_signal(signal.SIGTERM)
        raise RuntimeError("the JVM did not start")

    with pytest.raises(EndedError, match="SIGTERM"):
        launch()


@pytest.mark.usefixtures("handled")
def test_without_a_signal_nothing_happens() -> None:
    with deferred_signals():
        pass
    with pytest.raises(RuntimeError, match="the JVM did not start"), deferred_signals():
        raise RuntimeError("the JVM did not start")


@pytest.mark.usefixtures("handled")
def test_an_ignored_signal_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with deferred_signals():
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        signal.raise_signal(signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


def test_another_thread_leaves_the_handlers_alone() -> None:
    unchanged: list[bool] = []

    def work() -> None:
        before = [signal.getsignal(number) for number in SIGNALS]
        with deferred_signals():
            unchanged.append(before == [signal.getsignal(number) for number in SIGNALS])

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(10)
    assert unchanged == [True]


@pytest.fixture
def not_under_nohup() -> Iterator[None]:
    """Under nohup SIGHUP would stay ignored."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("not_under_nohup")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_script_terminated_while_its_jvm_is_launched_ends_once_the_jvm_is_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: signal.Signals
) -> None:
    launched: list[str] = []

    def launch(conf: Any = None) -> Any:
        signal.raise_signal(number)
        launched.append("whole")
        return SimpleNamespace(jvm=None)

    where = sys.modules[SparkContext.__module__]
    monkeypatch.setattr(where, "launch_gateway", launch)
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setattr(SparkContext, "_jvm", None)
    script = tmp_path / "job.py"
    script.write_text(
        "from pyspark import SparkContext\nSparkContext._ensure_initialized()\nprint('not reached')\n"
    )
    code = run_script(script, [], master="spark://h:7077", settings={}, on_session=lambda session: None)
    assert code == 128 + number
    assert launched == ["whole"]
    assert where.launch_gateway is launch, "PySpark is left as it was"
