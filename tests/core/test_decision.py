"""Decisions and what the ledger keeps of them."""

from __future__ import annotations

import json

from ebbflow.core.decision import Constraint, Decision, Effect, LedgerEntry, Outcome, Rounded
from ebbflow.core.layout import Layout
from ebbflow.core.metrics import Metric


def test_binding_a_decision_sets_the_layout_and_names_the_constraint() -> None:
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
    assert LedgerEntry.from_json(plain) == entry


def test_unknown_values_are_none_and_not_zero() -> None:
    entry = LedgerEntry(
        entry_id=1,
        time_s=1.0,
        strategy="s",
        verdict="hold",
        before=Layout.of(1),
        decision=Decision(wanted=Layout.of(1), reason="r"),
    )
    plain = entry.to_json()
    assert LedgerEntry.from_json(plain) == entry
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


def test_rounding_on_access_gives_the_same_entries() -> None:
    exact = {"rate_per_s": 12.3456, "queue_rows": 7.5, "nodes": 3}
    rounded = Rounded(exact, {"rate_per_s": 2, "queue_rows": None})
    assert rounded == {"rate_per_s": 12.35, "queue_rows": 8, "nodes": 3}
    assert (list(rounded), len(rounded)) == (list(exact), 3)
    decision = Decision(wanted=Layout.of(1), reason="why", inputs=rounded)
    assert decision == Decision(wanted=Layout.of(1), reason="why", inputs=dict(rounded))
