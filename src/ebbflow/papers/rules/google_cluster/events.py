"""Task events: the 13 columns of the trace, event types, report times, and which rows are valid events.

Rules thesis, §5.3.2. Times are microseconds. The trace begins at 600 s; events at time 0 describe the state before it.
Report k is the state at 600 s + k · 15 min: it counts all events before that time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pyarrow as pa

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

TRACE_COLUMNS = (
    "time", "missing_info", "job", "task", "machine", "event", "user", "scheduling_class", "priority",
    "cpu", "memory", "disk", "different_machines",
)  # fmt: skip
REQUIRED = ("time", "job", "task", "event")
REQUESTS = ("cpu", "memory", "disk")

START_US = 600_000_000
REPORT_US = 900_000_000
AFTER_THE_TRACE_US = 2**63 - 1
"""The trace's own value for "later than its end"."""
MAX_TIME_US = 366 * 86_400 * 1_000_000
"""No trace is longer than a year. A later time is an error and would cause an endless number of reports."""
MAX_JUMP_US = 2 * 86_400 * 1_000_000
"""A row that is this much later than the rows before and after it has a wrong time."""
MAX_REQUEST = 100.0
"""The largest machine is 1, and the trace requests at most 0.96. In ``UNITS``, the sum of a machine can hold 92,000
tasks with this request."""
UNITS = 10**12
"""Requests are added as whole multiples of 1e-12, so that a sum does not depend on the order. The trace has four
significant digits; its smallest request is a whole number of these units."""


class EventType(IntEnum):
    """What happened to the task (Figure 5.17)."""

    SUBMIT = 0
    SCHEDULE = 1
    EVICT = 2
    FAIL = 3
    FINISH = 4
    KILL = 5
    LOST = 6
    UPDATE_PENDING = 7
    UPDATE_RUNNING = 8


def report_of(time_us: int) -> int:
    """Return the first report that counts an event of this time.

    >>> [report_of(us) for us in (0, START_US, START_US + REPORT_US - 1, START_US + REPORT_US)]
    [1, 1, 1, 2]
    """
    return max(1, (time_us - START_US) // REPORT_US + 1)


def reports_until(time_us: int) -> int:
    """Return the number of complete reports once every event before this time is known.

    >>> reports_until(0), reports_until(START_US + REPORT_US - 1), reports_until(START_US + REPORT_US)
    (0, 0, 1)
    """
    return max(0, (time_us - START_US) // REPORT_US)


def report_us(report: int) -> int:
    """Return the time of a report."""
    return START_US + report * REPORT_US


def in_units(requests: Floats) -> Ints:
    """Return requests as whole numbers of ``UNITS``; rows above ``MAX_REQUEST`` were rejected before.

    >>> in_units(np.array([0.02499, 3.815e-07, 0.0]))
    array([24990000000,      381500,           0])
    """
    return np.rint(requests * UNITS).astype(np.int64)


def all_valid(table: pa.Table, next_us: int | None) -> bool:
    """Return whether every row is a valid event."""
    return not any(table.column(name).null_count for name in REQUIRED) and not invalid_rows(table, next_us)


def invalid_rows(table: pa.Table, next_us: int | None) -> dict[int, str]:
    """Map each invalid row to the reason, for rows of numbers; ``next_us`` is the time of the row that follows them."""
    invalid: dict[int, str] = {}

    def check(values: Ints | Floats, low: float, high: float, reason: Callable[[str], str]) -> None:
        if len(values) == 0 or (values.min() >= low and values.max() <= high):
            return  # the usual case, and much faster than checking each value
        for index in np.flatnonzero(~((values >= low) & (values <= high))).tolist():
            invalid.setdefault(index, reason(str(values[index])))

    time = ints(table, "time")
    check(time, 0, MAX_TIME_US, _invalid_time)
    for name in ("job", "task", "machine"):
        check(ints(table, name), 0, math.inf, partial(invalid_value, name))
    check(ints(table, "event"), 0, max(EventType), partial(invalid_value, "event"))
    for name in REQUESTS:
        check(floats(table, name), 0.0, MAX_REQUEST, partial(_invalid_request, name))
    where = np.delete(np.arange(len(time)), list(invalid)) if invalid else None
    ahead = ahead_of_neighbours(time if where is None else time[where], next_us)
    for index in np.flatnonzero(ahead).tolist():
        invalid[index if where is None else int(where[index])] = (
            f"time is more than {MAX_JUMP_US / 86_400e6:g} days after the rows around it"
        )
    return invalid


def ahead_of_neighbours(time_us: Ints, next_us: int | None = None) -> Mask:
    """Return which rows are far later than both the row before and the row after them.

    One wrong digit would otherwise cause thousands of reports. A trace that pauses has no such row, because what
    follows the pause is as late. The first row has no row before it; the row after the last one has time ``next_us``.
    At the end of the trace, nothing contradicts the last row.

    >>> day = 86_400_000_000
    >>> ahead_of_neighbours(np.array([0, 9 * day, 5, 20 * day, 20 * day + 1])).tolist()
    [False, True, False, False, False]
    >>> times = np.array([0, 9 * day])
    >>> ahead_of_neighbours(times, 5).tolist(), ahead_of_neighbours(times).tolist()
    ([False, True], [False, False])
    """
    if len(time_us) == 0:
        return np.zeros(0, bool)
    steps = np.diff(time_us, append=time_us[-1] if next_us is None else next_us)
    back = steps < -MAX_JUMP_US
    if back.any():
        back[1:] &= steps[:-1] > MAX_JUMP_US
    return back


def invalid_value(name: str, text: str) -> str:
    """Describe a value that is not a number of the column's kind."""
    if not text.strip():
        return f"no {name}"
    if name == "event":
        return f"'{text}' is not an event type; valid are 0 to {max(EventType).value}"
    if name not in REQUESTS and text.strip().isdecimal() and int(text) > 2**63 - 1:
        return f"{name} '{text}' is too large; the largest valid number is {2**63 - 1}"
    kind = "a request" if name in REQUESTS else "a whole number"
    return f"{name} '{text}' is not {kind} of 0 or more"


def _invalid_time(text: str) -> str:
    if int(text) == AFTER_THE_TRACE_US:
        return "time is after the end of the trace"
    return invalid_value("time", text) if int(text) < 0 else "time is more than a year after the start"


def _invalid_request(name: str, text: str) -> str:
    if float(text) > MAX_REQUEST:
        return f"{name} {text} is more than {MAX_REQUEST:g}; the largest machine has 1"
    return invalid_value(name, text)


def ints(table: pa.Table, name: str) -> Ints:
    """Return a column as integers, with 0 for missing values."""
    import pyarrow as pa

    column = table.column(name)
    if column.null_count:
        column = column.fill_null(0)
    values: Ints = column.cast(pa.int64()).to_numpy()
    return values


def floats(table: pa.Table, name: str) -> Floats:
    """Return a column as floats, with 0 for missing values."""
    column = table.column(name)
    values: Floats = (column.fill_null(0.0) if column.null_count else column).to_numpy()
    return values
