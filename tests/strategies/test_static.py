"""One size throughout."""

from __future__ import annotations

from peer_worlds import world

from ebbflow.core.limits import Limits
from ebbflow.strategies import make_strategy
from ebbflow.strategies.static import Static, StaticMean


def test_it_holds_what_it_was_given() -> None:
    assert StaticMean(nodes=7).decide(world(0.0, 2)).wanted.main_nodes == 7


def test_without_it_the_middle_of_the_limits() -> None:
    # (1 + 16) / 2 = 8.5: 9
    limits = Limits(min_nodes=1, max_nodes=16)
    assert make_strategy("static-mean").decide(world(0.0, 2, limits=limits)).wanted.main_nodes == 9


def test_the_limits_bind_it_and_it_says_so() -> None:
    decision = StaticMean(nodes=99).decide(world(0.0, 2))
    assert decision.wanted.main_nodes == 50
    assert decision.bound_by[0].name == "limits"


def test_it_costs_no_more_than_the_maximum() -> None:
    seen = world(0.0, 2)
    assert StaticMean().decide(seen).wanted.main_nodes <= Static().decide(seen).wanted.main_nodes
