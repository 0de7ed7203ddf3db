"""One file of the trace, read as columns: events in the order of the file, and the rows that are no events.

Clean files, which is nearly all, are read by Arrow in one go: CSV, plain or gzip, or Parquet. A file with a row that
cannot be read is read again line by line, so that the row can be told: its line, its text, and what is wrong with it.

Time never goes back: an event counts at the latest time of the rows before it, and within the part's own
bounds, which the folder knows from the first rows of the parts. A trace in order is not changed by that.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np
import numpy.typing as npt

from ebbflow.errors import InputError
from ebbflow.papers.rules.google_cluster import csv_rows, parquet_rows
from ebbflow.papers.rules.google_cluster.csv_rows import Found
from ebbflow.papers.rules.google_cluster.events import LATEST_US
from ebbflow.papers.rules.google_cluster.row_checks import Floats, Ints, floats, ints

_FIRST_ROWS = 32


@dataclass(frozen=True, kw_only=True)
class Rejected:
    """A row that is no event."""

    line: int
    """Counted from 1."""
    time_us: int
    """Of the row before it."""
    reason: str
    text: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    """The events of a file that name a machine, and a count of those that do not."""

    row: Ints
    """Which row of the file, to keep its order."""
    time_us: Ints
    job: Ints
    task: Ints
    machine: Ints
    event: Ints
    cpu: Floats
    memory: Floats
    disk: Floats
    elsewhere_us: Ints
    """Times of the events without a machine, which are dropped."""
    rejected: tuple[Rejected, ...] = ()

    @property
    def last_us(self) -> int | None:
        """Time of the last event, None without one."""
        last = [int(times[-1]) for times in (self.time_us, self.elsewhere_us) if len(times)]
        return max(last, default=None)

    def between(self, from_us: int, until_us: int) -> Part:
        """What is of a time in [from, until)."""
        first, end = np.searchsorted(self.time_us, (from_us, until_us))
        first_else, end_else = np.searchsorted(self.elsewhere_us, (from_us, until_us))
        cut = {
            name: getattr(self, name)[first:end]
            for name in ("row", "time_us", "job", "task", "machine", "event", "cpu", "memory", "disk")
        }
        return Part(
            **cut,
            elsewhere_us=self.elsewhere_us[first_else:end_else],
            rejected=tuple(r for r in self.rejected if from_us <= r.time_us < until_us),
        )


def read_part(path: Path, floor_us: int = 0, ceiling_us: int = LATEST_US, next_us: int | None = None) -> Part:
    """Read a file; times are kept within the bounds. ``next_us``: of the first event after it, None without."""
    try:
        found = _reading(path).events(path, next_us)
    except (OSError, EOFError) as error:
        raise InputError(f"cannot read {path}: {error}") from None
    return _part(found, floor_us, ceiling_us)


def first_time_us(path: Path, next_us: int | None = None) -> int | None:
    """Time of the first row that is an event, None without; reads little further."""
    rows = _FIRST_ROWS
    try:
        while True:
            table, is_all = _reading(path).first_events(path, rows, next_us)
            # Two, because a row is also judged by the one after it.
            if table.num_rows > 1 or is_all:
                return int(ints(table, "time")[0]) if table.num_rows else None
            rows *= 4
    except (OSError, EOFError) as error:
        raise InputError(f"cannot read {path}: {error}") from None


def _reading(path: Path) -> ModuleType:
    return parquet_rows if path.suffix == parquet_rows.ENDING else csv_rows


def _part(found: Found, floor_us: int, ceiling_us: int) -> Part:
    table, rows, problems = found.table, found.rows, found.problems
    time_us = np.maximum.accumulate(np.clip(ints(table, "time"), floor_us, ceiling_us))
    before = np.searchsorted(rows, [row for row, _, _ in problems]) - 1
    rejected = tuple(
        Rejected(
            line=row + 1, time_us=int(time_us[index]) if index >= 0 else floor_us, reason=reason, text=text
        )
        for (row, reason, text), index in zip(problems, before, strict=True)
    )
    has_machine: npt.NDArray[np.bool_] = table.column("machine").is_valid().to_numpy()
    return Part(
        row=rows[has_machine],
        time_us=time_us[has_machine],
        job=ints(table, "job")[has_machine],
        task=ints(table, "task")[has_machine],
        machine=ints(table, "machine")[has_machine],
        event=ints(table, "event")[has_machine],
        cpu=floats(table, "cpu")[has_machine],
        memory=floats(table, "memory")[has_machine],
        disk=floats(table, "disk")[has_machine],
        elsewhere_us=time_us[~has_machine],
        rejected=rejected,
    )
