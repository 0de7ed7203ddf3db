"""The simulator passes the contract of a target, and the check fails for a target that breaks it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from ebbflow.core.clock import ManualClock
from ebbflow.core.decision import Outcome
from ebbflow.core.layout import Layout
from ebbflow.core.limits import Limits
from ebbflow.core.ports import Observation
from ebbflow.errors import TargetError, TargetGoneError
from ebbflow.targets.simulator import Scenario, built_in_engine
from ebbflow.testing import FakeTarget, check_target
from ebbflow.workloads import parse_load


@pytest.mark.parametrize("engine", ["micro-batch", "continuous"])
def test_the_simulator_passes_the_contract(engine: str) -> None:
    clock = ManualClock()
    scenario = Scenario(
        engine=built_in_engine("top-words", engine),
        load=parse_load("constant(20)"),
        limits=Limits(min_nodes=1, max_nodes=4),
        initial_nodes=1,
        seconds=600.0,
    )
    check_target(scenario.target(clock), advance=clock.advance)


class Broken(FakeTarget):
    """A fake target with one method replaced."""

    def __init__(
        self,
        clock: ManualClock,
        *,
        observed: Callable[[Observation], Observation] = lambda seen: seen,
        applied: Callable[[Outcome], Outcome] = lambda outcome: outcome,
        apply_takes_s: float = 0.0,
        raised: Callable[[Exception], Exception | None] = lambda error: error,
        **options: Any,
    ) -> None:
        super().__init__(clock, **{"capacity": 8, **options})
        self._manual, self._takes_s = clock, apply_takes_s
        self._observed, self._outcome, self._raised = observed, applied, raised

    def observe(self) -> Observation:
        self.error = self._raised(self.error) if self.error else None
        return self._observed(super().observe())

    def apply(self, planned: Layout) -> Outcome:
        self._manual.advance(self._takes_s)
        return self._outcome(super().apply(planned))

    @contextmanager
    def failing(self) -> Iterator[None]:
        self.error = TargetError("no answer")
        yield
        self.error = None

    def end(self) -> None:
        self.error = TargetGoneError("ended")


def check(clock: ManualClock, target: Broken) -> None:
    check_target(target, advance=clock.advance, infeasible=9, failing=target.failing, end=target.end)


def test_a_target_that_fails_refuses_and_ends_as_it_should_passes() -> None:
    clock = ManualClock(0.0)
    check(clock, Broken(clock))


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"nodes": 2}, "2 nodes at the start, not 1"),
        ({"capacity": 2}, "infeasible here: no capacity left"),
        ({"lead_time_s": 500.0}, "1 node after 120 s, not 3"),
        ({"observed": lambda seen: replace(seen, under_way=())}, "nothing under way"),
        ({"observed": lambda seen: replace(seen, time_s=-seen.time_s)}, "time went back"),
        (
            {"observed": lambda seen: replace(seen, requested=seen.layout)},
            "3 nodes requested, but the observation says 1, with 1 there",
        ),
        ({"observed": lambda seen: replace(seen, layout=seen.requested, held_nodes=1)}, "held_nodes is 1"),
        ({"observed": lambda seen: replace(seen, held_nodes=0)}, "held_nodes is 0"),
        ({"applied": lambda outcome: replace(outcome, requested=Layout.of(1))}, "asked for 3 nodes, got 1"),
        ({"apply_takes_s": 60.0}, "apply took 60 s"),
        ({"capacity": 9}, "9 nodes should be infeasible, and none is"),
        ({"applied": lambda outcome: replace(outcome, note="")}, "1 infeasible, without a note"),
        (
            {"raised": lambda error: OSError("reset")},
            r"observe raised OSError\('reset'\) while observations fail",
        ),
        (
            {"raised": lambda error: TargetGoneError("")},
            r"raised TargetGoneError\(''\) while observations fail",
        ),
        ({"raised": lambda error: TargetError("")}, r"after its end; it must raise TargetGoneError"),
        ({"raised": lambda error: None}, "returned an observation while observations fail"),
    ],
)
def test_the_check_fails_for_a_target_that_breaks_it(broken: dict[str, Any], message: str) -> None:
    clock = ManualClock(0.0)
    with pytest.raises(AssertionError, match=message):
        check(clock, Broken(clock, **broken))


def test_an_apply_that_blocks_without_moving_the_clock_is_found() -> None:
    class Blocking(Broken):
        def apply(self, planned: Layout) -> Outcome:
            threading.Event().wait(0.05)
            return super().apply(planned)

    clock = ManualClock(0.0)
    with pytest.raises(AssertionError, match="apply took"):
        check_target(Blocking(clock), advance=clock.advance, apply_within_s=0.02)
