"""Commands for a host, given as argument lists in which ``{host}`` stands for its address. No shell is involved."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from ebbflow.errors import InputError, TargetError

HOST = "{host}"


@dataclass(frozen=True)
class HostCommand:
    """A command for any host, such as ``["ssh", "{host}", "nodetool"]``.

    >>> HostCommand(["echo", "{host}"]).run("10.0.0.1", "status")
    '10.0.0.1 status\\n'
    >>> HostCommand(["nodetool", "-h", "host"])
    Traceback (most recent call last):
    ebbflow.errors.InputError: the command 'nodetool -h host' does not contain {host}, the address of the host
    """

    arguments: Sequence[str]

    def __post_init__(self) -> None:
        shown = " ".join(self.arguments)
        if not self.arguments or not self.arguments[0]:
            raise InputError("a command for a host is empty; write a list like ['ssh', '{host}', 'nodetool']")
        if not any(HOST in each for each in self.arguments):
            raise InputError(f"the command '{shown}' does not contain {HOST}, the address of the host")

    def for_host(self, host: str, *more: str) -> list[str]:
        """The argument list for one host."""
        return [*(each.replace(HOST, host) for each in self.arguments), *more]

    def run(self, host: str, *more: str, within_s: float | None = 60.0) -> str:
        """Run it and return its output. Raises ``TargetError`` with its last line if it fails."""
        command = self.for_host(host, *more)
        shown = " ".join([command[0].rpartition("/")[2], *more])
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=within_s,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            raise TargetError(f"'{shown}' for {host} did not end within {within_s:g} s") from None
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise TargetError(f"cannot run {command[0]} for {host}: {why}") from None
        if done.returncode:
            lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
            said = next((line for line in lines if not line.startswith(("at ", "--"))), "no output")
            raise TargetError(f"'{shown}' for {host} failed with code {done.returncode}: {said}")
        return done.stdout
