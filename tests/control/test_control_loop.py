"""The loop: planned, requested, observed; when it decides; and how it handles errors."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

import pytest
from fake_target import FakeTarget, ScriptedStrategy, a_batch
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbflow.control.loop import ControlLoop, CycleReport
from ebbflow.core.clock import ManualClock
from ebbflow.core.decision import Decision, Effect
from ebbflow.core.layout import Layout
from ebbflow.core.limits import Limits
from ebbflow.core.metrics import Metric
from ebbflow.core.ports import Guard, Strategy
from ebbflow.core.readings import Reading
from ebbflow.core.slo import Slo
from ebbflow.core.snapshot import ActionKind, ActionUnderWay, Snapshot
from ebbflow.errors import StoreError, TargetError, TargetGoneError
from ebbflow.guards import default_guards
from ebbflow.monitoring.store import MemoryStore, Store

STALE_AFTER_S = 15.0


class World:
    """A loop, its target and its clock."""

    def __init__(
        self,
        strategy: Strategy | None = None,
        *,
        nodes: int = 2,
        capacity: int = 1000,
        limits: str = "1:20",
        guards: tuple[Guard, ...] = (),
        store: Any = None,
        **options: Any,
    ) -> None:
        self.clock = ManualClock(100.0)
        self.target = FakeTarget(self.clock, nodes, capacity)
        self.strategy = ScriptedStrategy()
        self.store = store or MemoryStore(keep=True)
        self.loop = ControlLoop(
            target=self.target,
            strategy=strategy or self.strategy,
            guards=guards,
            store=self.store,
            clock=self.clock,
            limits=Limits.parse(limits),
            slo=Slo(freshness_s=30.0),
            **options,
        )

    def cycle(self, after_s: float = 1.0, **shown: Any) -> CycleReport:
        """Advance the clock, change the next observation, and run one cycle."""
        self.clock.advance(after_s)
        if shown:
            self.target.show(**shown)
        return self.loop.cycle()

    @property
    def applied(self) -> list[int]:
        return [layout.main_nodes for layout in self.target.applied]


# -- planned, requested, observed ----------------------------------------------------------------


def test_the_first_observation_is_the_plan_and_nothing_is_applied() -> None:
    world = World(nodes=3)
    report = world.cycle()
    assert report.planned == Layout.of(3)
    assert report.entry is not None
    assert report.entry.verdict == "hold"
    assert world.applied == []


def test_planned_requested_and_observed_are_three_things() -> None:
    world = World(nodes=1, capacity=3)
    world.strategy.nodes = 5
    world.cycle()
    world.cycle(batches=[a_batch()])
    snapshot = world.strategy.snapshots[-1]
    assert snapshot.planned.main_nodes == 5
    assert snapshot.requested.main_nodes == 3
    assert snapshot.observed.main_nodes == 1


def test_an_infeasible_request_is_recorded_and_repeated() -> None:
    world = World(nodes=1, capacity=3)
    world.strategy.nodes = 5
    first = world.cycle().entry
    assert first is not None
    assert first.outcome is not None
    assert first.outcome.infeasible_nodes == 2
    world.target.capacity = 5
    second = world.cycle(batches=[a_batch()]).entry
    assert second is not None
    assert second.verdict == "hold"  # the plan does not change
    assert second.outcome is not None
    assert second.outcome.infeasible_nodes == 0
    assert world.applied == [5, 5]
    world.cycle(batches=[a_batch(1)])
    assert world.applied == [5, 5]  # granted, so nothing is repeated


def test_a_node_that_comes_after_it_was_cancelled_is_released() -> None:
    world = World(nodes=2)
    world.cycle()
    world.target.observed = 3
    world.cycle()
    assert world.applied == [2], "the plan is applied again"
    leaving = (ActionUnderWay(kind=ActionKind.SHRINK, since_s=0.0, nodes=1),)
    world.cycle(under_way=leaving)
    assert world.applied == [2], "nothing is applied while a node is leaving"


def test_a_dry_run_records_its_decisions_and_applies_nothing() -> None:
    world = World(nodes=2, dry_run=True)
    world.strategy.nodes = 5
    entry = world.cycle().entry
    assert entry is not None
    assert entry.verdict == "hold"
    assert entry.decision.bound_by[-1].name == "dry run"
    assert "+3 nodes" in entry.decision.bound_by[-1].why
    world.target.observed = 4  # something else scales it
    world.cycle()
    assert world.strategy.snapshots[-1].planned == Layout.of(4)
    assert world.applied == []


def test_nodes_that_never_came_are_given_up_in_the_plan_and_in_the_ledger() -> None:
    world = World(nodes=2)
    world.strategy.nodes = 5
    world.cycle()
    world.strategy.nodes = None
    world.target.requested = 2
    report = world.cycle(given_up_nodes=3)
    assert report.planned == Layout.of(2)
    given_up = [row for row in world.store.ledger() if "never arrived" in row["reason"]]
    assert len(given_up) == 1
    assert given_up[0]["bound_by"][0]["name"] == "infeasible"
    assert given_up[0]["before"]["nodes"] == {"main": 5}
    assert world.applied == [5]


def test_nodes_may_be_given_up_before_the_first_plan() -> None:
    world = World()
    world.cycle(active=False, given_up_nodes=1)
    assert world.cycle().planned == Layout.of(2)


def test_the_snapshot_has_the_times_of_the_last_scale_out_and_scale_in() -> None:
    world = World(nodes=2)
    world.strategy.nodes = 4
    world.cycle()
    out_s = world.clock.now_s()
    world.strategy.nodes = 1
    world.cycle(batches=[a_batch()])
    in_s = world.clock.now_s()
    world.cycle(batches=[a_batch(1)])
    assert (world.strategy.snapshots[-1].last_out_s, world.strategy.snapshots[-1].last_in_s) == (out_s, in_s)


# -- when ----------------------------------------------------------------------------------------


def test_a_finished_batch_is_decided_on_at_once() -> None:
    world = World()
    world.cycle()
    assert world.cycle().entry is None
    assert world.cycle(batches=[a_batch(7)]).entry is not None
    assert [b.batch_id for b in world.strategy.snapshots[-1].batches] == [7]


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_node_that_came_or_went_is_decided_on_at_once(nodes: int) -> None:
    world = World(nodes=2)
    world.cycle()
    world.target.observed = nodes
    assert world.cycle().entry is not None


def test_without_news_there_is_a_decision_every_five_seconds() -> None:
    world = World()
    times = [world.clock.now_s() for _ in range(31) if world.cycle().entry is not None]
    assert times == [101.0 + 5.0 * i for i in range(7)]


def test_after_a_growth_there_is_a_decision_every_cycle_for_a_few_seconds() -> None:
    world = World(nodes=1, guards=default_guards())
    world.strategy.nodes = 12
    while world.clock.now_s() < 112.0:
        world.cycle()
    assert world.applied == [3, 6, 12]  # the step cap, with only the cool-down of 3 s in between
    assert [row["time_s"] for row in world.store.ledger() if row["verdict"] == "act"] == [101.0, 104.0, 107.0]
    quiet_s = [row["time_s"] for row in world.store.ledger() if row["time_s"] >= 112.0]
    assert quiet_s == [] or quiet_s == [112.0]


def test_each_batch_is_shown_to_the_strategy_once() -> None:
    world = World()
    for i in range(5):
        world.cycle(batches=[a_batch(2 * i), a_batch(2 * i + 1)])
        world.cycle()
    assert [b.batch_id for s in world.strategy.snapshots for b in s.batches] == list(range(10))


def test_nothing_is_decided_while_there_is_nothing_to_scale() -> None:
    world = World()
    world.strategy.nodes = 9
    for _ in range(30):
        assert world.cycle(active=False).entry is None
    assert (world.strategy.snapshots, world.applied, world.store.ledger()) == ([], [], [])
    assert world.cycle().entry is not None


# -- the ledger and the store --------------------------------------------------------------------


def test_the_ledger_row_is_on_disk_before_the_act(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    store = Store(path, ManualClock())
    world = World(store=store)
    found: list[Any] = []
    world.target.on_apply = lambda planned: found.extend(Store.read_ledger(path))
    world.strategy.nodes = 4
    world.cycle()
    assert [row["wanted"]["nodes"]["main"] for row in found] == [4]
    assert found[0]["outcome"] is None
    assert Store.read_ledger(path)[0]["outcome"]["requested"]["nodes"] == {"main": 4}
    store.close()


def test_a_crash_during_apply_leaves_a_row_without_outcome() -> None:
    world = World()
    world.strategy.nodes = 4

    def crash(planned: Layout) -> None:
        raise KeyboardInterrupt

    world.target.on_apply = crash
    with pytest.raises(KeyboardInterrupt):
        world.cycle()
    assert [(row["verdict"], row["outcome"]) for row in world.store.ledger()] == [("act", None)]


def test_the_achieved_effect_is_filled_in_when_it_is_due() -> None:
    class Promising(ScriptedStrategy):
        def decide(self, snapshot: Snapshot) -> Decision:
            effect = Effect(metric=Metric.FRESHNESS, value=2.0, at_s=snapshot.now_s + 10.0)
            nodes = 4 if snapshot.planned.main_nodes < 4 else snapshot.planned.main_nodes
            return Decision(wanted=Layout.of(nodes), reason="r", expected=effect)

    world = World(Promising())
    for i in range(15):
        world.cycle(readings=[Reading(101.0 + i, "words", Metric.FRESHNESS, float(i))])
    assert world.store.ledger()[0]["verdict"] == "act"
    assert world.store.ledger()[0]["achieved"] == 10.0


def test_every_reading_reaches_the_store_and_the_strategy() -> None:
    world = World()
    reading = Reading(101.0, "words", Metric.FRESHNESS, 3.0)
    world.cycle(readings=[reading])
    assert world.store.readings[:-1] == [reading]
    assert world.store.readings[-1].metric is Metric.NODES_HELD
    assert world.strategy.snapshots[0].windows.of("words", Metric.FRESHNESS).last == 3.0


def test_batches_go_to_the_store_and_first_batches_to_a_table_of_their_own() -> None:
    world = World()
    world.cycle(batches=[a_batch(1), a_batch(2, 5.0)], first_batches=[a_batch(0)])
    world.cycle()
    world.cycle(batches=[a_batch(3, 10.0)])
    assert [batch.batch_id for batch in world.store.batches] == [1, 2, 3]
    assert [batch.batch_id for batch in world.store.first_batches] == [0]


def test_readings_are_written_even_while_observations_fail(tmp_path: Path) -> None:
    world = World()
    store = Store(tmp_path / "run.sqlite", world.clock)
    world.loop._store = store
    world.cycle(0.5, readings=[Reading(100.5, "words", Metric.FRESHNESS, 3.0)])
    world.target.error = TargetError("gone for a while")
    world.cycle(1.0)
    assert store.readings("words", Metric.FRESHNESS) == [(100.5, 3.0)]
    store.close()


def test_nodes_that_left_long_ago_are_forgotten() -> None:
    world = World()
    for i in range(2000):
        world.cycle(readings=[Reading(world.clock.now_s() + 1.0, f"executor-{i}", Metric.TASK_TIME, 1.0)])
    assert len(world.loop.windows) < 1000


# -- errors -------------------------------------------------------------------------------------


def test_failed_observations_change_nothing_and_the_first_one_is_recorded() -> None:
    world = World()
    world.cycle()
    shown = len(world.strategy.snapshots)
    world.target.error = TargetError("no answer")
    world.strategy.nodes = 9
    entries = [world.cycle().entry for _ in range(30)]
    assert entries[0] is not None, "held from the first failed observation on"
    assert entries[0].decision.inputs["data_age_s"] == 1.0
    decided = [entry for entry in entries if entry is not None]
    assert len(decided) == 6, "then at the usual interval"
    assert all(entry.verdict == "hold" for entry in decided)
    assert all(entry.decision.reason.startswith("missing data: ") for entry in decided)
    assert all([c.name for c in entry.decision.bound_by] == ["missing data"] for entry in decided)
    assert len(world.strategy.snapshots) == shown, "the strategy is not called"
    assert world.applied == []


@pytest.mark.parametrize("outage_s", [1, 2, 4, 9, 14, 16, 60])
def test_after_an_outage_the_strategy_gets_all_batches_since(outage_s: int) -> None:
    world = World(guards=default_guards())
    world.cycle()
    world.target.error = TargetError("no answer")
    world.strategy.nodes = 4
    for _ in range(outage_s):
        world.cycle()
    assert world.applied == []
    world.target.error = None
    world.cycle(batches=[a_batch(7), a_batch(8)])
    assert [b.batch_id for b in world.strategy.snapshots[-1].batches] == [7, 8]
    assert world.strategy.snapshots[-1].data_age_s == 0.0
    assert world.applied == [4]


def test_the_first_observation_after_an_outage_triggers_a_decision() -> None:
    world = World(nodes=2)
    world.cycle()
    world.target.error = TargetError("no answer")
    world.cycle()
    world.target.error, world.strategy.nodes = None, 3
    world.cycle()
    assert world.applied == [3]


@pytest.mark.parametrize("fails", [True, False])
def test_an_observation_that_took_long_is_stale(fails: bool) -> None:
    world = World(guards=default_guards())
    world.cycle()
    shown, seen_s, observe = len(world.strategy.snapshots), world.clock.now_s(), world.target.observe
    world.strategy.nodes = 9
    world.target.show(batches=[a_batch(3)])

    def hangs() -> Any:
        seen = observe()
        world.clock.advance(60.0)
        if fails:
            raise TargetError("timed out")
        return seen

    world.target.observe = hangs  # type: ignore[method-assign]
    entry = world.cycle().entry
    assert entry is not None
    assert (entry.verdict, entry.time_s) == ("hold", seen_s + 61.0)
    assert entry.decision.inputs["data_age_s"] == (61.0 if fails else 60.0)
    assert len(world.strategy.snapshots) == shown
    world.target.observe = observe  # type: ignore[method-assign]
    world.cycle()
    assert world.applied != []
    assert [b.batch_id for b in world.strategy.snapshots[-1].batches] == ([] if fails else [3]), (
        "nothing is forgotten"
    )


def test_a_slow_observation_is_decided_on_and_ungranted_nodes_are_requested_again() -> None:
    world = World(nodes=1, capacity=3)
    observe = world.target.observe

    def slow() -> Any:
        seen = observe()
        world.clock.advance(2.0)
        return seen

    world.target.observe = slow  # type: ignore[method-assign]
    world.strategy.nodes = 5
    world.cycle()
    world.cycle(batches=[a_batch()])
    assert world.strategy.snapshots[-1].data_age_s == 2.0
    assert world.applied == [5, 5]


def test_an_observation_from_before_the_last_request_does_not_repeat_it() -> None:
    world = World(nodes=2)
    world.strategy.nodes = 4
    world.cycle()
    for _ in range(3):  # the observation is 5 s old
        world.cycle(time_s=world.clock.now_s() - 4.0, requested=Layout.of(2), batches=[a_batch()])
    assert world.applied == [4]
    world.cycle(3.0, time_s=world.clock.now_s(), requested=Layout.of(2), batches=[a_batch()])
    assert world.applied == [4, 4]


def test_ungranted_nodes_are_not_requested_again_without_observations() -> None:
    world = World(nodes=1, capacity=3, guards=default_guards())
    world.strategy.nodes = 3
    world.target.capacity = 2
    world.cycle()
    assert world.applied == [3]
    world.target.error = TargetError("no answer")
    for _ in range(60):
        world.cycle()
    assert world.applied == [3]
    world.target.error = None
    world.cycle()
    assert world.applied == [3, 3]


def test_a_refused_act_is_in_the_ledger_with_the_reason() -> None:
    world = World()
    world.strategy.nodes = 4

    def refuse(planned: Layout) -> None:
        raise TargetError("the master is restarting")

    world.target.on_apply = refuse
    entry = world.cycle().entry
    assert entry is not None
    assert entry.outcome is not None
    assert "the master is restarting" in entry.outcome.note
    assert entry.outcome.requested == Layout.of(2)


def run_for(world: World, cycles: int) -> list[CycleReport]:
    """Run this many cycles."""
    stop, reports = threading.Event(), []
    left = [cycles]

    def on_cycle(report: CycleReport) -> None:
        reports.append(report)
        left[0] -= 1
        if left[0] == 0:
            stop.set()

    world.loop._on_cycle = on_cycle
    world.loop.run(stop)
    return reports


def test_a_strategy_that_raises_stops_neither_the_loop_nor_the_job(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.strategy.error = ZeroDivisionError("a bug")
    with caplog.at_level(logging.ERROR):
        reports = run_for(world, 20)
    assert len(reports) == 20
    assert world.applied == []
    assert 1 <= len(caplog.records) <= 10  # logged, but not every second
    world.strategy.error, world.strategy.nodes = None, 4
    run_for(world, 6)
    assert world.applied == [4]


def test_a_view_that_raises_does_not_stop_the_loop() -> None:
    world = World()
    stop, calls = threading.Event(), []

    def broken(report: CycleReport) -> None:
        calls.append(report)
        if len(calls) == 5:
            stop.set()
        raise RuntimeError("terminal closed")

    world.loop._on_cycle = broken
    world.loop.run(stop)
    assert len(calls) == 5


def test_the_loop_ends_when_the_target_has_ended() -> None:
    world = World()
    run_for(world, 3)
    world.target.error = TargetGoneError("the application has ended")
    world.loop.run(threading.Event())  # returns


def test_the_loop_keeps_its_pace_however_long_a_cycle_takes() -> None:
    world = World(cycle_s=2.0)
    starts: list[float] = []
    slow = world.target.observe

    def observe() -> Any:
        starts.append(world.clock.now_s())
        seen = slow()
        world.clock.advance(0.5)
        return seen

    world.target.observe = observe  # type: ignore[method-assign]
    run_for(world, 4)
    assert starts == [100.0, 102.0, 104.0, 106.0]


def test_on_a_full_disk_nothing_is_applied_and_no_batch_is_lost() -> None:
    class FullDisk(MemoryStore):
        full = True

        def add(self, readings: Any, batches: Any = (), first_batches: Any = ()) -> None:
            if self.full:
                raise StoreError("disk full")

    world = World(store=FullDisk())
    world.strategy.nodes = 4
    with pytest.raises(StoreError):
        world.cycle(batches=[a_batch(1)], readings=[Reading(101.0, "words", Metric.FRESHNESS, 3.0)])
    assert world.applied == []
    world.store.full = False
    world.cycle(batches=[a_batch(2)])
    assert [b.batch_id for b in world.strategy.snapshots[0].batches] == [1, 2]


# -- the laws ------------------------------------------------------------------------------------

STEPS = st.lists(
    st.fixed_dictionaries(
        {
            "after_s": st.sampled_from([0.2, 1.0, 5.0, 14.0, 20.0]),
            "fails": st.booleans(),
            "lag_s": st.sampled_from([0.0, 0.0, 0.0, 3.0, 16.0, 100.0]),
            "observed": st.integers(0, 30),
            "lost": st.integers(-3, 3),
            "active": st.sampled_from([True, True, True, False]),
            "given_up_nodes": st.sampled_from([0, 0, 0, 2]),
            "batch": st.booleans(),
            "wish": st.integers(-5, 60),
            "raises": st.sampled_from([False, False, False, True]),
            "capacity": st.integers(1, 30),
        }
    ),
    min_size=1,
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(steps=STEPS, start=st.integers(0, 40), low=st.integers(1, 5), more=st.integers(0, 20))
def test_nothing_is_applied_on_stale_data_or_outside_the_limits(
    steps: list[dict[str, Any]], start: int, low: int, more: int
) -> None:
    world = World(nodes=start, limits=f"{low}:{low + more}", guards=default_guards())
    seen_s: list[float] = []
    world.target.on_apply = lambda planned: ages.append(world.clock.now_s() - seen_s[-1])
    ages: list[float] = []
    for step in steps:
        world.clock.advance(step["after_s"])
        world.strategy.nodes = step["wish"]
        world.strategy.error = RuntimeError("bug") if step["raises"] else None
        world.target.capacity = step["capacity"]
        world.target.error = TargetError("no answer") if step["fails"] else None
        time_s = world.clock.now_s() - step["lag_s"]
        world.target.show(
            time_s=time_s,
            layout=Layout.of(step["observed"]),
            requested=Layout.of(max(0, world.target.requested + step["lost"])),
            active=step["active"],
            given_up_nodes=step["given_up_nodes"],
            batches=[a_batch()] if step["batch"] else [],
        )
        if not step["fails"]:
            seen_s.append(time_s)
        before, shown = len(world.applied), len(world.strategy.snapshots)
        try:
            world.loop.cycle()
        except RuntimeError:
            assert len(world.applied) == before
        if step["fails"]:
            assert (len(world.applied), len(world.strategy.snapshots)) == (before, shown)
    assert all(age_s <= STALE_AFTER_S for age_s in ages)
    assert all(low <= nodes <= low + more for nodes in world.applied)
    acts = [row for row in world.store.ledger() if row["verdict"] == "act"]
    applied_acts = [row for row in acts if "never arrived" not in row["reason"]]
    assert all(row["outcome"] is not None for row in applied_acts)
