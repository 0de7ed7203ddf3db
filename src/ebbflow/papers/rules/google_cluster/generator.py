"""Generate a trace of any size with the published statistics; a seed always gives the same files.

Machines and long-running tasks are made once for all parts. Short tasks then fill every minute up to its number of
events (``rates``), with a random generator for each minute. A part therefore depends on no other part, and any number
of processes can write parts at the same time.

A long-running task has one or two stints: on its first machine until it ends, is evicted or the machine leaves, and
then on a machine that stays. The number of running tasks falls from 10.4 to 3.2 per machine over the trace, with a
daily wave. Minutes are counted from half a minute after the start, so that short tasks run at the time of a report.
"""

from __future__ import annotations

import gzip
from base64 import b64encode
from dataclasses import dataclass, fields
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ebbflow.core.duration import format_duration
from ebbflow.core.plural import counted
from ebbflow.errors import InputError, TooFewEventsError
from ebbflow.papers.rules.google_cluster.events import START_US, EventType, Floats, Ints, Mask
from ebbflow.papers.rules.google_cluster.rates import (
    EVENTS,
    FIRST_TASKS,
    LAST_TASKS,
    MACHINES,
    MEAN_RATE_PER_S,
    PARTS,
    minute_events,
)

if TYPE_CHECKING:
    import pyarrow as pa

CSV, PARQUET = ".csv.gz", ".parquet"
"""File suffixes of a generated trace."""
MAX_DAYS = 365
"""The source rejects times after more than a year."""
MAX_EVENTS_PER_S = 1_000_000
"""Limit of the mean rate; a minute is made in memory."""
MAX_MACHINES = 1_000_000
NO_MACHINE = -1

_S = 1_000_000
_MINUTE_US = 60 * _S
_DAY_US = 86_400 * _S
_NEVER_US = 2**62
_FIRST_MINUTE_US = START_US + _MINUTE_US // 2
_FIRST_LONG_JOB, _FIRST_SHORT_JOB = 3_000_000, 6_000_000_000
_LONG_TASKS_PER_JOB, _SHORT_TASKS_PER_JOB = 40, 25
_USERS = 400
_GZIP_LEVEL = 2
_ENDS = (EventType.FINISH, EventType.FAIL, EventType.KILL, EventType.EVICT)
_END_SHARES = (0.38, 0.29, 0.21, 0.12)
"""Close to those of the real month."""
_KILLED_UNSCHEDULED = 0.03
"""Share of short tasks that are killed before they get a machine."""
_CPUS = np.array(
    [0.02499, 0.0625, 0.0125, 0.03125, 0.006248, 0.01562, 0.01874, 0.06873, 0.125, 0.0006247, 0.1875, 0.25]
)
_CPU_SHARES = np.array([0.28, 0.18, 0.14, 0.08, 0.06, 0.06, 0.05, 0.05, 0.04, 0.03, 0.02, 0.01])


@dataclass(frozen=True, kw_only=True)
class TraceSpec:
    """The trace to generate. Without a span, it is as long as its events take at the published mean rate."""

    events: int = EVENTS
    seed: int = 0
    machines: int = MACHINES
    span_s: float | None = None
    parts: int | None = None
    first_tasks: int | None = None
    """Tasks running at the start; by default the published number per machine."""
    last_tasks: int | None = None
    """How many of them still run at the end."""

    def __post_init__(self) -> None:
        for name in ("events", "machines"):
            if getattr(self, name) < 1:
                raise InputError(f"a trace needs at least 1 of {name}, not {getattr(self, name)}")
        if self.seed < 0:
            raise InputError(f"a seed is a whole number of 0 or more, not {self.seed}")
        if not 0 <= self.tasks_last <= self.tasks_first:
            raise InputError(
                f"{self.tasks_last} tasks at the end must be between 0 and the {self.tasks_first} at the start"
            )
        if self.machines > MAX_MACHINES:
            raise InputError(f"a trace has at most {MAX_MACHINES} machines, not {self.machines}")
        self._check_length()
        if self.parts is not None and self.parts < 1:
            raise InputError(f"a trace needs at least 1 part, not {self.parts}")
        if self.parts is not None and self.parts > self.minutes:
            raise InputError(
                f"a part has at least one minute and the trace has {self.minutes}: {self.parts} parts are too many"
            )

    def _check_length(self) -> None:
        max_s = MAX_DAYS * 86_400
        if self.span_s is not None:
            if not self.span_s >= 60:
                raise InputError(f"a trace lasts at least a minute, not {self.span_s:g} s")
            if self.span_s > max_s:
                raise InputError(f"a trace lasts at most {MAX_DAYS} days, not {self.span_s / 86_400:g}")
            if self.events > MAX_EVENTS_PER_S * self.span_s:
                raise InputError(
                    f"{self.events} events in {format_duration(self.span_s)} are more than {MAX_EVENTS_PER_S} per "
                    "second"
                )
        elif self.events > MEAN_RATE_PER_S * max_s:
            raise InputError(
                f"{self.events} events last more than {MAX_DAYS} days at the published mean rate; use at most "
                f"{int(MEAN_RATE_PER_S * max_s)}, or set a span"
            )

    @property
    def tasks_first(self) -> int:
        """Long-running tasks at the start."""
        return round(self.machines * FIRST_TASKS / MACHINES) if self.first_tasks is None else self.first_tasks

    @property
    def tasks_last(self) -> int:
        """Tasks that run from the start to the end."""
        return round(self.machines * LAST_TASKS / MACHINES) if self.last_tasks is None else self.last_tasks

    @property
    def minutes(self) -> int:
        """Length of the trace. The state at the start takes events, but no time."""
        initial = self.machines * 16 if self.first_tasks is None else round(1.6 * self.first_tasks)
        span_s = self.span_s or (self.events - min(initial, self.events // 2)) / MEAN_RATE_PER_S
        return max(2, round(span_s / 60))


def _too_few_events(spec: TraceSpec, needed: int) -> TooFewEventsError:
    """The long-running tasks alone have more events than the trace may have."""
    step = 10 ** max(0, len(str(needed)) - 2)
    enough = -(-round(1.2 * needed) // step) * step
    fewer = max(1, round(0.8 * spec.machines * spec.events / needed))
    return TooFewEventsError(
        f"{spec.events} events are too few for {counted(spec.machines, 'machine')}: the long-running tasks alone "
        f"have {needed}; use {enough} events",
        f", or {counted(fewer, 'machine')}" if fewer < spec.machines else "",
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class TaskEvents:
    """Columns of task events; ``NO_MACHINE`` where an event names none."""

    time_us: Ints
    job: Ints
    task: Ints
    machine: Ints
    event: Ints
    cpu: Floats
    memory: Floats
    disk: Floats

    def take(self, rows: Ints | Mask) -> TaskEvents:
        """Return some of the rows."""
        return TaskEvents(**{each.name: getattr(self, each.name)[rows] for each in fields(self)})

    @classmethod
    def concatenate(cls, *several: TaskEvents) -> TaskEvents:
        """Return the rows of several, one after the other."""
        names = [each.name for each in fields(cls)]
        return cls(**{name: np.concatenate([getattr(each, name) for each in several]) for name in names})


class ClusterTrace:
    """The trace of a spec."""

    def __init__(self, spec: TraceSpec) -> None:
        self.spec = spec

    @cached_property
    def machines(self) -> Machines:
        """All machines and when each is away."""
        return _make_machines(self.spec.machines, self._span_us, self._rng(1))

    @cached_property
    def events_by_minute(self) -> Ints:
        """Events of each minute, without those at time 0."""
        needed = self._initial + int(self._long_by_minute.sum())
        if needed > self.spec.events:
            raise _too_few_events(self.spec, needed)
        wanted = self.spec.events - self._initial
        return minute_events(self.spec.minutes, wanted, self._long_by_minute, self._rng(3))

    @cached_property
    def part_edges(self) -> list[int]:
        """The first minute of each part, and the end; parts have about the same number of events."""
        before = np.concatenate(([0], self._initial + np.cumsum(self.events_by_minute)))
        parts = self.spec.parts or max(1, round(self.spec.events * PARTS / EVENTS))
        parts = min(parts, self.spec.minutes)
        wanted = np.arange(1, parts) * (before[-1] / parts)
        inner = np.searchsorted(before, wanted)
        # Each part has at least one minute, even where one minute has the events of several parts.
        inner = np.maximum(inner, np.arange(1, parts))
        inner = np.maximum.accumulate(inner - np.arange(parts - 1)) + np.arange(parts - 1)
        inner = np.minimum(inner, self.spec.minutes - parts + np.arange(1, parts))
        return [0, *(int(edge) for edge in inner), self.spec.minutes]

    def check(self) -> None:
        """Raise ``TooFewEventsError`` if the events do not suffice for the long-running tasks."""
        _ = self.events_by_minute

    @property
    def parts(self) -> int:
        """Number of files."""
        return len(self.part_edges) - 1

    def name(self, part: int, suffix: str = CSV) -> str:
        """Return the file name of a part, in the style of the published trace."""
        return f"task_events-part-{part:05d}-of-{self.parts:05d}{suffix}"

    def part(self, number: int) -> TaskEvents:
        """Return the events of a part in order."""
        first, end = self.part_edges[number], self.part_edges[number + 1]
        chosen = (self._long_minute >= first) & (self._long_minute < end)
        if number == 0:
            chosen |= self._long_minute < 0
        events = TaskEvents.concatenate(
            self._long_events.take(np.flatnonzero(chosen)),
            *(
                self._short_events(minute)
                for minute in range(first, end)
                if self._short_by_minute[minute] > 0
            ),
        )
        return events.take(np.lexsort((events.task, events.job, events.event, events.time_us)))

    def write(self, number: int, folder: Path, suffix: str = CSV) -> int:
        """Write a part, under its name only once it is complete, and return its number of events."""
        import pyarrow.parquet as pq
        from pyarrow import csv

        table = _trace_table(self.part(number))
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / self.name(number, suffix)
        unfinished = folder / f".{path.name}.new"
        if suffix == PARQUET:
            pq.write_table(table, unfinished)
        else:
            options = csv.WriteOptions(include_header=False, quoting_style="none", batch_size=65_536)
            # Arrow's gzip has only the highest level, which takes four times as long. No time in the header.
            with unfinished.open("wb") as raw, gzip.GzipFile("", "wb", _GZIP_LEVEL, raw, mtime=0) as out:
                csv.write_csv(table, out, options)
        unfinished.replace(path)
        return int(table.num_rows)

    @property
    def _span_us(self) -> int:
        return self.spec.minutes * _MINUTE_US

    def _rng(self, *stream: int) -> np.random.Generator:
        return np.random.default_rng((self.spec.seed, *stream))

    @cached_property
    def _long_events(self) -> TaskEvents:
        first, last = self.spec.tasks_first, self.spec.tasks_last
        return _long_task_events(self.machines, self._span_us, self._rng(2), first, last)

    @cached_property
    def _long_minute(self) -> Ints:
        """The minute of every event of a long-running task, or -1 for those before the trace."""
        time_us = self._long_events.time_us
        minute = np.clip((time_us - _FIRST_MINUTE_US) // _MINUTE_US, 0, self.spec.minutes - 1)
        return np.where(time_us == 0, -1, minute)

    @cached_property
    def _long_by_minute(self) -> Ints:
        minute = self._long_minute
        return np.bincount(minute[minute >= 0], minlength=self.spec.minutes).astype(np.int64)

    @cached_property
    def _initial(self) -> int:
        return int((self._long_minute < 0).sum())

    @cached_property
    def _short_by_minute(self) -> Ints:
        """Events of short tasks in each minute."""
        return self.events_by_minute - self._long_by_minute

    def _short_events(self, minute: int) -> TaskEvents:
        """Fill the minute with short tasks: submitted, scheduled and ended in it, some of them updated."""
        rng = self._rng(4, minute)
        tasks, rest = divmod(int(self._short_by_minute[minute]), 3)
        began_us = _FIRST_MINUTE_US + minute * _MINUTE_US
        times = np.sort(rng.integers(0, _MINUTE_US // 4 - 2, (tasks, 3)), axis=1) * 4 + np.array([0, 1, 3])
        submitted, scheduled, ended = (began_us + times).T
        unscheduled = rng.random(tasks) < _KILLED_UNSCHEDULED
        wanted = rng.integers(0, self.spec.machines, tasks)
        machine = self.machines.present(wanted, ended, self.machines.any_staying(tasks, rng))
        machine = self.machines.present(machine, scheduled, self.machines.any_staying(tasks, rng))
        ids = np.where(unscheduled, NO_MACHINE, self.machines.ids[machine])
        requests = _requests(tasks, rng)
        number = np.arange(tasks)
        job = _FIRST_SHORT_JOB + minute * 10_000 + number // _SHORT_TASKS_PER_JOB
        middle = np.where(unscheduled, EventType.UPDATE_PENDING, EventType.SCHEDULE)
        end = np.where(unscheduled, EventType.KILL, rng.choice(_ENDS, tasks, p=_END_SHARES))

        def events(time_us: Ints, machine: Ints, event: Ints, rows: Ints) -> TaskEvents:
            return TaskEvents(
                time_us=time_us[rows],
                job=job[rows],
                task=number[rows] % _SHORT_TASKS_PER_JOB,
                machine=machine[rows],
                event=event[rows].astype(np.int64),
                **{name: values[rows] for name, values in requests.items()},
            )

        updated = np.flatnonzero(~unscheduled)[:rest]
        pieces = [
            events(submitted, np.full(tasks, NO_MACHINE), np.full(tasks, EventType.SUBMIT), number),
            events(scheduled, ids, middle, number),
            events(ended, ids, end, number),
            events(scheduled + 1, ids, np.full(tasks, EventType.UPDATE_RUNNING), updated),
        ]
        submitted_only = rest - len(updated)
        if submitted_only:
            pieces.append(
                TaskEvents(
                    time_us=np.full(submitted_only, began_us),
                    job=np.full(submitted_only, _FIRST_SHORT_JOB + minute * 10_000 + 9_999),
                    task=np.arange(submitted_only),
                    machine=np.full(submitted_only, NO_MACHINE),
                    event=np.full(submitted_only, int(EventType.SUBMIT)),
                    **_requests(submitted_only, rng),
                )
            )
        return TaskEvents.concatenate(*pieces)


# -- machines and long-running tasks, the same for every part ----------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Machines:
    """Machine ids and when each is away; the time is empty for those that never leave."""

    ids: Ints
    away_from_us: Ints
    away_until_us: Ints
    staying: Ints
    """Indexes of the machines that never leave."""

    def present(self, machine: Ints, time_us: Ints, instead: Ints) -> Ints:
        """Return the machine, or ``instead`` where it is away at the time; all are indexes."""
        away = (self.away_from_us[machine] <= time_us) & (time_us < self.away_until_us[machine])
        return np.where(away, instead, machine)

    def any_staying(self, count: int, rng: np.random.Generator) -> Ints:
        """Return indexes of random machines that never leave."""
        return self.staying[rng.integers(0, len(self.staying), count)]


def _make_machines(count: int, span_us: int, rng: np.random.Generator) -> Machines:
    """Half of the machines stay, 3 % join late, 3 % leave for good, and the rest are away for a while."""
    ids = np.cumsum(rng.integers(1, 900_000, count)) + 5
    kind = rng.random(count)
    kind[0] = 0.0  # at least one stays
    moment = START_US + (rng.random(count) * span_us).astype(np.int64)
    length = (rng.exponential(0.02 * span_us, count)).astype(np.int64) + 60 * _S
    stays, joins, leaves = kind < 0.5, (kind >= 0.5) & (kind < 0.53), (kind >= 0.53) & (kind < 0.56)
    away_from = np.where(stays, 0, np.where(joins, 0, moment))
    away_until = np.where(stays, 0, np.where(joins, moment, moment + length))
    away_until[leaves] = _NEVER_US
    return Machines(ids=ids, away_from_us=away_from, away_until_us=away_until, staying=np.flatnonzero(stays))


def _requests(count: int, rng: np.random.Generator) -> dict[str, Floats]:
    """Draw CPU from the trace's most frequent values, memory and disk from wide distributions with four digits."""
    memory = np.exp(rng.normal(-4.0, 1.1, count)).clip(1e-5, 0.9)
    disk = np.exp(rng.normal(-8.3, 1.0, count)).clip(1e-7, 0.1)
    return {
        "cpu": rng.choice(_CPUS, count, p=_CPU_SHARES),
        "memory": _four_digits(memory),
        "disk": _four_digits(disk),
    }


def _four_digits(values: Floats) -> Floats:
    digits = 3 - np.floor(np.log10(values))
    rounded: Floats = np.rint(values * 10**digits) / 10**digits
    return rounded


def _long_task_events(
    machines: Machines, span_us: int, rng: np.random.Generator, first: int, last: int
) -> TaskEvents:
    """Return all events of the long-running tasks, unsorted.

    Events at time 0 are the state before the trace: ``first`` tasks, of which ``last`` run to the end.
    """
    count = len(machines.ids)
    end_us = START_US + span_us
    waves = round(0.5 * count * span_us / _DAY_US)
    tasks = first + waves
    born = np.zeros(tasks, np.int64)
    day = rng.integers(0, max(1, span_us // _DAY_US + 1), waves) * _DAY_US
    born[first:] = START_US + day + ((0.25 + 0.3 * rng.random(waves)) * _DAY_US).astype(np.int64)
    dies = np.full(tasks, _NEVER_US, np.int64)
    falling = first - last
    dies[:falling] = START_US + 60 * _S + (rng.random(falling) ** 0.8 * span_us).astype(np.int64)
    dies[first:] = born[first:] + ((0.15 + 0.35 * rng.random(waves)) * _DAY_US).astype(np.int64)
    number = np.arange(tasks)
    home = machines.present(rng.integers(0, count, tasks), born, machines.any_staying(tasks, rng))
    refuge = machines.any_staying(tasks, rng)
    leaves = np.where(machines.away_from_us[home] > born, machines.away_from_us[home], dies)
    chance = START_US + (rng.random(tasks) * span_us).astype(np.int64)
    evicted = np.where((rng.random(tasks) < 0.2) & (chance > born + 60 * _S), chance, dies)
    ends = np.minimum(np.minimum(leaves, evicted), dies)
    rescheduled = ends + rng.integers(2 * _S, 40 * _S, tasks)
    moves = (ends < dies) & (rescheduled + _S < dies)
    requests, updated = _requests(tasks, rng), _requests(tasks, rng)
    kinds = rng.choice(
        [EventType.FINISH, EventType.FAIL, EventType.KILL, EventType.LOST], tasks, p=(0.5, 0.2, 0.299, 0.001)
    )

    def events(which: Mask, time: Ints, event: Ints | int, machine: Ints | None,
               values: dict[str, Floats]) -> TaskEvents:  # fmt: skip
        chosen = np.flatnonzero(which & (time <= end_us))
        return TaskEvents(
            time_us=time[chosen],
            job=_FIRST_LONG_JOB + number[chosen] // _LONG_TASKS_PER_JOB,
            task=number[chosen] % _LONG_TASKS_PER_JOB,
            machine=np.full(len(chosen), NO_MACHINE) if machine is None else machines.ids[machine[chosen]],
            event=np.broadcast_to(np.asarray(event), tasks)[chosen].astype(np.int64),
            **{name: value[chosen] for name, value in values.items()},
        )

    initial = born == 0
    scheduled = np.where(initial, 0, born + rng.integers(_S, 20 * _S, tasks))
    ran = ends > scheduled
    half = scheduled + np.maximum(START_US - scheduled, (np.minimum(ends, end_us) - scheduled) // 2)
    updates = (rng.random(tasks) < 0.15) & (half < ends) & (half > scheduled)
    final = np.where(moves, dies, ends)
    where = np.where(moves, refuge, home)
    last_kind = np.where(final == dies, kinds, EventType.EVICT)
    twice = rng.random(tasks) < 0.02
    return TaskEvents.concatenate(
        events(initial & (rng.random(tasks) < 0.6), born, EventType.SUBMIT, home, requests),
        events(~initial, born, EventType.SUBMIT, None, requests),
        events(ran, scheduled, EventType.SCHEDULE, home, requests),
        events(updates, half, EventType.UPDATE_RUNNING, home, updated),
        events(ran & moves, ends, EventType.EVICT, home, requests),
        events(ran & moves, ends + 1, EventType.SUBMIT, None, requests),
        events(ran & moves, rescheduled, EventType.SCHEDULE, refuge, requests),
        events(ran, final, last_kind, where, requests),
        events(ran & twice & (final == dies), final + _S // 2, EventType.KILL, where, requests),
    )


def _trace_table(events: TaskEvents) -> pa.Table:
    """Return the 13 columns of the trace's files."""
    import pyarrow as pa
    import pyarrow.compute as pc

    users = pa.array(
        [b64encode(sha256(f"user {number}".encode()).digest()).decode() for number in range(_USERS)]
    )
    job = events.job
    columns = {
        "time": pa.array(events.time_us),
        "missing_info": pa.nulls(len(job), pa.string()),
        "job": pa.array(job),
        "task": pa.array(events.task),
        "machine": pa.array(events.machine, mask=events.machine == NO_MACHINE),
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
