"""Starts the hosts of a fleet on this machine, and starts again those that are gone.

Hosts are processes of their own sessions: they live on when the controller ends or is killed. A host that is there is
left alone, whoever started it. Before a host is replaced, what is left of it on this machine is killed: a host that was
only paused must not wake up beside its successor.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ebbflow.core.backoff import Backoff
from ebbflow.core.clock import Clock
from ebbflow.core.folders import Owner, make_folder
from ebbflow.monitoring.addresses import is_local
from ebbflow.targets.fleet.coordination import Member
from ebbflow.targets.fleet.model import Application, Fleet

log = logging.getLogger(__name__)

START_WITHIN_S = 180.0
AGAIN = Backoff(first_s=1.0, longest_s=60.0)


@dataclass
class _Started:
    process: subprocess.Popen[bytes]
    at_s: float
    attempts: int = 1


class HostKeeper:
    """Keeps one host running for each application of this machine."""

    def __init__(self, fleet: Fleet, clock: Clock, command: Sequence[str] | None = None) -> None:
        """``command`` starts a host, followed by the fleet file and the application."""
        self._fleet = fleet
        self._clock = clock
        self._command = list(command or (sys.executable, "-m", "ebbflow.targets.fleet.host.process"))
        self._started: dict[str, _Started] = {}
        self._seen: dict[str, Member] = {}
        self.failures: dict[str, str] = {}
        """Why the host of an application does not start."""

    @property
    def applications(self) -> list[str]:
        """Applications whose hosts run on this machine."""
        return [name for name, each in self._fleet.applications.items() if starts_here(each)]

    def ensure(self, hosts: Mapping[str, Member]) -> None:
        """Start the hosts that are not there."""
        now_s = self._clock.now_s()
        for name in self.applications:
            if name in hosts:
                self._seen[name] = hosts[name]
                self.failures.pop(name, None)
                if name in self._started:
                    self._started[name].attempts = 1
                continue
            before = self._started.get(name)
            if before is not None and before.process.poll() is None and name not in self._seen:
                if now_s - before.at_s < START_WITHIN_S:
                    continue  # it is starting
                before.process.kill()
            if before is not None and now_s - before.at_s < AGAIN.delay_s(before.attempts):
                continue
            if before is not None and before.process.poll() is not None:
                self.failures[name] = self._why(name, before.process.returncode)
            if name in self._seen:
                kill_rest(self._seen.pop(name))
            self._start(name, now_s, 1 if before is None else before.attempts + 1)

    def _start(self, name: str, now_s: float, attempts: int) -> None:
        log_file = self.log_file(name)
        make_folder(log_file.parent)
        command = [*self._command, str(self._fleet.path), name]
        with log_file.open("ab") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        log.info("started the host of application %s as process %d", name, process.pid)
        self._started[name] = _Started(process, now_s, attempts)

    def log_file(self, name: str) -> Path:
        """The log of a host."""
        return self._fleet.folder / "logs" / f"{name}.log"

    def _why(self, name: str, code: int) -> str:
        if code < 0:
            return f"its process was ended by signal {-code}"
        lines: list[str] = []
        with contextlib.suppress(OSError):
            lines = self.log_file(name).read_text(errors="replace").strip().splitlines()
        said = [line for line in lines if " ERROR " in line]
        return f"its process ended with code {code}: {(said or lines or ['no output'])[-1][:300]}"


def starts_here(application: Application) -> bool:
    """Whether the host of an application runs on this machine: where nothing else is said, or at a local address."""
    return not application.address or is_local(application.address)


def kill_rest(member: Member) -> None:
    """Kill what is left of a host on this machine, its JVM first."""
    for owner in (member.jvm, member.owner):
        if owner is not None and owner.namespace == Owner.this_process().namespace and not owner.is_gone:
            log.warning("killing process %d, left of the host of %s", owner.pid, member.name)
            with contextlib.suppress(OSError):
                os.kill(owner.pid, signal.SIGKILL)
