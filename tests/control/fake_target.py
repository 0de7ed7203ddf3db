"""A target that plays a script and remembers what it was asked for; and the rest of a loop, in memory."""

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
    """Shows what ``show`` was last given (an error is raised); grants nodes up to ``room``."""

    def __init__(self, clock: ManualClock, nodes: int = 1, room: int = 1000) -> None:
        self._clock = clock
        self.requested = nodes
        self.observed = nodes
        self.room = room
        self.trouble: Exception | None = None
        self.changes: dict[str, Any] = {}
        self.applied: list[Layout] = []
        self.on_apply: Callable[[Layout], None] = lambda planned: None

    def show(self, **changes: Any) -> None:
        """What the next look differs in, once."""
        self.changes = changes

    def observe(self) -> Observation:
        if self.trouble is not None:
            raise self.trouble
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
        self.requested = min(planned.main_nodes, self.room)
        missing = planned.main_nodes - self.requested
        return Outcome(
            requested=Layout.of(self.requested),
            infeasible_nodes=missing,
            note="no free cores" * bool(missing),
        )

    def close(self) -> None:
        """Nothing to let go of."""


class Wishing(Strategy):
    """A strategy that wants what it is told to, and keeps what it was shown."""

    name = "wishing"

    def __init__(self, nodes: int | None = None) -> None:
        self.nodes = nodes
        self.seen: list[Snapshot] = []
        self.trouble: Exception | None = None

    def decide(self, snapshot: Snapshot) -> Decision:
        self.seen.append(snapshot)
        if self.trouble is not None:
            raise self.trouble
        nodes = snapshot.planned.main_nodes if self.nodes is None else self.nodes
        return Decision(wanted=snapshot.planned.with_nodes(nodes), reason="because")


def a_batch(batch_id: int = 0, started_s: float = 0.0) -> Batch:
    """A batch about which nothing matters but that it ended."""
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
