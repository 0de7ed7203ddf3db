"""Quantities of a policy: a time, a number with its unit, a time of day. ``values`` has the others."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import date, time
from decimal import Decimal
from typing import Any, ClassVar

import msgspec

from ebbflow.core.duration import parse_duration_s
from ebbflow.core.metrics import Unit
from ebbflow.errors import DurationError, PolicyError

LONGEST_MS = 366 * 86_400_000
NUMBER = r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
SPAN = r"(?!(?:\s*0+(?:\.0+)?\s*(?:ms|s|m|h|d))+\s*$)\s*(?:\d+(?:\.\d+)?\s*(?:ms|s|m|h|d)\s*)+"
"""A time that is not 0, for schemas."""


def number_text(value: float) -> str:
    """A number without the point where it is whole, and without loss.

    >>> number_text(300.0), number_text(0.5)
    ('300', '0.5')
    """
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


def plain_text(value: float) -> str:
    """The same for numbers that are written without an exponent.

    >>> plain_text(2.0), plain_text(1e-7)
    ('2', '0.0000001')
    """
    return str(int(value)) if value == int(value) else f"{Decimal(repr(value)):f}"


class Span(msgspec.Struct, frozen=True, order=True):
    """A time, in whole milliseconds.

    >>> str(Span.parse("90s")), Span.parse("1m30s").seconds, str(Span(1500))
    ('1m30s', 90.0, '1.5s')
    """

    ms: int
    SCHEMA: ClassVar[dict[str, Any]] = {
        "type": "string",
        "pattern": rf"^{SPAN}$",
        "examples": ["30s", "5m", "1h30m"],
    }

    def __post_init__(self) -> None:
        if not 1 <= self.ms <= LONGEST_MS:
            raise PolicyError(f"a time of {self.ms / 1000:g} s; it must be 1ms to 366d, like 30s or 5m")

    @classmethod
    def of_seconds(cls, seconds: float) -> Span:
        """So many seconds; finer than a millisecond nothing is measured."""
        if not math.isfinite(seconds) or abs(seconds * 1000 - round(seconds * 1000)) > 1e-6:
            raise PolicyError(f"a time of {seconds} s; write whole milliseconds, like 30s or 250ms")
        return cls(round(seconds * 1000))

    @classmethod
    def parse(cls, written: object) -> Span:
        """Read ``30s``."""
        if not isinstance(written, str):
            raise PolicyError(f"{shown(written)} is not a time; write it with its unit, like 30s or 5m")
        try:
            return cls.of_seconds(parse_duration_s(written))
        except DurationError as error:
            raise PolicyError(str(error)) from None

    @property
    def seconds(self) -> float:
        """In seconds."""
        return self.ms / 1000

    def plain(self) -> str:
        """As written in a file."""
        text, left = "", self.ms
        for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000)):
            count, left = divmod(left, size)
            text += f"{count}{unit}" if count else ""
        if left >= 1000:
            return f"{text}{plain_text(left / 1000)}s"
        return text + (f"{left}ms" if left else "")

    __str__ = plain


_FACTORS: dict[str, tuple[Unit, float]] = {
    "tuples": (Unit.ROWS, 1.0),
    "%": (Unit.SHARE, 0.01),
    "s": (Unit.SECONDS, 1.0),
    "B": (Unit.BYTES, 1.0),
    "KB": (Unit.BYTES, 1024.0),
    "MB": (Unit.BYTES, 1024.0**2),
    "GB": (Unit.BYTES, 1024.0**3),
    "": (Unit.COUNT, 1.0),
}
_SPELLED = {"rows": "tuples", "row": "tuples", "tuple": "tuples", "percent": "%", "bytes": "B"}
_PER_S = {"": 1.0, "s": 1.0, "min": 60.0, "h": 3600.0}
_QUANTITY = re.compile(rf"\s*({NUMBER})\s*([A-Za-z%]*)\s*(?:/\s*(s|min|h))?\s*")
_TIME = re.compile(r"(\s*\d+(?:\.\d+)?\s*(?:ms|s|m|h|d))+\s*")


class Quantity(msgspec.Struct, frozen=True):
    """A number with its unit, perhaps per second. 1 MB is 1024 · 1024 bytes, as Spark counts.

    >>> Quantity.parse("80%").base, Quantity.parse("64MB").base, Quantity.parse("300 rows/min").base
    (0.8, 67108864.0, 5.0)
    """

    amount: float
    unit: str
    per: str = ""
    SCHEMA: ClassVar[dict[str, Any]] = {
        "type": ["string", "number"],
        "pattern": rf"^(?:\s*{NUMBER}\s*(?:{'|'.join([*_FACTORS, *_SPELLED])})\s*(?:/\s*(?:s|min|h))?\s*"
        rf"|{_TIME.pattern})$",
        "examples": ["300 tuples", "80%", "30s", "64MB", "5 tuples/s"],
    }

    def __post_init__(self) -> None:
        if not math.isfinite(self.amount):
            raise PolicyError(
                f"{self.amount} is not a number to compare with; write one that can be read, like 300"
            )

    @classmethod
    def parse(cls, written: object) -> Quantity:
        """Read ``300 tuples``."""
        if isinstance(written, int | float) and not isinstance(written, bool):
            return cls(real(written), "")
        if not isinstance(written, str):
            raise PolicyError(f"{shown(written)} is not a quantity; write it like 300 tuples, 80% or 30s")
        if _TIME.fullmatch(written):
            return cls(_tidy_s(parse_duration_s(written)), "s")
        match = _QUANTITY.fullmatch(written)
        unit = _SPELLED.get(match[2], match[2]) if match else None
        if match is None or unit not in _FACTORS:
            known = "tuples, %, ms, s, m, h, B, KB, MB, GB"
            raise PolicyError(f"'{written}' is not a quantity; write a number and one of {known}")
        kind = Percent if unit == "%" and not match[3] else Quantity
        return kind(float(match[1]), unit, match[3] or "")

    @property
    def base(self) -> float:
        """In the unit in which metrics are read: rows, shares, seconds, bytes."""
        return self.amount * _FACTORS[self.unit][1] / _PER_S[self.per]

    @property
    def kind(self) -> Unit:
        """What it counts."""
        return _FACTORS[self.unit][0]

    def plain(self) -> str | int | float:
        """As written in a file."""
        if self.unit == "s" and not self.per and self.amount > 0:
            whole_ms = self.amount * 1000
            if round(whole_ms) / 1000 == self.amount <= LONGEST_MS / 1000:
                return Span(round(whole_ms)).plain()
        if self.unit == "" and not self.per:
            return int(self.amount) if self.amount == int(self.amount) else self.amount
        space = " " if self.unit == "tuples" else ""
        return f"{number_text(self.amount)}{space}{self.unit}" + (f"/{self.per}" if self.per else "")

    def __str__(self) -> str:
        return str(self.plain())

    def like(self, base: float) -> str:
        """Another value, written in this one's unit.

        >>> Quantity.parse("80%").like(0.913)
        '91.3%'
        """
        amount = base * _PER_S[self.per] / _FACTORS[self.unit][1]
        space = " " if self.unit == "tuples" else ""
        return f"{amount:.4g}{space}{self.unit}" + (f"/{self.per}" if self.per else "")


class Percent(Quantity, frozen=True):
    """Percent: of a metric, or of the current size."""


class Clock(msgspec.Struct, frozen=True, order=True):
    """A time of day, in minutes after midnight; ``24:00`` is the end of the day."""

    minute: int
    SCHEMA: ClassVar[dict[str, Any]] = {
        "type": "string",
        "pattern": r"^\s*(([01]?\d|2[0-3]):[0-5]\d|24:00)\s*$",
        "examples": ["08:00"],
    }

    @classmethod
    def parse(cls, written: object) -> Clock:
        """Read ``08:30``."""
        if isinstance(written, time) and not (
            written.second or written.microsecond
        ):  # TOML has times of its own
            written = f"{written:%H:%M}"
        match = re.fullmatch(r"\s*(\d{1,2}):(\d\d)\s*", written) if isinstance(written, str) else None
        minute = int(match[1]) * 60 + int(match[2]) if match else -1
        if match is None or int(match[2]) > 59 or minute > 1440:
            raise PolicyError(f"{shown(written)} is not a time of day; write it like 08:30")
        return cls(minute)

    def plain(self) -> str:
        """As written in a file."""
        return f"{self.minute // 60:02d}:{self.minute % 60:02d}"

    __str__ = plain


def real(written: float) -> float:
    """A number as a float; whole numbers in files may be longer than any float."""
    try:
        return float(written)
    except OverflowError:
        raise PolicyError("a number of more than 300 digits; nothing is that large") from None


def _tidy_s(seconds: float) -> float:
    """9 · 0.001 is not quite 0.009."""
    return round(seconds * 1000) / 1000 if abs(seconds * 1000 - round(seconds * 1000)) < 1e-9 else seconds


def shown(written: object) -> str:
    """What a person wrote, for a message: as files have it, not as Python does.

    >>> shown("x"), shown(True), shown(time(8, 30)), shown([1])
    ("'x'", 'true', '08:30:00', 'a list')
    """
    if isinstance(written, str):
        return f"'{written}'"
    if isinstance(written, bool):
        return str(written).lower()
    if isinstance(written, int) and written.bit_length() > 1000:
        return "a number of hundreds of digits"
    if isinstance(written, date | time):
        return written.isoformat()
    if isinstance(written, Mapping):
        return "a table"
    if isinstance(written, list | tuple):
        return "a list"
    return "nothing" if written is None else repr(written)
