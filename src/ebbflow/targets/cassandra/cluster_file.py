"""A cluster that the user names, as a TOML file: its hosts, and the commands that reach them.

::

    name = "orders"                     # as in cassandra.yaml
    data_center = "dc1"
    nodetool = ["ssh", "{host}", "nodetool"]
    start = ["./node", "start", "{host}", "{fresh}"]
    stop = ["./node", "stop", "{host}"]
    disk = ["ssh", "{host}", "df", "-Pk", "/var/lib/cassandra"]
    cpu = ["ssh", "{host}", "cat", "/proc/stat"]

    [[hosts]]
    address = "10.0.0.1"
    rack = "r1"
    seed = true
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec

from ebbflow.errors import InputError
from ebbflow.targets.cassandra.gossip import Host
from ebbflow.targets.cassandra.host_command import HostCommand
from ebbflow.targets.cassandra.provisioner import CommandProvisioner


class ClusterFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the file says. Commands are argument lists; ``{host}`` in them is the address of a host."""

    name: str
    data_center: str
    hosts: tuple[Host, ...]
    nodetool: tuple[str, ...]
    start: tuple[str, ...]
    stop: tuple[str, ...]
    disk: tuple[str, ...] = ()
    """Prints the free space of the data folder, as ``df -Pk``. Without it no node is removed."""
    cpu: tuple[str, ...] = ()
    """Prints ``/proc/stat``."""
    port: int = 9042
    user: str | None = None
    password_file: str | None = None
    """A file with the password, beside this one or absolute."""

    @classmethod
    def read(cls, path: Path) -> ClusterFile:
        """Read and check a file. ``InputError`` if it cannot be used."""
        try:
            plain = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            why = (error.strerror or str(error)).lower() if isinstance(error, OSError) else "it is not text"
            raise InputError(f"cannot read the cluster file {path}: {why}") from None
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"{path} is not TOML: {error}") from None
        try:
            found = msgspec.convert(plain, cls)
        except msgspec.ValidationError as error:
            raise InputError(f"{path}: {error}; docs/cassandra.md shows a cluster file") from None
        return found._checked(path)

    def _checked(self, path: Path) -> ClusterFile:
        addresses = [host.address for host in self.hosts]
        if not addresses:
            raise InputError(f"{path}: hosts is empty; write one [[hosts]] for each host")
        twice = next((each for each in addresses if addresses.count(each) > 1), None)
        if twice:
            raise InputError(f"{path}: host {twice} is there twice; write each host once")
        if not any(host.seed for host in self.hosts):
            raise InputError(f"{path}: no host is a seed; write seed = true for one that always runs")
        try:
            self.provisioner()
            for command in (self.nodetool, self.disk, self.cpu):
                if command or command is self.nodetool:
                    HostCommand(command)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
        password = None if self.password_file is None else str((path.parent / self.password_file).absolute())
        return msgspec.structs.replace(self, password_file=password)

    def provisioner(self) -> CommandProvisioner:
        """Starts and stops the hosts."""
        return CommandProvisioner(start=self.start, stop=self.stop)

    def password(self) -> str | None:
        """The password in its file."""
        if self.password_file is None:
            return None
        try:
            return Path(self.password_file).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise InputError(
                f"cannot read the password in {self.password_file}: {(error.strerror or str(error)).lower()}"
            ) from None
