"""Drives every query to where its record says it belongs: starts, moves, roll-backs.

``step`` compares the records with what hosts report, and takes the next step of each query. What is to be done is
written into the record before it is done (``coordination``), and every step can be repeated. So a controller that dies
at any moment leaves a record from which the next one continues.

A query starts under a token of its own. If a host does not answer, nothing is done about its queries until it does or
is gone. If it is gone, its queries start elsewhere or in its successor under newer tokens; should it be paused rather
than dead, it is refused from then on (``host.queries``).
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from msgspec.structs import replace

from ebbflow.core.backoff import Backoff
from ebbflow.core.clock import Clock
from ebbflow.core.duration import format_duration
from ebbflow.errors import InputError, OutdatedError, TargetError, UnknownNameError
from ebbflow.targets.fleet.coordination import Coordination, Member, Record, Step
from ebbflow.targets.fleet.model import Fleet
from ebbflow.targets.fleet.wire.messages import (
    Answer,
    QueryPhase,
    QueryState,
    Refused,
    Report,
    Request,
    Start,
    Stop,
)

log = logging.getLogger(__name__)

START_WITHIN_S = 120.0
"""A query that has not finished its first batch by then has failed to start, and its move is rolled back."""
HOST_WITHIN_S = 60.0
"""How long a move waits for a host that is gone before it is rolled back."""
FAIL_OVER_AFTER_S = 120.0
"""How long an application may have no host before its queries go elsewhere; a host takes 10 to 40 s to start."""
AGAIN = Backoff(first_s=2.0, longest_s=60.0)
"""Between two starts of a query that fails."""
_ENDED = (QueryPhase.STOPPED, QueryPhase.FAILED)


class Links(Protocol):
    """Connections to hosts: ``links.HostLinks``, or a fake in tests."""

    def update(self) -> Mapping[str, Member]:
        """The hosts that are there."""
        ...

    def ask(self, application: str, request: Request) -> Answer:
        """Ask a host; ``TargetError`` if it does not answer."""
        ...

    def report(self, application: str, after: int | None = None) -> Report:
        """The report of a host; ``TargetError`` if it does not answer."""
        ...


@dataclass(frozen=True, kw_only=True)
class Moved:
    """A move that has ended."""

    query: str
    source: str
    application: str
    """Where it was to go."""
    why: str = ""
    """Why it was given up and the query is back in ``source``; empty if it is in ``application``."""
    down_s: float | None = None
    """From the end of the query in one application until it ran again; None if it never stopped, or nobody knows."""
    took_s: float = 0.0
    """From the request until it ran again."""

    def __str__(self) -> str:
        down = "" if self.down_s is None else f", down for {format_duration(round(self.down_s, 2))}"
        if self.why:
            return f"{self.query} stays in {self.source} instead of {self.application}: {self.why}{down}"
        return f"moved {self.query} from {self.source} to {self.application}{down}"


def request_move(
    fleet: Fleet, coordination: Coordination, query: str, application: str, now_s: float
) -> Record:
    """Write into its record that a query is to move; the controller that leads does the rest.

    Raises ``InputError`` if that cannot be done.
    """
    if query not in fleet.queries:
        raise UnknownNameError("operator", query, fleet.queries)
    if application not in fleet.applications:
        raise UnknownNameError("application", application, fleet.applications)
    if not fleet.queries[query].operator.may_move:
        raise InputError(f"operator {query} may not move; the fleet file says may-move = false")
    record = coordination.record(query)
    if record is None:
        raise InputError(f"operator {query} has not started yet; wait for `ebbflow fleet up`")
    if record.is_moving:
        raise InputError(
            f"operator {query} is moving from {record.source} to {record.application} already; wait for that"
        )
    if record.application == application:
        raise InputError(f"operator {query} is in application {application} already")
    wanted = replace(
        record, application=application, source=record.application, step=Step.STOPPING, since_s=now_s,
        stopped_s=0.0, why="",
    )  # fmt: skip
    return coordination.change(record, wanted)


class Dispatcher:
    """The next step of each query, over and over."""

    def __init__(self, fleet: Fleet, coordination: Coordination, links: Links, clock: Clock) -> None:
        self._fleet = fleet
        self._coordination = coordination
        self._links = links
        self._clock = clock
        self._lock = threading.Lock()
        self._moved: deque[Moved] = deque(maxlen=1_000)
        self._attempts: dict[str, tuple[int, float]] = {}
        """Starts of a query that failed in a row, and when the last one did."""
        self.records: Mapping[str, Record] = {}
        """Records as of the last step."""
        self.hosts: Mapping[str, Member] = {}
        """Hosts that were there in the last step."""
        self._gone_since_s: dict[str, float] = {}
        self.problems: dict[str, str] = {}
        """Why a query does not run, by query."""

    def take_moved(self) -> list[Moved]:
        """Moves that have ended since the last call."""
        with self._lock:
            moved = list(self._moved)
            self._moved.clear()
        return moved

    def step(self) -> bool:
        """Take the next step of every query; whether a move is under way.

        Raises ``TargetError`` if the coordination does not answer.
        """
        now_s = self._clock.now_s()
        self.hosts = hosts = self._links.update()
        for name in self._fleet.applications:
            if name in hosts:
                self._gone_since_s.pop(name, None)
            else:
                self._gone_since_s.setdefault(name, now_s)
        reports = self._reports(hosts)
        records = dict(self._coordination.records())
        for name, query in self._fleet.queries.items():
            try:
                if name not in records:
                    first = Record(query=name, application=query.operator.application, token=0, since_s=now_s)
                    records[name] = self._coordination.change(None, first)
                records[name] = self._adopt(records[name])
                records[name] = self._drive(records[name], reports, now_s)
            except OutdatedError:  # a user or another controller was faster; the next step reads it again
                log.info("the record of query %s has changed meanwhile", name)
        for name in records.keys() - self._fleet.queries.keys():
            self._retire(records[name], reports)
            del records[name]
        self.records = records
        return any(record.is_moving for record in records.values())

    def _reports(self, hosts: Mapping[str, Member]) -> dict[str, Report]:
        reports = {}
        for name in hosts:
            try:
                reports[name] = self._links.report(name)
            except TargetError as error:
                log.debug("no report of %s: %s", name, error)
        return reports

    def _adopt(self, record: Record) -> Record:
        """A query whose application is no longer in the file goes to its first one."""
        known = self._fleet.applications
        if record.application in known and (not record.is_moving or record.source in known):
            return record
        home = self._fleet.queries[record.query].operator.application
        return self._coordination.change(
            record, replace(record, application=home, source="", step=Step.PLACED, token=record.token + 1)
        )

    def _retire(self, record: Record, reports: Mapping[str, Report]) -> None:
        """Stop a query that is no longer in the file, and forget it once it has ended."""
        running = [
            name
            for name, report in reports.items()
            if (state := report.query(record.query)) is not None and state.phase not in _ENDED
        ]
        for name in running:
            self._tell(name, Stop(query=record.query, token=record.token))
        if not running and record.runs_in in reports:
            self._coordination.remove(record)

    # -- one query -----------------------------------------------------------------------------

    def _drive(self, record: Record, reports: Mapping[str, Report], now_s: float) -> Record:
        match record.step:
            case Step.PLACED:
                return self._keep_running(record, reports, now_s)
            case Step.STOPPING:
                return self._stop(record, reports, now_s)
            case Step.STARTING:
                return self._start(record, reports, now_s)
            case Step.RETURNING:
                return self._return(record, reports, now_s)

    def _keep_running(self, record: Record, reports: Mapping[str, Report], now_s: float) -> Record:
        """Start the query where it belongs, if it does not run there under the token of its record."""
        name = record.query
        report = reports.get(record.application)
        if report is None:
            self.problems[name] = f"application {record.application} has no host"
            return self._fail_over(record, reports, now_s)
        state = report.query(name)
        if state is not None and state.token == record.token:
            if state.phase is QueryPhase.RUNNING:
                self._attempts.pop(name, None)
                self.problems.pop(name, None)
            if state.phase not in _ENDED:
                return record
            if state.phase is QueryPhase.FAILED and self._must_wait(name, state, now_s):
                return record
        elif state is not None and state.phase not in _ENDED:
            # An older start; its own lease check stops it, this only hurries.
            self._tell(record.application, Stop(query=name, token=record.token))
            return record
        self.problems.setdefault(name, "starting")
        return self._grant(record, record.application)

    def _fail_over(self, record: Record, reports: Mapping[str, Report], now_s: float) -> Record:
        """Start the query elsewhere if its application has had no host for long, and it may move."""
        gone_s = now_s - max(self._gone_since_s.get(record.application, now_s), record.since_s)
        if (
            gone_s < FAIL_OVER_AFTER_S
            or not self._fleet.queries[record.query].operator.may_move
            or not reports
        ):
            return record
        home = min(reports, key=lambda name: (len(reports[name].queries), name))
        moving = replace(
            record,
            application=home,
            source=record.application,
            step=Step.STARTING,
            since_s=now_s,
            stopped_s=now_s,
        )
        return self._grant(moving, home, record)

    def _must_wait(self, name: str, state: QueryState, now_s: float) -> bool:
        """Whether a query that failed is to wait before its next start."""
        attempts, failed_s = self._attempts.get(name, (0, 0.0))
        if failed_s != state.ended_s:
            attempts += 1
            self._attempts[name] = attempts, state.ended_s
            log.warning("query %s failed (%d in a row): %s", name, attempts, state.error)
        self.problems[name] = state.error or "failed"
        return now_s - state.ended_s < AGAIN.delay_s(attempts)

    def _stop(self, record: Record, reports: Mapping[str, Report], now_s: float) -> Record:
        """Stop the query in its source. Until it has begun to stop, the move can still be called off."""
        name, report = record.query, reports.get(record.source)
        state = None if report is None else report.query(name)
        ended = state is None or state.phase in _ENDED or state.token != record.token
        if report is not None and not ended and state is not None and state.phase is not QueryPhase.STOPPING:
            if record.application not in reports:
                if now_s - self._gone_since_s.get(record.application, now_s) < HOST_WITHIN_S:
                    return record
                return self._call_off(record, f"application {record.application} has no host", now_s)
            self._tell(record.source, Stop(query=name, token=record.token))
            return record
        if report is None and record.source in self.hosts:
            return record  # it is there and does not answer: wait
        if not ended:
            return record
        stopped_s = now_s if state is None or not state.ended_s else state.ended_s
        return self._grant(
            replace(record, step=Step.STARTING, stopped_s=stopped_s), record.application, record
        )

    def _start(self, record: Record, reports: Mapping[str, Report], now_s: float) -> Record:
        """Start the query in its new application; if that fails, return it."""
        name, report = record.query, reports.get(record.application)
        if report is None:
            waited_s = now_s - self._gone_since_s.get(record.application, now_s)
            if record.application in self.hosts or waited_s < HOST_WITHIN_S:
                return record
            return self._send_back(record, f"application {record.application} has no host")
        state = report.query(name)
        if state is None or state.token != record.token:
            why = self._tell(record.application, Start(query=name, token=record.token))
            return self._send_back(record, why) if why else record
        if state.phase is QueryPhase.RUNNING:
            placed = replace(record, step=Step.PLACED, source="", moves=record.moves + 1)
            changed = self._coordination.change(record, placed)
            self._note(record, "", state.running_s, now_s)
            return changed
        if state.phase in _ENDED:
            return self._send_back(record, state.error or "it stopped at once")
        if now_s - record.stopped_s > START_WITHIN_S:
            self._tell(record.application, Stop(query=name, token=record.token))
            return self._send_back(record, f"it did not run within {format_duration(START_WITHIN_S)}")
        return record

    def _return(self, record: Record, reports: Mapping[str, Report], now_s: float) -> Record:
        """Start the query again where it was. It belongs there from now on, whether that succeeds at once or not."""
        name, report = record.query, reports.get(record.source)
        state = None if report is None else report.query(name)
        if report is not None and (state is None or state.token != record.token):
            why = self._tell(record.source, Start(query=name, token=record.token))
            if not why:
                return record
        if report is None and record.source in self.hosts:
            return record
        running_s = None
        if state is not None and state.token == record.token:
            if state.phase is QueryPhase.STARTING:
                return record
            running_s = state.running_s if state.phase is QueryPhase.RUNNING else None
        placed = replace(record, step=Step.PLACED, application=record.source, source="")
        changed = self._coordination.change(record, placed)
        self._note(record, record.why, running_s, now_s)
        return changed

    # -- changes -------------------------------------------------------------------------------

    def _grant(self, record: Record, application: str, before: Record | None = None) -> Record:
        """Give the query a new token, and start it under that."""
        granted = self._coordination.change(before or record, replace(record, token=record.token + 1))
        self._tell(application, Start(query=record.query, token=granted.token))
        return granted

    def _send_back(self, record: Record, why: str) -> Record:
        log.warning("query %s does not start in %s: %s", record.query, record.application, why)
        back = replace(record, step=Step.RETURNING, why=why)
        return self._grant(back, record.source, record)

    def _call_off(self, record: Record, why: str, now_s: float) -> Record:
        placed = replace(record, step=Step.PLACED, application=record.source, source="", why=why)
        changed = self._coordination.change(record, placed)
        self._note(record, why, None, now_s)
        return changed

    def _note(self, record: Record, why: str, running_s: float | None, now_s: float) -> None:
        down_s = None if running_s is None or not record.stopped_s else max(0.0, running_s - record.stopped_s)
        moved = Moved(
            query=record.query,
            source=record.source,
            application=record.application,
            why=why,
            down_s=down_s,
            took_s=max(0.0, (running_s or now_s) - record.since_s),
        )
        log.info("%s", moved)
        with self._lock:
            self._moved.append(moved)

    def _tell(self, application: str, request: Start | Stop) -> str:
        """Send a request; returns why the host refused it. One that does not answer is asked again later."""
        try:
            answer = self._links.ask(application, request)
        except TargetError as error:
            log.debug("%s", error)
            return ""
        return answer.why if isinstance(answer, Refused) else ""
