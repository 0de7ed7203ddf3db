"""Which rows are events, by their values: the same for rows that were read in one go and for those read as lines."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ebbflow.workloads.google_cluster.events import (
    AFTER_THE_TRACE_US,
    JUMP_US,
    LATEST_US,
    MOST_REQUEST,
    EventType,
)

if TYPE_CHECKING:
    import pyarrow as pa

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

NEEDED = ("time", "job", "task", "event")
REQUESTS = ("cpu", "memory", "disk")


def is_clean(table: pa.Table) -> bool:
    """Whether every row is an event."""
    return not any(table.column(name).null_count for name in NEEDED) and not value_problems(table)


def value_problems(table: pa.Table) -> dict[int, str]:
    """Row → what is wrong with it, of rows whose values are numbers."""
    found: dict[int, str] = {}

    def note(wrong: Mask, values: Ints | Floats, words: Callable[[str], str]) -> None:
        for index in np.flatnonzero(wrong).tolist():
            found.setdefault(index, words(str(values[index])))

    time, event = ints(table, "time"), ints(table, "event")
    note(time == AFTER_THE_TRACE_US, time, lambda _: "a time after the end of the trace")
    note(time > LATEST_US, time, lambda _: "a time more than a year after the start")
    for name in ("time", "job", "task", "machine"):
        whole = ints(table, name)
        note(whole < 0, whole, partial(unread, name))
    note((event < 0) | (event > max(EventType)), event, partial(unread, "event"))
    for name in REQUESTS:
        asked = floats(table, name)
        note(asked > MOST_REQUEST, asked, partial(_too_much, name))
        note(~(asked >= 0), asked, partial(unread, name))
    fine = np.ones(len(time), bool)
    fine[list(found)] = False
    where = np.flatnonzero(fine)
    for index in where[ahead_of_its_neighbours(time[fine])].tolist():
        found[index] = f"a time days after the rows around it (more than {JUMP_US / 86_400e6:g})"
    return found


def ahead_of_its_neighbours(time_us: Ints) -> Mask:
    """Rows that are far later than the one before and the one after them: with one wrong digit there would be thousands
    of reports. A trace that pauses is not ahead: what follows the pause is as late.

    >>> day = 86_400_000_000
    >>> ahead_of_its_neighbours(np.array([0, 9 * day, 5, 20 * day, 20 * day + 1])).tolist()
    [False, True, False, False, False]
    """
    if len(time_us) < 2:
        return np.zeros(len(time_us), bool)
    steps = np.diff(time_us)
    return np.concatenate(([True], steps > JUMP_US)) & np.concatenate((steps < -JUMP_US, [True]))


def _too_much(name: str, text: str) -> str:
    return f"{name} {text} is more than {MOST_REQUEST:g}; the largest machine has 1"


def unread(name: str, text: str) -> str:
    """What is said of a value that is no number of its kind."""
    if not text.strip():
        return f"no {name}"
    if name == "event":
        return f"'{text}' is no event type; they are 0 to {max(EventType).value}"
    kind = "a request" if name in REQUESTS else "a whole number"
    return f"{name} '{text}' is not {kind} of 0 or more"


def ints(table: pa.Table, name: str) -> Ints:
    """A column; 0 where there is nothing."""
    import pyarrow as pa

    column = table.column(name)
    if column.null_count:
        column = column.fill_null(0)
    values: Ints = column.cast(pa.int64()).to_numpy()
    return values


def floats(table: pa.Table, name: str) -> Floats:
    """A column; 0 where there is nothing."""
    column = table.column(name)
    values: Floats = (column.fill_null(0.0) if column.null_count else column).to_numpy()
    return values
