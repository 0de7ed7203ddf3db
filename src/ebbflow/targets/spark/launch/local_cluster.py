"""A Spark standalone cluster on this machine: a master, workers and an agent as child processes.

Unlike ``local[*]``, its executors are processes of their own that join, leave and die, as on any cluster. Everything
listens on the loopback address only and requires a secret, so no other user of the machine can run code through it;
the REST submission port is off. Nothing is left behind: each process runs under a supervisor that ends it when this
process is gone (``supervisor``).

Much of an executor's start goes into reading the same ten thousand classes from the same jars. The JVM can map them
from a class data archive instead (JEP 350). A first executor writes it at its exit (``record_archive``), later ones
use it (``archive_option``). The JVM ignores an archive of another Spark or Java, so nothing can break. Archives of
other versions are removed after a month without use: each is a hundred megabytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from ebbflow.core.clock import Clock, SystemClock, wait_until
from ebbflow.core.folders import cache_folder, scratch_folder
from ebbflow.core.plural import counted
from ebbflow.errors import TargetError
from ebbflow.targets import supervisor
from ebbflow.targets.java import find_java
from ebbflow.targets.spark.act.cluster_capacity import read_master_state
from ebbflow.targets.spark.launch.preflight import spark_home

log = logging.getLogger(__name__)

AGENT_LOG = "agent.log"
REMOVE_UNUSED_AFTER_S = 30 * 86400.0
LOOPBACK = "127.0.0.1"
_JVM_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""Faster start for JVMs whose work is waiting or Python."""


def local_settings(
    *, cores_per_executor: int = 1, memory: str = "640m", java_option: str | None = None
) -> dict[str, str]:
    """Settings of a session whose executors start quickly on one machine.

    ``java_option`` replaces the option of the class archive.
    """
    archive = archive_option() if java_option is None else java_option
    return {
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.ui.killEnabled": "false",  # the UI has no password
        "spark.executor.cores": str(cores_per_executor),
        "spark.executor.memory": memory,
        "spark.executor.extraJavaOptions": f"{_JVM_OPTIONS} {archive}".strip(),
    }


def start_local_agent(folder: Path) -> tuple[subprocess.Popen[bytes], str]:
    """Start an agent under a supervisor; returns the supervisor process and the agent's address.

    The agent listens on a socket file in the cluster's private folder, so it needs neither a port nor keys. Collectors
    that connect before it is up are connected once it is.
    """
    address = f"ipc://{folder / 'agent'}"
    command = [sys.executable, "-m", "ebbflow.monitoring", address]
    return supervisor.start(command, log=folder / AGENT_LOG), address


@dataclass
class _Process:
    name: str
    popen: subprocess.Popen[bytes]
    log: Path


class LocalCluster:
    """A master and ``workers`` workers, each offering ``cores`` cores and ``memory_mb`` of memory.

    A worker may offer more cores than the machine has, for executors that wait rather than compute. Use it as a
    context manager::

        with LocalCluster(cores=6) as cluster:
            with local_session(cluster.master_url, cluster.settings, name="mine") as spark:
                ...
    """

    def __init__(
        self,
        *,
        cores: int,
        workers: int = 1,
        memory_mb: int | None = None,
        start_within_s: float = 90.0,
        clock: Clock | None = None,
    ) -> None:
        self._cores = cores
        self._workers = workers
        self._memory_mb = memory_mb or max(8192, 1024 * cores)
        self._start_within_s = start_within_s
        self._clock = clock or SystemClock()
        self._processes: list[_Process] = []
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._secret = secrets.token_hex(32)
        self.master_url = ""
        self.web_url = ""
        self.agent_address = ""
        """Address of the agent, which reports executors and host; reachable by this user only."""

    # -- lifecycle ----------------------------------------------------------------------------------

    def start(self) -> LocalCluster:
        """Start everything and return when all workers have registered."""
        self._scratch = scratch_folder("cluster")  # private to this user
        self.settings_file.write_text("".join(f"{k} {v}\n" for k, v in self.settings.items()))
        deadline_s = self._clock.monotonic_s() + self._start_within_s
        try:
            port, web_port = _free_port(), _free_port()
            self.master_url = f"spark://{LOOPBACK}:{port}"
            self.web_url = f"http://{LOOPBACK}:{web_port}"
            self._spawn(
                "master",
                "org.apache.spark.deploy.master.Master",
                *("--host", LOOPBACK, "--port", str(port), "--webui-port", str(web_port)),
            )
            self._await("the master to answer", lambda state: state["status"] == "ALIVE", deadline_s)
            for index in range(self._workers):
                self._spawn_worker(index)
            self._await_workers(deadline_s)
            popen, self.agent_address = start_local_agent(self._folder)
            self._processes.append(_Process("agent", popen, self._folder / AGENT_LOG))
        except BaseException:
            self.stop()
            raise
        return self

    def ensure_cores(self, cores: int) -> None:
        """Offer at least this many cores, with another worker if the present ones have fewer."""
        if cores <= self._cores:
            return
        self._cores = cores
        self._workers += 1
        self._spawn_worker(self._workers - 1)
        self._await_workers(self._clock.monotonic_s() + self._start_within_s)

    def stop(self) -> None:
        """End all processes, workers before the master, and remove their files."""
        processes, self._processes = self._processes, []
        workers, masters = processes[1:], processes[:1]
        for group in (workers, masters):
            for process in group:
                assert process.popen.stdin is not None
                process.popen.stdin.close()
            for process in group:
                try:
                    process.popen.wait(supervisor.GRACE_S + 5.0)
                except subprocess.TimeoutExpired:
                    process.popen.kill()
                    process.popen.wait()
        if self._scratch is not None:
            self._scratch.cleanup()
            self._scratch = None

    def __enter__(self) -> LocalCluster:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # -- state ---------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """State of the master: workers, applications, cores in use."""
        return read_master_state(self.web_url)

    @property
    def settings(self) -> dict[str, str]:
        """Settings that a session needs to connect. Not for a command line, which others can read."""
        return {"spark.authenticate": "true", "spark.authenticate.secret": self._secret}

    @property
    def settings_file(self) -> Path:
        """The settings as a properties file, while the cluster runs."""
        return self._folder / "session.conf"

    @property
    def folder(self) -> Path | None:
        """Folder of logs and work files while the cluster runs."""
        return None if self._scratch is None else Path(self._scratch.name)

    @property
    def _folder(self) -> Path:
        assert self._scratch is not None, "the cluster is not running"
        return Path(self._scratch.name)

    def _spawn_worker(self, index: int) -> None:
        self._spawn(
            f"worker-{index}",
            "org.apache.spark.deploy.worker.Worker",
            *("--host", LOOPBACK, "--webui-port", "0"),
            *("--cores", str(self._cores), "--memory", f"{self._memory_mb}m"),
            *("--work-dir", str(self._folder / f"work-{index}"), self.master_url),
        )

    def _await_workers(self, deadline_s: float) -> None:
        self._await(
            f"{counted(self._workers, 'worker')} to register",
            lambda state: state["aliveworkers"] == self._workers,
            deadline_s,
        )

    def _spawn(self, name: str, main_class: str, *arguments: str) -> None:
        home = spark_home()
        environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("SPARK_")},
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_PUBLIC_DNS": LOOPBACK,
            "SPARK_DAEMON_MEMORY": "512m",
            "_SPARK_AUTH_SECRET": self._secret,  # read by Spark's daemons
            "SPARK_DAEMON_JAVA_OPTS": f"{_JVM_OPTIONS} -Xshare:auto -Dspark.authenticate=true "
            "-Dspark.master.rest.enabled=false -Dspark.ui.killEnabled=false -Dspark.worker.cleanup.enabled=true",
        }
        log_file = self._folder / f"{name}.log"
        popen = supervisor.start(
            [str(home / "bin" / "spark-class"), main_class, *arguments],
            log=log_file,
            environment=environment,
            # The master ends last, so its supervisor removes the folder if this process is gone.
            folder=self._folder if name == "master" else None,
        )
        self._processes.append(_Process(name, popen, log_file))

    def _await(self, what: str, condition: Any, deadline_s: float) -> None:
        def holds() -> bool:
            for process in self._processes:
                if process.popen.poll() is not None:
                    raise TargetError(
                        f"the local {process.name} ended while starting: {_last_line(process.log)}"
                    )
            try:
                return bool(condition(self.state()))
            except (OSError, ValueError, KeyError):
                return False  # not up yet

        if not wait_until(holds, self._clock, within_s=deadline_s - self._clock.monotonic_s()):
            raise TargetError(f"timed out after {self._start_within_s:g} s waiting for {what}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def _last_line(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "its log is empty"


# -- class data archive ------------------------------------------------------------------------


def archive_path() -> Path | None:
    """Path of the archive for this Spark and Java, whether or not it exists; None without a home folder."""
    cache = cache_folder()
    if cache is None:
        return None
    java = find_java()
    version = subprocess.run([java, "-version"], capture_output=True, check=False).stderr if java else b""
    jars = sorted(path.name for path in (spark_home() / "jars").glob("*.jar"))
    identity = hashlib.sha256(version + str(spark_home()).encode() + "".join(jars).encode()).hexdigest()
    path = cache / f"executor-{identity[:16]}.jsa"
    return None if " " in str(path) else path  # Spark splits Java options at blanks


def archive_option() -> str:
    """The JVM option with which an executor uses the archive; empty without an archive."""
    archive = archive_path()
    if archive is None or not archive.exists():
        return ""
    with contextlib.suppress(OSError):
        os.utime(archive)  # last use, for _remove_unused
    return f"-XX:SharedArchiveFile={archive}"


def record_archive(run_executor: Callable[[str, Callable[[], bool]], None], settle_s: float = 2.0) -> bool:
    """Make the archive unless it exists; False if it cannot be stored or was not completed.

    ``run_executor`` runs an executor with a JVM option, stops it, and waits until the condition holds: the executor
    writes the archive at its exit.
    """
    archive = archive_path()
    if archive is None:
        return False
    _remove_unused(archive)
    if archive.exists():
        return True
    fresh = archive.with_suffix(f".{os.getpid()}")
    try:
        archive.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh.unlink(missing_ok=True)
        run_executor(f"-XX:ArchiveClassesAtExit={fresh}", lambda: _is_complete(fresh, settle_s))
        if not _is_complete(fresh, settle_s):
            return False
        fresh.replace(archive)
    except OSError as error:
        log.info("no class archive: %s", error)
        return False
    finally:
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)
    return True


def _remove_unused(current: Path) -> None:
    """Remove other archives, and partial ones, that were not used for long."""
    for path in current.parent.glob("executor-*"):
        with contextlib.suppress(OSError):
            if path != current and time.time() - path.lstat().st_mtime > REMOVE_UNUSED_AFTER_S:
                path.unlink()
                log.info("removed %s, unused for a month", path)


def _is_complete(archive: Path, settle_s: float) -> bool:
    """Whether the JVM has stopped writing: it writes the file in one go, read-only from the start."""
    try:
        status = archive.stat()
    except FileNotFoundError:
        return False
    return status.st_size > 0 and time.time() - status.st_mtime > settle_s
