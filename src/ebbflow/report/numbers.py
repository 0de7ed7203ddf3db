"""Numbers the way people read them. What is not known is a dash, and never a zero."""

from __future__ import annotations

import math

UNKNOWN = "–"
_MINUS = "\N{MINUS SIGN}"


def number(value: float | None) -> str:
    """Three digits that matter, thousands apart.

    >>> [number(v) for v in (None, 0.0, 0.0312, 8.25, 41.26, 412.6, 1204.0, -3.5)]
    ['–', '0', '0.0312', '8.25', '41.3', '413', '1,204', '−3.5']
    """
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{min(digits, 6)}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return text.replace("-", _MINUS)


def seconds(value: float | None) -> str:
    """Seconds, with one decimal below a hundred.

    >>> [seconds(v) for v in (None, 0.0, 0.04, 8.21, 30.0, 412.6, 4000.0)]
    ['–', '0 s', '0.04 s', '8.2 s', '30 s', '413 s', '4,000 s']
    """
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if abs(value) < 1:
        return f"{number(round(value, 2))} s"
    return f"{number(round(value, 1) if abs(value) < 100 else round(value))} s"


def share(value: float | None) -> str:
    """A share of 1 in per cent.

    >>> [share(v) for v in (None, 0.0, 0.004, 0.0431, 0.4137, 1.0, -0.2)]
    ['–', '0 %', '0.4 %', '4.3 %', '41 %', '100 %', '−20 %']
    """
    if value is None or not math.isfinite(value):
        return UNKNOWN
    percent = value * 100.0
    digits = 1 if abs(percent) < 10 else 0
    text = f"{percent:,.{digits}f}"
    text = text.removesuffix(".0")
    if text in {"0", "-0"} and percent != 0:
        text = "<0.1" if percent > 0 else ">-0.1"
    return f"{text} %".replace("-", _MINUS)


def times(value: float | None) -> str:
    """A ratio.

    >>> times(1.234), times(None)
    ('1.23 ×', '–')
    """
    return UNKNOWN if value is None or not math.isfinite(value) else f"{value:.2f} ×"


def whole(value: float | None) -> str:
    """A count.

    >>> whole(12345.0), whole(None)
    ('12,345', '–')
    """
    return UNKNOWN if value is None or not math.isfinite(value) else f"{value:,.0f}".replace("-", _MINUS)


def counted(count: int, one: str, many: str = "") -> str:
    """A number of things; ``many`` where that is not ``one`` and an s.

    >>> counted(1, "run"), counted(12, "run"), counted(0, "strategy", "strategies")
    ('1 run', '12 runs', '0 strategies')
    """
    return f"{count} {one if count == 1 else many or one + 's'}"


def clock(elapsed_s: float | None) -> str:
    """Time since the start, as on a stopwatch.

    >>> clock(83.4), clock(3723.0), clock(None)
    ('1:23', '1:02:03', '–')
    """
    if elapsed_s is None or not math.isfinite(elapsed_s):
        return UNKNOWN
    sign = _MINUS if elapsed_s < 0 else ""
    minutes, rest_s = divmod(int(abs(elapsed_s)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{sign}{hours}:{minutes:02d}:{rest_s:02d}" if hours else f"{sign}{minutes}:{rest_s:02d}"
