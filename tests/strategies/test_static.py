"""Strategies of constant size."""

from __future__ import annotations

from ebbflow.core.limits import Limits
from ebbflow.strategies import make_strategy
from ebbflow.strategies.static import Static, StaticMean
from ebbflow.testing.snapshots import make_snapshot


def test_static_mean_holds_its_parameter() -> None:
    assert StaticMean(nodes=7).decide(make_snapshot(0.0, 2)).wanted.main_nodes == 7


def test_static_mean_holds_the_middle_of_the_limits_by_default() -> None:
    # (1 + 16) / 2 = 8.5: 9
    limits = Limits(min_nodes=1, max_nodes=16)
    assert make_strategy("static-mean").decide(make_snapshot(0.0, 2, limits=limits)).wanted.main_nodes == 9


def test_the_limits_bind_static_mean_and_the_decision_names_them() -> None:
    decision = StaticMean(nodes=99).decide(make_snapshot(0.0, 2))
    assert decision.wanted.main_nodes == 50
    assert decision.bound_by[0].name == "limits"


def test_static_mean_costs_no_more_than_static() -> None:
    seen = make_snapshot(0.0, 2)
    assert StaticMean().decide(seen).wanted.main_nodes <= Static().decide(seen).wanted.main_nodes
