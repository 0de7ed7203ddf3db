"""The machine operator's state and its one step: task events in, running tasks and requests a machine out.

Machines are dealt into buckets, and a bucket's machines are one state value: columns instead of rows, so that a
batch of events is a handful of array operations. The life cycle (Figure 5.16), for a task on a machine:

====================  =====================================================
SCHEDULE              it runs, with these requests; if it ran, they are new
EVICT … LOST          it does not run; if it did not, nothing changes
UPDATE_RUNNING        new requests, if it runs
SUBMIT, UPDATE_PEND…  nothing; but the machine is known from now on
====================  =====================================================

A machine reports from the first event that names it, with or without tasks. Requests are whole numbers
(``UNITS``), so sums do not depend on the order in which batches or instances add them up.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Self

import numpy as np
import numpy.typing as npt

from ebbflow.papers.rules.google_cluster.events import REPORT_US, START_US, UNITS, EventType

Ints = npt.NDArray[np.int64]
QUANTITIES = ("tasks", "cpu", "memory", "disk")
_REQUESTS = ("cpu", "memory", "disk")


def _none() -> Ints:
    return np.empty(0, np.int64)


@dataclass(frozen=True, kw_only=True, eq=False)
class Columns:
    """Columns of whole numbers. Between operators they travel as bytes: rows would cost more on their way than
    all that is computed of them."""

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))

    def take(self, rows: Ints | slice) -> Self:
        """Some of the rows."""
        return type(self)(**{each.name: getattr(self, each.name)[rows] for each in fields(self)})

    def to_bytes(self) -> bytes:
        """One column after the other."""
        return b"".join(np.ascontiguousarray(getattr(self, each.name)).tobytes() for each in fields(self))

    @classmethod
    def from_bytes(cls, *pieces: bytes) -> Self:
        """What ``to_bytes`` wrote, the rows of one piece after those of the other.

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
    """Events that name a machine, in any order; ``position`` is that of the trace, requests are in ``UNITS``."""

    position: Ints = field(default_factory=_none)
    time_us: Ints = field(default_factory=_none)
    machine: Ints = field(default_factory=_none)
    job: Ints = field(default_factory=_none)
    task: Ints = field(default_factory=_none)
    event: Ints = field(default_factory=_none)
    cpu: Ints = field(default_factory=_none)
    memory: Ints = field(default_factory=_none)
    disk: Ints = field(default_factory=_none)


@dataclass(frozen=True, kw_only=True, eq=False)
class Reports(Columns):
    """A row for each report and machine; requests in ``UNITS``."""

    report: Ints = field(default_factory=_none)
    machine: Ints = field(default_factory=_none)
    tasks: Ints = field(default_factory=_none)
    cpu: Ints = field(default_factory=_none)
    memory: Ints = field(default_factory=_none)
    disk: Ints = field(default_factory=_none)


@dataclass(frozen=True, kw_only=True, eq=False)
class MachineState:
    """What a bucket remembers: how far it has reported, its machines, and the tasks that run on them."""

    reported: int = 0
    machines: Ints = field(default_factory=_none)
    machine: Ints = field(default_factory=_none)
    job: Ints = field(default_factory=_none)
    task: Ints = field(default_factory=_none)
    cpu: Ints = field(default_factory=_none)
    memory: Ints = field(default_factory=_none)
    disk: Ints = field(default_factory=_none)

    def to_bytes(self) -> bytes:
        """For the state store: counts, then the columns."""
        head = np.array([self.reported, len(self.machines), len(self.job)], np.int64)
        columns = (self.machine, self.job, self.task, self.cpu, self.memory, self.disk)
        return b"".join(np.ascontiguousarray(each).tobytes() for each in (head, self.machines, *columns))

    @classmethod
    def from_bytes(cls, data: bytes) -> MachineState:
        """What ``to_bytes`` wrote.

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
        """Take in events; with ``reports`` also tell the state at every report up to that number.

        Events past the last of these reports are kept in mind and not told. They must be of the very next one:
        a source that is further than that has completed a report, and says so.
        """
        last = self.reported if reports is None else max(reports, self.reported)
        count = last - self.reported
        machines = np.union1d(self.machines, events.machine)
        home = np.searchsorted(machines, events.machine)
        # Column 0 is what was there, column c the c-th report from now, the one behind them the open rest.
        due = np.maximum((events.time_us - START_US) // REPORT_US + 1, self.reported + 1) - self.reported
        assert due.max(initial=0) <= count + 1, "events of a report came before the one before it was told"
        changes, after = self._changes(events, np.searchsorted(machines, self.machine), home, due)
        told = Reports()
        if count:
            known = np.full(len(machines), count + 1, np.int64)
            np.minimum.at(known, home, due)
            known[np.searchsorted(machines, self.machines)] = 0
            told = self._told(machines, known, count, changes)
        return MachineState(reported=last, machines=machines, **after), told

    def _changes(
        self, events: Events, own_home: Ints, home: Ints, column: Ints
    ) -> tuple[tuple[Ints, Ints, dict[str, Ints]], dict[str, Ints]]:
        """((column, machine, change of each quantity) of every event, tasks that run afterwards)."""
        matters = (events.event != EventType.SUBMIT) & (events.event != EventType.UPDATE_PENDING)
        kept = len(self.job)

        def joined(own: Ints, coming: Ints) -> Ints:
            return np.concatenate((own, coming[matters]))

        where = joined(own_home, home)
        job, task = joined(self.job, events.job), joined(self.task, events.task)
        position = joined(np.full(kept, -1, np.int64), events.position)
        order = np.lexsort((position, task, job, where))
        where, job, task = where[order], job[order], task[order]
        kind = joined(np.full(kept, EventType.SCHEDULE, np.int64), events.event)[order]
        due = joined(np.zeros(kept, np.int64), column)[order]
        size = len(order)
        first = np.ones(size, bool)
        first[1:] = (where[1:] != where[:-1]) | (job[1:] != job[:-1]) | (task[1:] != task[:-1])
        update = kind == EventType.UPDATE_RUNNING
        # An update changes nothing about whether the task runs: that was said by the last row that is none.
        said = np.maximum.accumulate(np.where(~update | first, np.arange(size), 0))
        runs = kind[said] == EventType.SCHEDULE
        values = {"tasks": runs.astype(np.int64)}
        for name in _REQUESTS:
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
        after |= {name: values[name][stays] for name in _REQUESTS}
        return (due, where, changes), after

    def _told(
        self, machines: Ints, known: Ints, count: int, changes: tuple[Ints, Ints, dict[str, Ints]]
    ) -> Reports:
        due, where, change = changes
        width = len(machines)
        cell = due * width + where
        at = np.arange(1, count + 1)[:, None]
        told = known[None, :] <= at
        columns = {}
        for name in QUANTITIES:
            sums = np.zeros((count + 2) * width, np.int64)
            np.add.at(
                sums, cell, change[name]
            )  # not bincount: it adds floats, which are whole only up to 2^53
            levels = np.cumsum(sums.reshape(count + 2, width), axis=0)
            columns[name] = levels[1 : count + 1][told]
        report = np.broadcast_to(at + self.reported, told.shape)[told]
        machine = np.broadcast_to(machines[None, :], told.shape)[told]
        return Reports(report=report, machine=machine, **columns)


def in_units(requests: npt.NDArray[np.float64]) -> Ints:
    """Requests as whole numbers. Rows with more than ``MOST_REQUEST`` are none that come here.

    >>> in_units(np.array([0.02499, 3.815e-07, 0.0]))
    array([24990000000,      381500,           0])
    """
    return np.rint(requests * UNITS).astype(np.int64)
