"""A ZooKeeper server on this machine, from the jars of PySpark: for tests, and to try several controllers.

It listens on the loopback address only, and ends with the process that started it.
"""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import psutil

from ebbflow.core.clock import Clock, SystemClock, wait_until
from ebbflow.errors import TargetError
from ebbflow.targets import supervisor
from ebbflow.targets.java import find_java
from ebbflow.targets.spark.launch.preflight import spark_home

_CONFIGURATION = """\
tickTime=500
minSessionTimeout=1000
maxSessionTimeout=60000
clientPortAddress=127.0.0.1
clientPort={port}
dataDir={folder}
admin.enableServer=false
4lw.commands.whitelist=ruok
"""


class LocalZooKeeper:
    """A server with its data in a folder; started again, it continues with that data."""

    def __init__(self, folder: Path, *, start_within_s: float = 60.0, clock: Clock | None = None) -> None:
        self._folder = folder
        self._start_within_s = start_within_s
        self._clock = clock or SystemClock()
        self._process: subprocess.Popen[bytes] | None = None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]

    @property
    def address(self) -> str:
        """For ``coordination`` in a fleet file."""
        return f"zookeeper://127.0.0.1:{self.port}/ebbflow"

    def start(self) -> LocalZooKeeper:
        """Start the server, and return when it answers."""
        self._folder.mkdir(parents=True, exist_ok=True)
        configuration = self._folder / "zoo.cfg"
        configuration.write_text(_CONFIGURATION.format(port=self.port, folder=self._folder))
        command = [
            find_java() or "java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
            "-cp", f"{spark_home()}/jars/*", "org.apache.zookeeper.server.ZooKeeperServerMain", str(configuration),
        ]  # fmt: skip
        log = self._folder / "zookeeper.log"
        self._process = supervisor.start(command, log=log)
        if not wait_until(self._answers, self._clock, within_s=self._start_within_s, every_s=0.1):
            self.stop()
            raise TargetError(f"ZooKeeper did not answer within {self._start_within_s:g} s; see {log}")
        return self

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1.0) as connection:
                connection.sendall(b"ruok")
                return connection.recv(4) == b"imok"
        except OSError:
            return False

    def kill(self) -> None:
        """Kill the server, as a fault would."""
        if self._process is not None:
            for child in psutil.Process(self._process.pid).children():
                child.kill()
            self._process.wait(20.0)
            self._process = None

    def stop(self) -> None:
        """End the server. Clients see the same as when it is killed."""
        if self._process is not None:
            if self._process.stdin is not None:
                self._process.stdin.close()
            self._process.wait(20.0)
            self._process = None
