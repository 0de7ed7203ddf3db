"""All hosts behind the target port: joined observations, executors of each application, moves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest
from fleet_worlds import World, made_fleet

from ebbflow.core.batches import Batch, StageRun
from ebbflow.core.clock import ManualClock
from ebbflow.core.folders import Owner
from ebbflow.core.layout import Layout
from ebbflow.core.metrics import Metric
from ebbflow.core.readings import Reading
from ebbflow.core.snapshot import ActionKind
from ebbflow.errors import TargetError
from ebbflow.targets.fleet.coordination import Member, Record
from ebbflow.targets.fleet.coordination.store import StoreCoordination
from ebbflow.targets.fleet.dispatch import Dispatcher
from ebbflow.targets.fleet.target import FleetTarget
from ebbflow.targets.fleet.wire.messages import (
    Answer,
    Change,
    Done,
    Measured,
    QueryPhase,
    QueryState,
    Report,
    Request,
    SetExecutors,
    pack_readings,
)
from ebbflow.testing import check_target

TWO = """\
[application.main]
master = "spark://h:7077"
executors = "1:8"
[application.other]
master = "local[2]"
[stream.a]
[operator.first]
start = "steps:first"
writes = ["a"]
application = "main"
[operator.second]
start = "steps:second"
reads = ["a"]
application = "other"
"""


class ScriptedHosts:
    """Two hosts: ``main`` has executors that come after 10 s, ``other`` has one node."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.answers = True
        self.boots = {"main": "1", "other": "1"}
        self.measured: dict[str, list[Measured]] = {"main": [], "other": []}
        self.asked: list[int] = []
        self._nodes, self._requested, self._there_s = 1, 1, 0.0

    def update(self) -> Mapping[str, Member]:
        me = Owner.this_process()
        return {n: Member(name=n, boot=b, address="", machine="", owner=me) for n, b in self.boots.items()}

    def ask(self, application: str, request: Request) -> Answer:
        assert isinstance(request, SetExecutors)
        wanted = min(request.nodes, 8)
        self.asked.append(request.nodes)
        if wanted != self._requested:
            self._requested, self._there_s = wanted, self.clock.now_s() + 10.0
        return Done(
            requested=wanted, infeasible=request.nodes - wanted, note="full" if request.nodes > 8 else ""
        )

    def report(self, application: str, after: int | None = None) -> Report:
        if not self.answers:
            raise TargetError("it does not answer")
        if self.clock.now_s() >= self._there_s:
            self._nodes = self._requested
        main = application == "main"
        nodes, requested = (self._nodes, self._requested) if main else (1, 1)
        changes = []
        if nodes != requested:
            changes = [
                Change(grows=requested > nodes, since_s=self._there_s - 10, nodes=abs(requested - nodes))
            ]
        state = QueryState(
            name="first" if main else "second",
            token=1,
            phase=QueryPhase.RUNNING,
            rate_per_s=100.0 if main else 50.0,
        )
        return Report(
            application=application, boot=self.boots[application], time_s=self.clock.now_s(), nodes=nodes,
            requested=requested, held=max(nodes, requested), slots_per_node=2, lead_time_s=5.0, changes=changes,
            queries=[state],
            measured=[each for each in self.measured[application] if after is not None and each.number > after],
        )  # fmt: skip


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1000.0)


@pytest.fixture
def hosts(clock) -> ScriptedHosts:
    return ScriptedHosts(clock)


@pytest.fixture
def target(tmp_path, clock, hosts) -> FleetTarget:
    fleet = made_fleet(tmp_path, TWO)
    coordination = StoreCoordination(fleet.store, clock)
    for query, application in fleet.first_layout.placement.items():
        coordination.change(None, Record(query=query, application=application, token=1))
    return FleetTarget(fleet, coordination, hosts, Dispatcher(fleet, coordination, hosts, clock), clock)


def a_batch(query: str, rows: int, task_time_s: float) -> Batch:
    stage = StageRun(
        index=0, tasks=2, task_time_s=task_time_s, cpu_time_s=0.1, wall_s=0.5, longest_task_s=0.4
    )
    return Batch(
        query=query, batch_id=1, started_s=990.0, duration_s=2.0, rows=rows, slots=2, trigger_interval_s=1.0,
        arrival_rate_per_s=50.0, backlog_rows=None, oldest_arrival_s=989.0, stages=(stage,),
    )  # fmt: skip


def test_it_keeps_the_contract_of_a_target(target, clock, hosts) -> None:
    @contextmanager
    def failing() -> Iterator[None]:
        hosts.answers = False
        yield
        hosts.answers = True

    check_target(target, advance=clock.advance, infeasible=9, failing=failing)


def test_an_observation_joins_rates_times_and_loads_of_all_hosts(target, hosts) -> None:
    hosts.measured["main"] = [
        Measured(number=1, readings=pack_readings([Reading(992.0, "first", Metric.FRESHNESS, 3.0)]),
                 batches=[a_batch("first", 200, 1.0)], first_batches=[]),
    ]  # fmt: skip
    hosts.measured["other"] = [
        Measured(number=1, readings=[], batches=[a_batch("second", 100, 2.0)], first_batches=[])
    ]
    seen = target.observe()
    found = {(r.subject, r.metric): r.value for r in seen.readings}
    assert found["first", Metric.EVENT_RATE] == 100.0
    assert found["first", Metric.TIME_PER_EVENT] == pytest.approx(1.0 / 200 / 2)
    assert found["main", Metric.LOAD] == pytest.approx(100.0 * 0.0025)
    assert found["other", Metric.LOAD] == pytest.approx(50.0 * 0.01)
    assert found["fleet", Metric.ARRIVAL_RATE] == 100.0, "of the sources only"
    assert found["fleet", Metric.FRESHNESS] == 3.0
    assert [batch.query for batch in seen.batches] == ["first", "second"]
    assert seen.layout == Layout(
        nodes={"main": 1, "other": 1}, placement={"first": "main", "second": "other"}
    )
    assert seen.pipeline.order == ("first", "second")
    assert not target.observe().batches, "each batch is reported once"


def test_what_one_host_reported_is_kept_when_another_does_not_answer(target, hosts) -> None:
    hosts.measured["main"] = [
        Measured(number=1, readings=[], batches=[a_batch("first", 9, 1.0)], first_batches=[])
    ]
    whole = hosts.report
    hosts.report = lambda name, after=None: whole(name, after) if name == "main" else _fail()  # type: ignore[method-assign]
    with pytest.raises(TargetError, match="other: gone"):
        target.observe()
    hosts.report = whole  # type: ignore[method-assign]
    assert [batch.query for batch in target.observe().batches] == ["first"]


def _fail() -> Report:
    raise TargetError("gone")


def test_a_restarted_host_counts_its_measurements_from_the_start_again(target, hosts) -> None:
    hosts.measured["main"] = [
        Measured(number=n, readings=[], batches=[a_batch("first", n, 1.0)], first_batches=[])
        for n in (1, 2, 3)
    ]
    assert len(target.observe().batches) == 3
    hosts.boots["main"] = "2"
    hosts.measured["main"] = [
        Measured(number=1, readings=[], batches=[a_batch("first", 7, 1.0)], first_batches=[])
    ]
    assert [batch.rows for batch in target.observe().batches] == [7]


def test_a_planned_move_is_under_way_until_the_dispatcher_has_done_it(tmp_path) -> None:
    world = World(tmp_path)
    dispatcher = world.dispatcher()
    world.settle(dispatcher)
    target = FleetTarget(world.fleet, world.coordination, _links(world), dispatcher, world.clock)
    seen = target.observe()
    outcome = target.apply(Layout(nodes=seen.layout.nodes, placement={"count": "right", "fixed": "right"}))
    assert outcome.requested.placement == {"count": "right", "fixed": "left"}
    assert "operator fixed may not move" in outcome.note
    seen = target.observe()
    assert seen.layout.placement["count"] == "left"
    assert seen.requested.placement["count"] == "right"
    assert [action.kind for action in seen.under_way] == [ActionKind.RESTART]
    assert not seen.changed_placements, "the plan asked for it"
    world.settle(dispatcher)
    seen = target.observe()
    assert seen.layout.placement["count"] == "right"
    assert {r.metric for r in seen.readings if r.subject == "count"} >= {
        Metric.RESTART_STOP,
        Metric.RESTART_START,
    }
    assert [str(moved).partition(",")[0] for moved in target.moved] == ["moved count from left to right"]


def test_moves_that_failed_or_that_a_user_made_are_reported_so_that_the_plan_follows(tmp_path) -> None:
    world = World(tmp_path)
    dispatcher = world.dispatcher()
    world.settle(dispatcher)
    target = FleetTarget(world.fleet, world.coordination, _links(world), dispatcher, world.clock)
    seen = target.observe()
    world.broken.add(("right", "count"))
    target.apply(Layout(nodes=seen.layout.nodes, placement={"count": "right"}))
    world.settle(dispatcher)
    assert target.observe().changed_placements == {
        "count": f"count stays in left instead of right: no such table, down for {_down(target)}"
    }
    world.broken.clear()
    from ebbflow.targets.fleet.dispatch import request_move

    request_move(world.fleet, world.coordination, "count", "right", world.clock.now_s())
    changed = target.observe().changed_placements
    assert changed == {"count": "it goes to right, by a user or because its host was gone"}
    assert not target.observe().changed_placements


def _down(target: FleetTarget) -> str:
    return str(target.moved[-1]).rpartition("down for ")[2]


def _links(world: World):
    from fleet_worlds import FakeLinks

    return FakeLinks(world)
