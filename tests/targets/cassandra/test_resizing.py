"""Nodes come and go one at a time, whatever dies in between: node or controller. Against a fake cluster."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fake_ring import CLEANUP_S, JOIN_S, LEAVE_S, FakeExecutor, FakeRing

from ebbflow.core.layout import Layout
from ebbflow.core.metrics import Metric
from ebbflow.core.ports import Observation
from ebbflow.core.snapshot import ActionKind
from ebbflow.core.topology import NodeState
from ebbflow.errors import InputError, TargetError
from ebbflow.targets.cassandra.actuator import MOST_JOINS, Actuator, ResizeTimes
from ebbflow.targets.cassandra.journal import Journal
from ebbflow.targets.cassandra.target import CassandraTarget
from ebbflow.testing import ManualClock, check_target

TIMES = ResizeTimes(cleanup_after_s=10.0, start_within_s=60.0, restart_after_s=30.0)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000.0)


@pytest.fixture
def ring(clock: ManualClock) -> FakeRing:
    return FakeRing(clock)


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "journal.json"


def controller(ring: FakeRing, journal: Path) -> CassandraTarget:
    """A controller; a second one on the same journal is the first after a crash."""
    target = CassandraTarget(
        ring, ring, ring.clock, name="fake", hosts=len(ring.addresses), journal_file=journal, times=TIMES
    )
    target._executor.shutdown()
    target._actuator._executor = FakeExecutor(ring)
    return target


def until(target: CassandraTarget, ring: FakeRing, nodes: int, within_s: int = 600) -> Observation:
    """Observe once a second until there are so many nodes, none changes, and nothing is left to do."""
    for _ in range(within_s):
        seen = target.observe()
        assert seen.topology is not None
        if seen.layout.main_nodes == nodes and not seen.under_way and target._actuator.step is None:
            return seen
        ring.clock.advance(1.0)
    raise AssertionError(f"{ring.states}, {target._actuator.step}, {target._actuator.waiting}")


def test_it_keeps_the_contract_of_a_target(ring: FakeRing, journal: Path) -> None:
    target, polls = controller(ring, journal), ring.poll

    @contextmanager
    def failing() -> Iterator[None]:
        def fail() -> None:
            raise TargetError("no node answers")

        ring.poll = fail  # type: ignore[assignment, method-assign]
        yield
        ring.poll = polls  # type: ignore[method-assign]

    check_target(
        target, advance=ring.clock.advance, sizes=(3, 5), infeasible=7, failing=failing, within_s=600.0
    )
    assert ring.most_changing == 1


def test_two_nodes_join_one_after_the_other_and_then_the_others_clean_up(
    ring: FakeRing, journal: Path
) -> None:
    Journal(cluster="fake", needs_cleanup=()).write(journal)
    target = controller(ring, journal)
    target.observe()
    target.apply(Layout.of(5))
    assert target.observe().under_way[0].kind is ActionKind.GROW
    until(target, ring, 5)
    assert [call for call in ring.calls if call[0] == "start"] == [
        ("start", "10.0.0.4"),
        ("start", "10.0.0.5"),
    ]
    assert ring.most_changing == 1
    ring.clock.advance(TIMES.cleanup_after_s)
    readings = [*target.observe().readings]
    for _ in range(60):
        ring.clock.advance(1.0)
        readings += target.observe().readings
    cleaned = [host for what, host in ring.calls if what == "cleanup"]
    assert sorted(cleaned) == ring.addresses[:4]  # the fifth handed nothing over
    took = [reading.value for reading in readings if reading.metric is Metric.CLEANUP_TIME]
    assert took == pytest.approx([CLEANUP_S] * 4, abs=1.1)


def test_the_times_of_a_join_and_a_leave_are_measured(ring: FakeRing, journal: Path) -> None:
    target = controller(ring, journal)
    readings = []
    for size in (4, 3):
        target.observe()
        target.apply(Layout.of(size))
        for _ in range(100):
            readings += target.observe().readings
            ring.clock.advance(1.0)
    took = {
        each.metric: each.value for each in readings if each.metric in (Metric.JOIN_TIME, Metric.LEAVE_TIME)
    }
    assert took[Metric.JOIN_TIME] == pytest.approx(JOIN_S, abs=1.1)
    assert took[Metric.LEAVE_TIME] == pytest.approx(LEAVE_S, abs=1.1)
    assert target.observe().lead_time_s == pytest.approx(JOIN_S, abs=1.1)


def test_a_cleanup_that_is_due_runs_before_a_node_leaves(ring: FakeRing, journal: Path) -> None:
    target = controller(ring, journal)
    target.observe()
    target.apply(Layout.of(4))
    until(target, ring, 4)
    target.apply(Layout.of(3))
    until(target, ring, 3)
    order = [what for what, _ in ring.calls]
    assert order.index("decommission") > max(i for i, what in enumerate(order) if what == "cleanup")
    assert order.count("cleanup") >= 3


def test_what_happened_before_the_first_journal_is_unknown_so_all_nodes_clean_up(
    ring: FakeRing, journal: Path
) -> None:
    for host in ring.addresses[3:5]:
        ring.states[host] = NodeState.ACTIVE
    target = controller(ring, journal)
    target.observe()
    target.apply(Layout.of(4))
    until(target, ring, 4)
    assert sorted(host for what, host in ring.calls if what == "cleanup") == ring.addresses[:5]


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        ({"repairs": 1}, "repair"),
        ({"free_bytes": 1e8}, "disk space"),
        ({"free_bytes": None}, "unknown"),
        ({"down": {"10.0.0.2"}}, "down"),
    ],
)
def test_an_unsafe_step_waits_and_says_why_and_goes_on_once_it_is_safe(
    ring: FakeRing, journal: Path, spoil: dict[str, object], why: str
) -> None:
    for host in ring.addresses[3:5]:
        ring.states[host] = NodeState.ACTIVE
    Journal(cluster="fake", needs_cleanup=()).write(journal)
    target = controller(ring, journal)
    target.observe()
    healthy = {key: getattr(ring, key) for key in spoil}
    for key, value in spoil.items():
        setattr(ring, key, value)
    target.apply(Layout.of(4))
    for _ in range(20):
        seen = target.observe()
        ring.clock.advance(1.0)
    assert why in seen.under_way[0].note
    assert not any(what == "decommission" for what, _ in ring.calls)
    for key, value in healthy.items():  # the negative control: nothing but this was in the way
        setattr(ring, key, value)
    until(target, ring, 4)


def test_never_below_the_replication_factor_even_if_asked_for(ring: FakeRing, journal: Path) -> None:
    Journal(cluster="fake", needs_cleanup=()).write(journal)
    target = controller(ring, journal)
    target.observe()
    target.apply(Layout.of(2))
    for _ in range(100):
        seen = target.observe()
        ring.clock.advance(1.0)
    assert seen.layout.main_nodes == 3
    assert "replication factor" in seen.under_way[0].note
    assert not ring.calls
    target.apply(Layout.of(3))
    assert not target.observe().under_way


def test_a_node_that_dies_while_it_joins_is_started_anew_without_its_data(
    ring: FakeRing, journal: Path
) -> None:
    target = controller(ring, journal)
    target.observe()
    target.apply(Layout.of(4))
    target.observe()
    ring.clock.advance(5.0)
    target.observe()
    ring.kill("10.0.0.4")
    ring.clock.advance(1.0)
    seen = target.observe()
    assert seen.topology is not None
    assert "died while it joined" in seen.topology.unfinished
    until(target, ring, 4)
    assert [what for what, host in ring.calls if host == "10.0.0.4"][:3] == ["start", "stop", "start"]


def test_a_node_that_never_joins_is_given_up(ring: FakeRing, journal: Path) -> None:
    ring.broken["start"] = "no capacity in this zone"
    target = controller(ring, journal)
    target.observe()
    target.apply(Layout.of(4))
    given_up = 0
    for _ in range(600):
        seen = target.observe()
        given_up += seen.given_up_nodes
        ring.clock.advance(1.0)
    assert given_up == 1
    assert seen.requested.main_nodes == 3
    assert [what for what, _ in ring.calls].count("start") == MOST_JOINS
    del ring.broken["start"]  # it can be asked for again
    target.apply(Layout.of(4))
    until(target, ring, 4)


def test_a_node_that_dies_while_it_leaves_is_restarted_and_leaves_again(
    ring: FakeRing, journal: Path
) -> None:
    ring.states["10.0.0.4"] = NodeState.ACTIVE
    Journal(cluster="fake", needs_cleanup=()).write(journal)
    target = controller(ring, journal)
    target.observe()
    target.apply(Layout.of(3))
    target.observe()
    ring.clock.advance(5.0)
    ring.kill("10.0.0.4")
    until(target, ring, 3)
    assert [what for what, _ in ring.calls] == ["decommission", "restart", "decommission", "stop"]


def test_an_active_node_that_dies_is_restarted_with_its_data(ring: FakeRing, journal: Path) -> None:
    target = controller(ring, journal)
    target.observe()
    ring.kill("10.0.0.2")
    assert target.observe().layout.main_nodes == 2
    for _ in range(int(TIMES.restart_after_s)):
        ring.clock.advance(1.0)
        target.observe()
    assert ("restart", "10.0.0.2") in ring.calls
    assert until(target, ring, 3).layout.main_nodes == 3


def test_a_join_that_nobody_remembers_is_followed(ring: FakeRing, journal: Path) -> None:
    ring.start("10.0.0.6", fresh=True)
    target = controller(ring, journal)
    seen = target.observe()
    assert seen.requested.main_nodes == 4
    assert until(target, ring, 4).layout.main_nodes == 4
    assert [what for what, _ in ring.calls].count("start") == 1


@pytest.mark.parametrize("size", [5, 3])
@pytest.mark.parametrize("killed_after", range(1, 60, 6))
def test_a_controller_killed_at_any_moment_is_continued_by_the_next(
    clock: ManualClock, journal: Path, size: int, killed_after: int
) -> None:
    ring = FakeRing(clock, nodes=4)
    first = controller(ring, journal)
    first.observe()
    first.apply(Layout.of(size))
    for _ in range(killed_after):
        first.observe()
        clock.advance(1.0)
    second = controller(ring, journal)
    assert second.observe().requested.main_nodes == size
    until(second, ring, size)
    assert ring.most_changing <= 1
    assert len(ring.hosts_in(NodeState.ACTIVE)) == size


def test_a_journal_of_another_cluster_or_a_damaged_one_is_refused(
    ring: FakeRing, journal: Path, clock: ManualClock
) -> None:
    Journal(cluster="orders").write(journal)
    with pytest.raises(InputError, match="journal of cluster 'orders'"):
        controller(ring, journal)
    journal.write_text("{")
    with pytest.raises(InputError, match="not a journal"):
        Actuator(ring, (), journal, "fake", clock, FakeExecutor(ring))


def test_the_journal_is_written_before_the_operation_begins(ring: FakeRing, journal: Path) -> None:
    remembered = []
    start = ring.start

    def watched(host: str, *, fresh: bool) -> None:
        remembered.append(Journal.read(journal, "fake").step)
        start(host, fresh=fresh)

    ring.start = watched  # type: ignore[method-assign]
    target = controller(ring, journal)
    target.observe()
    target.apply(Layout.of(4))
    target.observe()
    assert [step.host for step in remembered if step is not None] == ["10.0.0.4"]
    assert not list(itertools.chain(journal.parent.glob(".journal*")))
