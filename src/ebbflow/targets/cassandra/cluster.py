"""A cluster with all that is needed to scale it: a session, its hosts, a provisioner, ``nodetool`` and a probe."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from ebbflow.core.clock import Clock
from ebbflow.core.topology import Topology
from ebbflow.errors import InputError
from ebbflow.targets.cassandra.actuator import ResizeTimes
from ebbflow.targets.cassandra.cluster_file import ClusterFile
from ebbflow.targets.cassandra.connection import Connection
from ebbflow.targets.cassandra.gossip import Host
from ebbflow.targets.cassandra.host_command import HostCommand
from ebbflow.targets.cassandra.launch.local_cassandra import LocalCassandra
from ebbflow.targets.cassandra.load.generator import Contact
from ebbflow.targets.cassandra.monitor import Clients, CommandProbe, HostProbe, Monitor
from ebbflow.targets.cassandra.provisioner import Provisioner
from ebbflow.targets.cassandra.target import CassandraTarget, NodetoolOperations


class OpenCluster:
    """A cluster that answers. A context manager; leaving it ends the session, not the cluster."""

    def __init__(
        self,
        *,
        name: str,
        hosts: Sequence[Host],
        contact: Contact,
        provisioner: Provisioner,
        nodetool: HostCommand,
        probe: HostProbe | None,
        clock: Clock,
    ) -> None:
        self.connection = Connection(
            contact.contacts,
            port=contact.port,
            data_center=contact.data_center,
            user=contact.user,
            password=contact.password,
        )
        if self.connection.cluster_name != name:
            self.connection.close()
            raise InputError(
                f"the cluster at {contact.contacts[0]} is named '{self.connection.cluster_name}', not '{name}'; "
                "correct the name or the hosts"
            )
        self.name = name
        self.hosts = tuple(hosts)
        self.contact = contact
        self.nodetool = nodetool
        self._provisioner = provisioner
        self._probe = probe
        self._clock = clock

    @classmethod
    def of_file(cls, file: ClusterFile, clock: Clock) -> OpenCluster:
        """A cluster that the user names."""
        probe = CommandProbe(
            disk=HostCommand(file.disk) if file.disk else None,
            cpu=HostCommand(file.cpu) if file.cpu else None,
        )
        return cls(
            name=file.name,
            hosts=file.hosts,
            contact=Contact(
                contacts=[host.address for host in file.hosts if host.seed],
                data_center=file.data_center,
                port=file.port,
                user=file.user,
                password=file.password(),
            ),
            provisioner=file.provisioner(),
            nodetool=HostCommand(file.nodetool),
            probe=probe,
            clock=clock,
        )

    @classmethod
    def of_local(cls, local: LocalCassandra, clock: Clock) -> OpenCluster:
        """A cluster on this machine."""
        return cls(
            name=local.name,
            hosts=local.hosts,
            contact=Contact(contacts=local.contacts, data_center=local.data_center, port=local.port),
            provisioner=local,
            nodetool=local.nodetool,
            probe=local,
            clock=clock,
        )

    def monitor(self, clients: Clients | None = None) -> Monitor:
        """A monitor of it."""
        return Monitor(
            self.connection, self.hosts, self._clock, name=self.name, probe=self._probe, clients=clients
        )

    def check(self) -> Topology:
        """Its nodes now. Raises ``InputError`` if the hosts do not fit."""
        topology = self.monitor().settle()
        known = {host.address for host in self.hosts}
        strangers = [node.address for node in topology.nodes if node.address not in known]
        if strangers:
            raise InputError(
                f"{', '.join(strangers)} takes part in the cluster, but is none of its hosts; add it to the hosts"
            )
        return topology

    def target(
        self, journal_file: Path, *, clients: Clients | None = None, times: ResizeTimes | None = None
    ) -> CassandraTarget:
        """The target of this cluster, after its first observation."""
        monitor = self.monitor(clients)
        monitor.settle()
        return CassandraTarget(
            monitor,
            NodetoolOperations(self._provisioner, self.nodetool),
            self._clock,
            name=self.name,
            hosts=len(self.hosts),
            journal_file=journal_file,
            times=times,
        )

    def close(self) -> None:
        """End the session."""
        self.connection.close()

    def __enter__(self) -> OpenCluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
