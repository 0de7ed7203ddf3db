"""A small pipeline for tests of the strategy ``rules``, with one cycle per second."""

from __future__ import annotations

from typing import Any

from ebbflow.core.decision import Decision
from ebbflow.core.layout import Layout
from ebbflow.core.limits import Limits
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.readings import Reading, Windows
from ebbflow.core.slo import Slo
from ebbflow.core.snapshot import Snapshot
from ebbflow.policy import Policy, above, absolute, below, metric, operator, rows, rule, seconds
from ebbflow.strategies.rules import Rules

HIGH = metric("queue-length").is_(above(rows(300))).for_at_least(seconds(10))
LOW = metric("queue-length").is_(below(rows(1))).for_at_least(seconds(10))


class World:
    """A pipeline of two operators whose plan follows the decisions."""

    def __init__(self, policy: Policy, layout: Layout | None = None, **changes: Any) -> None:
        self.rules = Rules(policy)
        self.layout = layout or Layout.of(2, enrich=1, store=1)
        self.windows = Windows(600.0)
        self.now_s = changes.pop("now_s", 0.0)
        self.queue = {"enrich": 0.0, "store": 0.0}
        self.obeys = True
        self.changes = changes

    def decide(self, **changes: Any) -> Decision:
        decision = self.rules.decide(self.snapshot(**changes))
        if self.obeys:
            self.layout = decision.wanted
        return decision

    def snapshot(self, **changes: Any) -> Snapshot:
        self.windows.add(
            Reading(self.now_s, name, Metric.OPERATOR_QUEUE, rows) for name, rows in self.queue.items()
        )
        usual: dict[str, Any] = {
            "now_s": self.now_s,
            "pipeline": Pipeline.chain("words", "enrich", "store"),
            "planned": self.layout,
            "requested": self.layout,
            "observed": self.layout,
            "windows": self.windows,
            "batches": (),
            "under_way": (),
            "limits": Limits(min_nodes=1, max_nodes=20),
            "slo": Slo(freshness_s=30.0),
            "slots_per_node": 1,
            "lead_time_s": 12.0,
            "data_age_s": 0.0,
        }
        return Snapshot(**{**usual, **self.changes, **changes})

    def run(self, seconds_: int, **queues: float) -> list[tuple[float, Layout]]:
        """Run one cycle per second; returns the changes of the plan with their times."""
        self.queue |= queues
        changes = []
        for _ in range(seconds_):
            before = self.layout
            decision = self.decide()
            if decision.wanted.difference(before):
                changes.append((self.now_s, decision.wanted))
            self.now_s += 1.0
        return changes


def grow(by: Any = None, *, op: str = "enrich") -> Any:
    return rule("grow").scale_out(operator(op)).by(by or absolute(1))


def sizes(changes: list[tuple[float, Layout]], op: str = "enrich") -> list[tuple[float, int]]:
    return [(time_s, layout.parallelism[op]) for time_s, layout in changes]
