"""Decisions and what the ledger keeps of them."""

from __future__ import annotations

import json
from dataclasses import replace

from ebbflow.core.decision import Constraint, Decision, Effect, LedgerEntry, Outcome
from ebbflow.core.layout import Layout
from ebbflow.core.metrics import Metric


def test_binding_a_decision_keeps_what_was_wanted_and_names_the_constraint() -> None:
    wish = Decision(wanted=Layout.of(8), reason="load", formula="f", inputs={"rate_per_s": 5.0})
    bound = wish.bound(Layout.of(4), "step cap", "too far").bound(Layout.of(3), "bounds", "at most 3")
    assert bound.wanted == Layout.of(3)
    assert [c.name for c in bound.bound_by] == ["step cap", "bounds"]
    assert (bound.reason, bound.formula, bound.inputs) == (wish.reason, wish.formula, wish.inputs)
    assert wish.bound_by == ()


def test_an_entry_is_plain_values_with_all_that_was_known() -> None:
    decision = Decision(
        wanted=Layout.of(4),
        reason="load",
        formula="n = 4",
        inputs={"rate_per_s": 5.0},
        bound_by=(Constraint(name="bounds", why="at most 4"),),
        expected=Effect(metric=Metric.FRESHNESS, value=3.0, at_s=20.0),
    )
    entry = LedgerEntry(
        entry_id=7,
        time_s=1.0,
        strategy="capacity",
        verdict="act",
        before=Layout.of(2),
        decision=decision,
        outcome=Outcome(requested=Layout.of(3), infeasible_nodes=1, note="no free cores"),
        achieved=3.5,
    )
    plain = json.loads(json.dumps(entry.to_json()))
    assert plain["before"]["nodes"] == {"main": 2}
    assert plain["wanted"]["nodes"] == {"main": 4}
    assert plain["inputs"] == {"rate_per_s": 5.0}
    assert plain["formula"] == "n = 4"
    assert plain["bound_by"] == [{"name": "bounds", "why": "at most 4"}]
    assert plain["expected"] == {"metric": "freshness", "value": 3.0, "at_s": 20.0}
    assert plain["achieved"] == 3.5
    assert plain["outcome"]["infeasible_nodes"] == 1


def test_what_is_not_known_yet_is_none_and_not_zero() -> None:
    entry = LedgerEntry(
        entry_id=1,
        time_s=1.0,
        strategy="s",
        verdict="hold",
        before=Layout.of(1),
        decision=Decision(wanted=Layout.of(1), reason="r"),
    )
    plain = entry.to_json()
    assert (plain["expected"], plain["achieved"], plain["outcome"]) == (None, None, None)


def test_a_restrained_decision_expects_what_its_smaller_step_brings() -> None:
    def effect(value: float) -> Effect:
        return Effect(metric=Metric.FRESHNESS, value=value, at_s=9.0)

    wanted = Decision(
        wanted=Layout.of(12),
        reason="r",
        expected=effect(4.0),
        instead={1: effect(30.0), 3: effect(11.0), 12: effect(4.0)},
    )
    assert wanted.bound(Layout.of(4), "step cap", "too far").expected == effect(11.0)
    assert wanted.bound(Layout.of(1), "cool-down", "too soon").expected == effect(30.0)
    assert (
        Decision(wanted=Layout.of(12), reason="r", expected=effect(4.0))
        .bound(Layout.of(4), "x", "y")
        .expected
        is None
    )


def test_an_entry_of_the_ledger_comes_back_as_it_was_written() -> None:
    entry = LedgerEntry(
        entry_id=7,
        time_s=12.5,
        strategy="capacity",
        verdict="act",
        before=Layout.of(2, split=4),
        decision=Decision(
            wanted=Layout.of(5, split=8),
            reason="λ rises",
            formula="n = λ / c",
            inputs={"λ": 240.0, "which": "clicks"},
            bound_by=(Constraint(name="bounds", why="no more than 5"),),
            expected=Effect(metric=Metric.FRESHNESS, value=3.0, at_s=60.0),
        ),
        outcome=Outcome(requested=Layout.of(4, split=8), infeasible_nodes=1, note="no free cores"),
        achieved=3.5,
    )
    assert LedgerEntry.from_json(json.loads(json.dumps(entry.to_json()))) == entry
    bare = replace(entry, decision=Decision(wanted=Layout.of(2), reason="r"), outcome=None, achieved=None)
    assert LedgerEntry.from_json(json.loads(json.dumps(bare.to_json()))) == bare
