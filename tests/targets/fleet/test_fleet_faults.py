"""Faults on real hosts: 50 moves under load, kill -9 of hosts, controllers and ZooKeeper, and hosts that were paused.

Each test counts every row, and checks that every batch of a query was committed by one host. Set
EBBFLOW_FLEET_MOVES and EBBFLOW_FLEET_KILLS for other numbers of moves and kills.
"""

from __future__ import annotations

import json
import os
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fleet_rows import Account, Feeder, account_of_copies, account_of_counts, rows_of, write_fleet

from ebbflow.control.fleet import shut_down
from ebbflow.core.clock import SystemClock
from ebbflow.errors import EbbflowError, TargetError
from ebbflow.monitoring.store import Store
from ebbflow.targets.fleet.coordination import Coordination, Step
from ebbflow.targets.fleet.coordination.local_zookeeper import LocalZooKeeper
from ebbflow.targets.fleet.coordination.opening import open_coordination
from ebbflow.targets.fleet.dispatch import request_move
from ebbflow.targets.fleet.file import load_fleet
from ebbflow.targets.fleet.links import HostLinks
from ebbflow.targets.fleet.model import Fleet

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(3600)]

MOVES = int(os.environ.get("EBBFLOW_FLEET_MOVES", "50"))
KILLS = int(os.environ.get("EBBFLOW_FLEET_KILLS", "30"))


class RunningFleet:
    """A fleet whose controller is a process of its own, so that it can be killed."""

    def __init__(self, fleet: Fleet, *, controllers: int = 1) -> None:
        self.fleet = fleet
        self.clock = SystemClock()
        self.coordination: Coordination = open_coordination(fleet, self.clock)
        self.controllers = [self.start_controller() for _ in range(controllers)]
        self.feeder = Feeder(fleet.streams["numbers"].folder, rows_per_s=100, files_per_s=2.0)

    def start_controller(self) -> subprocess.Popen[bytes]:
        command = [
            sys.executable,
            "-m",
            "ebbflow",
            "--verbose",
            "fleet",
            "up",
            str(self.fleet.path),
            "--strategy",
            "static",
        ]
        log = self.fleet.folder / "logs" / "controller.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def record(self, query: str):
        """The record of a query; None while the coordination does not answer."""
        try:
            return self.coordination.record(query)
        except TargetError:
            return None

    def runs(self, query: str) -> bool:
        """Whether the query runs where its record says, under its token."""
        links = HostLinks(self.fleet, self.coordination)
        try:
            record = self.coordination.record(query)
            if record is None or record.is_moving:
                return False
            links.update()
            state = links.report(record.application).query(query)
            return state is not None and (state.token, state.phase) == (record.token, "running")
        except EbbflowError:
            return False
        finally:
            links.close()

    def move(self, query: str) -> bool:
        """Ask for a move to the other application; whether that was possible."""
        record = self.record(query)
        if record is None or record.is_moving:
            return False
        target = "right" if record.application == "left" else "left"
        try:
            request_move(self.fleet, self.coordination, query, target, self.clock.now_s())
        except EbbflowError:
            return False
        return True

    def accounts(self) -> dict[str, Account]:
        streams, fed = self.fleet.streams, self.feeder.fed
        return {
            "count": account_of_counts(streams["counts"].folder, fed),
            "copy": account_of_copies(streams["copies"].folder, fed),
        }

    def finish(self, wait: Callable[..., None]) -> dict[str, Account]:
        """Feed no more, and wait until no row is missing."""
        self.feeder.stop()
        wait(lambda: all(each.lost == 0 for each in self.accounts().values()), "every row to arrive", 300.0)
        return self.accounts()

    def close(self) -> None:
        self.feeder.stop()
        left = shut_down(self.fleet, self.clock)
        for controller in self.controllers:
            controller.kill()
            controller.wait()
        self.coordination.close()
        assert left == []


@pytest.fixture
def running(tmp_path) -> Iterator[Callable[..., RunningFleet]]:
    made: list[RunningFleet] = []

    def make(*, top: str = "", controllers: int = 1) -> RunningFleet:
        made.append(RunningFleet(load_fleet(write_fleet(tmp_path, top=top)), controllers=controllers))
        return made[-1]

    yield make
    for each in made:
        each.close()


def wait_for_work(fleet: RunningFleet, wait: Callable[..., None]) -> None:
    for stream in ("counts", "copies"):
        wait(lambda s=stream: rows_of(fleet.fleet.streams[s].folder), f"the first {stream}", 240.0)


def test_a_stateful_operator_moved_many_times_under_load_loses_and_repeats_nothing(
    running, wait, capsys
) -> None:
    fleet = running()
    wait_for_work(fleet, wait)
    for number in range(1, MOVES + 1):
        assert fleet.move("count")
        wait(lambda n=number: fleet.record("count").moves == n, f"move {number}", 120.0)
    accounts = fleet.finish(wait)
    wait(lambda: len(_downs(fleet)) == MOVES, "all moves to be in the ledger", 60.0)
    downs = sorted(_downs(fleet))
    with capsys.disabled():
        sys.stderr.write(
            f"\n{MOVES} moves, {fleet.feeder.fed} rows: down for {statistics.median(downs):.2f} s at the median, "
            f"{downs[0]:.2f} to {downs[-1]:.2f} s; {accounts}\n"
        )
    assert all(account.exact for account in accounts.values()), accounts
    assert statistics.median(downs) < 5.0


def _downs(fleet: RunningFleet) -> list[float]:
    return [e["inputs"]["down_s"] for e in Store.read_ledger(fleet.fleet.store) if "down_s" in e["inputs"]]


def test_kill_9_of_host_controller_and_zookeeper_at_random_moments(running, tmp_path, wait, capsys) -> None:
    server = LocalZooKeeper(tmp_path / "zookeeper").start()
    random_ = random.Random(7)
    killed: dict[str, int] = {"host": 0, "controller": 0, "zookeeper": 0}
    try:
        fleet = running(top=f'coordination = "{server.address}"', controllers=2)
        wait_for_work(fleet, wait)
        for number in range(KILLS):
            fleet.move(random_.choice(["count", "copy"]))
            time.sleep(random_.uniform(0.0, 4.0))  # the moment of the kill is what is random here
            what = ("host", "controller", "zookeeper")[number % 3]
            killed[what] += _kill(fleet, server, what, random_)
            if number % 3 == 2:  # every third time, all must come back before the next
                wait(
                    lambda: fleet.runs("count") and fleet.runs("copy"), f"recovery after kill {number}", 300.0
                )
        accounts = fleet.finish(wait)
        with capsys.disabled():
            sys.stderr.write(
                f"\n{sum(killed.values())} kills {killed}, {fleet.feeder.fed} rows: {accounts}\n"
            )
        assert all(account.exact for account in accounts.values()), accounts
        assert sum(killed.values()) == KILLS
        _assert_one_owner_each(fleet)
    finally:
        if "fleet" in locals():
            fleet.close()
            fleet.close = lambda: None  # type: ignore[method-assign]
        server.stop()


def _kill(fleet: RunningFleet, server: LocalZooKeeper, what: str, random_: random.Random) -> int:
    if what == "zookeeper":
        server.kill()
        time.sleep(random_.uniform(0.5, 3.0))
        server.start()
        return 1
    if what == "controller":
        index = random_.randrange(len(fleet.controllers))
        fleet.controllers[index].kill()
        fleet.controllers[index].wait()
        fleet.controllers[index] = fleet.start_controller()
        return 1
    deadline_s = time.monotonic() + 180.0
    while time.monotonic() < deadline_s:
        try:
            hosts = fleet.coordination.hosts()
        except TargetError:
            hosts = {}
        if hosts:
            victim = hosts[random_.choice(sorted(hosts))]
            try:
                os.kill(victim.owner.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            return 1
        time.sleep(0.2)
    raise AssertionError("no host to kill")


def _assert_one_owner_each(fleet: RunningFleet) -> None:
    """Claims of a query are by one host each, and every batch of Spark's logs was committed once."""
    for query in fleet.fleet.queries.values():
        commits = sorted(int(p.name) for p in (query.checkpoint / "commits").iterdir() if p.name.isdecimal())
        offsets = sorted(int(p.name) for p in (query.checkpoint / "offsets").iterdir() if p.name.isdecimal())
        assert commits, query.name
        assert commits[-1] <= offsets[-1] <= commits[-1] + 1
        claims = query.checkpoint.with_name(f"{query.checkpoint.name}.claims")
        tokens = [json.loads(p.read_text())["token"] for p in claims.iterdir() if p.name.isdecimal()]
        assert len(tokens) == len(set(tokens))


@pytest.mark.parametrize("step", [Step.STOPPING, Step.STARTING])
def test_kill_9_of_the_controller_in_each_step_of_a_move(running, wait, step: Step) -> None:
    fleet = running()
    wait_for_work(fleet, wait)
    caught = 0
    for _ in range(8):
        assert fleet.move("count")
        seen = threading.Event()
        while not seen.is_set():
            record = fleet.record("count")
            if record is not None and record.step is step:
                break
            if record is not None and not record.is_moving:
                seen.set()  # it was faster than this loop
        controller = fleet.controllers[0]
        controller.kill()
        controller.wait()
        caught += not seen.is_set()
        fleet.controllers[0] = fleet.start_controller()
        wait(lambda: fleet.runs("count"), "the move to be finished", 120.0)
    accounts = fleet.finish(wait)
    assert all(account.exact for account in accounts.values()), accounts
    assert caught >= 2, "the kill must have hit the step at least twice"


def test_a_host_that_was_paused_wakes_up_beside_its_successor_and_yields(running, wait) -> None:
    """Host and JVM are stopped in the middle of work, the query moves on, and both wake up."""
    fleet = running()
    wait_for_work(fleet, wait)
    fleet.controllers[0].kill()  # a controller of this machine would kill what is left of the host
    fleet.controllers[0].wait()
    host = fleet.coordination.hosts()["left"]
    pids = [host.owner.pid, host.jvm.pid]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    from ebbflow.targets.fleet.dispatch import Dispatcher

    links = HostLinks(fleet.fleet, fleet.coordination)
    dispatcher = Dispatcher(fleet.fleet, fleet.coordination, links, fleet.clock)
    assert fleet.move("count")

    def stepped(condition: Callable[[], bool]) -> bool:
        dispatcher.step()
        return condition()

    wait(lambda: stepped(lambda: fleet.record("count").moves == 1), "the query to run elsewhere", 180.0)
    for pid in reversed(pids):
        os.kill(pid, signal.SIGCONT)

    def yields() -> bool:
        state = links.report("left").query("count")
        return state is not None and state.phase in ("stopped", "failed")

    wait(lambda: stepped(lambda: "left" in dispatcher.hosts and yields()), "the old host to yield", 60.0)
    wait(lambda: stepped(lambda: fleet.runs("count")), "one owner", 60.0)
    fleet.feeder.stop()
    wait(lambda: stepped(lambda: all(a.lost == 0 for a in fleet.accounts().values())), "every row", 180.0)
    accounts = fleet.accounts()
    assert all(account.exact for account in accounts.values()), accounts
    links.close()


def test_the_fleet_files_of_the_examples_are_fine() -> None:
    examples = Path(__file__).resolve().parents[3] / "examples" / "fleet"
    assert load_fleet(examples / "words.toml").queries.keys() == {"generate", "split", "count"}
