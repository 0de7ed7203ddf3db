"""The process of a host: serves requests, polls its application, announces itself and watches its leases.

It needs no controller. When one is gone, queries run on, measurements are kept for a while, and the next controller
finds the host where it announced itself. Without the coordination service queries run on as well, but none is started.
"""

from __future__ import annotations

import logging
import os
import secrets
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from ebbflow.core.clock import Clock, SystemClock
from ebbflow.core.folders import Owner, scratch_folder
from ebbflow.core.layout import MAIN
from ebbflow.core.metrics import SubjectKind
from ebbflow.core.ports import Observation
from ebbflow.core.readings import Reading
from ebbflow.core.snapshot import ActionKind
from ebbflow.errors import EbbflowError, TargetError
from ebbflow.monitoring.agent import host_name
from ebbflow.monitoring.keys import agent_keys
from ebbflow.targets.fleet.coordination import Coordination, Member
from ebbflow.targets.fleet.coordination.opening import open_coordination
from ebbflow.targets.fleet.host.application import PolledApplication, SparkEngine, open_session, polled
from ebbflow.targets.fleet.host.queries import Engine, HostedQueries
from ebbflow.targets.fleet.model import Application, Fleet
from ebbflow.targets.fleet.wire.messages import (
    Answer,
    Ask,
    Change,
    Done,
    Measured,
    Refused,
    Report,
    Request,
    SetExecutors,
    Shutdown,
    Start,
    Stop,
    pack_readings,
)
from ebbflow.targets.fleet.wire.sockets import HostSocket

log = logging.getLogger(__name__)

WATCH_EVERY_S = 1.0
POLL_EVERY_S = 1.0
KEPT = 300
"""Polls whose measurements wait for a controller."""
STOP_WITHIN_S = 120.0


class Host:
    """One application: answers requests about it, and keeps it going."""

    def __init__(
        self,
        application: Application,
        polled_application: PolledApplication,
        queries: HostedQueries,
        coordination: Coordination,
        member: Member,
    ) -> None:
        self._application = application
        self._polled = polled_application
        self._queries = queries
        self._coordination = coordination
        self._member = member
        self._lock = threading.Lock()
        self._observed: Observation | None = None
        self._measured: deque[Measured] = deque(maxlen=KEPT)
        self._number = 0
        self._given_up = 0
        self._error = ""
        self.ending = threading.Event()
        self.superseded = False
        """Whether another host has taken its place."""

    # -- requests ------------------------------------------------------------------------------

    def answer(self, request: Request) -> Answer:
        """Answer a request, at once."""
        match request:
            case Ask(after=after):
                return self.report(after)
            case Start(query=query, token=token):
                why = "the host is ending" if self.ending.is_set() else self._queries.start(query, token)
                return Refused(why=why) if why else Done()
            case Stop(query=query, token=token):
                self._queries.stop(query, token)
                return Done()
            case SetExecutors(nodes=nodes):
                return self._set_executors(nodes)
            case Shutdown():
                self.ending.set()
                return Done()

    def report(self, after: int | None) -> Report:
        """The application and its queries; with ``after``, also what was measured since."""
        with self._lock:
            seen, error, given_up = self._observed, self._error, self._given_up
            measured = [] if after is None else [each for each in self._measured if each.number > after]
        try:
            rates = self._polled.arrival_rates()
        except TargetError:
            rates = {}
        name = self._application.name
        base = Report(
            application=name,
            boot=self._member.boot,
            time_s=0.0 if seen is None else seen.time_s,
            nodes=0 if seen is None else seen.layout.main_nodes,
            requested=0 if seen is None else seen.requested.main_nodes,
            held=0 if seen is None else seen.held_nodes or 0,
            slots_per_node=1 if seen is None else seen.slots_per_node,
            lead_time_s=0.0 if seen is None else seen.lead_time_s,
            given_up_nodes=given_up,
            queries=self._queries.states(rates),
            measured=measured,
            error=error,
        )
        if seen is None:
            return base
        changes = [
            Change(grows=each.kind is ActionKind.GROW, since_s=each.since_s, nodes=each.nodes, note=each.note)
            for each in seen.under_way
        ]
        return replace(
            base,
            changes=changes,
            current_batches=dict(seen.queries),
            read_limited=sorted(each for each in seen.read_limited if each != name),
        )

    def _set_executors(self, nodes: int) -> Answer:
        seen = self._observed
        if seen is None:
            return Refused(why="the application has not been polled yet")
        try:
            outcome = self._polled.apply(seen.layout.with_nodes(nodes))
        except TargetError as error:
            return Refused(why=str(error))
        return Done(
            requested=outcome.requested.main_nodes, infeasible=outcome.infeasible_nodes, note=outcome.note
        )

    # -- threads -------------------------------------------------------------------------------

    def poll(self) -> None:
        """Poll the application once."""
        try:
            seen = self._polled.observe()
        except TargetError as error:
            with self._lock:
                self._error = str(error)
            return
        readings = [self._named(each) for each in seen.readings]
        with self._lock:
            self._number += 1
            self._error = ""
            self._given_up += seen.given_up_nodes
            self._observed = seen
            self._measured.append(
                Measured(
                    number=self._number,
                    readings=pack_readings(readings),
                    batches=list(seen.batches),
                    first_batches=list(seen.first_batches),
                )
            )

    def _named(self, reading: Reading) -> Reading:
        """A reading with a subject that is unique in the fleet."""
        if reading.subject == MAIN:
            return replace(reading, subject=self._application.name)
        if reading.metric.about is SubjectKind.NODE:
            return replace(reading, subject=f"{self._application.name}/{reading.subject}")
        return reading

    def watch(self) -> None:
        """Announce the host and check its leases; ends it if another has taken its place."""
        try:
            if not self._coordination.stay(self._member):
                log.warning("another host has taken the place of %s; ending", self._member.name)
                self.superseded = True
                self.ending.set()
            self._queries.check_leases()
        except TargetError as error:
            log.warning("queries run on without coordination: %s", error)

    def repeat(self, what: str, every_s: float, stop: threading.Event) -> None:
        """Poll or watch until ``stop`` is set."""
        do = self.poll if what == "poll" else self.watch
        while not stop.wait(every_s):
            try:
                do()
            except Exception:
                log.exception("cannot %s; trying again", what)


@dataclass(frozen=True, kw_only=True)
class OpenedApplication:
    """An application that has been started."""

    polled: PolledApplication
    engine: Engine
    jvm: subprocess.Popen[bytes] | None = None
    """The process that runs the queries, if it is not this one."""


@contextmanager
def spark_application(fleet: Fleet, application: Application, clock: Clock) -> Iterator[OpenedApplication]:
    """Start a Spark application."""
    os.environ.setdefault("PYSPARK_SUBMIT_ARGS", f"--driver-memory {application.memory} pyspark-shell")
    _use_modules_of(fleet.path.parent)
    with open_session(application) as spark:
        yield OpenedApplication(
            polled=polled(spark, application, clock), engine=SparkEngine(spark, fleet), jvm=_jvm_process()
        )


def run_host(
    fleet: Fleet,
    application: Application,
    opened: Callable[
        [Fleet, Application, Clock], AbstractContextManager[OpenedApplication]
    ] = spark_application,
) -> int:
    """Run the host of an application until it is shut down."""
    clock = SystemClock()
    name = application.name
    with ExitStack() as stack:
        folder = Path(stack.enter_context(scratch_folder("host")))
        address = application.address or f"ipc://{folder / 'host'}"
        keys = None if fleet.keys is None else agent_keys(fleet.keys / "agent")
        server = HostSocket(address, keys)
        stack.callback(server.close)
        coordination = open_coordination(fleet, clock)
        stack.callback(coordination.close)
        started = stack.enter_context(opened(fleet, application, clock))
        jvm = started.jvm
        member = Member(
            name=name,
            boot=secrets.token_hex(8),
            address=server.address,
            machine=host_name(),
            owner=Owner.this_process(),
            jvm=None if jvm is None else Owner.of(jvm.pid),
        )
        queries = HostedQueries(fleet, name, started.engine, coordination, clock, jvm=member.jvm)
        host = Host(application, started.polled, queries, coordination, member)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: host.ending.set())
        host.poll()
        _join(coordination, member, host.ending)
        log.info("host of application %s listens at %s", name, server.address)
        stop = threading.Event()
        for what, every_s in (("watch", WATCH_EVERY_S), ("poll", POLL_EVERY_S)):
            threading.Thread(
                target=host.repeat, args=(what, every_s, stop), name=f"ebbflow-{what}", daemon=True
            ).start()
        ended = threading.Event()

        def end() -> None:
            host.ending.wait()
            queries.stop_all(STOP_WITHIN_S, interrupt=host.superseded)
            ended.set()

        threading.Thread(target=end, name="ebbflow-end", daemon=True).start()
        if jvm is not None:
            threading.Thread(target=_end_with, args=(jvm,), name="ebbflow-jvm", daemon=True).start()
        server.serve(host.answer, ended)
        stop.set()
        try:
            coordination.leave(member)
        except EbbflowError as error:
            log.warning("cannot withdraw the host: %s", error)
        started.polled.close()
        log.info("host of application %s has ended", name)
    return 0


def _join(coordination: Coordination, member: Member, ending: threading.Event) -> None:
    """Announce the host, however long the coordination takes to answer."""
    while not ending.is_set():
        try:
            coordination.join(member)
            return
        except TargetError as error:
            log.warning("cannot announce the host yet: %s", error)
            ending.wait(WATCH_EVERY_S)


def _use_modules_of(folder: Path) -> None:
    """Let Python workers import the modules beside the fleet file, as the driver does."""
    path = os.environ.get("PYTHONPATH", "")
    if str(folder) not in path.split(os.pathsep):
        os.environ["PYTHONPATH"] = f"{folder}{os.pathsep}{path}" if path else str(folder)


def _jvm_process() -> subprocess.Popen[bytes] | None:
    """The driver's JVM, which PySpark has started."""
    from pyspark import SparkContext

    return getattr(SparkContext._gateway, "proc", None)


def _end_with(jvm: subprocess.Popen[bytes]) -> None:
    """End this process at once when its JVM has ended: nothing runs any more, and the next host takes over."""
    code = jvm.wait()
    log.error("the driver's JVM has ended with code %d", code)
    os._exit(1)


def main(arguments: list[str]) -> int:
    """``python -m ebbflow.targets.fleet.host.process FILE APPLICATION``: how `ebbflow fleet up` starts hosts."""
    from ebbflow.targets.fleet.file import load_fleet

    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr
    )
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    try:
        fleet = load_fleet(Path(arguments[0]))
        return run_host(fleet, fleet.applications[arguments[1]])
    except EbbflowError as error:
        log.error("%s", error)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
