"""A trace of any size with the published statistics, each part on its own, the same for a seed.

Lasting tasks and machines are made once for all parts (``lasting``). Every minute is then filled up to its number
of events (``rates``) with short tasks that live within it, drawn from a generator of that minute alone. So a part
needs to know nothing of the others, and any number of processes write them at once.

Minutes are counted from half a minute after the start, so that short tasks run while it is reported.
"""

from __future__ import annotations

import gzip
from base64 import b64encode
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ebbflow.papers.rules.google_cluster.events import START_US, EventType
from ebbflow.papers.rules.google_cluster.folder import TooFewEventsError, TraceSpec
from ebbflow.papers.rules.google_cluster.lasting import (
    NO_MACHINE,
    Ints,
    Machines,
    TaskEvents,
    lasting_events,
    make_machines,
    requests,
)
from ebbflow.papers.rules.google_cluster.rates import EVENTS, PARTS, minute_events

if TYPE_CHECKING:
    import pyarrow as pa

CSV, PARQUET = ".csv.gz", ".parquet"
"""What the files of a trace end with."""
_MINUTE_US = 60_000_000
_FIRST_MINUTE_US = START_US + _MINUTE_US // 2
_FIRST_SHORT_JOB = 6_000_000_000
_TASKS_A_JOB = 25
_USERS = 400
_LEVEL = 2
_ENDS = (EventType.FINISH, EventType.FAIL, EventType.KILL, EventType.EVICT)
_END_SHARES = (0.38, 0.29, 0.21, 0.12)
"""Of the month's ends, nearly."""
_GIVEN_UP = 0.03
"""Tasks that are killed before a machine was found."""


class ClusterTrace:
    """The trace of a spec."""

    def __init__(self, spec: TraceSpec) -> None:
        self.spec = spec

    @cached_property
    def machines(self) -> Machines:
        """All machines, and when they are away."""
        return make_machines(self.spec.machines, self._span_us, self._rng(1))

    @cached_property
    def events_by_minute(self) -> Ints:
        """Events of each minute, those at time 0 not counted."""
        needed = self._initial + int(self._lasting_by_minute.sum())
        if needed > self.spec.events:
            raise TooFewEventsError(self.spec, needed)
        wanted = self.spec.events - self._initial
        return minute_events(self.spec.minutes, wanted, self._lasting_by_minute, self._rng(3))

    @cached_property
    def part_edges(self) -> list[int]:
        """The first minute of each part, and the end: parts of about as many events."""
        before = np.concatenate(([0], self._initial + np.cumsum(self.events_by_minute)))
        parts = self.spec.parts or max(1, round(self.spec.events * PARTS / EVENTS))
        parts = min(parts, self.spec.minutes)
        wanted = np.arange(1, parts) * (before[-1] / parts)
        inner = np.searchsorted(before, wanted)
        # every part has a minute of its own, even where one minute has the events of several
        inner = np.maximum(inner, np.arange(1, parts))
        inner = np.maximum.accumulate(inner - np.arange(parts - 1)) + np.arange(parts - 1)
        inner = np.minimum(inner, self.spec.minutes - parts + np.arange(1, parts))
        return [0, *(int(edge) for edge in inner), self.spec.minutes]

    def check(self) -> None:
        """Whether it can be made: the events must be enough for its tasks."""
        _ = self.events_by_minute

    @property
    def parts(self) -> int:
        """How many files it is."""
        return len(self.part_edges) - 1

    def name(self, part: int, ending: str = CSV) -> str:
        """As the trace names its files."""
        return f"task_events-part-{part:05d}-of-{self.parts:05d}{ending}"

    def part(self, number: int) -> TaskEvents:
        """The events of a part, in order."""
        first, end = self.part_edges[number], self.part_edges[number + 1]
        lasting = (self._lasting_minute >= first) & (self._lasting_minute < end)
        if number == 0:
            lasting |= self._lasting_minute < 0
        events = TaskEvents.together(
            self._lasting.take(np.flatnonzero(lasting)),
            *(self._short(minute) for minute in range(first, end) if self._room[minute] > 0),
        )
        return events.take(np.lexsort((events.task, events.job, events.event, events.time_us)))

    def write(self, number: int, folder: Path, ending: str = CSV) -> int:
        """Write a part; it has its name when it is whole. Returns its events."""
        import pyarrow.parquet as pq
        from pyarrow import csv

        table = _table(self.part(number))
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / self.name(number, ending)
        unfinished = folder / f".{path.name}.new"
        if ending == PARQUET:
            pq.write_table(table, unfinished)
        else:
            options = csv.WriteOptions(include_header=False, quoting_style="none", batch_size=65_536)
            # Arrow's own gzip knows only its highest level, which takes four times as long; no time in the header.
            with unfinished.open("wb") as raw, gzip.GzipFile("", "wb", _LEVEL, raw, mtime=0) as out:
                csv.write_csv(table, out, options)
        unfinished.replace(path)
        return int(table.num_rows)

    # -- inside --------------------------------------------------------------------------------

    @property
    def _span_us(self) -> int:
        return self.spec.minutes * _MINUTE_US

    def _rng(self, *stream: int) -> np.random.Generator:
        return np.random.default_rng((self.spec.seed, *stream))

    @cached_property
    def _lasting(self) -> TaskEvents:
        first, last = self.spec.tasks_first, self.spec.tasks_last
        return lasting_events(self.machines, self._span_us, self._rng(2), first, last)

    @cached_property
    def _lasting_minute(self) -> Ints:
        """The minute of every event of a lasting task, -1 for what was before the trace."""
        time_us = self._lasting.time_us
        minute = np.clip((time_us - _FIRST_MINUTE_US) // _MINUTE_US, 0, self.spec.minutes - 1)
        return np.where(time_us == 0, -1, minute)

    @cached_property
    def _lasting_by_minute(self) -> Ints:
        minute = self._lasting_minute
        return np.bincount(minute[minute >= 0], minlength=self.spec.minutes).astype(np.int64)

    @cached_property
    def _initial(self) -> int:
        return int((self._lasting_minute < 0).sum())

    @cached_property
    def _room(self) -> Ints:
        """Events of each minute that short tasks have."""
        return self.events_by_minute - self._lasting_by_minute

    def _short(self, minute: int) -> TaskEvents:
        """Short tasks that fill the minute: submitted, scheduled and ended in it, some updated."""
        rng = self._rng(4, minute)
        tasks, rest = divmod(int(self._room[minute]), 3)
        began_us = _FIRST_MINUTE_US + minute * _MINUTE_US
        times = np.sort(rng.integers(0, _MINUTE_US // 4 - 2, (tasks, 3)), axis=1) * 4 + np.array([0, 1, 3])
        submitted, scheduled, ended = (began_us + times).T
        given_up = rng.random(tasks) < _GIVEN_UP
        wanted = rng.integers(0, self.spec.machines, tasks)
        machine = self.machines.present(wanted, ended, self.machines.any_staying(tasks, rng))
        machine = self.machines.present(machine, scheduled, self.machines.any_staying(tasks, rng))
        ids = np.where(given_up, NO_MACHINE, self.machines.ids[machine])
        asked = requests(tasks, rng)
        number = np.arange(tasks)
        job = _FIRST_SHORT_JOB + minute * 10_000 + number // _TASKS_A_JOB
        middle = np.where(given_up, EventType.UPDATE_PENDING, EventType.SCHEDULE)
        end = np.where(given_up, EventType.KILL, rng.choice(_ENDS, tasks, p=_END_SHARES))
        nowhere = np.full(tasks, NO_MACHINE)

        def told(time_us: Ints, machine: Ints, event: Ints, rows: Ints) -> TaskEvents:
            return TaskEvents(
                time_us=time_us[rows],
                job=job[rows],
                task=number[rows] % _TASKS_A_JOB,
                machine=machine[rows],
                event=event[rows].astype(np.int64),
                **{name: values[rows] for name, values in asked.items()},
            )

        submits = np.full(tasks, EventType.SUBMIT)
        found = [
            told(submitted, nowhere, submits, number),
            told(scheduled, ids, middle, number),
            told(ended, ids, end, number),
        ]
        updated = np.flatnonzero(~given_up)[:rest]
        found.append(told(scheduled + 1, ids, np.full(tasks, EventType.UPDATE_RUNNING), updated))
        waiting = rest - len(updated)
        if waiting:
            found.append(_waiting(waiting, began_us, _FIRST_SHORT_JOB + minute * 10_000 + 9_999, rng))
        return TaskEvents.together(*found)


def _waiting(count: int, time_us: int, job: int, rng: np.random.Generator) -> TaskEvents:
    """Tasks that are submitted and nothing more."""
    return TaskEvents(
        time_us=np.full(count, time_us),
        job=np.full(count, job),
        task=np.arange(count),
        machine=np.full(count, NO_MACHINE),
        event=np.full(count, int(EventType.SUBMIT)),
        **requests(count, rng),
    )


def _table(events: TaskEvents) -> pa.Table:
    """The 13 columns of the trace's files."""
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = len(events.time_us)
    users = pa.array(
        [b64encode(sha256(f"user {number}".encode()).digest()).decode() for number in range(_USERS)]
    )
    machine = pa.array(events.machine, mask=events.machine == NO_MACHINE)
    job = events.job
    columns = {
        "time": pa.array(events.time_us),
        "missing_info": pa.nulls(rows, pa.string()),
        "job": pa.array(job),
        "task": pa.array(events.task),
        "machine": machine,
        "event": pa.array(events.event),
        "user": pc.take(users, pa.array(job * 7919 % _USERS)),
        "scheduling_class": pa.array(job % 4),
        "priority": pa.array(job % 12),
        "cpu": pa.array(events.cpu),
        "memory": pa.array(events.memory),
        "disk": pa.array(events.disk),
        "different_machines": pa.array((job % 17 == 0).astype(np.int64)),
    }
    return pa.table(columns)
