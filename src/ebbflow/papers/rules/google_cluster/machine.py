"""The state of the machine operator: takes task events, reports running tasks and requests per machine.

Machines are assigned to buckets, and one state value holds the machines of a bucket as columns instead of rows, so
that a batch of events takes a few array operations. The life cycle of a task on a machine (Figure 5.16):

====================  ===============================================================================
SCHEDULE              the task runs with these requests; if it was running, they replace the old ones
EVICT … LOST          the task stops; no effect if it was not running
UPDATE_RUNNING        new requests, if the task is running
SUBMIT, UPDATE_PEND…  no effect, except that the machine is known from now on
====================  ===============================================================================

A machine reports from the first event that names it, with or without tasks. Requests are whole numbers (``UNITS``), so
sums do not depend on the order in which batches or instances add them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Self

import numpy as np

from ebbflow.papers.rules.google_cluster.events import REPORT_US, REQUESTS, START_US, EventType, Ints

QUANTITIES = ("tasks", *REQUESTS)


def _empty() -> Ints:
    return np.empty(0, np.int64)


@dataclass(frozen=True, kw_only=True, eq=False)
class Columns:
    """Columns of whole numbers. Operators exchange them as bytes: passing rows would cost more than the computation."""

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))

    def take(self, rows: Ints | slice) -> Self:
        """Return some of the rows."""
        return type(self)(**{each.name: getattr(self, each.name)[rows] for each in fields(self)})

    def to_bytes(self) -> bytes:
        """Return one column after the other."""
        return b"".join(np.ascontiguousarray(getattr(self, each.name)).tobytes() for each in fields(self))

    @classmethod
    def from_bytes(cls, *pieces: bytes) -> Self:
        """Read what ``to_bytes`` wrote; the rows of each piece follow those of the one before.

        >>> one = Reports(**{each.name: np.array([7]) for each in fields(Reports)})
        >>> Reports.from_bytes(one.to_bytes(), one.to_bytes()).machine
        array([7, 7])
        """
        names = [each.name for each in fields(cls)]
        columns = [np.frombuffer(piece, np.int64).reshape(len(names), -1) for piece in pieces]
        joined = np.concatenate(columns, axis=1) if columns else np.empty((len(names), 0), np.int64)
        return cls(**dict(zip(names, joined, strict=True)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Events(Columns):
    """Events that name a machine, in any order; ``position`` is the place in the trace, requests are in ``UNITS``."""

    position: Ints = field(default_factory=_empty)
    time_us: Ints = field(default_factory=_empty)
    machine: Ints = field(default_factory=_empty)
    job: Ints = field(default_factory=_empty)
    task: Ints = field(default_factory=_empty)
    event: Ints = field(default_factory=_empty)
    cpu: Ints = field(default_factory=_empty)
    memory: Ints = field(default_factory=_empty)
    disk: Ints = field(default_factory=_empty)


@dataclass(frozen=True, kw_only=True, eq=False)
class Reports(Columns):
    """One row per report and machine; requests are in ``UNITS``."""

    report: Ints = field(default_factory=_empty)
    machine: Ints = field(default_factory=_empty)
    tasks: Ints = field(default_factory=_empty)
    cpu: Ints = field(default_factory=_empty)
    memory: Ints = field(default_factory=_empty)
    disk: Ints = field(default_factory=_empty)


@dataclass(frozen=True, kw_only=True, eq=False)
class MachineState:
    """The state of a bucket: its last report, its machines, and the tasks running on them."""

    reported: int = 0
    machines: Ints = field(default_factory=_empty)
    machine: Ints = field(default_factory=_empty)
    job: Ints = field(default_factory=_empty)
    task: Ints = field(default_factory=_empty)
    cpu: Ints = field(default_factory=_empty)
    memory: Ints = field(default_factory=_empty)
    disk: Ints = field(default_factory=_empty)

    def to_bytes(self) -> bytes:
        """Return the state for the state store: counts, then the columns."""
        head = np.array([self.reported, len(self.machines), len(self.job)], np.int64)
        columns = (self.machine, self.job, self.task, self.cpu, self.memory, self.disk)
        return b"".join(np.ascontiguousarray(each).tobytes() for each in (head, self.machines, *columns))

    @classmethod
    def from_bytes(cls, data: bytes) -> MachineState:
        """Read what ``to_bytes`` wrote.

        >>> MachineState.from_bytes(MachineState(reported=3, machines=np.array([5])).to_bytes()).machines
        array([5])
        """
        numbers = np.frombuffer(data, np.int64)
        reported, machines, tasks = (int(n) for n in numbers[:3])
        columns = numbers[3 + machines :].reshape(6, tasks)
        names = ("machine", "job", "task", "cpu", "memory", "disk")
        return cls(
            reported=reported, machines=numbers[3 : 3 + machines], **dict(zip(names, columns, strict=True))
        )

    def advance(self, events: Events, reports: int | None = None) -> tuple[MachineState, Reports]:
        """Apply events, and with ``reports`` return the state at every report up to that number.

        Events after the last of these reports are applied but not reported. They must belong to the next report,
        because the source marks a report as complete before it sends events of a later one.
        """
        last = self.reported if reports is None else max(reports, self.reported)
        count = last - self.reported
        machines = np.union1d(self.machines, events.machine)
        home = np.searchsorted(machines, events.machine)
        # Column 0 is the state before, column c the c-th report from now, the last column the open report.
        due = np.maximum((events.time_us - START_US) // REPORT_US + 1, self.reported + 1) - self.reported
        assert due.max(initial=0) <= count + 1, "events arrived before the report before theirs was complete"
        changes, after = self._changes(events, np.searchsorted(machines, self.machine), home, due)
        rows = Reports()
        if count:
            known = np.full(len(machines), count + 1, np.int64)
            np.minimum.at(known, home, due)
            known[np.searchsorted(machines, self.machines)] = 0
            rows = self._reports(machines, known, count, changes)
        return MachineState(reported=last, machines=machines, **after), rows

    def _changes(
        self, events: Events, own_home: Ints, home: Ints, column: Ints
    ) -> tuple[tuple[Ints, Ints, dict[str, Ints]], dict[str, Ints]]:
        """Return (report column, machine, change of each quantity) of every event, and the tasks running afterwards."""
        matters = (events.event != EventType.SUBMIT) & (events.event != EventType.UPDATE_PENDING)
        running = len(self.job)

        def joined(own: Ints, coming: Ints) -> Ints:
            return np.concatenate((own, coming[matters]))

        where = joined(own_home, home)
        job, task = joined(self.job, events.job), joined(self.task, events.task)
        position = joined(np.full(running, -1, np.int64), events.position)
        order = np.lexsort((position, task, job, where))
        where, job, task = where[order], job[order], task[order]
        kind = joined(np.full(running, EventType.SCHEDULE, np.int64), events.event)[order]
        due = joined(np.zeros(running, np.int64), column)[order]
        size = len(order)
        first = np.ones(size, bool)
        first[1:] = (where[1:] != where[:-1]) | (job[1:] != job[:-1]) | (task[1:] != task[:-1])
        update = kind == EventType.UPDATE_RUNNING
        # An update does not change whether the task runs: the last row that is not an update decides.
        decisive = np.maximum.accumulate(np.where(~update | first, np.arange(size), 0))
        runs = kind[decisive] == EventType.SCHEDULE
        values = {"tasks": runs.astype(np.int64)}
        for name in REQUESTS:
            values[name] = np.where(runs, joined(getattr(self, name), getattr(events, name))[order], 0)
        changes = {}
        for name, value in values.items():
            before = np.zeros(size, np.int64)
            before[1:] = np.where(first[1:], 0, value[:-1])
            changes[name] = value - before
        last = np.ones(size, bool)
        last[:-1] = first[1:]
        stays = last & runs
        names = np.concatenate((self.machine, events.machine[matters]))[order]
        after = {"machine": names[stays], "job": job[stays], "task": task[stays]}
        after |= {name: values[name][stays] for name in REQUESTS}
        return (due, where, changes), after

    def _reports(
        self, machines: Ints, known: Ints, count: int, changes: tuple[Ints, Ints, dict[str, Ints]]
    ) -> Reports:
        due, where, change = changes
        width = len(machines)
        cell = due * width + where
        at = np.arange(1, count + 1)[:, None]
        is_known = known[None, :] <= at
        columns = {}
        for name in QUANTITIES:
            sums = np.zeros((count + 2) * width, np.int64)
            np.add.at(sums, cell, change[name])  # not bincount, whose floats are exact only up to 2^53
            levels = np.cumsum(sums.reshape(count + 2, width), axis=0)
            columns[name] = levels[1 : count + 1][is_known]
        report = np.broadcast_to(at + self.reported, is_known.shape)[is_known]
        machine = np.broadcast_to(machines[None, :], is_known.shape)[is_known]
        return Reports(report=report, machine=machine, **columns)
