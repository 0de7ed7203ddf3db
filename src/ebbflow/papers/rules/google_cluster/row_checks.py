"""Which rows are events, by their values: the same for rows that were read in one go and for those read as lines."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ebbflow.papers.rules.google_cluster.events import (
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
_MOST_WHOLE = 2**63 - 1


def is_clean(table: pa.Table, next_us: int | None) -> bool:
    """Whether every row is an event."""
    return not any(table.column(name).null_count for name in NEEDED) and not value_problems(table, next_us)


def value_problems(table: pa.Table, next_us: int | None) -> dict[int, str]:
    """Row → what is wrong with it, of rows whose values are numbers; ``next_us`` is the time of the row after them."""
    found: dict[int, str] = {}

    def note(values: Ints | Floats, low: float, high: float, words: Callable[[str], str]) -> None:
        if len(values) == 0 or (values.min() >= low and values.max() <= high):
            return  # as good as always, and much quicker than to look at each
        for index in np.flatnonzero(~((values >= low) & (values <= high))).tolist():
            found.setdefault(index, words(str(values[index])))

    time = ints(table, "time")
    note(time, 0, LATEST_US, _no_time)
    for name in ("job", "task", "machine"):
        note(ints(table, name), 0, math.inf, partial(unread, name))
    note(ints(table, "event"), 0, max(EventType), partial(unread, "event"))
    for name in REQUESTS:
        note(floats(table, name), 0.0, MOST_REQUEST, partial(_no_request, name))
    where = np.delete(np.arange(len(time)), list(found)) if found else None
    ahead = ahead_of_its_neighbours(time if where is None else time[where], next_us)
    for index in np.flatnonzero(ahead).tolist():
        found[index if where is None else int(where[index])] = (
            f"a time more than {JUMP_US / 86_400e6:g} days after the rows around it"
        )
    return found


def ahead_of_its_neighbours(time_us: Ints, next_us: int | None = None) -> Mask:
    """Rows that are far later than the one before and the one after them: with one wrong digit there would be thousands
    of reports. A trace that pauses is not ahead: what follows the pause is as late. Before the first row nothing is
    known; after the last one is ``next_us``, and at the end of the trace nothing that speaks against it.

    >>> day = 86_400_000_000
    >>> ahead_of_its_neighbours(np.array([0, 9 * day, 5, 20 * day, 20 * day + 1])).tolist()
    [False, True, False, False, False]
    >>> times = np.array([0, 9 * day])
    >>> ahead_of_its_neighbours(times, 5).tolist(), ahead_of_its_neighbours(times).tolist()
    ([False, True], [False, False])
    """
    if len(time_us) == 0:
        return np.zeros(0, bool)
    steps = np.diff(time_us, append=time_us[-1] if next_us is None else next_us)
    back = steps < -JUMP_US
    if back.any():
        back[1:] &= steps[:-1] > JUMP_US
    return back


def _no_time(text: str) -> str:
    if int(text) == AFTER_THE_TRACE_US:
        return "a time after the end of the trace"
    return unread("time", text) if int(text) < 0 else "a time more than a year after the start"


def _no_request(name: str, text: str) -> str:
    if float(text) > MOST_REQUEST:
        return f"{name} {text} is more than {MOST_REQUEST:g}; the largest machine has 1"
    return unread(name, text)


def unread(name: str, text: str) -> str:
    """What is said of a value that is no number of its kind."""
    if not text.strip():
        return f"no {name}"
    if name == "event":
        return f"'{text}' is no event type; they are 0 to {max(EventType).value}"
    if name not in REQUESTS and text.strip().isdecimal() and int(text) > _MOST_WHOLE:
        return f"{name} '{text}' is too large; the largest whole number that is read is {_MOST_WHOLE}"
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
