"""The simulator passes the contract of a target, and the check fails for a target that breaks it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from ebbflow.core.clock import ManualClock
from ebbflow.core.decision import Outcome
from ebbflow.core.layout import Layout
from ebbflow.core.limits import Limits
from ebbflow.core.ports import Observation
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
        **options: Any,
    ) -> None:
        super().__init__(clock, **options)
        self._observed, self._outcome = observed, applied

    def observe(self) -> Observation:
        return self._observed(super().observe())

    def apply(self, planned: Layout) -> Outcome:
        return self._outcome(super().apply(planned))


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"nodes": 2}, "2 nodes at the start, not 1"),
        ({"capacity": 2}, "infeasible here: no capacity left"),
        ({"lead_time_s": 500.0}, "1 node after 120 s, not 3"),
        ({"observed": lambda seen: replace(seen, under_way=())}, "nothing under way"),
        ({"observed": lambda seen: replace(seen, time_s=-seen.time_s)}, "time went back"),
        ({"applied": lambda outcome: replace(outcome, requested=Layout.of(1))}, "asked for 3 nodes, got 1"),
    ],
)
def test_the_check_fails_for_a_target_that_breaks_it(broken: dict[str, Any], message: str) -> None:
    clock = ManualClock(0.0)
    with pytest.raises(AssertionError, match=message):
        check_target(Broken(clock, **broken), advance=clock.advance)
