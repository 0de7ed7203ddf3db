"""Every registered strategy passes the contract; and each check fails for a strategy that breaks it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial

import pytest

from ebbflow.core.decision import Decision
from ebbflow.core.ports import DecidesOn, Strategy
from ebbflow.core.snapshot import Snapshot
from ebbflow.strategies import STRATEGIES, make_strategy
from ebbflow.testing import check_strategy


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_passes_the_contract(name: str) -> None:
    check_strategy(partial(make_strategy, name))


def test_capacity_needs_the_guards_of_the_loop_and_baselines_bring_their_own() -> None:
    assert not make_strategy("capacity").brings_own_guards
    assert all(make_strategy(name).brings_own_guards for name in ("rules", "symbiotic", "flink", "spark-dra"))


class Made(Strategy):
    """Decides by a given function."""

    name = "made"

    def __init__(
        self, decide: Callable[[Snapshot], Decision], decides_on: DecidesOn = DecidesOn.BATCHES
    ) -> None:
        self._decide, self.decides_on = decide, decides_on

    def decide(self, snapshot: Snapshot) -> Decision:
        return self._decide(snapshot)


def wanting(nodes: int, reason: str = "because", formula: str = "n") -> Strategy:
    return Made(lambda seen: Decision(wanted=seen.planned.with_nodes(nodes), reason=reason, formula=formula))


def holding(decides_on: DecidesOn = DecidesOn.BATCHES) -> Strategy:
    return Made(lambda seen: Decision(wanted=seen.planned, reason="hold", formula="n"), decides_on)


def last_batch(snapshot: Snapshot) -> Decision:
    return Decision(wanted=snapshot.planned, reason=f"{snapshot.batches[-1].rows} rows", formula="n")


COUNTER = itertools.count()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: wanting(1, f"{next(COUNTER)}"),
            r"two decisions at 0 s of batches: reason is '\d+' and '\d+'$",
        ),
        (lambda: wanting(51), "51 nodes wanted, 1:50 allowed"),
        (lambda: wanting(0), "0 nodes wanted"),
        (lambda: wanting(1, reason=""), "no reason"),
        (lambda: wanting(1, formula=""), "no formula"),
        (lambda: Made(last_batch), r"IndexError at \d+ s of batches, with 0 batches in the snapshot"),
        (lambda: Made(lambda seen: seen.planned), "not a Decision"),  # type: ignore[arg-type, return-value]
        (lambda: wanting(5), "a batch that never ends: main \\+1 node"),
        (holding, "an hour of overload, and never more than 4"),
    ],
)
def test_the_check_fails_for_a_strategy_that_breaks_it(make: Callable[[], Strategy], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_strategy(make)


def test_the_check_follows_what_a_strategy_declares_to_decide_on() -> None:
    check_strategy(lambda: holding(DecidesOn.READINGS))
    check_strategy(lambda: holding(DecidesOn.NOTHING))
