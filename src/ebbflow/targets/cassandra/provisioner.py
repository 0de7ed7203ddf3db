"""Starting and stopping hosts: the port that a platform implements, and an implementation by commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ebbflow.targets.cassandra.host_command import HostCommand

FRESH = "{fresh}"


class Provisioner(Protocol):
    """Starts and stops the Cassandra node of a host. Both may take minutes; the loop does not wait for them."""

    def start(self, host: str, *, fresh: bool) -> None:
        """Start the node and return once it is starting. ``TargetError`` if that fails.

        ``fresh``: it joins anew, so its data, commit log and caches of an earlier life must be gone. Otherwise it is
        restarted with the data that it has.
        """
        ...

    def stop(self, host: str) -> None:
        """Stop the node if it runs. Its data may go. ``TargetError`` if that fails."""
        ...


class CommandProvisioner:
    """Starts and stops nodes by commands.

    ``{host}`` is the address of the host. ``{fresh}``, if it is there, becomes ``fresh`` for a node that joins anew,
    and ``restart`` for one that keeps its data.

    >>> made = CommandProvisioner(start=["./node", "start", "{host}", "{fresh}"], stop=["./node", "stop", "{host}"])
    >>> made.start_command("10.0.0.4", fresh=True)
    ['./node', 'start', '10.0.0.4', 'fresh']
    """

    def __init__(self, *, start: Sequence[str], stop: Sequence[str], within_s: float = 600.0) -> None:
        self._start = HostCommand(start)
        self._stop = HostCommand(stop)
        self._within_s = within_s

    def start_command(self, host: str, *, fresh: bool) -> list[str]:
        """The argument list that starts a host."""
        word = "fresh" if fresh else "restart"
        return [each.replace(FRESH, word) for each in self._start.for_host(host)]

    def start(self, host: str, *, fresh: bool) -> None:
        """Run the start command."""
        word = "fresh" if fresh else "restart"
        HostCommand([each.replace(FRESH, word) for each in self._start.arguments]).run(
            host, within_s=self._within_s
        )

    def stop(self, host: str) -> None:
        """Run the stop command."""
        self._stop.run(host, within_s=self._within_s)
