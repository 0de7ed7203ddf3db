"""A fake target for tests of the loop, and the contract of a target as a check."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from msgspec.structs import replace

from ebbflow.core.clock import Clock
from ebbflow.core.decision import Outcome
from ebbflow.core.layout import Layout
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.plural import counted
from ebbflow.core.ports import Observation, Target
from ebbflow.core.snapshot import ActionKind, ActionUnderWay
from ebbflow.errors import TargetError, TargetGoneError


class FakeTarget:
    """A target without work: nodes arrive ``lead_time_s`` after their request, up to ``capacity``, and leave at once.

    Set ``error`` to make observations fail, and ``shown`` to change fields of the next observations.

    >>> from ebbflow.core.clock import ManualClock
    >>> clock = ManualClock(0.0)
    >>> target = FakeTarget(clock, nodes=1, lead_time_s=10.0)
    >>> target.apply(Layout.of(3)).requested.main_nodes, target.observe().layout.main_nodes
    (3, 1)
    >>> clock.advance(10.0)
    >>> target.observe().layout.main_nodes
    3
    """

    def __init__(
        self, clock: Clock, *, nodes: int = 1, capacity: int = 1_000, lead_time_s: float = 10.0
    ) -> None:
        self._clock = clock
        self._nodes = nodes
        self._arrivals_s: list[float] = []
        self._capacity = capacity
        self._lead_time_s = lead_time_s
        self.error: Exception | None = None
        self.shown: dict[str, object] = {}
        self.applied: list[Layout] = []

    def observe(self) -> Observation:
        """Return the nodes that have arrived, with the rest under way."""
        if self.error is not None:
            raise self.error
        now_s = self._clock.now_s()
        arrived = sum(at_s <= now_s for at_s in self._arrivals_s)
        self._nodes, self._arrivals_s = self._nodes + arrived, self._arrivals_s[arrived:]
        observation = Observation(
            time_s=now_s,
            pipeline=Pipeline.chain("words", "read", "count"),
            layout=Layout.of(self._nodes),
            requested=Layout.of(self._nodes + len(self._arrivals_s)),
            slots_per_node=1,
            lead_time_s=self._lead_time_s,
            queries={"q": None},
            under_way=[
                ActionUnderWay(kind=ActionKind.GROW, since_s=at_s - self._lead_time_s, nodes=1)
                for at_s in self._arrivals_s
            ],
        )
        return replace(observation, **self.shown) if self.shown else observation

    def apply(self, planned: Layout) -> Outcome:
        """Request nodes, or release them at once."""
        self.applied.append(planned)
        wanted = min(planned.main_nodes, self._capacity)
        missing = wanted - self._nodes
        arrival_s = self._clock.now_s() + self._lead_time_s
        self._arrivals_s = (self._arrivals_s + [arrival_s] * max(0, missing))[: max(0, missing)]
        self._nodes = min(self._nodes, wanted)
        infeasible = planned.main_nodes - wanted
        return Outcome(
            requested=planned.with_nodes(wanted),
            infeasible_nodes=infeasible,
            note="no capacity left" if infeasible else "",
        )

    def close(self) -> None:
        """Release nothing: the target keeps running."""


def check_target(
    target: Target,
    *,
    advance: Callable[[float], None],
    sizes: tuple[int, int] = (1, 3),
    infeasible: int | None = None,
    failing: Callable[[], AbstractContextManager[object]] | None = None,
    end: Callable[[], None] | None = None,
    within_s: float = 120.0,
    apply_within_s: float = 5.0,
) -> None:
    """Check that a target keeps planned, requested and observed apart and reaches what was requested.

    ``target`` runs with ``sizes[0]`` nodes. ``advance(seconds)`` lets time pass: it moves a manual clock, or waits. The
    check scales out to ``sizes[1]`` and back in, each within ``within_s``; ``apply`` returns within ``apply_within_s``.

    Pass what you can provoke, too: ``infeasible``, a size that the target cannot reach; ``failing``, a context in which
    observations fail; ``end``, which ends the target.

    >>> from ebbflow.core.clock import ManualClock
    >>> clock = ManualClock(0.0)
    >>> check_target(FakeTarget(clock, capacity=8), advance=clock.advance, infeasible=9)
    """
    check = _TargetCheck(target, advance, within_s, apply_within_s)
    small, large = sizes
    check.start(small)
    check.reach(large)
    check.reach(small)
    if infeasible is not None:
        check.infeasible(infeasible, small)
    if failing is not None:
        with failing():
            check.raises(TargetError, "while observations fail")
        target.observe()
    target.close()
    assert target.observe().layout.main_nodes == small, "close() must leave the target running"
    if end is not None:
        end()
        check.raises(TargetGoneError, "after its end")


@dataclass
class _TargetCheck:
    target: Target
    advance: Callable[[float], None]
    within_s: float
    apply_within_s: float
    plan: Layout = field(init=False)
    last_s: float = -math.inf

    def start(self, nodes: int) -> None:
        """The target runs with this many nodes."""
        first = self.observe()
        self.plan = first.layout
        there = counted(first.layout.main_nodes, "node")
        assert first.layout.main_nodes == nodes, f"{there} at the start, not {nodes}"
        assert first.slots_per_node >= 1, "a node has no slot"
        assert first.lead_time_s >= 0, "the lead time is negative"

    def observe(self) -> Observation:
        """Observe; time does not go back, and running nodes are paid for."""
        seen = self.target.observe()
        assert seen.time_s >= self.last_s, f"time went back from {self.last_s} to {seen.time_s}"
        self.last_s = seen.time_s
        nodes = seen.layout.main_nodes
        if seen.held_nodes is not None:
            assert seen.held_nodes >= nodes, f"held_nodes is {seen.held_nodes}, below the {nodes} running"
        return seen

    def apply(self, nodes: int) -> Outcome:
        """Request a size; this returns at once, and a repetition changes nothing."""
        self.plan = self.plan.with_nodes(nodes)
        before_s, started_s = self.observe().time_s, time.monotonic()
        outcome = self.target.apply(self.plan)
        took_s = max(time.monotonic() - started_s, self.observe().time_s - before_s)
        assert took_s <= self.apply_within_s, (
            f"apply took {took_s:g} s; it must request and return within {self.apply_within_s:g} s"
        )
        assert outcome.requested.main_nodes + outcome.infeasible_nodes == nodes, (
            f"asked for {counted(nodes, 'node')}, got {outcome.requested.main_nodes} requested "
            f"and {outcome.infeasible_nodes} infeasible"
        )
        again = self.target.apply(self.plan)
        assert again.requested == outcome.requested, "the same request twice changes what is requested"
        return outcome

    def reach(self, nodes: int) -> None:
        """Request a size, and observe it as requested until it is there."""
        outcome = self.apply(nodes)
        assert not outcome.infeasible_nodes, f"{nodes} nodes are infeasible here: {outcome.note}"
        for passed_s in itertools.count(1):
            seen = self.observe()
            there, requested = seen.layout.main_nodes, seen.requested.main_nodes
            assert requested == nodes, (
                f"{counted(nodes, 'node')} requested, but the observation says {requested}, with {there} there"
            )
            if there == nodes:
                return
            assert seen.under_way, f"{counted(nodes, 'node')} requested, {there} there, nothing under way"
            assert passed_s <= self.within_s, (
                f"{counted(there, 'node')} after {self.within_s:g} s, not {nodes}"
            )
            self.advance(1.0)

    def infeasible(self, nodes: int, back: int) -> None:
        """A size that cannot be reached is reported as infeasible, with a note; then go back."""
        outcome = self.apply(nodes)
        assert outcome.infeasible_nodes > 0, f"{nodes} nodes should be infeasible, and none is"
        assert outcome.note, f"{outcome.infeasible_nodes} infeasible, without a note that says why"
        requested = self.observe().requested.main_nodes
        assert requested == outcome.requested.main_nodes, (
            f"apply requested {outcome.requested.main_nodes}, but the observation says {requested}"
        )
        self.reach(back)

    def raises(self, expected: type[TargetError], when: str) -> None:
        """An observation fails with this error and no other."""
        try:
            self.target.observe()
            raised: Exception | None = None
        except Exception as error:
            raised = error
        got = f"raised {type(raised).__name__}({str(raised)!r})" if raised else "returned an observation"
        ended = isinstance(raised, TargetGoneError) == (expected is TargetGoneError)
        right = isinstance(raised, expected) and ended
        assert right, f"observe {got} {when}; it must raise {expected.__name__}"
