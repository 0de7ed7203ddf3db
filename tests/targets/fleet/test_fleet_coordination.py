"""Members, leaders and records, in the store and in ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from ebbflow.core.clock import ManualClock, SystemClock
from ebbflow.core.folders import Owner
from ebbflow.errors import OutdatedError, TargetError
from ebbflow.targets.fleet.coordination import Coordination, Member, Record, Step, Wish
from ebbflow.targets.fleet.coordination.local_zookeeper import LocalZooKeeper
from ebbflow.targets.fleet.coordination.store import StoreCoordination
from ebbflow.targets.fleet.coordination.zookeeper import connect

Connect = Callable[[], Coordination]


def member(name: str, boot: str = "1") -> Member:
    return Member(name=name, boot=boot, address="ipc:///x", machine="here", owner=Owner.this_process())


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[LocalZooKeeper]:
    running = LocalZooKeeper(tmp_path_factory.mktemp("zookeeper")).start()
    yield running
    running.stop()


@pytest.fixture(params=["store", pytest.param("zookeeper", marks=pytest.mark.spark)])
def another(request, tmp_path) -> Iterator[Connect]:
    """Makes connections to one coordination, as processes do."""
    made: list[Coordination] = []

    def make() -> Coordination:
        if request.param == "store":
            made.append(StoreCoordination(tmp_path / "fleet.sqlite", SystemClock()))
        else:
            server = request.getfixturevalue("server")
            made.append(connect(server.address, tmp_path.name, session_s=2.0))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_the_contract_of_a_coordination(another) -> None:
    """One test, because a server takes seconds to start."""
    one, two = another(), another()
    # members
    assert one.hosts() == {}
    one.join(member("left"))
    two.join(member("right"))
    assert set(one.hosts()) == set(two.hosts()) == {"left", "right"}
    assert one.stay(member("left"))
    two.join(member("left", boot="2"))
    assert one.hosts()["left"].boot == "2"
    assert not one.stay(member("left")), "another has taken its place"
    one.leave(member("left"))
    assert "left" in one.hosts(), "only the host itself can leave"
    two.leave(member("left", boot="2"))
    assert set(one.hosts()) == {"right"}
    # leaders
    assert one.leader() is None
    assert one.lead(member("a"))
    assert not two.lead(member("b", boot="b"))
    assert one.lead(member("a"))
    one.resign(member("a"))
    assert two.lead(member("b", boot="b"))
    assert one.leader() == member("b", boot="b")
    # records: of two changes to what both have read, one succeeds
    first = one.change(None, Record(query="count", application="left", token=0))
    with pytest.raises(OutdatedError):
        two.change(None, Record(query="count", application="right", token=0))
    seen = two.record("count")
    assert seen == first
    moved = one.change(
        first, Record(query="count", application="right", token=1, step=Step.STARTING, source="left")
    )
    with pytest.raises(OutdatedError):
        two.change(seen, Record(query="count", application="left", token=1))
    assert two.records() == {"count": moved}
    two.remove(first)
    assert one.record("count") == moved, "an outdated record removes nothing"
    two.remove(moved)
    assert one.records() == {}
    # wishes
    assert one.wish() is Wish.RUN
    one.set_wish(Wish.PAUSE)
    assert two.wish() is Wish.PAUSE


@pytest.mark.spark
@pytest.mark.long
def test_without_zookeeper_calls_fail_in_seconds_and_records_survive_its_restart(tmp_path, wait) -> None:
    server = LocalZooKeeper(tmp_path / "data").start()
    client = connect(server.address, "fleet", session_s=2.0)
    try:
        client.join(member("left"))
        record = client.change(None, Record(query="count", application="left", token=3))
        server.stop()
        with pytest.raises(TargetError, match="ZooKeeper does not answer"):
            client.record("count")
        server.start()

        def back(holds: Callable[[], bool]) -> bool:
            try:
                return holds()
            except TargetError:  # it reconnects
                return False

        wait(lambda: back(lambda: client.record("count") == record), "the record to come back")
        wait(
            lambda: back(lambda: client.stay(member("left")) and "left" in client.hosts()),
            "the host to be announced again",
        )
    finally:
        client.close()
        server.stop()


def test_in_the_store_a_member_without_heartbeat_is_gone_and_one_whose_process_ended_at_once(
    tmp_path,
) -> None:
    clock = ManualClock(1000.0)
    store = StoreCoordination(tmp_path / "fleet.sqlite", clock)
    me = Owner.this_process()
    dead = Owner(pid=me.pid, started_s=1.0, namespace=me.namespace, boot=me.boot, ticks=1)
    store.join(member("left"))
    store.join(Member(name="right", boot="1", address="", machine="here", owner=dead))
    assert set(store.hosts()) == {"left"}
    clock.advance(14.0)
    assert store.stay(member("left"))
    clock.advance(14.0)
    assert set(store.hosts()) == {"left"}
    clock.advance(2.0)
    assert store.hosts() == {}
    assert store.stay(member("left")), "it comes back when it wakes and nobody took its place"
    assert set(store.hosts()) == {"left"}
    store.close()
    with pytest.raises(TargetError, match="does not answer"):
        store.records()
