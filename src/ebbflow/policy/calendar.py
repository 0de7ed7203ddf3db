"""When bounds hold: hours and days of a time zone, to the minute."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

from ebbflow.policy.model import Bounds, Day

DAY_MIN, WEEK_MIN = 1440, 7 * 1440
_WEEK = tuple(Day)


def holds(bounds: Bounds, now_s: float) -> bool:
    """Whether bounds hold at a time (seconds since the epoch).

    >>> from ebbflow.policy import bounds as named, cluster
    >>> night = named("night").keep(cluster(), at_most=2).between("22:00", "06:00").on("friday").build()
    >>> at = lambda text: datetime.fromisoformat(text + "+00:00").timestamp()
    >>> [holds(night, at(t)) for t in ("2026-11-13T23:00", "2026-11-14T05:59", "2026-11-14T06:00")]
    [True, True, False]
    """
    here = datetime.fromtimestamp(now_s, ZoneInfo(bounds.timezone))
    minute = here.weekday() * DAY_MIN + here.hour * 60 + here.minute
    return any(start <= minute < end or start <= minute + WEEK_MIN < end for start, end in _spans(bounds))


@lru_cache(maxsize=256)
def _spans(bounds: Bounds) -> tuple[tuple[int, int], ...]:
    """Minutes of the week in which they hold; the last may reach into the next week."""
    start = 0 if bounds.from_ is None else bounds.from_.minute
    end = DAY_MIN if bounds.until is None else bounds.until.minute
    if end <= start:
        end += DAY_MIN
    days = [_WEEK.index(day) for day in bounds.on] or range(7)
    return tuple((day * DAY_MIN + start, day * DAY_MIN + end) for day in days)


def overlap(one: Bounds, other: Bounds) -> bool:
    """Whether there is a minute of the week in which both hold. Different zones: taken as if they were one,
    widened by a day, because nobody counts on their difference."""
    slack = 0 if one.timezone == other.timezone else DAY_MIN
    return any(
        start < other_end + slack + shift and other_start - slack + shift < end
        for start, end in _spans(one)
        for other_start, other_end in _spans(other)
        for shift in (-WEEK_MIN, 0, WEEK_MIN)
    )
