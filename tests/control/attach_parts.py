"""``attach`` without Spark and without a running loop."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from fake_target import FakeTarget

from ebbflow.control import attach as module
from ebbflow.core.clock import ManualClock


def session(**settings: str) -> Any:
    """A session with an application and some Spark settings."""
    conf = SimpleNamespace(getAll=lambda: list(settings.items()))
    return SimpleNamespace(sparkContext=SimpleNamespace(applicationId="app-1", getConf=lambda: conf))


SESSION: Any = session()


def parts_of(monkeypatch: pytest.MonkeyPatch, spark: Any = SESSION, **how: Any) -> dict[str, Any]:
    """The parts of the loop that ``attach`` makes, and under ``target`` the arguments of the Spark target."""
    made: list[dict[str, Any]] = []
    target_arguments: dict[str, Any] = {}

    class Loop:
        def __init__(self, **parts: Any) -> None:
            made.append(parts)

        def run(self, stop: threading.Event) -> None:
            """Nothing to do."""

    monkeypatch.setattr(module, "ControlLoop", Loop)

    def target(*_: Any, **arguments: Any) -> FakeTarget:
        target_arguments.update(arguments)
        return FakeTarget(ManualClock(), 1)

    monkeypatch.setattr("ebbflow.targets.spark.target.SparkTarget", target)
    module.attach(spark, **how).stop()
    return {**made[0], "target": target_arguments}
