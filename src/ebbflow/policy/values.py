"""The scalar values of a policy. Each is written as one word or number.

===============  =====================================================  =====================
value            in a file                                              in Python
===============  =====================================================  =====================
``Span``         ``30s``, ``1m30s``                                     ``seconds(30)``
``Quantity``     ``300 rows``, ``80%``, ``64MB``, ``5 rows/s``      ``rows(300)``
``StepSize``     ``1``, ``x2``, ``25%``                                 ``absolute(1)``
``Limit``        ``8``, ``x2`` (times the original size)                ``nodes(8)``
``Measure``      ``mean over 1m``, ``p95 over 5m``                      ``mean_over(…)``
``Occurrences``  ``4 of 5``                                             ``in_at_least(…)``
``TimeOfDay``    ``08:30``                                              ``"08:30"``
===============  =====================================================  =====================

Each class has ``parse``, which reads the form of a file, ``plain``, which writes it, and ``SCHEMA``, its JSON Schema.
They round-trip: ``parse(value.plain()) == value``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import date, time
from decimal import Decimal
from enum import StrEnum
from typing import Any, ClassVar

import msgspec

from ebbflow.core.duration import parse_duration_s
from ebbflow.core.metrics import Unit
from ebbflow.errors import DurationError, PolicyError

LONGEST_MS = 366 * 86_400_000
LARGEST_SIZE = 1_000_000_000
"""A step, limit or size above this is taken for a typing error."""
MOST_TIMES = MOST_PERCENT = 1000
MOST_READINGS = 100_000

# Patterns of numbers within their bounds, for schemas.
_PLAIN = r"-?\d+(?:\.\d+)?"
_ZERO = r"0+(\.0+)?"
_TO_1000 = r"0*(1000(\.0+)?|\d{1,3}(\.\d+)?)"
_TO_BILLION = r"0*(1000000000(\.0+)?|\d{1,9}(\.\d+)?)"
_SIZE = r"0*(1000000000|[1-9]\d{0,8})"
_NUMBER = r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
_SPAN = r"(?!(?:\s*0+(?:\.0+)?\s*(?:ms|s|m|h|d))+\s*$)\s*(?:\d+(?:\.\d+)?\s*(?:ms|s|m|h|d)\s*)+"
"""A duration other than 0."""


# -- text and numbers ----------------------------------------------------------------------------------


def number_text(value: float) -> str:
    """The shortest text of a number that loses nothing.

    >>> number_text(300.0), number_text(0.5)
    ('300', '0.5')
    """
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


def _without_exponent(value: float) -> str:
    """The same, for values whose written form has no exponent.

    >>> _without_exponent(2.0), _without_exponent(1e-7)
    ('2', '0.0000001')
    """
    return str(int(value)) if value == int(value) else f"{Decimal(repr(value)):f}"


def to_float(written: float) -> float:
    """A number as a float. Integers in files may exceed the range of floats."""
    try:
        return float(written)
    except OverflowError:
        raise PolicyError("the number has more than 300 digits; write a smaller one") from None


def quoted(written: object) -> str:
    """A value from a file as error messages show it: in the notation of the file, not of Python.

    >>> quoted("x"), quoted(True), quoted(time(8, 30)), quoted([1])
    ("'x'", 'true', '08:30:00', 'a list')
    """
    if isinstance(written, str):
        return f"'{written}'"
    if isinstance(written, bool):
        return str(written).lower()
    if isinstance(written, int) and written.bit_length() > 1000:
        return "a number with hundreds of digits"
    if isinstance(written, date | time):
        return written.isoformat()
    if isinstance(written, Mapping):
        return "a table"
    if isinstance(written, list | tuple):
        return "a list"
    return "nothing" if written is None else repr(written)


# -- time ----------------------------------------------------------------------------------------------


class Span(msgspec.Struct, frozen=True, order=True):
    """A duration in whole milliseconds.

    >>> str(Span.parse("90s")), Span.parse("1m30s").seconds, str(Span(1500))
    ('1m30s', 90.0, '1.5s')
    """

    ms: int
    SCHEMA: ClassVar[dict[str, Any]] = {
        "type": "string",
        "pattern": rf"^{_SPAN}$",
        "examples": ["30s", "5m", "1h30m"],
    }

    def __post_init__(self) -> None:
        if not 1 <= self.ms <= LONGEST_MS:
            raise PolicyError(
                f"invalid duration {self.ms / 1000:g} s; write 1ms to 366d, for example 30s or 5m"
            )

    @classmethod
    def of_seconds(cls, seconds: float) -> Span:
        """A duration in seconds, in whole milliseconds."""
        if not math.isfinite(seconds) or abs(seconds * 1000 - round(seconds * 1000)) > 1e-6:
            raise PolicyError(
                f"invalid duration {seconds} s; write whole milliseconds, for example 30s or 250ms"
            )
        return cls(round(seconds * 1000))

    @classmethod
    def parse(cls, written: object) -> Span:
        """Read ``30s``."""
        if not isinstance(written, str):
            raise PolicyError(f"{quoted(written)} is not a duration; add a unit, for example 30s or 5m")
        try:
            return cls.of_seconds(parse_duration_s(written))
        except DurationError as error:
            raise PolicyError(str(error)) from None

    @property
    def seconds(self) -> float:
        """The duration in seconds."""
        return self.ms / 1000

    def plain(self) -> str:
        """The form of a file."""
        text, left = "", self.ms
        for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000)):
            count, left = divmod(left, size)
            text += f"{count}{unit}" if count else ""
        if left >= 1000:
            return f"{text}{_without_exponent(left / 1000)}s"
        return text + (f"{left}ms" if left else "")

    __str__ = plain


class TimeOfDay(msgspec.Struct, frozen=True, order=True):
    """A time of day in minutes after midnight; ``24:00`` is the end of the day."""

    minute: int
    SCHEMA: ClassVar[dict[str, Any]] = {
        "type": "string",
        "pattern": r"^\s*(([01]?\d|2[0-3]):[0-5]\d|24:00)\s*$",
        "examples": ["08:00"],
    }

    @classmethod
    def parse(cls, written: object) -> TimeOfDay:
        """Read ``08:30``, or a TOML local time."""
        if isinstance(written, time) and not (written.second or written.microsecond):
            written = f"{written:%H:%M}"
        match = re.fullmatch(r"\s*(\d{1,2}):(\d\d)\s*", written) if isinstance(written, str) else None
        minute = int(match[1]) * 60 + int(match[2]) if match else -1
        if match is None or int(match[2]) > 59 or minute > 1440:
            raise PolicyError(f"{quoted(written)} is not a time of day; write, for example, 08:30")
        return cls(minute)

    def plain(self) -> str:
        """The form of a file."""
        return f"{self.minute // 60:02d}:{self.minute % 60:02d}"

    __str__ = plain


# -- quantities ----------------------------------------------------------------------------------------

_FACTORS: dict[str, tuple[Unit, float]] = {
    "rows": (Unit.ROWS, 1.0),
    "%": (Unit.SHARE, 0.01),
    "s": (Unit.SECONDS, 1.0),
    "B": (Unit.BYTES, 1.0),
    "KB": (Unit.BYTES, 1024.0),
    "MB": (Unit.BYTES, 1024.0**2),
    "GB": (Unit.BYTES, 1024.0**3),
    "": (Unit.COUNT, 1.0),
}
_SYNONYMS = {"row": "rows", "tuples": "rows", "tuple": "rows", "percent": "%", "bytes": "B"}
_PER_S = {"": 1.0, "s": 1.0, "min": 60.0, "h": 3600.0}
_QUANTITY = re.compile(rf"\s*({_NUMBER})\s*([A-Za-z%]*)\s*(?:/\s*(s|min|h))?\s*")
_TIME = re.compile(r"(\s*\d+(?:\.\d+)?\s*(?:ms|s|m|h|d))+\s*")


class Quantity(msgspec.Struct, frozen=True):
    """A number with its unit, optionally per time. 1 MB is 1024 · 1024 bytes, as in Spark.

    >>> Quantity.parse("80%").base, Quantity.parse("64MB").base, Quantity.parse("300 rows/min").base
    (0.8, 67108864.0, 5.0)
    """

    amount: float
    unit: str
    per: str = ""
    SCHEMA: ClassVar[dict[str, Any]] = {
        "type": ["string", "number"],
        "pattern": rf"^(?:\s*{_NUMBER}\s*(?:{'|'.join([*_FACTORS, *_SYNONYMS])})\s*(?:/\s*(?:s|min|h))?\s*"
        rf"|{_TIME.pattern})$",
        "examples": ["300 rows", "80%", "30s", "64MB", "5 rows/s"],
    }

    def __post_init__(self) -> None:
        if not math.isfinite(self.amount):
            raise PolicyError(f"invalid number {self.amount}; write a finite one, for example 300")

    @classmethod
    def parse(cls, written: object) -> Quantity:
        """Read ``300 rows``."""
        if isinstance(written, int | float) and not isinstance(written, bool):
            return cls(to_float(written), "")
        if not isinstance(written, str):
            raise PolicyError(
                f"{quoted(written)} is not a quantity; write, for example, 300 rows, 80% or 30s"
            )
        if _TIME.fullmatch(written):
            return cls(_rounded_to_ms(parse_duration_s(written)), "s")
        match = _QUANTITY.fullmatch(written)
        unit = _SYNONYMS.get(match[2], match[2]) if match else None
        if match is None or unit not in _FACTORS:
            known = "rows, %, ms, s, m, h, B, KB, MB or GB"
            raise PolicyError(f"'{written}' is not a quantity; write a number and a unit: {known}")
        kind = Percent if unit == "%" and not match[3] else Quantity
        return kind(float(match[1]), unit, match[3] or "")

    @property
    def base(self) -> float:
        """The value in the unit of the readings: rows, shares, seconds or bytes, per second for a rate."""
        return self.amount * _FACTORS[self.unit][1] / _PER_S[self.per]

    @property
    def kind(self) -> Unit:
        """The unit of the readings."""
        return _FACTORS[self.unit][0]

    def plain(self) -> str | int | float:
        """The form of a file."""
        if self.unit == "s" and not self.per and self.amount > 0:
            whole_ms = self.amount * 1000
            if round(whole_ms) / 1000 == self.amount <= LONGEST_MS / 1000:
                return Span(round(whole_ms)).plain()
        if self.unit == "" and not self.per:
            return int(self.amount) if self.amount == int(self.amount) else self.amount
        return self._with_unit(number_text(self.amount))

    def __str__(self) -> str:
        return str(self.plain())

    def like(self, base: float) -> str:
        """Another value in the unit of this one.

        >>> Quantity.parse("80%").like(0.913)
        '91.3%'
        """
        return self._with_unit(f"{base * _PER_S[self.per] / _FACTORS[self.unit][1]:.4g}")

    def _with_unit(self, amount: str) -> str:
        unit = self.unit if self.unit != "rows" else " row" if amount == "1" else " rows"
        return f"{amount}{unit}" + (f"/{self.per}" if self.per else "")


class Percent(Quantity, frozen=True):
    """Percent: of a metric, or as a step of the current size."""


def _rounded_to_ms(seconds: float) -> float:
    """Undo rounding errors: 9 · 0.001 is not quite 0.009."""
    return round(seconds * 1000) / 1000 if abs(seconds * 1000 - round(seconds * 1000)) < 1e-9 else seconds


# -- sizes ---------------------------------------------------------------------------------------------


class StepSize(msgspec.Struct, frozen=True):
    """The size of one scaling action: ``1`` adds or removes one, ``x2`` multiplies or divides, ``25%`` of the size.

    A percent step is rounded towards 0, as on AWS; a division is rounded up, so that no more is removed than
    requested. Every step changes the size by at least 1.

    >>> [StepSize.parse(s).from_size(5, out=True) for s in (1, "x2", "25%", "40%")]
    [6, 10, 6, 7]
    >>> [StepSize.parse(s).from_size(5, out=False) for s in (1, "x2", "25%", "40%")]
    [4, 3, 4, 3]
    """

    kind: str
    amount: float
    SCHEMA: ClassVar[dict[str, Any]] = {
        "anyOf": [
            {"type": "integer", "minimum": 1, "maximum": LARGEST_SIZE},
            {
                "type": "string",
                # excludes x1 and x0.5, which would not change the size in the direction of the rule
                "pattern": rf"^(?!\s*x\s*0*(0(\.\d+)?|1(\.0*)?)\s*$)(?!\s*{_ZERO}\s*%)\s*"
                rf"(x\s*{_TO_1000}|{_TO_1000}\s*%|{_SIZE})\s*$",
            },
        ],
        "examples": [1, "x2", "25%"],
    }

    def __post_init__(self) -> None:
        if self.kind == "absolute" and not (
            1 <= self.amount <= LARGEST_SIZE and self.amount == int(self.amount)
        ):
            right = f"from 1 to {LARGEST_SIZE}" if self.amount > LARGEST_SIZE else "of at least 1"
            raise PolicyError(f"invalid step {self.amount:g}; write a whole number {right}")
        if self.kind == "relative" and not 1 < self.amount <= MOST_TIMES:
            raise PolicyError(
                f"invalid factor {self.amount:g}; it must be above 1 and at most {MOST_TIMES}, for example x2"
            )
        if self.kind == "percent" and not 0 < self.amount <= MOST_PERCENT:
            raise PolicyError(
                f"invalid step {self.amount:g}%; it must be above 0% and at most {MOST_PERCENT}%, for example 25%"
            )

    @classmethod
    def parse(cls, written: object) -> StepSize:
        """Read ``1``, ``x2`` or ``25%``."""
        if isinstance(written, int) and not isinstance(written, bool):
            return cls("absolute", to_float(written))
        text = written if isinstance(written, str) else ""
        match = re.fullmatch(rf"\s*(x)?\s*({_PLAIN})\s*(%)?\s*", text)
        absolute = match is not None and not (match[1] or match[3])
        if match is None or (match[1] and match[3]) or (absolute and "." in match[2]):
            raise PolicyError(f"{quoted(written)} is not a step; write, for example, 1, x2 or 25%")
        kind = "relative" if match[1] else "percent" if match[3] else "absolute"
        return cls(kind, float(match[2]))

    def from_size(self, size: int, *, out: bool) -> int:
        """The size after one step, before any limit."""
        if self.kind == "absolute":
            change = int(self.amount)
        elif self.kind == "percent":
            change = max(1, math.floor(size * self.amount / 100 + 1e-9))
        elif out:
            change = max(1, math.ceil(size * self.amount - 1e-9) - size)
        else:
            change = max(1, size - math.ceil(size / self.amount - 1e-9))
        return size + change if out else size - change

    def plain(self) -> str | int:
        """The form of a file."""
        if self.kind == "absolute":
            return int(self.amount)
        number = _without_exponent(self.amount)
        return f"x{number}" if self.kind == "relative" else f"{number}%"

    def __str__(self) -> str:
        return str(self.plain())


class Limit(msgspec.Struct, frozen=True):
    """The largest or smallest size: ``8``, or ``x2`` for twice the original size."""

    amount: float
    relative: bool = False
    SCHEMA: ClassVar[dict[str, Any]] = {
        "anyOf": [
            {"type": "integer", "minimum": 1, "maximum": LARGEST_SIZE},
            {
                "type": "string",
                "pattern": rf"^(?!\s*x\s*{_ZERO}\s*$)\s*(x\s*{_TO_BILLION}|{_SIZE})\s*$",
            },
        ],
        "examples": [8, "x2"],
    }

    def __post_init__(self) -> None:
        if not 0 < self.amount <= LARGEST_SIZE:
            raise PolicyError(
                f"invalid limit {self.amount:g}; it must be above 0 and at most {LARGEST_SIZE}, for example 8 or x2"
            )
        if not self.relative and (self.amount < 1 or self.amount != int(self.amount)):
            raise PolicyError(f"invalid limit {self.amount:g}; write a whole number of at least 1")

    @classmethod
    def parse(cls, written: object) -> Limit:
        """Read ``8`` or ``x2``."""
        if isinstance(written, int) and not isinstance(written, bool):
            return cls(to_float(written))
        match = re.fullmatch(rf"\s*(x)?\s*({_PLAIN})\s*", written) if isinstance(written, str) else None
        if match is None or not (match[1] or "." not in match[2]):
            raise PolicyError(f"{quoted(written)} is not a limit; write 8, or x2 for twice the original size")
        return cls(float(match[2]), bool(match[1]))

    def size(self, original: int, *, most: bool) -> int:
        """The limit in instances or nodes, at least 1; rounded down for an upper limit, up for a lower one."""
        if not self.relative:
            return int(self.amount)
        exact = self.amount * original
        return max(1, math.floor(exact + 1e-9) if most else math.ceil(exact - 1e-9))

    def plain(self) -> str | int:
        """The form of a file."""
        return f"x{_without_exponent(self.amount)}" if self.relative else int(self.amount)

    def __str__(self) -> str:
        return str(self.plain())


# -- measures ------------------------------------------------------------------------------------------


class MeasureKind(StrEnum):
    """What a threshold is compared with: each reading, or a statistic of the latest readings."""

    EACH = "each reading"
    MEAN = "mean"
    PERCENTILE = "percentile"
    RATE = "rate of change"
    FORECAST = "forecast"


class Measure(msgspec.Struct, frozen=True):
    """The statistic of a metric that is compared with the threshold.

    >>> [Measure.parse(t).kind.value for t in ("mean over 1m", "p95 over 5m", "forecast 2m ahead")]
    ['mean', 'percentile', 'forecast']
    """

    kind: MeasureKind = MeasureKind.EACH
    span: Span | None = None
    percentile: float = 0.0
    SCHEMA: ClassVar[dict[str, Any]] = {
        "type": "string",
        "pattern": rf"^\s*(each\s+reading|(mean|p(?!{_ZERO}\s)0*\d{{1,2}}(\.\d+)?|rate\s+of\s+change)\s+over\s+"
        rf"{_SPAN}|forecast\s+{_SPAN.replace('$', 'ahead')}\s+ahead\s*)$",
        "examples": ["mean over 1m", "p95 over 5m", "rate of change over 1m", "forecast 5m ahead"],
    }

    def __post_init__(self) -> None:
        if self.kind is MeasureKind.PERCENTILE and not 0 < self.percentile < 100:
            raise PolicyError(f"invalid percentile {self.percentile:g}; it must be above 0 and below 100")

    @classmethod
    def parse(cls, written: object) -> Measure:
        """Read ``mean over 1m``."""
        text = " ".join(written.split()) if isinstance(written, str) else ""
        if text == MeasureKind.EACH.value:
            return cls()
        match = re.fullmatch(r"(mean|rate of change|p\d+(?:\.\d+)?) over (.+)|forecast (.+) ahead", text)
        if match is None:
            raise PolicyError(
                f"{quoted(written)} is not a measure; write, for example, mean over 1m, p95 over 5m, "
                "rate of change over 1m or forecast 5m ahead"
            )
        if match[3]:
            return cls(MeasureKind.FORECAST, Span.parse(match[3]))
        if match[1][0] == "p":
            return cls(MeasureKind.PERCENTILE, Span.parse(match[2]), float(match[1][1:]))
        return cls(MeasureKind(match[1]), Span.parse(match[2]))

    def plain(self) -> str:
        """The form of a file."""
        if self.kind is MeasureKind.EACH:
            return self.kind.value
        if self.kind is MeasureKind.FORECAST:
            return f"forecast {self.span} ahead"
        what = f"p{number_text(self.percentile)}" if self.kind is MeasureKind.PERCENTILE else self.kind.value
        return f"{what} over {self.span}"

    __str__ = plain


class Occurrences(msgspec.Struct, frozen=True):
    """In how many of the latest readings a condition must hold: ``4 of 5``."""

    times: int
    of: int
    SCHEMA: ClassVar[dict[str, Any]] = {
        "type": "string",
        "pattern": r"^\s*0*[1-9]\d{0,5}\s+of\s+0*[1-9]\d{0,5}\s*$",
        "examples": ["4 of 5"],
    }

    def __post_init__(self) -> None:
        if not 1 <= self.times <= self.of <= MOST_READINGS:
            if self.times < 1:
                right = "the first number must be at least 1"
            elif self.times > self.of:
                right = f"write at most {self.of} of {self.of}"
            else:
                right = f"the second number must be at most {MOST_READINGS}"
            raise PolicyError(f"invalid count of readings {self.times} of {self.of}; {right}")

    @classmethod
    def parse(cls, written: object) -> Occurrences:
        """Read ``4 of 5``."""
        text = written if isinstance(written, str) else ""
        match = re.fullmatch(r"\s*0*(\d{1,6})\s+of\s+0*(\d{1,6})\s*", text)
        if match is None:
            raise PolicyError(f"{quoted(written)} is not a count of readings; write, for example, 4 of 5")
        return cls(int(match[1]), int(match[2]))

    def plain(self) -> str:
        """The form of a file."""
        return f"{self.times} of {self.of}"

    __str__ = plain
