"""Executors with cached data stay, and a prevented scale-in is reported once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fake_spark import Scene

from ebbflow.control.loop import ControlLoop
from ebbflow.core.decision import Decision, Outcome
from ebbflow.core.layout import Layout
from ebbflow.core.limits import Limits
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.ports import Observation, Strategy
from ebbflow.core.slo import Slo
from ebbflow.core.snapshot import Snapshot
from ebbflow.monitoring.store import Store
from ebbflow.targets.spark.driver import QueryStatus


def test_an_executor_with_cached_data_stays_while_another_can_leave() -> None:
    scene = Scene(ids=["0", "1", "2"], cached={"2": 4}, state={"0": 9, "1": 9})
    requested, infeasible, note = scene.actuator.set_nodes(2)
    assert (requested, infeasible) == (2, 0)
    assert note == "removing executor 1, 9 state partitions to reload on other executors"
    scene.drained()
    assert scene.spark.ids == ["0", "2"]


def test_a_shrink_stops_at_the_executors_with_cached_data_and_says_so() -> None:
    scene = Scene(ids=["0", "1", "2"], cached={"0": 1, "2": 4})
    held = "executor 0, executor 2 hold cached data that Spark would lose"
    requested, infeasible, note = scene.actuator.set_nodes(1)
    assert (requested, infeasible) == (2, 1)
    assert note == f"removing executor 1, 0 state partitions to reload on other executors; {held}"
    scene.drained()
    scene.poll()
    assert scene.spark.totals[-1] == 2
    assert scene.actuator.set_nodes(1) == (2, 0, ""), "it was reported before"
    assert scene.actuator.under_way() == []
    assert (scene.spark.decommissioned, scene.spark.killed) == (["1"], [])
    scene.spark.cached.clear()
    assert scene.actuator.set_nodes(1)[0] == 1, "it was unpersisted"
    scene.drained()
    assert scene.spark.ids == ["0"]


def test_executors_that_cannot_leave_are_reported_once_without_further_calls_to_spark() -> None:
    scene = Scene(ids=["0", "1"], cached={"0": 1, "1": 1})
    scene.spark.last_poll = scene.spark.executors()
    calls: list[str] = []
    for name in ("executors", "state_partitions_by_executor", "request_total"):
        original = getattr(scene.spark, name)
        setattr(
            scene.spark, name, lambda *a, name=name, original=original: (calls.append(name), original(*a))[1]
        )
    held = "executor 0, executor 1 hold cached data that Spark would lose"
    assert scene.actuator.set_nodes(1) == (2, 1, held)
    first = len(calls)
    assert first
    for _ in range(5):
        assert scene.actuator.set_nodes(1) == (2, 0, "")
    assert len(calls) == first


@pytest.mark.parametrize("change", ["another size", "another executor", "one holder fewer", "data released"])
def test_executors_that_cannot_leave_are_reported_again_after_a_change(change: str) -> None:
    scene = Scene(ids=["0", "1", "2"], cached={"0": 1, "1": 1, "2": 1})
    assert scene.actuator.set_nodes(1)[1] == 2
    assert scene.actuator.set_nodes(1) == (3, 0, "")
    if change == "another size":
        assert scene.actuator.set_nodes(2)[:2] == (3, 1)
        assert scene.actuator.set_nodes(1)[:2] == (3, 2)
    elif change == "another executor":
        scene.spark.add("3")
        scene.poll()
        requested, infeasible, note = scene.actuator.set_nodes(1)
        assert (requested, infeasible) == (3, 2)
        assert note.startswith("removing executor 3")
        scene.drained()
    elif change == "one holder fewer":
        scene.spark.ids.remove("2")
        scene.poll()
        assert scene.actuator.set_nodes(1)[:2] == (2, 1), "the request for its replacement is withdrawn"
    else:
        scene.spark.cached = {"0": 1}
        scene.poll()
        assert scene.actuator.set_nodes(1)[:2] == (1, 0)
        scene.drained()
        assert scene.spark.ids == ["0"]
    assert len(scene.spark.killed) == 0


class Application:
    """The actuator behind the target port."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    def observe(self) -> Observation:
        self.scene.poll()
        actuator, nodes = self.scene.actuator, len(self.scene.actuator.staying())
        return Observation(
            time_s=self.scene.clock.now_s(), pipeline=Pipeline.chain("words", "count"), layout=Layout.of(nodes),
            requested=Layout.of(actuator.requested), slots_per_node=1, lead_time_s=12.0, under_way=actuator.under_way(),
            queries={"q": None},
        )  # fmt: skip

    def apply(self, planned: Layout) -> Outcome:
        requested, infeasible, note = self.scene.actuator.set_nodes(planned.main_nodes)
        return Outcome(requested=Layout.of(requested), infeasible_nodes=infeasible, note=note)

    def close(self) -> None:
        self.scene.actuator.close()


class WantsOne(Strategy):
    name = "wants-one"

    def decide(self, snapshot: Snapshot) -> Decision:
        return Decision(wanted=Layout.of(1), reason="nothing to do")


def test_the_ledger_reports_once_that_cached_data_prevents_the_plan_and_the_plan_stands(
    tmp_path: Path,
) -> None:
    scene = Scene(ids=["0", "1"], cached={"0": 1, "1": 1})
    store = Store(tmp_path / "run.sqlite", scene.clock)
    loop = ControlLoop(
        target=Application(scene), strategy=WantsOne(), guards=(), store=store, clock=scene.clock,
        limits=Limits.parse("1:4"), slo=Slo(freshness_s=30.0),
    )  # fmt: skip
    for _ in range(60):
        loop.cycle()
        scene.clock.advance(1.0)
    entries = loop.ledger.entries
    assert [entry.verdict for entry in entries] == ["act"] + ["hold"] * (len(entries) - 1)
    reported = [entry.outcome for entry in entries if entry.outcome and entry.outcome.infeasible_nodes]
    assert [(each.infeasible_nodes, each.note) for each in reported] == [
        (1, "executor 0, executor 1 hold cached data that Spark would lose")
    ]
    assert not any(entry.outcome and entry.outcome.note for entry in entries[1:])
    assert loop.ledger.reconfigurations == 0
    scene.spark.cached = {"1": 1}
    for _ in range(6):
        loop.cycle()
        scene.clock.advance(1.0)
    scene.drained()
    assert scene.spark.ids == ["1"], "unpersisted on one executor, which leaves"
    store.close()


def test_requests_are_withdrawn_even_if_no_executor_can_leave() -> None:
    scene = Scene(ids=["0", "1"], cached={"0": 1, "1": 1})
    scene.actuator.set_nodes(4)
    assert scene.actuator.set_nodes(1)[0] == 2
    assert scene.spark.totals == [4, 2]
    assert scene.actuator.under_way() == []


def test_an_executor_that_gets_cached_data_before_the_pause_stays() -> None:
    scene = Scene(ids=["0", "1", "2"], busy=True)
    running = scene.spark.status

    def caching(query: Any) -> QueryStatus:
        scene.spark.cached = {"2": 4}
        return running(query)

    scene.spark.status = caching  # type: ignore[method-assign]
    assert scene.actuator.set_nodes(1)[0] == 1
    scene.drained()
    assert scene.spark.decommissioned == ["1"]
    assert scene.spark.totals[-1] == 2
    scene.poll()
    assert scene.actuator.requested == 2
    assert [e.id for e in scene.actuator.staying()] == ["0", "2"]
