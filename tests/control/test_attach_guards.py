"""Whoever attaches gets the guards that the simulator gives the same strategy."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from fake_target import FakeTarget

from ebbflow.control import attach as module
from ebbflow.core.clock import ManualClock
from ebbflow.guards import guards_for
from ebbflow.policy import Policy
from ebbflow.strategies import Rules, make_strategy


@pytest.mark.parametrize(
    "how",
    [
        {"strategy": "rules"},
        {"strategy": Rules(Policy())},
        {"policy": Policy()},
        {"strategy": "capacity"},
        {"strategy": "flink"},
    ],
    ids=["by name", "as an object", "by a policy", "capacity", "a peer"],
)
def test_the_guards_are_those_of_the_strategy_however_it_was_named(
    monkeypatch: pytest.MonkeyPatch, how: dict[str, Any]
) -> None:
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
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(applicationId="app-1"))
    module.attach(session, **how).stop()
    chosen = made[0]["strategy"]
    named = how.get("strategy")
    assert chosen.name == (named if isinstance(named, str) else "rules")
    assert [type(g) for g in made[0]["guards"]] == [type(g) for g in guards_for(chosen)]
    rules_guards = [type(g) for g in guards_for(make_strategy("rules"))]
    assert ([type(g) for g in made[0]["guards"]] == rules_guards) is (chosen.name in ("rules", "flink"))
