"""The queries of a host, each under its lease.

A start runs in a thread of its own, because it takes seconds. Before Spark is asked, the host checks two things: that
the record of the query still has this token and this application, and that no higher token has claimed the checkpoint.
While the query runs, ``check_leases`` compares again and stops what has a newer token, in the middle of a batch if
need be: by then another host may be running that batch.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from ebbflow.core.clock import Clock, wait_until
from ebbflow.core.folders import Owner
from ebbflow.errors import TargetError
from ebbflow.targets.fleet.checkpoint import Claim, claim, newest_token, release, still_writing
from ebbflow.targets.fleet.coordination import Coordination, Record
from ebbflow.targets.fleet.model import Fleet, Query
from ebbflow.targets.fleet.wire.messages import QueryPhase, QueryState

log = logging.getLogger(__name__)

POLL_EVERY_S = 0.05
WAIT_FOR_JVM_S = 10.0


class Running(Protocol):
    """A query that an engine runs."""

    @property
    def is_active(self) -> bool:
        """Whether it has not ended."""
        ...

    @property
    def is_ready(self) -> bool:
        """Whether it has finished a batch, or waits for data."""
        ...

    @property
    def batch_id(self) -> int:
        """Its last finished batch; -1 before the first."""
        ...

    def failure(self) -> str:
        """Why it failed; empty if it did not."""
        ...

    def stop(self, *, interrupt: bool) -> None:
        """Stop it after its running batch, however long that takes, or in the middle of it."""
        ...


class Engine(Protocol):
    """Starts queries: Spark, or a fake in tests."""

    def start(self, query: Query) -> Running:
        """Start a query from its checkpoint."""
        ...


@dataclass
class _Hosted:
    query: Query
    token: int
    phase: QueryPhase = QueryPhase.STARTING
    error: str = ""
    running: Running | None = None
    running_s: float = 0.0
    ended_s: float = 0.0
    ended: threading.Event = field(default_factory=threading.Event)
    cancelled: bool = False
    """Whether it was to stop before Spark had started it."""


class HostedQueries:
    """Queries of one application."""

    def __init__(
        self,
        fleet: Fleet,
        application: str,
        engine: Engine,
        coordination: Coordination,
        clock: Clock,
        *,
        jvm: Owner | None = None,
        fenced: bool = True,
    ) -> None:
        """``jvm``: the process that runs the queries, if it is not this one. ``fenced=False`` starts whatever is asked
        for: only for tests that show what the lease prevents."""
        self._fleet = fleet
        self._application = application
        self._engine = engine
        self._coordination = coordination
        self._clock = clock
        self._fenced = fenced
        self._owner = Owner.this_process()
        self._jvm = jvm
        self._lock = threading.Lock()
        self._hosted: dict[str, _Hosted] = {}
        self._pause = threading.Event()

    # -- requests ------------------------------------------------------------------------------

    def start(self, name: str, token: int) -> str:
        """Begin to start a query; returns why not, empty if it begins or runs already."""
        query = self._fleet.queries.get(name)
        if query is None:
            return f"there is no query {name} in {self._fleet.path}; restart the host if the file has changed"
        with self._lock:
            known = self._hosted.get(name)
            if known is not None and known.token == token:
                return ""
            if known is not None and known.token > token:
                return f"token {token} of query {name} is outdated: this host had {known.token}"
            if known is not None and known.phase not in (QueryPhase.STOPPED, QueryPhase.FAILED):
                return f"query {name} still runs here under token {known.token}; stop it first"
            hosted = self._hosted[name] = _Hosted(query, token)
        threading.Thread(
            target=self._start, args=(hosted,), name=f"ebbflow-start-{name}", daemon=True
        ).start()
        return ""

    def stop(self, name: str, token: int, *, interrupt: bool = False) -> None:
        """Begin to stop a query that runs under this token or an older one."""
        with self._lock:
            hosted = self._hosted.get(name)
            if hosted is None or hosted.token > token:
                return
            if hosted.phase is QueryPhase.STARTING and hosted.running is None:
                hosted.cancelled = True
                return
            if hosted.phase not in (QueryPhase.STARTING, QueryPhase.RUNNING) and not interrupt:
                return
            if hosted.phase in (QueryPhase.STOPPED, QueryPhase.FAILED):
                return
            hosted.phase = QueryPhase.STOPPING
        threading.Thread(
            target=self._stop, args=(hosted, interrupt), name=f"ebbflow-stop-{name}", daemon=True
        ).start()

    def stop_all(self, within_s: float, *, interrupt: bool = False) -> bool:
        """Stop every query and wait; whether all ended in time."""
        with self._lock:
            hosted = list(self._hosted.values())
        for each in hosted:
            self.stop(each.query.name, each.token, interrupt=interrupt)
        deadline_s = self._clock.now_s() + within_s
        return all(each.ended.wait(max(0.0, deadline_s - self._clock.now_s())) for each in hosted)

    def states(self, rates_per_s: Mapping[str, float] | None = None) -> list[QueryState]:
        """The queries of this host, those that ended included."""
        with self._lock:
            hosted = list(self._hosted.values())
        return [
            QueryState(
                name=each.query.name,
                token=each.token,
                phase=each.phase,
                error=each.error,
                running_s=each.running_s,
                ended_s=each.ended_s,
                batch_id=_batch_id(each.running),
                rate_per_s=(rates_per_s or {}).get(each.query.name),
            )
            for each in hosted
        ]

    # -- lease ---------------------------------------------------------------------------------

    def check_leases(self) -> list[str]:
        """Stop queries whose token is outdated; returns their names. Without an answer, everything goes on.

        Raises ``TargetError`` if the coordination does not answer.
        """
        with self._lock:
            active = [each for each in self._hosted.values() if not each.ended.is_set()]
        lost = []
        for each in active:
            why = self._lost(each, self._coordination.record(each.query.name))
            if why:
                log.warning("stopping query %s: %s", each.query.name, why)
                lost.append(each.query.name)
                self.stop(each.query.name, each.token, interrupt=True)
        return lost

    def _lost(self, hosted: _Hosted, record: Record | None) -> str:
        """Why a query must not run here; empty if it may."""
        if not self._fenced:
            return ""
        name = hosted.query.name
        if record is None:
            return f"query {name} has no record any more"
        if record.token != hosted.token:
            return f"token {hosted.token} of query {name} is outdated: its record has {record.token}"
        if record.runs_in != self._application:
            return f"query {name} belongs in application {record.runs_in}"
        newest = newest_token(hosted.query.checkpoint)
        if newest > hosted.token:
            return (
                f"token {hosted.token} of query {name} is outdated: its checkpoint was claimed with {newest}"
            )
        return ""

    # -- threads -------------------------------------------------------------------------------

    def _start(self, hosted: _Hosted) -> None:
        name = hosted.query.name
        try:
            self._take_lease(hosted)
            running = self._engine.start(hosted.query)
        except Exception as error:
            self._end(hosted, QueryPhase.FAILED, _one_line(error))
            return
        with self._lock:
            hosted.running = running
            cancelled = hosted.cancelled
        log.info("query %s started under token %d", name, hosted.token)
        if cancelled:
            self.stop(name, hosted.token)
        self._follow(hosted, running)

    def _take_lease(self, hosted: _Hosted) -> None:
        if not self._fenced:
            return
        why = self._lost(hosted, self._coordination.record(hosted.query.name))
        if not why and hosted.cancelled:
            why = "it was stopped before it had started"
        if why:
            raise TargetError(why)
        checkpoint = hosted.query.checkpoint
        # A host that was killed leaves its JVM behind for a moment; one that is paused is not waited for.
        wait_until(
            lambda: still_writing(checkpoint) is None, self._clock, within_s=WAIT_FOR_JVM_S, every_s=0.1
        )
        claim(
            hosted.query.checkpoint,
            Claim(
                token=hosted.token,
                query=hosted.query.name,
                fleet=str(self._fleet.folder),
                application=self._application,
                owner=self._owner,
                jvm=self._jvm,
            ),
        )

    def _follow(self, hosted: _Hosted, running: Running) -> None:
        """Follow a query until it has ended."""
        every_s = POLL_EVERY_S
        while running.is_active:
            if hosted.phase is QueryPhase.STARTING and running.is_ready:
                with self._lock:
                    if hosted.phase is QueryPhase.STARTING:
                        hosted.phase, hosted.running_s = QueryPhase.RUNNING, self._clock.now_s()
                every_s = 0.25
            self._pause.wait(POLL_EVERY_S if hosted.phase is QueryPhase.STOPPING else every_s)
        failure = running.failure()
        self._end(hosted, QueryPhase.FAILED if failure else QueryPhase.STOPPED, failure)

    def _stop(self, hosted: _Hosted, interrupt: bool) -> None:
        assert hosted.running is not None
        try:
            hosted.running.stop(interrupt=interrupt)
        except Exception as error:
            log.warning("query %s cannot be stopped now: %s", hosted.query.name, _one_line(error))
            with self._lock:
                if hosted.phase is QueryPhase.STOPPING:
                    hosted.phase = QueryPhase.RUNNING

    def _end(self, hosted: _Hosted, phase: QueryPhase, error: str) -> None:
        with self._lock:
            hosted.phase, hosted.error, hosted.ended_s = phase, error, self._clock.now_s()
        if self._fenced:
            release(hosted.query.checkpoint, hosted.token)
        hosted.ended.set()
        if error:
            log.warning("query %s ended: %s", hosted.query.name, error)


def _batch_id(running: Running | None) -> int:
    try:
        return -1 if running is None else running.batch_id
    except Exception:
        return -1


def _one_line(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:500]
