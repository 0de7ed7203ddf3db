"""``attach`` without Spark and without a loop: what it would have made the loop of."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from fake_target import FakeTarget

from ebbflow.control import attach as module
from ebbflow.core.clock import ManualClock

SESSION: Any = SimpleNamespace(sparkContext=SimpleNamespace(applicationId="app-1"))


def parts_of(monkeypatch: pytest.MonkeyPatch, **how: Any) -> dict[str, Any]:
    """The parts of the loop of an ``attach`` called so, which is stopped again."""
    made: list[dict[str, Any]] = []

    class Loop:
        def __init__(self, **parts: Any) -> None:
            made.append(parts)

        def run(self, stop: threading.Event) -> None:
            """Nothing to do."""

    monkeypatch.setattr(module, "ControlLoop", Loop)
    monkeypatch.setattr(
        "ebbflow.targets.spark.target.SparkTarget", lambda *_, **__: FakeTarget(ManualClock(), 1)
    )
    module.attach(SESSION, **how).stop()
    return made[0]
