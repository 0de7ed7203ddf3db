"""Every registered strategy passes the contract; and each check fails for a strategy that breaks it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial

import pytest

from ebbflow.core.decision import Decision
from ebbflow.core.ports import Strategy
from ebbflow.core.snapshot import Snapshot
from ebbflow.strategies import STRATEGIES, make_strategy
from ebbflow.testing import strategy as contract

CONSTANT = ("static", "static-mean")
"""They ignore measurements."""


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_passes_the_contract(name: str) -> None:
    contract.check_strategy(partial(make_strategy, name), needs_data=name not in CONSTANT)


@pytest.mark.parametrize(
    "name", [n for n in STRATEGIES if n not in (*CONSTANT, "rules")]
)  # rules read no batches
def test_every_strategy_scales_out_under_overload(name: str) -> None:
    contract.check_scales_out_under_overload(partial(make_strategy, name))


def test_capacity_needs_the_guards_of_the_loop_and_baselines_bring_their_own() -> None:
    assert not make_strategy("capacity").brings_own_guards
    assert all(make_strategy(name).brings_own_guards for name in ("rules", "symbiotic", "flink", "spark-dra"))


class Made(Strategy):
    """Decides by a given function."""

    name = "made"

    def __init__(self, decide: Callable[[Snapshot], Decision]) -> None:
        self._decide = decide

    def decide(self, snapshot: Snapshot) -> Decision:
        return self._decide(snapshot)


def wanting(nodes: int, reason: str = "because", formula: str = "n") -> Strategy:
    return Made(lambda seen: Decision(wanted=seen.planned.with_nodes(nodes), reason=reason, formula=formula))


COUNTER = itertools.count()


@pytest.mark.parametrize(
    ("check", "make", "message"),
    [
        (contract.check_decisions_are_deterministic, lambda: wanting(1, f"{next(COUNTER)}"), "two decisions"),
        (contract.check_decisions_are_complete, lambda: wanting(51), "51 nodes wanted, 1:50 allowed"),
        (contract.check_decisions_are_complete, lambda: wanting(0), "0 nodes wanted"),
        (contract.check_decisions_are_complete, lambda: wanting(1, reason=""), "no reason"),
        (contract.check_decisions_are_complete, lambda: wanting(1, formula=""), "no formula"),
        (contract.check_holds_without_data, lambda: wanting(5), "a batch that never ends: main \\+1 node"),
        (contract.check_scales_out_under_overload, lambda: wanting(4), "never more than 4"),
    ],
)
def test_a_check_fails_for_a_strategy_that_breaks_it(
    check: Callable[[contract.Factory], None], make: contract.Factory, message: str
) -> None:
    with pytest.raises(AssertionError, match=message):
        check(make)
