"""Durations such as ``500ms``, ``30s``, ``5m``, ``1h30m`` and ``2d``."""

from __future__ import annotations

import math
import re

from ebbflow.errors import DurationError

_SECONDS_PER_UNIT = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")


def parse_duration_s(text: str) -> float:
    """Parse a duration into seconds.

    >>> parse_duration_s("30s"), parse_duration_s("1h30m"), parse_duration_s("250ms")
    (30.0, 5400.0, 0.25)
    >>> parse_duration_s("5 parsecs")
    Traceback (most recent call last):
    ...
    ebbflow.errors.DurationError: '5 parsecs' is not a duration; write it like 500ms, 30s, 5m, 1h or 1h30m
    """
    stripped = text.strip()
    parts = _PART.findall(stripped)
    if not parts or _PART.sub("", stripped).strip():
        raise DurationError(f"'{text}' is not a duration; write it like 500ms, 30s, 5m, 1h or 1h30m")
    seconds = sum(float(number) * _SECONDS_PER_UNIT[unit] for number, unit in parts)
    if not seconds < math.inf:
        raise DurationError(f"a duration of {len(stripped)} characters is too long; write it like 30s or 1h")
    return seconds


def parse_seconds(text: str) -> float:
    """Parse a duration, or a plain number of seconds.

    >>> parse_seconds("180"), parse_seconds("3m")
    (180.0, 180.0)
    """
    return float(text) if re.fullmatch(r"\s*\d+(?:\.\d+)?\s*", text) else parse_duration_s(text)


def format_duration(seconds: float) -> str:
    """Format a duration for people, rounded to what they read.

    >>> [format_duration(s) for s in (0.25, 1.5, 42.0, 90.0, 5400.0, 172800.0)]
    ['250ms', '1.5s', '42s', '1m30s', '1h30m', '2d']
    """
    if seconds < 0:
        return "-" + format_duration(-seconds)
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 10:
        return f"{seconds:.1f}".removesuffix(".0") + "s"
    whole = round(seconds)
    text = ""
    for unit in ("d", "h", "m", "s"):
        size = int(_SECONDS_PER_UNIT[unit])
        count, whole = divmod(whole, size)
        text += f"{count}{unit}" if count else ""
    return text
