"""A scripted target and a scripted strategy that record their calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ebbflow.core.batches import Batch
from ebbflow.core.clock import ManualClock
from ebbflow.core.decision import Decision, Outcome
from ebbflow.core.layout import Layout
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.ports import Observation, Strategy
from ebbflow.core.snapshot import Snapshot

PIPELINE = Pipeline.chain("words", "read", "count")


class FakeTarget:
    """Returns observations changed by ``show``, or raises ``error``; grants nodes up to ``capacity``."""

    def __init__(self, clock: ManualClock, nodes: int = 1, capacity: int = 1000) -> None:
        self._clock = clock
        self.requested = nodes
        self.observed = nodes
        self.capacity = capacity
        self.error: Exception | None = None
        self.changes: dict[str, Any] = {}
        self.applied: list[Layout] = []
        self.on_apply: Callable[[Layout], None] = lambda planned: None

    def show(self, **changes: Any) -> None:
        """Fields to change in the next observation only."""
        self.changes = changes

    def observe(self) -> Observation:
        if self.error is not None:
            raise self.error
        changes, self.changes = self.changes, {}
        usual: dict[str, Any] = {
            "time_s": self._clock.now_s(),
            "pipeline": PIPELINE,
            "layout": Layout.of(self.observed),
            "requested": Layout.of(self.requested),
            "slots_per_node": 1,
            "lead_time_s": 10.0,
            "queries": {"q": None},
        }
        return Observation(**{**usual, **changes})

    def apply(self, planned: Layout) -> Outcome:
        self.applied.append(planned)
        self.on_apply(planned)
        self.requested = min(planned.main_nodes, self.capacity)
        missing = planned.main_nodes - self.requested
        return Outcome(
            requested=Layout.of(self.requested),
            infeasible_nodes=missing,
            note="no free cores" * bool(missing),
        )

    def close(self) -> None:
        """Nothing to release."""


class ScriptedStrategy(Strategy):
    """A strategy that wants a given number of nodes and records its snapshots."""

    name = "scripted"

    def __init__(self, nodes: int | None = None) -> None:
        self.nodes = nodes
        self.snapshots: list[Snapshot] = []
        self.error: Exception | None = None

    def decide(self, snapshot: Snapshot) -> Decision:
        self.snapshots.append(snapshot)
        if self.error is not None:
            raise self.error
        nodes = snapshot.planned.main_nodes if self.nodes is None else self.nodes
        return Decision(wanted=snapshot.planned.with_nodes(nodes), reason="because")


def a_batch(batch_id: int = 0, started_s: float = 0.0) -> Batch:
    """A finished batch with arbitrary values."""
    return Batch(
        query="q",
        batch_id=batch_id,
        started_s=started_s,
        duration_s=1.0,
        rows=10,
        slots=1,
        trigger_interval_s=5.0,
        arrival_rate_per_s=2.0,
        backlog_rows=0.0,
        oldest_arrival_s=started_s - 5.0,
    )
