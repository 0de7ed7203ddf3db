"""Real Cassandra nodes on this machine: a short smoke test, and data that survives whatever is killed.

The smoke test runs if the artefacts are cached (``ebbflow datastore run`` fetches them). The others are ``long``.
"""

from __future__ import annotations

import itertools
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import ask_provisioner
import pytest

from ebbflow.core.clock import SystemClock
from ebbflow.core.layout import Layout
from ebbflow.core.topology import NodeState
from ebbflow.errors import EbbflowError
from ebbflow.targets.cassandra.actuator import ResizeTimes
from ebbflow.targets.cassandra.cluster import OpenCluster
from ebbflow.targets.cassandra.launch.artefacts import VERSION, are_cached
from ebbflow.targets.cassandra.launch.local_cassandra import LocalCassandra
from ebbflow.targets.cassandra.load.generator import LoadGenerator, RequestMix
from ebbflow.targets.cassandra.load.rows import create_table, fill, key_of
from ebbflow.targets.cassandra.load.written import Written, WrittenCheck, check_written
from ebbflow.targets.cassandra.target import CassandraTarget

pytest.importorskip("cassandra", reason="needs the extra 'cassandra'")
cached = pytest.mark.skipif(
    not are_cached(), reason=f"Cassandra {VERSION} is not cached; `ebbflow datastore run` fetches it"
)
KEYSPACE, KEYS = "rows_of_test", 2_000
TIMES = ResizeTimes(cleanup_after_s=0.0, restart_after_s=15.0)


class Store:
    """A cluster with rows, and what was written to it."""

    def __init__(
        self, local: LocalCassandra, opened: OpenCluster, folder: Path, *, factor: int, keys: int
    ) -> None:
        self.local, self.opened, self.folder, self.keys = local, opened, folder, keys
        create_table(
            opened.connection, KEYSPACE, replication_factor=factor, data_center=opened.contact.data_center
        )
        self.written = Written()
        version = int(time.time() * 1e6)
        fill(opened.connection, KEYSPACE, range(keys), version)
        self.written.fill(range(keys), version)
        self._numbers = itertools.count()

    def load(self, rate: str, duration_s: float, reads: float = 0.5) -> LoadGenerator:
        logs = self.folder / f"load-{next(self._numbers)}"
        logs.mkdir()
        mix = RequestMix(keys=self.keys, reads=reads, read_consistency="QUORUM")
        return LoadGenerator(
            self.opened.contact, rate, duration_s=duration_s, keyspace=KEYSPACE, mix=mix, log_folder=logs
        )

    def target(self) -> CassandraTarget:
        return self.opened.target(self.folder / "journal.json", times=TIMES)

    def check(self) -> WrittenCheck:
        return check_written(self.opened.connection, KEYSPACE, self.written)


@pytest.mark.long
@cached
def test_one_node_starts_serves_is_limited_and_loses_nothing(tmp_path: Path) -> None:
    with socket.socket() as probe:
        if not probe.connect_ex(("127.0.0.1", LocalCassandra.port)):
            pytest.skip("something listens on 127.0.0.1:9042 already")
    with (
        LocalCassandra(nodes=1, hosts=1, replication_factor=1, wait_for_gossip=False) as local,
        OpenCluster.of_local(local, SystemClock()) as opened,
    ):
        node = opened.check().active[0]
        assert node.up
        assert node.disk_free_bytes
        store = Store(local, opened, tmp_path, factor=1, keys=300)
        with store.load("constant(50)", 3.0) as generator:
            result = generator.wait()
        assert (result.offered, result.failed) == (150, 0)
        generator.written(store.written)
        assert store.check() == WrittenCheck(rows=store.keys)
        # the negative control: the check must see a row that is gone
        opened.connection.query(f"DELETE FROM {KEYSPACE}.rows WHERE key = %s", (key_of(7),))
        assert store.check().lost == 1
        local.limit_requests(40)
        with store.load("constant(120)", 3.0, reads=1.0) as generator:
            assert generator.wait().answered_per_s < 80  # 40 requests/s, and one second's worth at the start


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Three nodes, a fourth host, and 2,000 rows."""
    with (
        LocalCassandra(nodes=3, hosts=4, wait_for_gossip=False) as local,
        OpenCluster.of_local(local, SystemClock()) as opened,
    ):
        yield Store(local, opened, tmp_path_factory.mktemp("store"), factor=3, keys=KEYS)


def drive(
    target: CassandraTarget,
    nodes: int,
    on_seen: Callable[[dict[str, NodeState]], None],
    within_s: float = 600.0,
) -> None:
    """Observe once a second until the cluster has so many nodes and is clean."""
    deadline_s = time.monotonic() + within_s
    while time.monotonic() < deadline_s:
        try:
            seen = target.observe()
        except EbbflowError:
            time.sleep(1.0)
            continue
        assert seen.topology is not None
        on_seen({node.address: node.state for node in seen.topology.nodes})
        clean = not any(node.needs_cleanup or node.cleanups for node in seen.topology.active)
        if seen.layout.main_nodes == nodes and not seen.under_way and clean and target.is_idle:
            return
        time.sleep(1.0)
    raise AssertionError(f"{nodes} nodes not reached: {target._actuator.step}, {target._actuator.waiting}")


@cached
@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("run", range(5))
@pytest.mark.parametrize("victim", ["joining", "decommissioning", "active"])
def test_no_row_is_lost_when_a_node_is_killed(store: Store, victim: str, run: int) -> None:
    """kill -9 of a node that joins, leaves or serves while nodes come and go, under load."""
    killed: list[str] = []

    def kill_once(states: dict[str, NodeState]) -> None:
        state = NodeState(victim)
        host = store.local.hosts[3 if victim != "active" else 1 + run % 2].address
        others_change = victim != "active" or NodeState.JOINING in states.values()
        if not killed and states.get(host) is state and others_change and store.local.is_running(host):
            store.local.kill(host)
            killed.append(host)

    with store.load("constant(40)", 600.0) as generator:
        target = store.target()
        try:
            for size in (4, 3):
                target.observe()
                target.apply(Layout.of(size))
                drive(target, size, kill_once)
        finally:
            target.close()
    generator.written(store.written)
    assert killed, "nothing was killed: the test shows nothing"
    assert store.check() == WrittenCheck(rows=KEYS)


@contextmanager
def provisioner(local: LocalCassandra, path: Path) -> Iterator[None]:
    """Serves ``ask_provisioner.py``, so that nodes outlive a controller that is killed."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()

        def serve() -> None:
            while True:
                try:
                    asked, _ = listening.accept()
                except OSError:
                    return
                with asked:
                    words = asked.makefile().readline().split()
                    try:
                        if words[0] == "start":
                            local.start(words[1], fresh=words[2] == "fresh")
                        else:
                            local.stop(words[1])
                        asked.sendall(b"ok\n")
                    except EbbflowError as error:
                        asked.sendall(f"{error}\n".encode())

        threading.Thread(target=serve, daemon=True).start()
        yield
        listening.shutdown(socket.SHUT_RDWR)


@cached
@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("run", range(5))
def test_a_controller_that_is_killed_is_continued_by_the_next(store: Store, run: int, tmp_path: Path) -> None:
    """kill -9 of `ebbflow datastore run`, some seconds into a change; the next one completes it."""
    asked, journal = tmp_path / "asked", tmp_path / "journal.json"
    ask = [sys.executable, ask_provisioner.__file__, str(asked)]
    hosts = "".join(
        f'[[hosts]]\naddress = "{host.address}"\nrack = "{host.rack}"\nseed = {str(host.seed).lower()}\n'
        for host in store.local.hosts
    )
    file = tmp_path / "cluster.toml"
    file.write_text(
        f'name = "{store.local.name}"\ndata_center = "{store.local.data_center}"\n'
        f"nodetool = {json.dumps(list(store.local.nodetool.arguments))}\n"
        f"start = {json.dumps([*ask, 'start', '{host}', '{fresh}'])}\n"
        f"stop = {json.dumps([*ask, 'stop', '{host}'])}\n"
        f"disk = {json.dumps(['sh', '-c', 'df -Pk /', '{host}'])}\n{hosts}"
    )

    def controller(size: int, seconds: float) -> subprocess.Popen[bytes]:
        command = ["datastore", "run", "--cluster", str(file), "--nodes", "3:4", "--journal", str(journal)]
        command += ["--strategy", f"static(nodes={size})", "--for", f"{seconds:g}s", "--json"]
        return subprocess.Popen(
            [sys.executable, "-m", "ebbflow", *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )

    with provisioner(store.local, asked), store.load("constant(40)", 800.0) as generator:
        for size in (4, 3):
            first = controller(size, 600.0)
            deadline_s = time.monotonic() + 180.0
            while (
                not (journal.exists() and '"kind"' in journal.read_text()) and time.monotonic() < deadline_s
            ):
                assert first.poll() is None, first.stderr and first.stderr.read()
                time.sleep(0.1)
            time.sleep(3.0 * run)  # at another moment in each run
            first.kill()
            first.wait()
            second = controller(size, 600.0)
            monitor = store.opened.monitor()
            deadline_s = time.monotonic() + 600.0
            while time.monotonic() < deadline_s:
                done = '"kind"' not in journal.read_text() and len(monitor.settle(1.0).active) == size
                if done and '"needs_cleanup": []' in journal.read_text():
                    break
                time.sleep(1.0)
            second.kill()
            second.wait()
            assert len(monitor.settle().active) == size, journal.read_text()
    generator.written(store.written)
    assert store.check() == WrittenCheck(rows=KEYS)
