"""One process of the load generator: sends its share of the requests when they are due, whatever the store answers.

Request i of the load is due when the load says so. Process p of n sends the requests i with i mod n = p. A response
time counts from when the request was due, not from when it was sent: a store that stalls, or a process that falls
behind, cannot hide it (coordinated omission).

Talks to its parent in lines of JSON: the plan comes on standard input, then, once it is connected, the start time.
Statistics of each second go to standard output. It ends when standard input closes.
"""

from __future__ import annotations

import os
import queue
import random
import sys
import threading
import time
from pathlib import Path

import msgspec

from ebbflow.errors import EbbflowError
from ebbflow.targets.cassandra.connection import Connection
from ebbflow.targets.cassandra.load.response import Responses, ResponsesMessage
from ebbflow.targets.cassandra.load.rows import fields_of, insert_statement, key_of, select_statement
from ebbflow.targets.cassandra.load.written import ACKNOWLEDGED, SENT, WriteLog
from ebbflow.workloads import Arrivals, parse_load

CHUNK = 256
"""Requests planned at a time."""
DRAIN_S = 12.0
"""How long to wait for answers after the last request; longer than the store's own timeouts."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a process does."""

    contacts: list[str]
    port: int
    data_center: str
    user: str | None = None
    password: str | None = None
    keyspace: str
    load: str
    duration_s: float
    process: int
    processes: int
    keys: int
    reads: float
    read_consistency: str
    write_consistency: str
    seed: int
    log: str | None = None
    """File for the writes; None to keep none."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A line to the parent: what happened since the last one."""

    time_s: float
    ready: bool = False
    offered: int = 0
    failed: int = 0
    responses: ResponsesMessage | None = None
    error: str = ""
    done: bool = False


class _Counts:
    """What happened since the last report; filled by the threads of the driver."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.in_flight = 0
        self._offered = self._failed = 0
        self._responses = Responses()

    def offered(self) -> None:
        with self._lock:
            self._offered += 1
            self.in_flight += 1

    def answered(self, seconds: float) -> None:
        with self._lock:
            self._responses.add(seconds)
            self.in_flight -= 1

    def failed(self) -> None:
        with self._lock:
            self._failed += 1
            self.in_flight -= 1

    def report(self, *, done: bool = False) -> Report:
        with self._lock:
            made = Report(
                time_s=time.time(),
                offered=self._offered,
                failed=self._failed,
                responses=self._responses.to_message(),
                done=done,
            )
            self._offered = self._failed = 0
            self._responses = Responses()
        return made


class Sender:
    """Sends requests when they are due."""

    def __init__(self, connection: Connection, plan: Plan, log: WriteLog | None) -> None:
        from cassandra import ConsistencyLevel

        self._session = connection.session
        self._read = self._session.prepare(select_statement(plan.keyspace))
        self._read.consistency_level = ConsistencyLevel.name_to_value[plan.read_consistency]
        self._write = self._session.prepare(insert_statement(plan.keyspace))
        self._write.consistency_level = ConsistencyLevel.name_to_value[plan.write_consistency]
        self._plan = plan
        self._log = log
        self._random = random.Random(plan.seed * 1_000 + plan.process)
        self._to_log: queue.SimpleQueue[tuple[str, int, int]] = queue.SimpleQueue()
        self.counts = _Counts()

    def run(self, start_s: float, stop: threading.Event) -> None:
        """Send all requests from the start time on."""
        arrivals, plan = Arrivals(parse_load(self._plan.load)), self._plan
        total = arrivals.rows_by(plan.duration_s)
        for first in range(0, total, CHUNK):
            due_s = start_s + arrivals.times_of(first, min(CHUNK, total - first))
            for offset in range((plan.process - first) % plan.processes, len(due_s), plan.processes):
                wait_s = due_s[offset] - time.time()
                if wait_s > 0 and stop.wait(wait_s):
                    return
                self._send(float(due_s[offset]))

    def _send(self, due_s: float) -> None:
        index = self._random.randrange(self._plan.keys)
        key = key_of(index)
        self.counts.offered()
        write = self._random.random() >= self._plan.reads
        version = int(due_s * 1e6)
        if write:
            self._to_log.put((SENT, index, version))
        try:
            if write:
                future = self._session.execute_async(self._write, (key, *fields_of(key, version), version))
            else:
                future = self._session.execute_async(self._read, (key,))
        except Exception:  # no node is left to ask
            self.counts.failed()
            return

        def answered(_: object) -> None:
            self.counts.answered(time.time() - due_s)
            if write:
                self._to_log.put((ACKNOWLEDGED, index, version))

        future.add_callbacks(answered, lambda _: self.counts.failed())

    def keep(self) -> None:
        """Write down what was sent and acknowledged."""
        while not self._to_log.empty():
            entry = self._to_log.get()
            if self._log is not None:
                self._log.add(*entry)
        if self._log is not None:
            self._log.flush()


def main() -> int:
    """Run the plan on standard input."""
    plan = msgspec.json.decode(sys.stdin.readline(), type=Plan)
    out = sys.stdout

    def tell(report: Report) -> None:
        out.write(msgspec.json.encode(report).decode() + "\n")
        out.flush()

    try:
        connection = Connection(
            plan.contacts,
            port=plan.port,
            data_center=plan.data_center,
            user=plan.user,
            password=plan.password,
        )
        log = WriteLog(Path(plan.log)) if plan.log else None
        sender = Sender(connection, plan, log)
    except EbbflowError as error:
        tell(Report(time_s=time.time(), error=str(error)))
        return 1
    tell(Report(time_s=time.time(), ready=True))
    start = sys.stdin.readline().strip()
    if not start:
        return 1
    stop = threading.Event()

    def watch() -> None:
        sys.stdin.read()  # until the parent closes it or is gone
        stop.set()

    threading.Thread(target=watch, daemon=True).start()
    sending = threading.Thread(target=sender.run, args=(float(start), stop), daemon=True)
    sending.start()
    while sending.is_alive():
        sending.join(0.5)
        sender.keep()
        tell(sender.counts.report())
    deadline_s = time.time() + DRAIN_S
    while sender.counts.in_flight and time.time() < deadline_s and not stop.wait(0.2):
        sender.keep()
        tell(sender.counts.report())
    sender.keep()
    tell(sender.counts.report(done=True))
    if log is not None:
        log.close()
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # the threads of the driver need seconds to end
