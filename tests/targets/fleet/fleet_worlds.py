"""A fleet in one process: real leases, records and dispatch over fake applications that record who runs what."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from ebbflow.core.clock import SystemClock
from ebbflow.core.folders import Owner
from ebbflow.errors import TargetError
from ebbflow.targets.fleet.coordination import Member, Record
from ebbflow.targets.fleet.coordination.store import StoreCoordination
from ebbflow.targets.fleet.dispatch import Dispatcher
from ebbflow.targets.fleet.file import parse_fleet
from ebbflow.targets.fleet.host.queries import HostedQueries
from ebbflow.targets.fleet.model import Fleet, Query
from ebbflow.targets.fleet.wire.messages import Answer, Done, Refused, Report, Request, Start, Stop

FLEET = """\
[application.left]
master = "local[1]"
[application.right]
master = "local[1]"
[stream.numbers]
[operator.count]
start = "steps:count"
reads = ["numbers"]
stateful = true
application = "left"
[operator.fixed]
start = "steps:count"
application = "left"
may-move = false
"""


def made_fleet(folder: Path, text: str = FLEET) -> Fleet:
    return parse_fleet(text, folder / "fleet.toml", imports=False)


class FakeRunning:
    """A query that works until it is stopped."""

    def __init__(self, world: World, application: str, query: str) -> None:
        self._world, self._application, self._query = world, application, query
        self._stopped = threading.Event()
        self.why = ""
        world.enter(application, query)

    is_ready = True
    batch_id = 3

    @property
    def is_active(self) -> bool:
        return not self._stopped.is_set()

    def failure(self) -> str:
        return self.why

    def stop(self, *, interrupt: bool) -> None:
        if not self._stopped.is_set():
            self._world.leave(self._application, self._query)
            self._stopped.set()


class FakeEngine:
    def __init__(self, world: World, application: str) -> None:
        self._world, self._application = world, application

    def start(self, query: Query) -> FakeRunning:
        if (self._application, query.name) in self._world.broken:
            raise RuntimeError("no such table")
        running = FakeRunning(self._world, self._application, query.name)
        self._world.running[self._application, query.name] = running
        return running


class World:
    """Two fake applications. ``two_owners`` has every moment at which two of them ran one query."""

    def __init__(self, folder: Path, *, fenced: bool = True, text: str = FLEET) -> None:
        self.fleet = made_fleet(folder, text)
        self.clock = SystemClock()
        self.coordination = StoreCoordination(self.fleet.store, self.clock)
        self.broken: set[tuple[str, str]] = set()
        self.running: dict[tuple[str, str], FakeRunning] = {}
        self.two_owners: list[str] = []
        self._owners: dict[str, set[str]] = {}
        self._lock = threading.Lock()
        self._fenced = fenced
        self.members: dict[str, Member] = {}
        self.hosts: dict[str, HostedQueries] = {}
        self.silent: set[str] = set()
        """Hosts that are there and do not answer."""
        for name in self.fleet.applications:
            self.start_host(name)

    def start_host(self, name: str) -> None:
        boot = f"{name}-{time.monotonic_ns()}"
        self.members[name] = Member(
            name=name, boot=boot, address="", machine="here", owner=Owner.this_process()
        )
        self.hosts[name] = HostedQueries(
            self.fleet, name, FakeEngine(self, name), self.coordination, self.clock, fenced=self._fenced
        )
        self.coordination.join(self.members[name])

    def lose_host(self, name: str) -> HostedQueries:
        """The host is gone for everyone else; whether it is dead or paused is for the caller to say."""
        self.coordination.leave(self.members.pop(name))
        return self.hosts.pop(name)

    def enter(self, application: str, query: str) -> None:
        with self._lock:
            owners = self._owners.setdefault(query, set())
            owners.add(application)
            if len(owners) > 1:
                self.two_owners.append(f"{query} in {' and '.join(sorted(owners))}")

    def leave(self, application: str, query: str) -> None:
        with self._lock:
            self._owners[query].discard(application)

    def owners(self, query: str) -> set[str]:
        with self._lock:
            return set(self._owners.get(query, ()))

    def dispatcher(self) -> Dispatcher:
        return Dispatcher(self.fleet, self.coordination, FakeLinks(self), self.clock)

    def until(self, dispatcher: Dispatcher, condition: Callable[[], bool], what: str) -> None:
        deadline_s = time.monotonic() + 20.0
        pause = threading.Event()
        while not condition():
            assert time.monotonic() < deadline_s, f"waited for {what}: {self.coordination.records()}"
            dispatcher.step()
            pause.wait(0.01)

    def settle(self, dispatcher: Dispatcher) -> None:
        """Step until every query runs where it belongs."""
        self.until(dispatcher, self.is_settled, "every query to run")

    def is_settled(self) -> bool:
        records = self.coordination.records()
        return len(records) == len(self.fleet.queries) and all(
            not record.is_moving and self.owners(name) == {record.application}
            for name, record in records.items()
        )

    def record(self, query: str) -> Record:
        found = self.coordination.record(query)
        assert found is not None
        return found


class FakeLinks:
    """Calls the hosts of a world directly."""

    def __init__(self, world: World) -> None:
        self._world = world

    def update(self) -> Mapping[str, Member]:
        return self._world.coordination.hosts()

    def ask(self, application: str, request: Request) -> Answer:
        host = self._world.hosts.get(application)
        if host is None or application in self._world.silent:
            raise TargetError(f"the host of {application} does not answer")
        match request:
            case Start(query=query, token=token):
                why = host.start(query, token)
                return Refused(why=why) if why else Done()
            case Stop(query=query, token=token):
                host.stop(query, token)
        return Done()

    def report(self, application: str, after: int | None = None) -> Report:
        self.ask(application, Stop(query="none", token=0))
        return Report(
            application=application, boot=self._world.members[application].boot, time_s=time.time(), nodes=1,
            requested=1, held=1, slots_per_node=1, lead_time_s=0.0,
            queries=self._world.hosts[application].states(),
        )  # fmt: skip
