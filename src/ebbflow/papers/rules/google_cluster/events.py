"""What a task event is: the 13 columns of the trace, its event types, and the moments that are reported.

Rules seed, §5.3.2. Times are microseconds; the trace begins at 600 s, and what is at 0 was there before it.
Report k is the state at 600 s + k · 15 min: all events before that moment, none of it or after.
"""

from __future__ import annotations

from enum import IntEnum

COLUMNS = (
    "time", "missing_info", "job", "task", "machine", "event", "user", "scheduling_class", "priority",
    "cpu", "memory", "disk", "different_machines",
)  # fmt: skip

START_US = 600_000_000
REPORT_US = 900_000_000
AFTER_THE_TRACE_US = 2**63 - 1
"""How the trace writes "later than its end"."""
LATEST_US = 366 * 86_400 * 1_000_000
"""No trace is longer than a year; a later time is a mistake, and would make reports without end."""
JUMP_US = 2 * 86_400 * 1_000_000
"""A row that is so much later than the rows before and after it has a wrong time."""
MOST_REQUEST = 100.0
"""1 is the largest machine, and the trace asks for 0.96 at most. In ``UNITS`` a machine's sum has room for 92,000 tasks
that ask for this."""
UNITS = 10**12
"""Requests are added up as whole billionths of a thousandth, so that a sum is the same in every order.
The trace writes four digits; the smallest of its requests is still a whole number of these."""


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
    """The first report that counts an event of this time.

    >>> [report_of(us) for us in (0, START_US, START_US + REPORT_US - 1, START_US + REPORT_US)]
    [1, 1, 1, 2]
    """
    return max(1, (time_us - START_US) // REPORT_US + 1)


def reports_until(time_us: int) -> int:
    """How many reports are complete once every event before this time is known.

    >>> reports_until(0), reports_until(START_US + REPORT_US - 1), reports_until(START_US + REPORT_US)
    (0, 0, 1)
    """
    return max(0, (time_us - START_US) // REPORT_US)


def report_us(report: int) -> int:
    """The moment of a report, as a time of the trace."""
    return START_US + report * REPORT_US
