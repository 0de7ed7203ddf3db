"""kill -9 of hosts, controllers and ZooKeeper at random moments: nothing lost, nothing repeated, never two owners.

Processes, sockets, leases and ZooKeeper are real; a small exact engine takes the place of Spark (``file_host``), so
that a host is back in a second. ``test_fleet_faults`` does the same on Spark.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import file_host
import pytest
from fleet_rows import Feeder

from ebbflow.control.fleet import shut_down
from ebbflow.core.clock import SystemClock
from ebbflow.errors import EbbflowError
from ebbflow.targets.fleet.coordination.local_zookeeper import LocalZooKeeper
from ebbflow.targets.fleet.coordination.opening import open_coordination
from ebbflow.targets.fleet.dispatch import request_move
from ebbflow.targets.fleet.file import load_fleet
from ebbflow.targets.fleet.model import Fleet, Query

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1800)]

KILLS = int(os.environ.get("EBBFLOW_FLEET_KILLS", "30"))

FLEET = """\
coordination = "{coordination}"
[application.left]
master = "local[1]"
[application.right]
master = "local[1]"
[stream.numbers]
[stream.one]
[stream.two]
[operator.first]
start = "steps:first"
reads = ["numbers"]
writes = ["one"]
application = "left"
[operator.second]
start = "steps:second"
reads = ["numbers"]
writes = ["two"]
application = "right"
"""


def faults_of(fleet: Fleet, query: Query, fed: int) -> dict[str, int]:
    """Rows lost and repeated, batches whose token is older than that of the batch before, and collisions of writers."""
    output = fleet.streams[query.operator.writes[0]].folder
    batches = [json.loads((output / str(number)).read_text()) for number in file_host.numbered(output)]
    rows = Counter(row for batch in batches for row in batch["rows"])
    commits = query.checkpoint / "commits"
    tokens = [json.loads((commits / str(n)).read_text())["token"] for n in file_host.numbered(commits)]
    logs = "".join(each.read_text() for each in (fleet.folder / "logs").glob("*.log"))
    return {
        "lost": len(set(range(fed)) - set(rows)),
        "repeated": sum(count - 1 for count in rows.values()),
        "backwards": sum(later < earlier for earlier, later in itertools.pairwise(tokens)),
        "collisions": logs.count("concurrent update"),
    }


NONE = {"lost": 0, "repeated": 0, "backwards": 0, "collisions": 0}


def start_controller(fleet: Fleet) -> subprocess.Popen[bytes]:
    log = fleet.folder / "logs" / "controller.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, file_host.__file__, "controller", str(fleet.path)],
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip


def test_nothing_is_lost_or_repeated_whatever_is_killed(tmp_path, wait) -> None:
    server = LocalZooKeeper(tmp_path / "zookeeper").start()
    path = tmp_path / "files.toml"
    path.write_text(FLEET.format(coordination=server.address))
    fleet = load_fleet(path, imports=False)
    random_ = random.Random(11)
    clock = SystemClock()
    coordination = open_coordination(fleet, clock)
    controllers = [start_controller(fleet), start_controller(fleet)]
    feeder = Feeder(fleet.streams["numbers"].folder, rows_per_s=200, files_per_s=10.0)
    killed: Counter[str] = Counter()

    def progressed(since: dict[str, int]) -> bool:
        return all(
            len(file_host.numbered(q.checkpoint / "commits")) > since[q.name] + 1
            for q in fleet.queries.values()
        )

    def committed() -> dict[str, int]:
        return {q.name: len(file_host.numbered(q.checkpoint / "commits")) for q in fleet.queries.values()}

    try:
        wait(lambda: progressed(dict.fromkeys(fleet.queries, 0)), "the first batches", 60.0)
        while killed.total() < KILLS:
            try:
                for query in random_.sample(sorted(fleet.queries), 1):
                    record = coordination.record(query)
                    if record is not None and not record.is_moving:
                        other = "right" if record.application == "left" else "left"
                        request_move(fleet, coordination, query, other, clock.now_s())
                hosts = coordination.hosts()
            except EbbflowError:
                hosts = {}
            time.sleep(random_.uniform(0.0, 1.0))  # the moment of the kill is what is random here
            what = ("host", "controller", "zookeeper")[killed.total() % 3]
            if what == "zookeeper":
                server.kill()
                time.sleep(random_.uniform(0.1, 2.0))
                server.start()
            elif what == "controller":
                index = random_.randrange(2)
                controllers[index].kill()
                controllers[index].wait()
                controllers[index] = start_controller(fleet)
            else:
                if not hosts:
                    continue
                try:
                    os.kill(hosts[random_.choice(sorted(hosts))].owner.pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            killed[what] += 1
            since = committed()
            wait(lambda s=since: progressed(s), f"work to go on after kill {killed.total()} ({what})", 90.0)
        feeder.stop()
        done = lambda: all(faults_of(fleet, q, feeder.fed)["lost"] == 0 for q in fleet.queries.values())  # noqa: E731
        wait(done, "every row to arrive", 60.0)
    finally:
        feeder.stop()
        left = shut_down(fleet, clock, within_s=60.0)
        for controller in controllers:
            controller.kill()
            controller.wait()
        coordination.close()
        server.stop()
    assert left == []
    faults = {name: faults_of(fleet, query, feeder.fed) for name, query in fleet.queries.items()}
    moves = sum(1 for each in _log(fleet, "controller").splitlines() if "INFO" in each and ": moved " in each)
    sys.stderr.write(f"\n{killed.total()} kills {dict(killed)}, {moves} moves, {feeder.fed} rows: {faults}\n")
    assert faults == dict.fromkeys(fleet.queries, NONE)
    assert killed.total() == KILLS


def _log(fleet: Fleet, name: str) -> str:
    return (fleet.folder / "logs" / f"{name}.log").read_text()


@pytest.mark.parametrize("seeded", ["lost", "repeated", "backwards", "collisions"])
def test_the_accounting_sees_each_seeded_fault(tmp_path, seeded: str) -> None:
    """The negative control: three batches of two rows, and one fault in them."""
    path = tmp_path / "files.toml"
    path.write_text(FLEET.format(coordination="zookeeper://h:1/x"))
    fleet = load_fleet(path, imports=False)
    query = fleet.queries["first"]
    rows = {"lost": [[0, 1], [2], [4, 5]], "repeated": [[0, 1], [2, 3], [3, 4, 5]]}.get(
        seeded, [[0, 1], [2, 3], [4, 5]]
    )
    tokens = [1, 3, 2] if seeded == "backwards" else [1, 2, 3]
    for number in range(3):
        file_host.create(fleet.streams["one"].folder / str(number), {"rows": rows[number]})
        file_host.create(query.checkpoint / "commits" / str(number), {"token": tokens[number]})
    logs = fleet.folder / "logs"
    logs.mkdir(parents=True)
    (logs / "left.log").write_text("concurrent update of commits/3" if seeded == "collisions" else "")
    assert faults_of(fleet, query, 6) == {**NONE, seeded: 1}


def test_a_second_writer_collides_in_the_engine_as_it_does_in_spark(tmp_path) -> None:
    target = Path(tmp_path) / "commits" / "0"
    file_host.create(target, {})
    with pytest.raises(FileExistsError):
        file_host.create(target, {})
