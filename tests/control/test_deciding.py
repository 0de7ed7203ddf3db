"""Broken strategies: a size that is no size, errors, decisions that never come; then the fallback."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fake_target import FakeTarget, a_batch

from ebbflow.control.loop import ControlLoop
from ebbflow.core.clock import ManualClock
from ebbflow.core.decision import Decision, LedgerEntry
from ebbflow.core.failures import FailureLimits, LogLimit
from ebbflow.core.layout import Layout
from ebbflow.core.limits import Limits
from ebbflow.core.ports import Guard, Strategy
from ebbflow.core.slo import Slo
from ebbflow.core.snapshot import Snapshot
from ebbflow.errors import StrategyError
from ebbflow.guards import default_guards
from ebbflow.monitoring.store import MemoryStore


class Says(Strategy):
    """Wants whatever a function returns."""

    name = "says"

    def __init__(self, decide: Callable[[Snapshot], Any]) -> None:
        self._decide = decide

    def decide(self, snapshot: Snapshot) -> Decision:
        return self._decide(snapshot)  # type: ignore[no-any-return]


class Four(Strategy):
    """The fallback."""

    name = "four"

    def decide(self, snapshot: Snapshot) -> Decision:
        return Decision(wanted=snapshot.planned.with_nodes(4), reason="four")


class Loop:
    """A loop on a target with two nodes."""

    def __init__(
        self,
        decide: Callable[[Snapshot], Any],
        *,
        failures: FailureLimits | None = None,
        fallback: Strategy | None = None,
        guards: tuple[Guard, ...] | None = None,
    ) -> None:
        self.clock = ManualClock(100.0)
        self.target = FakeTarget(self.clock, 2, 1000)
        self.batches = 0
        self.loop = ControlLoop(
            target=self.target,
            strategy=Says(decide),
            guards=default_guards() if guards is None else guards,
            store=MemoryStore(keep=True),
            clock=self.clock,
            limits=Limits.parse("1:20"),
            slo=Slo(freshness_s=30.0),
            failures=failures,
            fallback=fallback,
        )

    def cycle(self) -> LedgerEntry:
        self.clock.advance(1.0)
        self.batches += 1
        self.target.show(batches=[a_batch(self.batches)])
        entry = self.loop.cycle().entry
        assert entry is not None
        return entry


def wants(**layout: Any) -> Callable[[Snapshot], Decision]:
    return lambda snapshot: Decision(wanted=Layout(**{"nodes": {"main": 2}, **layout}), reason="so it is")


def raises(error: BaseException) -> Callable[[Snapshot], Decision]:
    def decide(snapshot: Snapshot) -> Decision:
        raise error

    return decide


WRONG: list[tuple[Callable[[Snapshot], Any], str]] = [
    (wants(nodes={"main": float("nan")}), "nodes of main: nan is not a whole number"),
    (wants(nodes={"main": 2.5}), "nodes of main: 2.5 is not a whole number"),
    (wants(nodes={"main": np.float64(4)}), "is not a whole number"),
    (wants(nodes={"main": float("inf")}), "nodes of main: inf is not a whole number"),
    (wants(nodes={"main": True}), "nodes of main: True is not a whole number"),
    (wants(nodes={"main": "3"}), "nodes of main: '3' is not a whole number"),
    (wants(nodes={"main": 2, "other": 1}), "there is no cluster 'other'; there are main"),
    (wants(parallelism={"nobody": 2}), "there is no operator 'nobody'"),
    (wants(placement={"nobody": "main"}), "there is no operator 'nobody'"),
    (lambda _: None, "it returned None in place of a Decision"),
    (lambda _: Decision(wanted=3, reason="three"), "it wants 3 in place of a Layout"),  # type: ignore[arg-type]
    (raises(ZeroDivisionError("division by zero")), "ZeroDivisionError: division by zero"),
    (raises(ValueError("two\nlines")), "ValueError: two lines"),
    (raises(SystemExit(3)), "it raised SystemExit"),
]  # fmt: skip


@pytest.mark.parametrize(("decide", "why"), WRONG, ids=[why for _, why in WRONG])
def test_a_failure_is_a_recorded_hold_and_the_next_decision_is_carried_out(
    decide: Callable[[Snapshot], Any], why: str
) -> None:
    turns = iter([decide, wants(nodes={"main": 3})])

    def one_after_the_other(snapshot: Snapshot) -> Any:
        return next(turns)(snapshot)

    loop = Loop(one_after_the_other, failures=FailureLimits())
    entry = loop.cycle()
    assert entry.verdict == "hold"
    assert entry.decision.reason.startswith("strategy failed: ")
    assert why in entry.decision.reason
    assert "\n" not in entry.decision.reason
    assert entry.decision.bound_by[0].name == "strategy failed"
    assert loop.target.applied == []
    assert loop.cycle().decision.wanted == Layout.of(3)
    assert loop.target.applied == [Layout.of(3)]


def test_without_limits_the_error_is_raised_and_nothing_is_applied() -> None:
    """Simulations and tests want to see it. The negative control of the hold above."""
    for decide, why in WRONG[:11]:
        loop = Loop(decide)
        with pytest.raises(StrategyError) as failed:
            loop.cycle()
        assert why in str(failed.value)
        assert loop.target.applied == []


def test_whole_numbers_of_numpy_are_sizes() -> None:
    entry = Loop(wants(nodes={"main": np.int64(3)})).cycle()
    assert type(entry.decision.wanted.main_nodes) is int
    assert entry.decision.wanted == Layout.of(3)


def test_too_few_nodes_are_for_the_guards_but_never_for_the_target() -> None:
    assert Loop(wants(nodes={"main": -1})).cycle().decision.wanted == Layout.of(1)
    with pytest.raises(StrategyError, match="nodes of main: -1 is below 0"):
        Loop(wants(nodes={"main": -1}), guards=()).cycle()


class Breaks(Guard):
    """A guard that returns what it should not."""

    name = "breaks"

    def restrain(self, snapshot: Snapshot, decision: Decision) -> Decision:
        return decision.bound(Layout(nodes={"main": float("nan")}), self.name, "it breaks")  # type: ignore[dict-item]


def test_a_broken_guard_holds_as_well() -> None:
    loop = Loop(wants(nodes={"main": 3}), failures=FailureLimits(), guards=(Breaks(),))
    assert "nan is not a whole number" in loop.cycle().decision.reason
    assert loop.target.applied == []


def test_a_decision_that_never_comes_does_not_stop_the_loop() -> None:
    release, asked = threading.Event(), []

    def decide(snapshot: Snapshot) -> Decision:
        asked.append(snapshot.now_s)
        if len(asked) == 1:
            release.wait(30.0)
        return wants(nodes={"main": len(asked) + 5})(snapshot)

    loop = Loop(decide, failures=FailureLimits(within_s=0.05), guards=())
    assert loop.cycle().decision.reason == "strategy failed: it did not decide within 50ms"
    assert loop.loop._decider.is_late
    assert "it has been deciding for" in loop.cycle().decision.reason
    assert len(asked) == 1, "it is not asked again while it decides"
    release.set()
    while loop.loop._decider.is_late:
        release.wait(0.001)
    assert loop.cycle().decision.wanted == Layout.of(7), "the late answer, 6, is dropped"


def test_after_failures_in_a_row_the_fallback_decides() -> None:
    loop = Loop(raises(ValueError("broken")), failures=FailureLimits(fallback_after=3), fallback=Four())
    entries = [loop.cycle() for _ in range(5)]
    assert [entry.strategy for entry in entries] == ["says"] * 3 + ["four"] * 2
    assert "four" not in entries[1].decision.reason
    assert entries[2].decision.reason.endswith("after 3 failures in a row four decides from now on")
    assert loop.target.applied == [Layout.of(4)]


def test_a_success_in_between_starts_the_count_again() -> None:
    turns = iter(range(100))

    def decide(snapshot: Snapshot) -> Decision:
        if next(turns) % 3 == 2:
            return wants()(snapshot)
        raise ValueError("often")

    loop = Loop(decide, failures=FailureLimits(fallback_after=3), fallback=Four())
    assert {loop.cycle().strategy for _ in range(30)} == {"says"}


def test_failures_that_come_and_go_are_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    turns = iter(range(1000))

    def decide(snapshot: Snapshot) -> Decision:
        return raises(ValueError("odd"))(snapshot) if next(turns) % 2 else wants()(snapshot)

    loop = Loop(decide, failures=FailureLimits())
    with caplog.at_level(logging.WARNING):
        for _ in range(200):
            loop.cycle()
    assert sum("says failed" in record.message for record in caplog.records) == 4, "in 200 s"
    limit = LogLimit()
    assert sum(limit.allows(float(second)) for second in range(0, 3600, 2)) == 60
