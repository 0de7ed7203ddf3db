"""A rule whose change the target refuses: retries back off, and the ledger says why."""

from __future__ import annotations

from typing import Any

from fake_target import FakeTarget

from ebbflow.control.loop import ControlLoop
from ebbflow.core.clock import ManualClock
from ebbflow.core.decision import Outcome
from ebbflow.core.layout import Layout
from ebbflow.core.limits import Limits
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Operator, Pipeline
from ebbflow.core.ports import Observation
from ebbflow.core.readings import Reading
from ebbflow.core.slo import Slo
from ebbflow.guards import guards_for
from ebbflow.monitoring.store import MemoryStore
from ebbflow.policy import Policy, above, absolute, metric, operator, rule, seconds, tuples
from ebbflow.strategies.rules import Rules

PIPELINE = Pipeline(name="words", operators=(Operator(name="count", query="words"),))


class Refusing(FakeTarget):
    """Grants nodes but refuses any change of parallelism; its queue is always too long."""

    def observe(self) -> Observation:
        now_s = self._clock.now_s()
        self.show(
            pipeline=PIPELINE,
            layout=self._shape(),
            requested=self._shape(),
            readings=[Reading(now_s, "words", Metric.QUEUE_LENGTH, 999.0)],
        )
        return super().observe()

    def apply(self, planned: Layout) -> Outcome:
        super().apply(planned)
        self.observed = self.requested
        return Outcome(requested=self._shape(), note="its state is not in RocksDB")

    def _shape(self) -> Layout:
        return Layout.of(self.requested, count=1)


def test_a_refused_parallelism_is_retried_ever_less_often_and_its_node_is_released() -> None:
    grow = (
        rule("grow")
        .scale_out(operator("count"))
        .by(absolute(1))
        .when(metric("queue-length"))
        .is_(above(tuples(300)))
        .for_at_least(seconds(10))
    )
    clock, strategy, store = ManualClock(0.0), Rules(Policy(grow)), MemoryStore(keep=True)
    target = Refusing(clock, nodes=1)
    loop = ControlLoop(
        target=target,
        strategy=strategy,
        guards=guards_for(strategy),
        store=store,
        clock=clock,
        limits=Limits(min_nodes=1, max_nodes=9),
        slo=Slo(freshness_s=30.0),
        decide_at_least_every_s=1.0,
    )
    tried: list[float] = []
    for _ in range(3600):
        before = len(target.applied)
        loop.cycle()
        if any(layout.parallelism.get("count") == 2 for layout in target.applied[before:]):
            tried.append(clock.now_s())
        clock.advance(1.0)
    assert tried == [10, 40, 100, 220, 460, 940, 1900]
    assert target.requested == 1, "the node added for it was released"
    last: dict[str, Any] = store.ledger()[-1]
    assert last["verdict"] == "hold"
    assert "the change 1 → 2 had no effect after 7 attempts; next attempt in" in last["reason"]
    assert [c["name"] for c in last["bound_by"]] == ["retry"]
    acts = [
        row
        for row in store.ledger()
        if row["verdict"] == "act" and row["wanted"]["parallelism"] == {"count": 2}
    ]
    assert acts[0]["outcome"]["note"] == "its state is not in RocksDB"
