"""A Cassandra cluster on this machine: each node a process with a loopback address of its own.

For benchmarks and tests. Everything listens on loopback addresses only. JMX, which can run code, requires a password;
requests of clients require none, so other users of the machine can read and write this cluster.

**Capacity by construction.** Nodes share the cores of the machine, so more nodes would not answer more requests. With
``requests_per_s`` each node limits itself, by Cassandra's own rate limit of its native transport
(``native_transport_max_requests_per_second``). Then throughput grows with the nodes as on hosts of their own. It limits
what a node coordinates, not what it does as a replica.

Nothing is left behind: each node runs under a supervisor that ends it when this process is gone.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from dataclasses import replace
from pathlib import Path
from types import TracebackType

import psutil

from ebbflow.core.clock import Clock, SystemClock, wait_until
from ebbflow.core.folders import scratch_folder
from ebbflow.core.machine import cores
from ebbflow.errors import InputError, TargetError
from ebbflow.targets import supervisor
from ebbflow.targets.cassandra.gossip import Host
from ebbflow.targets.cassandra.host_command import HOST, HostCommand
from ebbflow.targets.cassandra.launch.artefacts import fetch
from ebbflow.targets.cassandra.launch.node_files import CQL_PORT, DATA_CENTER, NodeFiles
from ebbflow.targets.cassandra.monitor import HostSample
from ebbflow.targets.java import check_java

log = logging.getLogger(__name__)

FIRST_JMX_PORT = 17199
MOST_HOSTS = 20
_STORAGE = "org.apache.cassandra.db:type=StorageService"


class LocalCassandra:
    """``hosts`` possible nodes, of which ``nodes`` run at first. A provisioner and a probe of them, too.

    ``wait_for_gossip``: whether joining nodes wait until gossip settles, as in production; half a minute each.
    """

    data_center = DATA_CENTER
    port = CQL_PORT
    default_name = "local"

    def __init__(
        self,
        *,
        nodes: int = 3,
        hosts: int = 6,
        replication_factor: int = 3,
        racks: int = 1,
        requests_per_s: int | None = None,
        ring_delay_s: float = 5.0,
        wait_for_gossip: bool = True,
        heap_mb: int = 512,
        start_within_s: float = 180.0,
        name: str = default_name,
        clock: Clock | None = None,
    ) -> None:
        if not 1 <= nodes <= hosts <= MOST_HOSTS:
            raise InputError(
                f"{nodes} nodes on {hosts} hosts; write 1 to {MOST_HOSTS} hosts, and at most as many nodes"
            )
        if replication_factor > hosts:
            raise InputError(f"a replication factor of {replication_factor} needs as many hosts, not {hosts}")
        self.name = name
        self.hosts = tuple(
            Host(address=f"127.0.0.{i + 1}", rack=f"rack{i % racks + 1}", seed=i == 0) for i in range(hosts)
        )
        self._initial = nodes
        self._factor = replication_factor
        self._requests_per_s = requests_per_s
        self._ring_delay_s = ring_delay_s
        self._wait_for_gossip = wait_for_gossip
        self._heap_mb = heap_mb
        self._start_within_s = start_within_s
        self._clock = clock or SystemClock()
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._password = secrets.token_hex(16)
        self._jars = Path()
        self._java = ""
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._cpu: dict[str, tuple[float, float]] = {}
        self._lock = threading.RLock()

    # -- lifecycle --------------------------------------------------------------------------------

    def open(self) -> LocalCassandra:
        """Start the first nodes, one after the other; return when all accept requests."""
        self._java = check_java("Cassandra")
        for host in self.hosts:
            _check_free(host.address)
        self._jars = fetch()
        self._scratch = scratch_folder("cassandra")
        try:
            for host in self.hosts[: self._initial]:
                # There is no data to stream yet, so the first nodes need not bootstrap.
                self._spawn(host, fresh=True, first=True)
                self.await_serving(host.address)
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """End all nodes and remove their files."""
        with self._lock:
            running, self._running = self._running, {}
        for popen in running.values():
            assert popen.stdin is not None
            popen.stdin.close()
        for popen in running.values():
            try:
                popen.wait(supervisor.GRACE_S + 5.0)
            except subprocess.TimeoutExpired:
                popen.kill()
                popen.wait()
        if self._scratch is not None:
            self._scratch.cleanup()
            self._scratch = None

    def __enter__(self) -> LocalCassandra:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- the provisioner --------------------------------------------------------------------------

    def start(self, host: str, *, fresh: bool) -> None:
        """Start the node of a host; it joins by itself."""
        self._spawn(self._host(host), fresh=fresh, first=False)

    def stop(self, host: str) -> None:
        """End the node of a host, if it runs."""
        with self._lock:
            popen = self._running.pop(host, None)
        if popen is None:
            return
        assert popen.stdin is not None
        popen.stdin.close()
        try:
            popen.wait(supervisor.GRACE_S + 10.0)
        except subprocess.TimeoutExpired:
            raise TargetError(f"the node of {host} did not end") from None

    def kill(self, host: str) -> None:
        """Kill the node of a host at once, as a crash does (``kill -9``)."""
        process = self._java_process(host)
        if process is None:
            raise TargetError(f"no node runs on {host}")
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGKILL)
        with self._lock:
            popen = self._running.pop(host)
        popen.wait(10.0)

    def is_running(self, host: str) -> bool:
        """Whether the process of a node runs."""
        popen = self._running.get(host)
        return popen is not None and popen.poll() is None

    # -- the probe --------------------------------------------------------------------------------

    def sample(self, host: str) -> HostSample:
        """CPU of the node's process as a share of the machine's cores, and the free disk space."""
        process = self._java_process(host)
        share = None
        if process is not None:
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                now_s, used_s = self._clock.now_s(), times.user + times.system
                before = self._cpu.get(host)
                self._cpu[host] = (now_s, used_s)
                if before is not None and now_s > before[0] and used_s >= before[1]:
                    share = (used_s - before[1]) / (now_s - before[0]) / cores()
        return HostSample(cpu_share=share, disk_free_bytes=float(shutil.disk_usage(self._folder).free))

    # -- nodetool and capacity --------------------------------------------------------------------

    @property
    def nodetool(self) -> HostCommand:
        """``nodetool`` for any of the hosts, while the cluster runs."""
        script = self._folder / "nodetool"
        if not script.exists():
            # JMX ports differ by host, so a host is looked up in a table.
            lines = [f"  {h.address}) port={self._jmx_port(h)};;" for h in self.hosts]
            known = self._files(self.hosts[0]).nodetool()
            before, after = known[: known.index("-p")], known[known.index("-p") + 2 :]
            words = " ".join(_quoted(word) for word in before)
            rest = " ".join(_quoted(word) for word in after)
            script.write_text(
                "#!/bin/sh\ncase $1 in\n"
                + "\n".join(lines)
                + f'\nesac\nshift\nexec {words} -p $port {rest} "$@"\n'
            )
            script.chmod(0o700)
        return HostCommand([str(script), HOST])

    def limit_requests(self, requests_per_s: int) -> None:
        """Limit the requests of each node from now on, and of those that join later."""
        self._requests_per_s = requests_per_s
        for host in self.hosts:
            if self.is_running(host.address):
                for field, value in (
                    ("NativeTransportMaxRequestsPerSecond", str(requests_per_s)),
                    ("NativeTransportRateLimitingEnabled", "true"),
                ):
                    self.nodetool.run(
                        host.address, *("sjk", "mx", "-ms", "-b", _STORAGE, "-f", field, "-v", value)
                    )

    # -- internals --------------------------------------------------------------------------------

    @property
    def contacts(self) -> list[str]:
        """Addresses to connect to."""
        return [host.address for host in self.hosts[: self._initial]]

    @property
    def _folder(self) -> Path:
        assert self._scratch is not None, "the cluster is not running"
        return Path(self._scratch.name)

    def log_of(self, host: str) -> str:
        """What a node has logged since its start."""
        path = self._files(self._host(host)).log
        return path.read_text(errors="replace") if path.exists() else ""

    def _host(self, address: str) -> Host:
        found = next((host for host in self.hosts if host.address == address), None)
        if found is None:
            raise TargetError(f"{address} is not a host of this cluster")
        return found

    def _jmx_port(self, host: Host) -> int:
        return FIRST_JMX_PORT + self.hosts.index(host)

    def _files(self, host: Host) -> NodeFiles:
        return NodeFiles(
            folder=self._folder / host.address,
            jars=self._jars,
            java=self._java,
            cluster_name=self.name,
            address=host.address,
            seeds=[each.address for each in self.hosts if each.seed],
            rack=host.rack,
            jmx_port=self._jmx_port(host),
            jmx_password=self._password,
            replication_factor=self._factor,
            ring_delay_s=self._ring_delay_s,
            heap_mb=self._heap_mb,
            requests_per_s=self._requests_per_s,
            wait_for_gossip=self._wait_for_gossip,
        )

    def _spawn(self, host: Host, *, fresh: bool, first: bool) -> None:
        if self.is_running(host.address):
            raise TargetError(f"a node runs on {host.address} already")
        files = self._files(host)
        if first:
            files = replace(files, bootstrap=False, wait_for_gossip=False)
        if fresh:
            shutil.rmtree(files.data, ignore_errors=True)
        files.write()
        popen = supervisor.start(
            files.command(),
            log=files.log,
            environment={**os.environ, "CASSANDRA_HOME": str(files.folder)},
            folder=self._folder if host is self.hosts[0] else None,
        )
        with self._lock:
            self._running[host.address] = popen

    def await_serving(self, host: str) -> None:
        """Wait until a node accepts requests. Raises ``TargetError`` if it ends or takes too long."""

        def serves() -> bool:
            if not self.is_running(host):
                raise TargetError(f"the node of {host} ended while starting: {self._why_ended(host)}")
            return _accepts(host, CQL_PORT)

        if not wait_until(serves, self._clock, within_s=self._start_within_s, every_s=0.1):
            raise TargetError(f"the node of {host} did not accept requests within {self._start_within_s:g} s")

    def _why_ended(self, host: str) -> str:
        lines = [line for line in self.log_of(host).splitlines() if line.strip()]
        said = [line for line in lines if line.startswith(("ERROR", "Error", "FATAL"))]
        return (said or lines or ["its log is empty"])[-1][:300]

    def _java_process(self, host: str) -> psutil.Process | None:
        popen = self._running.get(host)
        if popen is None:
            return None
        try:
            children = psutil.Process(popen.pid).children()
        except psutil.NoSuchProcess:
            return None
        return children[0] if children else None


def _accepts(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), 1.0).close()
    except OSError:
        return False
    return True


def _check_free(address: str) -> None:
    """Raise ``InputError`` if the address cannot be used."""
    for port in (CQL_PORT, 7000):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
            except OSError as error:
                raise InputError(
                    f"cannot listen on {address}:{port} ({(error.strerror or str(error)).lower()}); stop what runs "
                    "there, such as another Cassandra"
                ) from None


def _quoted(word: str) -> str:
    """A word for a shell script of our own."""
    return "'" + word.replace("'", "'\\''") + "'"
