"""A folder of trace files as one stream: its parts, positions in it, and the events between two positions.

A part is one file, read as columns: its events in file order, and its invalid rows. A position is a part and a time:
all earlier parts, and the earlier rows of the part. It means the same in every run, on any machine and at any speed,
so it can serve as an offset.

Time never goes back. An event counts at the latest time of the rows before it, and within the bounds of its part,
which are the times of the first events of the parts. This does not change a trace that is in order.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import accumulate
from pathlib import Path

import numpy as np

from ebbflow.errors import InputError
from ebbflow.papers.rules.google_cluster.events import (
    MAX_TIME_US,
    Floats,
    Ints,
    Mask,
    floats,
    ints,
    report_of,
    report_us,
    reports_until,
)
from ebbflow.papers.rules.google_cluster.readers import ParsedRows, read_events, read_first_events

SUFFIXES = (".csv", ".csv.gz", ".parquet")
TASK_EVENTS = "task_events"
_FIRST_ROWS = 32
_END_BYTES = 4096


@dataclass(frozen=True, kw_only=True)
class RejectedRow:
    """A row that is not a valid event."""

    line: int
    """Counted from 1."""
    time_us: int
    """Time of the row before it."""
    reason: str
    text: str


@dataclass(frozen=True, kw_only=True, eq=False)
class TracePart:
    """The events of a file that name a machine, and the times of those that do not."""

    row: Ints
    """Row number in the file."""
    time_us: Ints
    job: Ints
    task: Ints
    machine: Ints
    event: Ints
    cpu: Floats
    memory: Floats
    disk: Floats
    without_machine_us: Ints
    """Times of the events without a machine, which are dropped."""
    rejected: tuple[RejectedRow, ...] = ()

    @property
    def last_us(self) -> int | None:
        """Time of the last event, or None without events."""
        last = [int(times[-1]) for times in (self.time_us, self.without_machine_us) if len(times)]
        return max(last, default=None)

    def between(self, from_us: int, until_us: int) -> TracePart:
        """Return the rows with a time in [from, until)."""
        first, end = np.searchsorted(self.time_us, (from_us, until_us))
        first_without, end_without = np.searchsorted(self.without_machine_us, (from_us, until_us))
        columns = {
            name: getattr(self, name)[first:end]
            for name in ("row", "time_us", "job", "task", "machine", "event", "cpu", "memory", "disk")
        }
        return TracePart(
            **columns,
            without_machine_us=self.without_machine_us[first_without:end_without],
            rejected=tuple(r for r in self.rejected if from_us <= r.time_us < until_us),
        )


def read_part(
    path: Path, floor_us: int = 0, ceiling_us: int = MAX_TIME_US, next_us: int | None = None
) -> TracePart:
    """Read a file and keep its times within the bounds; ``next_us`` is the time of the first event after it, if any."""
    try:
        parsed = read_events(path, next_us)
    except (OSError, EOFError) as error:
        raise InputError(f"cannot read {path}: {error}") from None
    return _part(parsed, floor_us, ceiling_us)


def first_time_us(path: Path, next_us: int | None = None) -> int | None:
    """Return the time of the first valid event, or None, reading little more than that."""
    rows = _FIRST_ROWS
    try:
        while True:
            table, is_all = read_first_events(path, rows, next_us)
            # Two events, because the check of a row needs the one after it.
            if table.num_rows > 1 or is_all:
                return int(ints(table, "time")[0]) if table.num_rows else None
            rows *= 4
    except (OSError, EOFError) as error:
        raise InputError(f"cannot read {path}: {error}") from None


def _part(parsed: ParsedRows, floor_us: int, ceiling_us: int) -> TracePart:
    table, rows = parsed.table, parsed.rows
    time_us = np.maximum.accumulate(np.clip(ints(table, "time"), floor_us, ceiling_us))
    before = np.searchsorted(rows, [row for row, _, _ in parsed.invalid]) - 1
    rejected = tuple(
        RejectedRow(
            line=row + 1, time_us=int(time_us[index]) if index >= 0 else floor_us, reason=reason, text=text
        )
        for (row, reason, text), index in zip(parsed.invalid, before, strict=True)
    )
    has_machine: Mask = table.column("machine").is_valid().to_numpy()
    return TracePart(
        row=rows[has_machine],
        time_us=time_us[has_machine],
        job=ints(table, "job")[has_machine],
        task=ints(table, "task")[has_machine],
        machine=ints(table, "machine")[has_machine],
        event=ints(table, "event")[has_machine],
        cpu=floats(table, "cpu")[has_machine],
        memory=floats(table, "memory")[has_machine],
        disk=floats(table, "disk")[has_machine],
        without_machine_us=time_us[~has_machine],
        rejected=rejected,
    )


@dataclass(frozen=True, order=True)
class TracePosition:
    """Everything before it has been read."""

    part: int
    time_us: int

    @property
    def reports(self) -> int:
        """Number of reports that are complete here."""
        return reports_until(self.time_us)


@dataclass(frozen=True, kw_only=True)
class Slice:
    """Rows to read from one part: times in [from, until), kept within floor and ceiling."""

    path: str
    part: int
    floor_us: int
    ceiling_us: int
    from_us: int
    until_us: int
    next_us: int | None
    """Time of the first event after the part, if any."""


class TraceFolder:
    """The parts of a folder in the order of their names."""

    def __init__(self, path: Path | str) -> None:
        self.paths = part_files(Path(path))
        firsts_us: list[int | None] = []
        self._next_us: list[int | None] = []
        next_us: int | None = None
        for each in reversed(self.paths):  # the check of a part needs what comes after it
            self._next_us.append(next_us)
            firsts_us.append(first_time_us(each, next_us))
            next_us = next_us if firsts_us[-1] is None else firsts_us[-1]
        self._next_us.reverse()
        self._floors_us = _floors_us(firsts_us[::-1])
        self.has_events = next_us is not None
        """Whether any row of any part is a valid event."""
        self._last = max((i for i, floor in enumerate(self._floors_us) if floor < MAX_TIME_US), default=0)

    @cached_property
    def fingerprint(self) -> str:
        """See ``fingerprint``."""
        return fingerprint(self.paths)

    @property
    def start(self) -> TracePosition:
        """The position at which nothing has been read."""
        return TracePosition(0, self._floors_us[0])

    @cached_property
    def end(self) -> TracePosition:
        """The position at which everything has been read; the last report is the first that counts the last event."""
        last_us = max(
            read_part(self.paths[self._last], next_us=self._next_us[self._last]).last_us or 0,
            min(self._floors_us[self._last], MAX_TIME_US),
        )
        return TracePosition(len(self.paths), report_us(report_of(last_us)))

    def at(self, time_us: int) -> TracePosition:
        """Return the position of a time, or the end if it is after the last event."""
        part = bisect_left(self._floors_us, time_us) - 1
        if part < 0:
            return self.start
        if part >= self._last and time_us >= self.end.time_us:
            return self.end
        return TracePosition(part, time_us)

    def parts_on(self, position: TracePosition, parts: int) -> TracePosition:
        """Return the beginning of the part that many parts further on."""
        part = position.part + parts
        return TracePosition(part, self._floors_us[part]) if part <= self._last else self.end

    def slices(self, start: TracePosition, end: TracePosition) -> list[Slice]:
        """Return what to read between two positions, one slice per part."""
        slices = []
        for part in range(start.part, min(end.part + 1, len(self.paths))):
            floor_us = self._floors_us[part]
            from_us = max(start.time_us, floor_us) if part == start.part else floor_us
            until_us = end.time_us if part == end.part else MAX_TIME_US + 1
            if until_us > from_us:
                slices.append(
                    Slice(
                        path=str(self.paths[part]),
                        part=part,
                        floor_us=floor_us,
                        ceiling_us=self._floors_us[part + 1] if part < self._last else MAX_TIME_US,
                        from_us=from_us,
                        until_us=until_us,
                        next_us=self._next_us[part],
                    )
                )
        return slices


def _floors_us(firsts_us: list[int | None]) -> list[int]:
    """Return the earliest time of each part; a part without events begins where the next one does.

    >>> _floors_us([0, None, 900, 700, None]) == [0, 900, 900, 900, MAX_TIME_US]
    True
    """
    following = MAX_TIME_US if any(first is not None for first in firsts_us) else 0
    floors = []
    for first in reversed(firsts_us):
        following = following if first is None else first
        floors.append(following)
    return list(accumulate(reversed(floors), max))


def part_files(path: Path) -> list[Path]:
    """Return the files of a folder, ordered by the numbers in their names; a single file is a folder of one part.

    If any file is named ``task_events…``, only those count: the published trace has other tables as well.
    """
    suffixes = f"{', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise InputError(f"there is no folder {path}; name a folder of task-event files ({suffixes})")
    files = [
        each for each in path.iterdir() if each.name.endswith(SUFFIXES) and not each.name.startswith(".")
    ]
    named = [each for each in files if TASK_EVENTS in each.name]
    if not files:
        raise InputError(f"{path} has no task-event files: no file name ends with {suffixes}")
    return sorted(named or files, key=lambda each: _sort_key(each.name))


def fingerprint(paths: list[Path]) -> str:
    """Identify a folder, wherever it is, by the names, sizes and both ends of its parts."""
    digest = sha256()
    for path in paths:
        with path.open("rb") as file:
            size = path.stat().st_size
            digest.update(f"{path.name}/{size}/".encode() + file.read(_END_BYTES))
            file.seek(max(0, size - _END_BYTES))
            digest.update(file.read())
    return f"parts-{digest.hexdigest()[:16]}"


def _sort_key(name: str) -> list[tuple[int, str]]:
    return [(int(word), "") if word.isdecimal() else (-1, word) for word in re.split(r"(\d+)", name)]
