"""Connections of a controller to the hosts that are there."""

from __future__ import annotations

from collections.abc import Mapping

from ebbflow.errors import TargetError
from ebbflow.monitoring.keys import CollectorKeys, collector_keys
from ebbflow.targets.fleet.coordination import Coordination, Member
from ebbflow.targets.fleet.model import Fleet
from ebbflow.targets.fleet.wire.messages import Answer, Ask, Report, Request
from ebbflow.targets.fleet.wire.sockets import ANSWER_WITHIN_S, HostLink


class HostLinks:
    """Follows the membership: a host that comes or goes is connected or dropped at the next ``update``."""

    def __init__(self, fleet: Fleet, coordination: Coordination) -> None:
        self._coordination = coordination
        self._keys: CollectorKeys | None = (
            None if fleet.keys is None else collector_keys(fleet.keys / "collector")
        )
        self._links: dict[str, tuple[Member, HostLink]] = {}

    def update(self) -> Mapping[str, Member]:
        """Connect to the hosts that are there, and return them."""
        hosts = self._coordination.hosts()
        for name, (member, link) in list(self._links.items()):
            if name not in hosts or hosts[name].boot != member.boot:
                link.close()
                del self._links[name]
        for name, member in hosts.items():
            if name not in self._links:
                self._links[name] = member, HostLink(member.address, self._keys)
        return hosts

    def ask(self, application: str, request: Request, *, within_s: float = ANSWER_WITHIN_S) -> Answer:
        """Ask the host of an application; ``TargetError`` if it is not there or does not answer."""
        found = self._links.get(application)
        if found is None:
            raise TargetError(f"application {application} has no host")
        return found[1].ask(request, within_s=within_s)

    def report(self, application: str, after: int | None = None) -> Report:
        """The report of a host."""
        answer = self.ask(application, Ask(after=after))
        if not isinstance(answer, Report):
            raise TargetError(f"the host of {application} answered with something else than a report")
        return answer

    def close(self) -> None:
        """Drop all connections."""
        for _, link in self._links.values():
            link.close()
        self._links.clear()
