"""When bounds apply: hours and days of a time zone, to the minute."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from ebbflow.policy.model import BoundsRule, Weekday

DAY_MIN, WEEK_MIN = 1440, 7 * 1440
_WEEK = tuple(Weekday)
_SAMPLED_YEAR = 2026
"""The first of the two years over which the offsets of two zones are compared."""


def applies(bounds: BoundsRule, now_s: float) -> bool:
    """Whether bounds apply at a time (seconds since the epoch).

    >>> from ebbflow.policy import bounds as named, cluster
    >>> night = named("night").keep(cluster(), at_most=2).between("22:00", "06:00").on("friday").build()
    >>> at = lambda text: datetime.fromisoformat(text + "+00:00").timestamp()
    >>> [applies(night, at(t)) for t in ("2026-11-13T23:00", "2026-11-14T05:59", "2026-11-14T06:00")]
    [True, True, False]
    """
    here = datetime.fromtimestamp(now_s, ZoneInfo(bounds.timezone))
    minute = here.weekday() * DAY_MIN + here.hour * 60 + here.minute
    return any(start <= minute < end or start <= minute + WEEK_MIN < end for start, end in _spans(bounds))


def always_applies(bounds: BoundsRule) -> bool:
    """Whether bounds apply at every minute of every day.

    >>> from ebbflow.policy import bounds as named, cluster
    >>> limited = named("b").keep(cluster(), at_most=2)
    >>> [always_applies(limited.between("00:00", until).build()) for until in ("24:00", "23:59")]
    [True, False]
    """
    covered_min = 0
    for start, end in sorted(_spans(bounds)):
        if start > covered_min:
            return False
        covered_min = max(covered_min, end)
    return covered_min >= WEEK_MIN


@lru_cache(maxsize=256)
def _spans(bounds: BoundsRule) -> tuple[tuple[int, int], ...]:
    """The minutes of the week in which bounds apply; the last span may reach into the next week."""
    start = 0 if bounds.from_ is None else bounds.from_.minute
    end = DAY_MIN if bounds.until is None else bounds.until.minute
    if end <= start:
        end += DAY_MIN
    days = [_WEEK.index(day) for day in bounds.on] or range(7)
    return tuple((day * DAY_MIN + start, day * DAY_MIN + end) for day in days)


def overlap(one: BoundsRule, other: BoundsRule) -> bool:
    """Whether both apply at some minute of the week, at any offset between their time zones over the year.

    >>> from ebbflow.policy import bounds as named, cluster
    >>> morning = named("m").keep(cluster(), at_least=4).between("08:00", "12:00").in_timezone("Europe/Berlin")
    >>> evening = named("e").keep(cluster(), at_most=2).in_timezone("America/New_York")
    >>> late, early = evening.between("20:00", "23:00"), evening.between("05:30", "06:30")
    >>> [overlap(morning.build(), each.build()) for each in (late, early)]
    [False, True]
    """
    return any(
        start < other_end + shift + offset and other_start + shift + offset < end
        for offset in _offsets_min(one.timezone, other.timezone)
        for start, end in _spans(one)
        for other_start, other_end in _spans(other)
        for shift in (-WEEK_MIN, 0, WEEK_MIN)
    )


@lru_cache(maxsize=256)
def _offsets_min(zone: str, other: str) -> tuple[int, ...]:
    """The minutes by which one zone is ahead of the other: all values over two years, day by day, because zones
    switch to and from summer time on different days."""
    if zone == other:
        return (0,)
    first, second = ZoneInfo(zone), ZoneInfo(other)
    noon = datetime(_SAMPLED_YEAR, 1, 1, 12, tzinfo=UTC)
    offsets: set[int] = set()
    for day in range(2 * 366):
        at = noon + timedelta(days=day)
        own, others = (at.astimezone(each).utcoffset() or timedelta() for each in (first, second))
        offsets.add(round((own - others).total_seconds() / 60))
    return tuple(sorted(offsets))
