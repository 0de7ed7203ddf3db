"""An application has one loop, and an ended loop is dropped."""

from __future__ import annotations

import gc
import logging
import threading
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from fake_target import FakeTarget

from ebbflow.control import attach as module
from ebbflow.control.attached import _RUNNING, Attached
from ebbflow.core.clock import ManualClock


@pytest.fixture
def over(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Loops run until they are stopped, or until this is set: then their application has ended."""
    gone = threading.Event()

    class Loop:
        def __init__(self, **parts: Any) -> None:
            """Accept any arguments."""

        def run(self, stop: threading.Event) -> None:
            while not (stop.wait(0.001) or gone.is_set()):
                pass

    monkeypatch.setattr(module, "ControlLoop", Loop)
    monkeypatch.setattr(
        "ebbflow.targets.spark.target.SparkTarget", lambda *_, **__: FakeTarget(ManualClock(), 1)
    )
    return gone


def attached(application: str) -> Attached:
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(applicationId=application))
    return module.attach(session)


def test_a_loop_without_a_reference_goes_on_until_the_next_replaces_it(
    over: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    first = weakref.ref(attached("app-1"))
    gc.collect()
    assert (before := first()) is not None
    assert before.active
    with caplog.at_level(logging.WARNING, "ebbflow"):
        second = attached("app-1")
    assert "replaces the old one" in caplog.text
    assert not before.active
    assert _RUNNING["app-1"] is second
    second.stop()
    assert "app-1" not in _RUNNING


def test_a_loop_that_ends_with_its_application_is_dropped(
    over: threading.Event, wait: Callable[..., None]
) -> None:
    loops = [attached("app-1"), attached("app-2")]
    assert _RUNNING.keys() >= {"app-1", "app-2"}
    over.set()
    wait(lambda: not any(each.active for each in loops), "both loops to end", 10)
    assert not _RUNNING.keys() & {"app-1", "app-2"}
    for each in loops:
        each.stop()
