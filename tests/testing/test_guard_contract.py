"""Every guard passes the contract, and the check fails for a guard that breaks it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable

import pytest

from ebbflow.core.decision import Decision
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


COUNTER = itertools.count()


@pytest.mark.parametrize(
    ("restrain", "message"),
    [
        (lambda s, d: d.bound(d.wanted.with_nodes(d.wanted.main_nodes + 9), "made", "why"), "only reduce"),
        (lambda s, d: d.bound(s.planned, "other", "why"), "named 'other'"),
        (lambda s, d: d.bound(s.planned, "made", ""), "no reason"),
        (lambda s, d: Decision(wanted=s.planned, reason="silently"), "without naming a constraint"),
        (lambda s, d: d.bound(d.wanted, "made", f"{next(COUNTER)}"), "two results"),
        (lambda s, d: time.time() and d, "time.time"),
    ],
)
def test_the_check_fails_for_a_guard_that_breaks_it(
    restrain: Callable[[Snapshot, Decision], Decision], message: str
) -> None:
    with pytest.raises(AssertionError, match=message):
        check_guard(guard_of(restrain))
