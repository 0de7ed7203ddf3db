"""A folder of parts as one stream, and places in it.

A place is a part and a time: all parts before it, and of the part itself what is earlier than the time. Both
mean the same in every run, whatever the machine, the batch or the speed, so a place can be an offset.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import accumulate
from pathlib import Path

from ebbflow.core.duration import format_duration
from ebbflow.errors import InputError
from ebbflow.papers.rules.google_cluster.events import LATEST_US, report_of, report_us, reports_until
from ebbflow.papers.rules.google_cluster.part import first_time_us, read_part
from ebbflow.papers.rules.google_cluster.rates import (
    EVENTS,
    FIRST_TASKS,
    LAST_TASKS,
    MACHINES,
    MEAN_RATE_PER_S,
)

# What trace is to be made, and whether it can be.


MOST_DAYS = 365
"""The source takes a time of more than a year for a mistake."""
MOST_EVENTS_PER_S = 1_000_000
"""Mean of the trace; a minute is made in one go."""
MOST_MACHINES = 1_000_000


@dataclass(frozen=True, kw_only=True)
class TraceSpec:
    """What is made. Without a span it is as long as so many events are at the published mean rate."""

    events: int = EVENTS
    seed: int = 0
    machines: int = MACHINES
    span_s: float | None = None
    parts: int | None = None
    first_tasks: int | None = None
    """That run at the start; without it as many a machine as were published."""
    last_tasks: int | None = None
    """Of these, that still run at the end."""

    def __post_init__(self) -> None:
        for name in ("events", "machines"):
            if getattr(self, name) < 1:
                raise InputError(f"a trace needs at least 1 of {name}, not {getattr(self, name)}")
        if self.seed < 0:
            raise InputError(f"a seed is a whole number of 0 or more, not {self.seed}")
        if not 0 <= self.tasks_last <= self.tasks_first:
            raise InputError(
                f"{self.tasks_first} tasks at first and {self.tasks_last} at last: they do not fall"
            )
        if self.machines > MOST_MACHINES:
            raise InputError(f"a trace has {MOST_MACHINES} machines at most, not {self.machines}")
        self._check_length()
        if self.parts is not None and self.parts < 1:
            raise InputError(f"a trace needs at least 1 part, not {self.parts}")
        if self.parts is not None and self.parts > self.minutes:
            raise InputError(
                f"a part has a minute at least, and the trace has {self.minutes}: {self.parts} parts are too many"
            )

    def _check_length(self) -> None:
        most_s = MOST_DAYS * 86_400
        if self.span_s is not None:
            if not self.span_s >= 60:
                raise InputError(f"a trace lasts at least a minute, not {self.span_s:g} s")
            if self.span_s > most_s:
                raise InputError(f"a trace lasts {MOST_DAYS} days at most, not {self.span_s / 86_400:g}")
            if self.events > MOST_EVENTS_PER_S * self.span_s:
                raise InputError(
                    f"{self.events} events in {format_duration(self.span_s)} are more than {MOST_EVENTS_PER_S} a second"
                )
        elif self.events > MEAN_RATE_PER_S * most_s:
            raise InputError(
                f"{self.events} events last more than {MOST_DAYS} days at the published mean rate; ask for "
                f"{int(MEAN_RATE_PER_S * most_s)} at most, or name a span"
            )

    @property
    def tasks_first(self) -> int:
        """That run at the start."""
        return round(self.machines * FIRST_TASKS / MACHINES) if self.first_tasks is None else self.first_tasks

    @property
    def tasks_last(self) -> int:
        """That run from the start to the end."""
        return round(self.machines * LAST_TASKS / MACHINES) if self.last_tasks is None else self.last_tasks

    @property
    def minutes(self) -> int:
        """How long it is; what runs at the start is in the file too, but takes no time."""
        initial = self.machines * 16 if self.first_tasks is None else round(1.6 * self.first_tasks)
        span_s = self.span_s or (self.events - min(initial, self.events // 2)) / MEAN_RATE_PER_S
        return max(2, round(span_s / 60))


class TooFewEventsError(InputError):
    """The lasting tasks alone have more events than were asked for."""

    def __init__(self, spec: TraceSpec, needed: int) -> None:
        step = 10 ** max(0, len(str(needed)) - 2)
        self.enough = -(-round(1.2 * needed) // step) * step
        machines = _counted(spec.machines)
        self.told = (
            f"{spec.events} events are too few for {machines}: the tasks that last make {needed} already; "
            f"ask for {self.enough} events"
        )
        fewer = max(1, round(0.8 * spec.machines * spec.events / needed))
        super().__init__(f"{self.told}, or for {_counted(fewer)}" if fewer < spec.machines else self.told)


def _counted(machines: int) -> str:
    return f"{machines} machine{'s' if machines != 1 else ''}"


ENDINGS = (".csv", ".csv.gz", ".parquet")
TASK_EVENTS = "task_events"
_END_BYTES = 4096


@dataclass(frozen=True, order=True)
class Place:
    """Everything before it has been read."""

    part: int
    time_us: int

    @property
    def reports(self) -> int:
        """How many reports are complete here."""
        return reports_until(self.time_us)


@dataclass(frozen=True, kw_only=True)
class Slice:
    """What is to be read of a part: rows of a time in [from, until), times kept within floor and ceiling. ``next_us``:
    time of the first event after the part, None if there is none."""

    path: str
    part: int
    floor_us: int
    ceiling_us: int
    from_us: int
    until_us: int
    next_us: int | None


class TraceFolder:
    """Parts in the order of their names; of the trace's own folders the task events only."""

    def __init__(self, path: Path | str) -> None:
        self.paths = part_files(Path(path))
        firsts_us: list[int | None] = []
        self._next_us: list[int | None] = []
        next_us: int | None = None
        for each in reversed(self.paths):  # a part is also judged by what comes after it
            self._next_us.append(next_us)
            firsts_us.append(first_time_us(each, next_us))
            next_us = next_us if firsts_us[-1] is None else firsts_us[-1]
        self._next_us.reverse()
        self._floors_us = _floors_us(firsts_us[::-1])
        self.has_events = next_us is not None
        """Whether a row of any part is one."""
        self._last = max((i for i, floor in enumerate(self._floors_us) if floor < LATEST_US), default=0)

    @cached_property
    def fingerprint(self) -> str:
        """See ``fingerprint``."""
        return fingerprint(self.paths)

    @property
    def start(self) -> Place:
        """Nothing has been read."""
        return Place(0, self._floors_us[0])

    @cached_property
    def end(self) -> Place:
        """All has been read; the last report is the first that counts the last event."""
        last_us = max(
            read_part(self.paths[self._last], next_us=self._next_us[self._last]).last_us or 0,
            min(self._floors_us[self._last], LATEST_US),
        )
        return Place(len(self.paths), report_us(report_of(last_us)))

    def at(self, time_us: int) -> Place:
        """All that is earlier than a time; the end once that is past the last event."""
        part = bisect_left(self._floors_us, time_us) - 1
        if part < 0:
            return self.start
        if part >= self._last and time_us >= self.end.time_us:
            return self.end
        return Place(part, time_us)

    def parts_on(self, place: Place, parts: int) -> Place:
        """So many parts further, at the beginning of a part."""
        part = place.part + parts
        return Place(part, self._floors_us[part]) if part <= self._last else self.end

    def slices(self, start: Place, end: Place) -> list[Slice]:
        """What lies between two places."""
        found = []
        for part in range(start.part, min(end.part + 1, len(self.paths))):
            floor_us = self._floors_us[part]
            ceiling_us = self._floors_us[part + 1] if part < self._last else LATEST_US
            from_us = max(start.time_us, floor_us) if part == start.part else floor_us
            until_us = end.time_us if part == end.part else LATEST_US + 1
            if until_us > from_us:
                found.append(
                    Slice(
                        path=str(self.paths[part]),
                        part=part,
                        floor_us=floor_us,
                        ceiling_us=ceiling_us,
                        from_us=from_us,
                        until_us=until_us,
                        next_us=self._next_us[part],
                    )
                )
        return found


def _floors_us(firsts_us: list[int | None]) -> list[int]:
    """The earliest time a part can have; one without events begins where the next one does.

    >>> _floors_us([0, None, 900, 700, None]) == [0, 900, 900, 900, LATEST_US]
    True
    """
    following = LATEST_US if any(first is not None for first in firsts_us) else 0
    floors = []
    for first in reversed(firsts_us):
        following = following if first is None else first
        floors.append(following)
    return list(accumulate(reversed(floors), max))


def part_files(path: Path) -> list[Path]:
    """The files of a folder in their order: by the numbers in their names. A file is a folder of one."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise InputError(f"there is no folder {path}; name one with task-event files ({_endings()})")
    files = [each for each in path.iterdir() if each.name.endswith(ENDINGS) and not each.name.startswith(".")]
    named = [each for each in files if TASK_EVENTS in each.name]
    if not files:
        raise InputError(f"{path} has no task-event files: nothing in it ends with {_endings()}")
    return sorted(named or files, key=lambda each: _in_order(each.name))


def fingerprint(paths: list[Path]) -> str:
    """Tells a folder from another one, wherever it lies: by the names, the sizes and both ends of its parts."""
    found = sha256()
    for path in paths:
        with path.open("rb") as file:
            size = path.stat().st_size
            found.update(f"{path.name}/{size}/".encode() + file.read(_END_BYTES))
            file.seek(max(0, size - _END_BYTES))
            found.update(file.read())
    return f"parts-{found.hexdigest()[:16]}"


def _endings() -> str:
    return f"{', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}"


def _in_order(name: str) -> list[tuple[int, str]]:
    return [(int(word), "") if word.isdecimal() else (-1, word) for word in re.split(r"(\d+)", name)]
