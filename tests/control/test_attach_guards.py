"""``attach`` applies the guards that the simulator applies to the same strategy."""

from __future__ import annotations

from typing import Any

import pytest
from attach_parts import parts_of

from ebbflow.guards import guards_for
from ebbflow.policy import Policy
from ebbflow.strategies import make_strategy
from ebbflow.strategies.rules import Rules


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
    made = parts_of(monkeypatch, **how)
    chosen = made["strategy"]
    named = how.get("strategy")
    assert chosen.name == (named if isinstance(named, str) else "rules")
    assert [type(g) for g in made["guards"]] == [type(g) for g in guards_for(chosen)]
    rules_guards = [type(g) for g in guards_for(make_strategy("rules"))]
    assert ([type(g) for g in made["guards"]] == rules_guards) is (chosen.name in ("rules", "flink"))
