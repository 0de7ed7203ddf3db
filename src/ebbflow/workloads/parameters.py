"""The arguments of load shapes: declared once, beside the field, for reading, checking and writing.

::

    period_s: Annotated[float, PERIOD("period", "from trough to trough")]

says that the field ``period_s`` is written ``period=10m`` in an expression, and what it may be.
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
MOST_ROWS_PER_S = 1e12
"""Above this a rate is a slip of the pen, and sums of rates could leave the range of a float."""
SHORTEST_S = 0.001


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One sort of argument: what it must be in words, and how it is read, checked and written."""

    must: str
    read: Callable[[str], Any]
    """From text; ``ValueError`` where the text cannot be meant."""
    fits: Callable[[Any], bool]
    write: Callable[[Any], str]

    def __call__(self, name: str, meaning: str) -> Argument:
        """Declare an argument of this kind."""
        return Argument(name=name, meaning=meaning, kind=self)


@dataclass(frozen=True, kw_only=True)
class Argument:
    """What stands in the annotation of a field: its name in an expression, what it means, its kind."""

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

    def read(self, shape: str, text: str) -> Any:
        """The value a text stands for; ``LoadError`` where it does not fit."""
        try:
            value = self.argument.kind.read(text)
        except ValueError:
            raise self._misfit(shape, f"'{text}'") from None
        self.check(shape, value)
        return value

    def check(self, shape: str, value: Any) -> None:
        """Raise ``LoadError`` unless the value fits; None fits where it is the default."""
        if value is None and self.default is None:
            return
        kind = self.argument.kind
        try:
            fits = kind.fits(value)
        except (TypeError, ValueError):
            fits = False
        if not fits:
            shown = kind.write(value) if isinstance(value, int | float) else repr(value)
            raise self._misfit(shape, shown)

    def _misfit(self, shape: str, shown: str) -> LoadError:
        return LoadError(f"{self.name} of {shape} is {shown}; it must be {self.argument.kind.must}")


@functools.cache
def parameters_of(shape: type) -> tuple[Parameter, ...]:
    """The parameters of a shape, in the order in which they may be given without a name."""
    hints = get_type_hints(shape, include_extras=True)
    found = []
    for field in dataclasses.fields(shape):
        for note in getattr(hints[field.name], "__metadata__", ()):
            if isinstance(note, Argument):
                found.append(Parameter(argument=note, field=field.name, default=field.default))
    return tuple(found)


def read_number(text: str) -> float:
    """A number the way people and ``repr`` write it; nothing else that ``float`` would take.

    >>> read_number("1e3"), read_number("-.5")
    (1000.0, -0.5)
    """
    if _NUMBER.fullmatch(text) is None:
        raise ValueError(text)
    return float(text)


def write_number(number: float) -> str:
    """The shortest text that reads back as the same number.

    >>> write_number(100.0), write_number(0.1), write_number(1e22)
    ('100', '0.1', '1e22')
    """
    return repr(float(number)).removesuffix(".0").replace("e+", "e")


def write_duration(seconds: float) -> str:
    """A duration that reads back as the same number of seconds, as short as people write it if it can be.

    >>> write_duration(600.0), write_duration(5400.0), write_duration(12.3456)
    ('10m', '1h30m', '12.3456s')
    """
    if not math.isfinite(seconds):
        return f"{seconds}s"
    short = format_duration(seconds)
    if seconds > 0 and parse_duration_s(short) == seconds:
        return short
    digits = format(Decimal(repr(float(seconds))), "f").removesuffix(".0")
    return f"{digits}s"


def write_text(text: str) -> str:
    """Bare if it can stand so, else in quotes, with inner quotes doubled.

    >>> write_text("loads/day-1.csv.gz"), write_text("two words, more")
    ('loads/day-1.csv.gz', '"two words, more"')
    """
    return text if BARE_WORD.fullmatch(text) else '"' + text.replace('"', '""') + '"'


def _read_flag(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(text)
    return text == "true"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_whole(value: Any, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _number_kind(must: str, fits: Callable[[float], bool]) -> Kind:
    return Kind(must=must, read=read_number, fits=lambda v: _is_number(v) and fits(v), write=write_number)


def _duration_kind(must: str, shortest_s: float) -> Kind:
    return Kind(
        must=must,
        read=parse_duration_s,
        fits=lambda v: _is_number(v) and v >= shortest_s,
        write=write_duration,
    )


def choice(*names: str) -> Kind:
    """A kind that is one of a few words."""
    must = f"{', '.join(names[:-1])} or {names[-1]}"
    return Kind(must=must, read=str, fits=lambda v: v in names, write=str)


RATE = _number_kind("rows per second, a number from 0 to 1e12, like 100", lambda v: 0 <= v <= MOST_ROWS_PER_S)
FACTOR = _number_kind("a number above 0, at most 1e9, like 60", lambda v: 0 < v <= 1e9)
SHARE = _number_kind("a share above 0 and below 1, like 0.5", lambda v: 0 < v < 1)
SPREAD = _number_kind("a spread from 0 to 10, like 0.1", lambda v: 0 <= v <= 10)
PERIOD = _duration_kind("a duration of at least 1ms, like 500ms, 30s, 10m or 1h30m", SHORTEST_S)
MOMENT = _duration_kind("a duration from 0s up, like 30s, 10m or 1h30m", 0.0)
COUNT = Kind(
    must="a whole number from 1 to 1000, like 4",
    read=int,
    fits=lambda v: _is_whole(v, 1, 1000),
    write=str,
)
SEED = Kind(
    must="a whole number from 0 up, below 2^63, like 3",
    read=int,
    fits=lambda v: _is_whole(v, 0, 2**63 - 1),
    write=str,
)
FLAG = Kind(
    must="true or false", read=_read_flag, fits=lambda v: isinstance(v, bool), write=lambda v: str(v).lower()
)
FILE = Kind(
    must="the name of a file",
    read=str,
    fits=lambda v: isinstance(v, str) and v != "",
    write=write_text,
)
