"""The arguments of load shapes, declared once on the field for parsing, checking and formatting.

::

    period_s: Annotated[float, PERIOD("period", "length of one cycle")]

declares that the field ``period_s`` is written ``period=10m`` in an expression, and which values are valid.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, get_type_hints

from ebbflow.core.duration import format_duration, parse_duration_s
from ebbflow.errors import LoadError

_NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)(e[-+]?\d+)?", re.IGNORECASE | re.ASCII)
BARE_WORD = re.compile(r"[\w./\\:~-]+")
"""Text that needs no quotes: names, numbers, durations, and files without spaces or commas."""
MAX_ROWS_PER_S = 1e12
"""A higher rate is a typing error, and sums of such rates could overflow a float."""
MIN_PERIOD_S = 0.001


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A type of argument: what is expected, in words, and how to parse, check and format a value."""

    expected: str
    parse: Callable[[str], Any]
    """From text; raises ``ValueError`` for invalid text."""
    accepts: Callable[[Any], bool]
    format: Callable[[Any], str]

    def __call__(self, name: str, meaning: str) -> Argument:
        """Declare an argument of this kind."""
        return Argument(name=name, meaning=meaning, kind=self)


@dataclass(frozen=True, kw_only=True)
class Argument:
    """The annotation of a field: its name in an expression, its meaning and its kind."""

    name: str
    meaning: str
    kind: Kind


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """An argument of a shape together with the field that holds it and its default."""

    argument: Argument
    field: str
    default: Any

    @property
    def name(self) -> str:
        """As written in an expression."""
        return self.argument.name

    @property
    def required(self) -> bool:
        """Whether it has no default."""
        return self.default is dataclasses.MISSING

    def parse(self, shape: str, text: str) -> Any:
        """The value of a text; ``LoadError`` if it is invalid."""
        try:
            value = self.argument.kind.parse(text)
        except ValueError:
            raise self._invalid(shape, f"'{text}'") from None
        self.check(shape, value)
        return value

    def check(self, shape: str, value: Any) -> None:
        """Raise ``LoadError`` if the value is invalid. None is valid where it is the default."""
        if value is None and self.default is None:
            return
        kind = self.argument.kind
        try:
            valid = kind.accepts(value)
        except (TypeError, ValueError):
            valid = False
        if not valid:
            shown = kind.format(value) if isinstance(value, int | float) else repr(value)
            raise self._invalid(shape, shown)

    def _invalid(self, shape: str, shown: str) -> LoadError:
        return LoadError(f"{self.name} of {shape} is {shown}; it must be {self.argument.kind.expected}")


@functools.cache
def parameters_of(shape: type) -> tuple[Parameter, ...]:
    """The parameters of a shape, in the order of positional arguments."""
    hints = get_type_hints(shape, include_extras=True)
    found = []
    for field in dataclasses.fields(shape):
        for note in getattr(hints[field.name], "__metadata__", ()):
            if isinstance(note, Argument):
                found.append(Parameter(argument=note, field=field.name, default=field.default))
    return tuple(found)


def parse_number(text: str) -> float:
    """Parse a decimal number. Rejects the other forms that ``float`` accepts, such as ``1_000`` and ``nan``.

    >>> parse_number("1e3"), parse_number("-.5")
    (1000.0, -0.5)
    """
    if _NUMBER.fullmatch(text) is None:
        raise ValueError(text)
    return float(text)


def format_number(number: float) -> str:
    """The shortest text that parses to the same number.

    >>> format_number(100.0), format_number(0.1), format_number(1e22)
    ('100', '0.1', '1e22')
    """
    return repr(float(number)).removesuffix(".0").replace("e+", "e")


def format_exact_duration(seconds: float) -> str:
    """A duration that parses to the same number of seconds, in the usual short form where that is exact.

    >>> format_exact_duration(600.0), format_exact_duration(5400.0), format_exact_duration(12.3456)
    ('10m', '1h30m', '12.3456s')
    """
    if not math.isfinite(seconds):
        return f"{seconds}s"
    short = format_duration(seconds)
    if seconds > 0 and parse_duration_s(short) == seconds:
        return short
    digits = format(Decimal(repr(float(seconds))), "f").removesuffix(".0")
    return f"{digits}s"


def quote(text: str) -> str:
    """The text as it is written in an expression: bare if possible, else in quotes with inner quotes doubled.

    >>> quote("loads/day-1.csv.gz"), quote("two words, more")
    ('loads/day-1.csv.gz', '"two words, more"')
    """
    return text if BARE_WORD.fullmatch(text) else '"' + text.replace('"', '""') + '"'


def _parse_flag(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(text)
    return text == "true"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _number_kind(expected: str, accepts: Callable[[float], bool]) -> Kind:
    return Kind(
        expected=expected,
        parse=parse_number,
        accepts=lambda v: _is_number(v) and accepts(v),
        format=format_number,
    )


def _integer_kind(expected: str, low: int, high: int) -> Kind:
    return Kind(
        expected=expected,
        parse=int,
        accepts=lambda v: isinstance(v, int) and not isinstance(v, bool) and low <= v <= high,
        format=str,
    )


def _duration_kind(expected: str, shortest_s: float) -> Kind:
    return Kind(
        expected=expected,
        parse=parse_duration_s,
        accepts=lambda v: _is_number(v) and v >= shortest_s,
        format=format_exact_duration,
    )


def choice(*names: str) -> Kind:
    """A kind that accepts one of a few words."""
    expected = f"{', '.join(names[:-1])} or {names[-1]}"
    return Kind(expected=expected, parse=str, accepts=lambda v: v in names, format=str)


RATE = _number_kind("rows per second, a number from 0 to 1e12, like 100", lambda v: 0 <= v <= MAX_ROWS_PER_S)
FACTOR = _number_kind("a number above 0, at most 1e9, like 60", lambda v: 0 < v <= 1e9)
SHARE = _number_kind("a share above 0 and below 1, like 0.5", lambda v: 0 < v < 1)
SPREAD = _number_kind("a spread from 0 to 10, like 0.1", lambda v: 0 <= v <= 10)
PERIOD = _duration_kind("a duration of at least 1ms, like 500ms, 30s, 10m or 1h30m", MIN_PERIOD_S)
MOMENT = _duration_kind("a duration of 0s or more, like 30s, 10m or 1h30m", 0.0)
COUNT = _integer_kind("a whole number from 1 to 1000, like 4", 1, 1000)
SEED = _integer_kind("a whole number from 0 to 2^63 - 1, like 3", 0, 2**63 - 1)
FLAG = Kind(
    expected="true or false",
    parse=_parse_flag,
    accepts=lambda v: isinstance(v, bool),
    format=lambda v: str(v).lower(),
)
FILE = Kind(
    expected="the name of a file",
    parse=str,
    accepts=lambda v: isinstance(v, str) and v != "",
    format=quote,
)
