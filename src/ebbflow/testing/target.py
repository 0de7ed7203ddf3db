"""A fake target for tests of the loop, and the contract of a target as a check."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from msgspec.structs import replace

from ebbflow.core.clock import Clock
from ebbflow.core.decision import Outcome
from ebbflow.core.layout import Layout
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.plural import counted
from ebbflow.core.ports import Observation, Target
from ebbflow.core.snapshot import ActionKind, ActionUnderWay


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
    within_s: float = 120.0,
) -> None:
    """Check that a target keeps planned, requested and observed apart and reaches what was requested.

    ``target`` runs with ``sizes[0]`` nodes. ``advance(seconds)`` lets time pass: it moves a manual clock, or waits. The
    check scales out to ``sizes[1]`` and back in, each within ``within_s``.

    >>> from ebbflow.core.clock import ManualClock
    >>> clock = ManualClock(0.0)
    >>> check_target(FakeTarget(clock), advance=clock.advance)
    """
    small, large = sizes
    first = target.observe()
    assert first.layout.main_nodes == small, (
        f"{counted(first.layout.main_nodes, 'node')} at the start, not {small}"
    )
    assert first.slots_per_node >= 1, "a node has no slot"
    assert first.lead_time_s >= 0, "the lead time is negative"
    plan = first.layout
    last_s = first.time_s
    for nodes in (large, small):
        plan = plan.with_nodes(nodes)
        outcome = target.apply(plan)
        assert outcome.requested.main_nodes + outcome.infeasible_nodes == nodes, (
            f"asked for {counted(nodes, 'node')}, got {outcome.requested.main_nodes} requested "
            f"and {outcome.infeasible_nodes} infeasible"
        )
        assert not outcome.infeasible_nodes, f"{nodes} nodes are infeasible here: {outcome.note}"
        again = target.apply(plan)
        assert again.requested == outcome.requested, "the same request twice changes what is requested"
        for passed_s in itertools.count(1):
            seen = target.observe()
            assert seen.time_s >= last_s, f"time went back from {last_s} to {seen.time_s}"
            last_s = seen.time_s
            if seen.layout.main_nodes == nodes:
                break
            assert seen.under_way, (
                f"{counted(nodes, 'node')} requested, {seen.layout.main_nodes} there, nothing under way"
            )
            assert passed_s <= within_s, (
                f"{counted(seen.layout.main_nodes, 'node')} after {within_s:g} s, not {nodes}"
            )
            advance(1.0)
    target.close()
    assert target.observe().layout.main_nodes == small, "close() must leave the target running"
