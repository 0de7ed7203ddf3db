"""Every guard passes the contract, and the check fails for a guard that breaks it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from ebbflow.core.decision import Decision
from ebbflow.core.layout import Layout
from ebbflow.core.ports import Guard
from ebbflow.core.snapshot import Snapshot
from ebbflow.guards import Bounds, CoolDown, FreezeScaleInOnBacklog, HoldOnMissingData, StepCap
from ebbflow.testing import check_guard


@pytest.mark.parametrize("guard", [Bounds, CoolDown, FreezeScaleInOnBacklog, HoldOnMissingData, StepCap])
def test_every_guard_passes_the_contract(guard: type[Guard]) -> None:
    check_guard(guard)


def guard_of(restrain: Callable[[Snapshot, Decision], Decision]) -> Callable[[], Guard]:
    class Made(Guard):
        name = "made"

        def restrain(self, snapshot: Snapshot, decision: Decision) -> Decision:
            return restrain(snapshot, decision)

    return Made


def more_instances(snapshot: Snapshot, decision: Decision) -> Decision:
    wanted = decision.wanted
    many = {name: 9 * count for name, count in wanted.parallelism.items()}
    layout = Layout(nodes=wanted.nodes, parallelism=many, placement=wanted.placement)
    return decision.bound(layout, "made", "why")


COUNTER = itertools.count()


@pytest.mark.parametrize(
    ("restrain", "message"),
    [
        (lambda s, d: d.bound(d.wanted.with_nodes(d.wanted.main_nodes + 9), "made", "why"), "only reduce"),
        (lambda s, d: d.bound(s.planned, "other", "why"), "named 'other'"),
        (lambda s, d: d.bound(s.planned, "made", ""), "no reason"),
        (lambda s, d: replace(d, wanted=s.planned), "without naming a constraint"),
        (lambda s, d: replace(d, reason="rewritten"), "changed the reason from 'test' to 'rewritten'"),
        (lambda s, d: replace(d, formula=""), "changed the formula"),
        (lambda s, d: replace(d, inputs={}), "changed the inputs"),
        (lambda s, d: replace(d, bound_by=()), "removed a constraint of another guard"),
        (more_instances, r"instances of \w+ from a plan of"),
        (lambda s, d: s.batches[10**6], "restrain raised IndexError at .* s: .*index out of range"),
        (lambda s, d: d.bound(d.wanted, "made", f"{next(COUNTER)}"), "two results"),
        (lambda s, d: time.time() and d, "time.time"),
    ],
)
def test_the_check_fails_for_a_guard_that_breaks_it(
    restrain: Callable[[Snapshot, Decision], Decision], message: str
) -> None:
    with pytest.raises(AssertionError, match=message):
        check_guard(guard_of(restrain))


def test_a_guard_that_needs_arguments_is_checked_by_a_function() -> None:
    class Needs(Guard):
        name = "needs"

        def __init__(self, *, hour: int) -> None:
            self._hour = hour

        def restrain(self, snapshot: Snapshot, decision: Decision) -> Decision:
            return decision

    with pytest.raises(
        AssertionError, match=r"cannot be created: TypeError: .*hour.*check_guard\(lambda: MyGuard"
    ):
        check_guard(Needs)  # type: ignore[arg-type]
    check_guard(lambda: Needs(hour=3))
