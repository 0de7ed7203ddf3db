"""An open-loop load generator for Cassandra, in several processes (``worker``)."""

from __future__ import annotations

import contextlib
import logging
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Annotated

import msgspec

from ebbflow.core.clock import Clock, SystemClock
from ebbflow.core.parameters import Choice, Number, Whole
from ebbflow.errors import TargetError
from ebbflow.targets.cassandra.load.response import Responses
from ebbflow.targets.cassandra.load.worker import DRAIN_S, Plan, Report
from ebbflow.targets.cassandra.load.written import Written
from ebbflow.targets.cassandra.monitor import ClientWindow
from ebbflow.workloads import parse_load

log = logging.getLogger(__name__)

READY_WITHIN_S = 60.0
LEAD_S = 0.5
"""Time from the start signal to the first request."""
REPORT_S = 0.6
"""Processes report this often, and a little later."""
LEVELS = ("ONE", "TWO", "QUORUM", "LOCAL_ONE", "LOCAL_QUORUM", "ALL")


@dataclass(frozen=True, kw_only=True)
class RequestMix:
    """The requests: random keys, mostly reads at ONE, as in Pascal §7.2.1. Writes are there to be checked."""

    keys: Annotated[int, Whole("Rows in the table.", unit="rows", at_least=1)] = 100_000
    reads: Annotated[float, Number("Share of requests that read.", unit="share", at_least=0, at_most=1)] = (
        0.95
    )
    read_consistency: Annotated[str, Choice("Consistency level of reads.", LEVELS)] = "ONE"
    write_consistency: Annotated[str, Choice("Consistency level of writes.", LEVELS)] = "QUORUM"


@dataclass(frozen=True, kw_only=True)
class Contact:
    """How clients reach a cluster."""

    contacts: Sequence[str]
    data_center: str
    port: int = 9042
    user: str | None = None
    password: str | None = None


class LoadResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a load. Response times count from when a request was due."""

    seconds: float
    offered: int
    answered: int
    failed: int
    response_mean_s: float
    response_deviation_s: float
    response_p50_s: float
    response_p95_s: float
    response_p99_s: float
    response_growth: float
    """Mean response time of the second half ÷ that of the first half."""

    @property
    def offered_per_s(self) -> float:
        """Requests offered per second."""
        return self.offered / self.seconds

    @property
    def answered_per_s(self) -> float:
        """Requests answered per second, those after the end of the load not counted."""
        return self.answered / self.seconds


class LoadGenerator:
    """Offers a load to a cluster, whatever it answers. A context manager: leaving it ends the processes.

    ``load``: an expression like ``constant(200)`` or ``trace(day.csv, speed=60)``, in requests per second.
    ``log_folder``: where processes note their writes, for ``written``.
    """

    def __init__(
        self,
        contact: Contact,
        load: str,
        *,
        duration_s: float,
        keyspace: str = "ebbflow",
        mix: RequestMix | None = None,
        processes: int = 2,
        seed: int = 1,
        log_folder: Path | None = None,
        clock: Clock | None = None,
    ) -> None:
        parse_load(load)
        mix = mix or RequestMix()
        self._plans = [
            Plan(
                contacts=list(contact.contacts),
                port=contact.port,
                data_center=contact.data_center,
                user=contact.user,
                password=contact.password,
                keyspace=keyspace,
                load=load,
                duration_s=duration_s,
                process=process,
                processes=processes,
                keys=mix.keys,
                reads=mix.reads,
                read_consistency=mix.read_consistency,
                write_consistency=mix.write_consistency,
                seed=seed,
                log=str(log_folder / f"writes-{process}.log") if log_folder else None,
            )
            for process in range(processes)
        ]
        self._duration_s = duration_s
        self._clock = clock or SystemClock()
        self._processes: list[subprocess.Popen[str]] = []
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._reports: list[Report] = []
        self._taken = 0
        self._taken_s = 0.0
        self._ready = 0
        self._done = 0
        self._error = ""
        self._changed = threading.Condition(self._lock)
        self.start_s = 0.0
        """When the load began, in seconds since the epoch."""

    # -- lifecycle --------------------------------------------------------------------------------

    def start(self) -> LoadGenerator:
        """Connect all processes, then let them begin at the same time."""
        try:
            for plan in self._plans:
                self._spawn(plan)
            with self._changed:
                ok = self._changed.wait_for(
                    lambda: self._ready == len(self._plans) or self._error, READY_WITHIN_S
                )
            if self._error or not ok:
                raise TargetError(
                    f"the load generator cannot start: {self._error or 'its processes do not connect'}"
                )
            self.start_s = self._taken_s = self._clock.now_s() + LEAD_S
            for process in self._processes:
                assert process.stdin is not None
                process.stdin.write(f"{self.start_s!r}\n")
                process.stdin.flush()
        except BaseException:
            self.stop()
            raise
        return self

    def wait(self, stop: threading.Event | None = None) -> LoadResult:
        """Wait until the load is over and its answers are there."""
        deadline_s = self.start_s + self._duration_s + DRAIN_S + 10.0
        with self._changed:
            while self._done < len(self._plans) and self._clock.now_s() < deadline_s:
                if stop is not None and stop.is_set():
                    break
                if self._error:
                    raise TargetError(f"the load generator failed: {self._error}")
                self._changed.wait(0.5)
        return self.result()

    def stop(self) -> None:
        """End the processes."""
        for process in self._processes:
            with contextlib.suppress(OSError):
                assert process.stdin is not None
                process.stdin.close()
        for process in self._processes:
            try:
                process.wait(5.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for thread in self._threads:
            thread.join(5.0)
        self._processes, self._threads = [], []

    def __enter__(self) -> LoadGenerator:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # -- results ----------------------------------------------------------------------------------

    def take(self) -> ClientWindow | None:
        """What happened since the last call (``monitor.Clients``); None until a second of it is known."""
        with self._lock:
            now_s = self._reports[-1].time_s if self._reports else 0.0
            if now_s - self._taken_s < 1.0:
                return None
            new, self._taken = self._reports[self._taken :], len(self._reports)
            span_s, self._taken_s = now_s - self._taken_s, now_s
        return _window(new, span_s)

    def result(self) -> LoadResult:
        """What became of the load so far."""
        with self._lock:
            reports = list(self._reports)
        end_s = self.start_s + self._duration_s
        within = [each for each in reports if each.time_s <= end_s + REPORT_S]
        times = _together(reports)
        middle_s = self.start_s + self._duration_s / 2
        early = _together([each for each in reports if each.time_s <= middle_s])
        late = _together([each for each in reports if each.time_s > middle_s])
        return LoadResult(
            seconds=self._duration_s,
            offered=sum(each.offered for each in reports),
            answered=_together(within).count,
            failed=sum(each.failed for each in reports),
            response_mean_s=times.mean_s,
            response_deviation_s=times.deviation_s,
            response_p50_s=times.quantile_s(0.5),
            response_p95_s=times.quantile_s(0.95),
            response_p99_s=times.quantile_s(0.99),
            response_growth=late.mean_s / early.mean_s if early.count and late.count else 1.0,
        )

    def series(self, step_s: float = 1.0) -> list[tuple[float, ClientWindow]]:
        """Offered and answered requests and response times in steps of time since the start."""
        with self._lock:
            reports = list(self._reports)
        steps: dict[int, list[Report]] = {}
        for each in reports:
            steps.setdefault(int((each.time_s - self.start_s) // step_s), []).append(each)
        return [(step * step_s, _window(steps[step], step_s)) for step in sorted(steps)]

    def written(self, before: Written | None = None) -> Written:
        """What was written, with what was there before."""
        found = before or Written()
        for plan in self._plans:
            if plan.log is not None and Path(plan.log).exists():
                found.read(Path(plan.log))
        return found

    # -- processes --------------------------------------------------------------------------------

    def _spawn(self, plan: Plan) -> None:
        process = subprocess.Popen(
            [sys.executable, "-m", "ebbflow.targets.cassandra.load.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C reaches the parent, which ends it
        )
        self._processes.append(process)
        assert process.stdin is not None
        process.stdin.write(msgspec.json.encode(plan).decode() + "\n")
        process.stdin.flush()
        thread = threading.Thread(target=self._listen, args=(process,), daemon=True)
        thread.start()
        self._threads.append(thread)

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        done = False
        for line in process.stdout:
            report = msgspec.json.decode(line, type=Report)
            done = done or report.done or bool(report.error)
            with self._changed:
                self._error = self._error or report.error
                self._ready += report.ready
                self._done += report.done
                if not report.ready:
                    self._reports.append(report)
                self._changed.notify_all()
        if not done:
            with self._changed:
                self._error = self._error or f"process {process.pid} ended early"
                self._changed.notify_all()


def _together(reports: Sequence[Report]) -> Responses:
    total = Responses()
    for report in reports:
        if report.responses is not None:
            total.merge(Responses.of_message(report.responses))
    return total


def _window(reports: Sequence[Report], span_s: float) -> ClientWindow:
    times = _together(reports)
    mean_s, p95_s, p99_s = times.mean_s, times.quantile_s(0.95), times.quantile_s(0.99)
    return ClientWindow(
        offered_per_s=sum(each.offered for each in reports) / span_s,
        answered_per_s=times.count / span_s,
        response_mean_s=mean_s if times.count else None,
        response_p95_s=p95_s if times.count else None,
        response_p99_s=p99_s if times.count else None,
    )
