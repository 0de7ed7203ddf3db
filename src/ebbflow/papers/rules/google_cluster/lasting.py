"""The tasks that last, and the machines that come and go: made in one go, the same for every part.

A task has one or two stints: on its own machine until it ends, is evicted, or the machine leaves; then on one that
stays. The number that runs falls from 10.4 a machine to 3.2 over the trace, with a wave a day.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from ebbflow.papers.rules.google_cluster.events import START_US, EventType

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
NO_MACHINE = -1
_DAY_US = 86_400_000_000
_S = 1_000_000
_NEVER_US = 2**62
_TASKS_A_JOB = 40
_FIRST_JOB = 3_000_000

_CPUS = np.array(
    [0.02499, 0.0625, 0.0125, 0.03125, 0.006248, 0.01562, 0.01874, 0.06873, 0.125, 0.0006247, 0.1875, 0.25]
)
_CPU_SHARES = np.array([0.28, 0.18, 0.14, 0.08, 0.06, 0.06, 0.05, 0.05, 0.04, 0.03, 0.02, 0.01])


@dataclass(frozen=True, kw_only=True, eq=False)
class TaskEvents:
    """Columns of task events; machine ``NO_MACHINE`` where there is none."""

    time_us: Ints
    job: Ints
    task: Ints
    machine: Ints
    event: Ints
    cpu: Floats
    memory: Floats
    disk: Floats

    def take(self, rows: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> TaskEvents:
        """Some of the rows."""
        return TaskEvents(**{each.name: getattr(self, each.name)[rows] for each in fields(self)})

    @classmethod
    def together(cls, *several: TaskEvents) -> TaskEvents:
        """One after the other."""
        names = [each.name for each in fields(cls)]
        return cls(**{name: np.concatenate([getattr(each, name) for each in several]) for name in names})


@dataclass(frozen=True, kw_only=True, eq=False)
class Machines:
    """Ids, and when each is away; those that never are have an empty span."""

    ids: Ints
    away_from_us: Ints
    away_until_us: Ints
    staying: Ints
    """Indexes of those that never leave."""

    def present(self, machine: Ints, time_us: Ints, instead: Ints) -> Ints:
        """The machine, or ``instead`` where it is away at the time; all as indexes."""
        away = (self.away_from_us[machine] <= time_us) & (time_us < self.away_until_us[machine])
        return np.where(away, instead, machine)

    def any_staying(self, count: int, rng: np.random.Generator) -> Ints:
        """Indexes of machines that never leave, at random."""
        return self.staying[rng.integers(0, len(self.staying), count)]


def make_machines(count: int, span_us: int, rng: np.random.Generator) -> Machines:
    """Half of them stay, 3 % join late, 3 % leave for good, the rest are away for a while."""
    ids = np.cumsum(rng.integers(1, 900_000, count)) + 5
    kind = rng.random(count)
    kind[0] = 0.0  # one at least stays
    moment = START_US + (rng.random(count) * span_us).astype(np.int64)
    length = (rng.exponential(0.02 * span_us, count)).astype(np.int64) + 60 * _S
    stays, joins, leaves = kind < 0.5, (kind >= 0.5) & (kind < 0.53), (kind >= 0.53) & (kind < 0.56)
    away_from = np.where(stays, 0, np.where(joins, 0, moment))
    away_until = np.where(stays, 0, np.where(joins, moment, moment + length))
    away_until[leaves] = _NEVER_US
    return Machines(ids=ids, away_from_us=away_from, away_until_us=away_until, staying=np.flatnonzero(stays))


def requests(count: int, rng: np.random.Generator) -> dict[str, Floats]:
    """CPU as the trace's favourites, memory and disk of many sizes with four digits."""
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


def lasting_events(
    machines: Machines, span_us: int, rng: np.random.Generator, first: int, last: int
) -> TaskEvents:
    """All events of the tasks that last, not sorted; those at time 0 are the state before the trace: ``first`` tasks,
    of which ``last`` run to the end."""
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
    moves = ends < dies
    again = ends + rng.integers(2 * _S, 40 * _S, tasks)
    moves_on = moves & (again + _S < dies)
    asked, updated = requests(tasks, rng), requests(tasks, rng)
    kinds = rng.choice(
        [EventType.FINISH, EventType.FAIL, EventType.KILL, EventType.LOST], tasks, p=(0.5, 0.2, 0.299, 0.001)
    )

    def told(which: npt.NDArray[np.bool_], time: Ints, event: Ints | int, machine: Ints | None,
             values: dict[str, Floats]) -> TaskEvents:  # fmt: skip
        chosen = np.flatnonzero(which & (time <= end_us))
        return TaskEvents(
            time_us=time[chosen],
            job=_FIRST_JOB + number[chosen] // _TASKS_A_JOB,
            task=number[chosen] % _TASKS_A_JOB,
            machine=np.full(len(chosen), NO_MACHINE) if machine is None else machines.ids[machine[chosen]],
            event=np.broadcast_to(np.asarray(event), tasks)[chosen].astype(np.int64),
            **{name: value[chosen] for name, value in values.items()},
        )

    everyone = np.ones(tasks, bool)
    initial = born == 0
    scheduled = np.where(initial, 0, born + rng.integers(_S, 20 * _S, tasks))
    lived = ends > scheduled
    half = scheduled + np.maximum(START_US - scheduled, (np.minimum(ends, end_us) - scheduled) // 2)
    updates = (rng.random(tasks) < 0.15) & (half < ends) & (half > scheduled)
    final = np.where(moves_on, dies, ends)
    where = np.where(moves_on, refuge, home)
    last_kind = np.where(final == dies, kinds, EventType.EVICT)
    twice = rng.random(tasks) < 0.02
    return TaskEvents.together(
        told(initial & (rng.random(tasks) < 0.6), born, EventType.SUBMIT, home, asked),
        told(everyone & ~initial, born, EventType.SUBMIT, None, asked),
        told(lived, scheduled, EventType.SCHEDULE, home, asked),
        told(updates, half, EventType.UPDATE_RUNNING, home, updated),
        told(lived & moves_on, ends, EventType.EVICT, home, asked),
        told(lived & moves_on, ends + 1, EventType.SUBMIT, None, asked),
        told(lived & moves_on, again, EventType.SCHEDULE, refuge, asked),
        told(lived, final, last_kind, where, asked),
        told(lived & twice & (final == dies), final + _S // 2, EventType.KILL, where, asked),
    )
