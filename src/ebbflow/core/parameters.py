"""Parameters that people can set, declared beside the constructor argument they describe.

::

    class Mine(Strategy):
        def __init__(
            self,
            *,
            headroom: Annotated[float, Number("Spare capacity, as a share of the load.", at_least=0)] = 0.2,
            hold_in_s: Annotated[float, Duration("How long to wait before scaling in.")] = 10.0,
        ) -> None: ...

The signature holds the name, the type and the default; the note holds the bounds and one sentence. From there come
the key in ``ebbflow.toml``, the environment variable, the Spark setting and the reference page (``ebbflow.options``),
and the expression ``mine(headroom=0.5, hold_in=1m)``.

A duration has no suffix in its key: ``hold_in_s`` is in seconds in Python and ``hold_in = "10s"`` elsewhere. The shapes
of loads declare their arguments in the same way (``workloads.shapes``). Arguments without a note are taken as they are
if they have a default of a plain type and no other argument has a note.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_type_hints

from ebbflow.core.duration import format_duration, parse_duration_s, parse_seconds
from ebbflow.errors import InputError

_NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)(e[-+]?\d+)?", re.IGNORECASE | re.ASCII)
_MOST_DIGITS = 20


class Kind:
    """One kind of value: how it is read, checked and written."""

    type_name = "text"
    unit = ""
    suffix = ""
    """What the key of an argument leaves out of its name."""

    def __init__(self, meaning: str, *, unset: str = "", key: str = "") -> None:
        """``unset``: for people, what is in force if the default is None. ``key``: if it does not follow the name."""
        self.meaning = meaning
        self.unset = unset
        self.key = key

    @property
    def bounds(self) -> str:
        """The allowed values in words; empty without a limit."""
        return ""

    @property
    def must(self) -> str:
        """What a value must be."""
        return "text"

    def parse(self, text: str) -> Any:
        """The value that a text stands for. Raises ``ValueError`` if it is invalid."""
        return self.accept(text)

    def accept(self, value: Any) -> Any:
        """The value that a TOML or Python value stands for. Raises ``ValueError`` if it is invalid."""
        if not isinstance(value, str):
            raise ValueError(value)
        return value

    def write(self, value: Any) -> str:
        """Text that ``parse`` reads back."""
        return str(value)


class Number(Kind):
    """A number within bounds.

    >>> Number("", above=0, at_most=1).must
    'a number above 0 and at most 1'
    """

    type_name = "number"

    def __init__(
        self,
        meaning: str,
        *,
        above: float | None = None,
        at_least: float | None = None,
        below: float | None = None,
        at_most: float | None = None,
        unit: str = "",
        unset: str = "",
    ) -> None:
        super().__init__(meaning, unset=unset)
        self.unit = unit
        self._above, self._at_least, self._below, self._at_most = above, at_least, below, at_most

    @property
    def bounds(self) -> str:
        """The bounds in words; empty without any."""
        named = {
            "above": self._above, "at least": self._at_least, "below": self._below, "at most": self._at_most,
        }  # fmt: skip
        return " and ".join(f"{name} {self._show(b)}" for name, b in named.items() if b is not None)

    @property
    def must(self) -> str:
        """What a value must be."""
        return f"a {self.type_name} {self.bounds}".rstrip()

    def _show(self, bound: float) -> str:
        return f"{bound:g}"

    def parse(self, text: str) -> Any:
        """The number; nothing else that ``float`` would take."""
        if _NUMBER.fullmatch(text.strip()) is None:
            raise ValueError(text)
        return self.accept(float(text))

    def accept(self, value: Any) -> Any:
        """The number, if it is within the bounds."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(value)
        return float(self._checked(value))

    def _checked(self, number: float) -> float:
        inside = (
            (isinstance(number, int) or math.isfinite(number))
            and (self._above is None or number > self._above)
            and (self._at_least is None or number >= self._at_least)
            and (self._below is None or number < self._below)
            and (self._at_most is None or number <= self._at_most)
        )
        if not inside:
            raise ValueError(number)
        return number

    def write(self, value: Any) -> str:
        """The shortest text that reads back as the same number.

        >>> Number("").write(100), Number("").write(1e22)
        ('100', '1e22')
        """
        return repr(float(value)).removesuffix(".0").replace("e+", "e")


class Share(Number):
    """A number above 0 and at most 1."""

    def __init__(self, meaning: str, *, unset: str = "") -> None:
        super().__init__(meaning, above=0.0, at_most=1.0, unit="share", unset=unset)


class Whole(Number):
    """A whole number within bounds.

    >>> Whole("", at_least=1).must
    'a whole number at least 1'
    """

    type_name = "whole number"

    def parse(self, text: str) -> Any:
        """The number."""
        if not re.fullmatch(r"[-+]?\d+", text.strip()) or len(text) > _MOST_DIGITS:
            raise ValueError(text)
        return self.accept(int(text))

    def accept(self, value: Any) -> Any:
        """The number, if it is whole and within the bounds."""
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(value)
        self._checked(value)
        return value

    def write(self, value: Any) -> str:
        """Its digits."""
        return str(value)


class Duration(Number):
    """A duration like ``30s`` or ``1h30m``; a bare number is seconds. Its value is in seconds.

    >>> Duration("").parse("1m"), Duration("").accept(2.5)
    (60.0, 2.5)
    """

    type_name = "duration"
    unit = "s"
    suffix = "_s"

    def __init__(self, meaning: str, *, above: float | None = None, at_least: float | None = None) -> None:
        if above is None and at_least is None:
            at_least = 0.0
        super().__init__(meaning, above=above, at_least=at_least, unit="s")

    @property
    def must(self) -> str:
        """What a value must be."""
        return f"{super().must}, like 500ms, 30s or 5m"

    def _show(self, bound: float) -> str:
        return "0s" if bound == 0 else format_duration(bound)

    def parse(self, text: str) -> Any:
        """Seconds."""
        return self.accept(text)

    def accept(self, value: Any) -> Any:
        """Seconds."""
        return super().accept(parse_seconds(value) if isinstance(value, str) else value)

    def write(self, value: Any) -> str:
        """A duration that reads back as the same number of seconds.

        >>> Duration("").write(600.0), Duration("").write(12.3456)
        ('10m', '12.3456s')
        """
        short = format_duration(value)
        exact = value > 0 and parse_duration_s(short) == value
        return short if exact else f"{format(Decimal(repr(float(value))), 'f').removesuffix('.0')}s"


class Flag(Kind):
    """True or false."""

    type_name = "flag"
    must = "true or false"

    def parse(self, text: str) -> Any:
        """``true`` or ``false``."""
        if text.strip().lower() not in ("true", "false"):
            raise ValueError(text)
        return text.strip().lower() == "true"

    def accept(self, value: Any) -> Any:
        """The flag."""
        if not isinstance(value, bool):
            raise ValueError(value)
        return value

    def write(self, value: Any) -> str:
        """``true`` or ``false``."""
        return str(value).lower()


class Choice(Kind):
    """One of several names. ``aliases``: other names for some of them.

    >>> kind = Choice("", ("static", "relative"), aliases={"queue-aware": "relative"})
    >>> kind.parse("queue-aware"), kind.must
    ('relative', 'one of static, relative')
    """

    type_name = "name"

    def __init__(
        self, meaning: str, names: Sequence[str], *, aliases: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(meaning)
        self.names = tuple(names)
        self._aliases = dict(aliases or {})

    @property
    def bounds(self) -> str:
        """The names."""
        return f"one of {', '.join(self.names)}"

    @property
    def must(self) -> str:
        """What a value must be."""
        return self.bounds

    def accept(self, value: Any) -> Any:
        """The name, or the one that an alias stands for."""
        name = super().accept(value).strip()
        name = self._aliases.get(name, name)
        if name not in self.names:
            raise ValueError(value)
        return name


class File(Kind):
    """The name of a file or folder; in Python also a path, or an object in its place."""

    type_name = "file"

    def __init__(self, meaning: str, *objects: type, what: str = "file", unset: str = "") -> None:
        super().__init__(meaning, unset=unset)
        self._objects = objects
        self._what = what

    @property
    def must(self) -> str:
        """What a value must be."""
        names = "".join(f" or a {each.__name__} object" for each in self._objects)
        return f"the name of a {self._what}{names}"

    def accept(self, value: Any) -> Any:
        """The path, or the object."""
        if isinstance(value, (Path, *self._objects)):
            return value
        if not super().accept(value).strip():
            raise ValueError(value)
        return Path(value)

    def in_folder(self, value: Any, folder: Path) -> Any:
        """A relative path taken from a folder."""
        return folder / value if isinstance(value, Path) else value

    def write(self, value: Any) -> str:
        """The path."""
        return str(value) if isinstance(value, Path) else f"a {type(value).__name__} object"


@dataclass(frozen=True)
class Part:
    """Marks an argument whose value is a dataclass with parameters of its own; they are set like the others."""

    of: type


PYTHON_ONLY = object()
"""Marks an argument that can be given in Python only."""


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One declared argument."""

    key: str
    """As it is written in files and expressions."""
    argument: str
    """As it is called in Python."""
    kind: Kind
    default: Any
    """None if it is required."""
    required: bool = False
    part: tuple[str, type] | None = None
    """Name and class of the argument that this is a field of."""


@functools.cache
def declared(factory: Callable[..., Any]) -> dict[str, Parameter]:
    """The parameters of a class or function that can be set, by key.

    >>> def wait(*, hour: int, seconds_s: float = 3.0, tries: int = 2, on_end: object = None) -> None: ...
    >>> {key: parameter.kind.type_name for key, parameter in declared(wait).items()}
    {'hour': 'whole number', 'seconds': 'duration', 'tries': 'whole number'}
    """
    hints = _hints(factory)
    found: dict[str, Parameter] = {}
    inferred: dict[str, Parameter] = {}
    for argument in inspect.signature(factory).parameters.values():
        notes = getattr(hints.get(argument.name), "__metadata__", ())
        for note in notes:
            if isinstance(note, Part):
                for key, field in declared(note.of).items():
                    found[key] = dataclasses.replace(field, part=(argument.name, note.of))
            elif isinstance(note, Kind):
                parameter = _parameter(argument, note)
                if parameter.key in found:  # upper and upper_s, say: one of them could never be set
                    raise TypeError(f"{factory.__qualname__} declares the parameter {parameter.key} twice")
                found[parameter.key] = parameter
        kind = _inferred(argument, hints.get(argument.name))
        if not notes and kind is not None:
            parameter = _parameter(argument, kind)
            inferred[parameter.key] = parameter
    return found or inferred


def _hints(factory: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of the arguments, without those that cannot be read and declare nothing.

    A name that is imported only for type checking cannot be read. A parameter that is declared with it would be lost.
    """
    target = factory.__init__ if inspect.isclass(factory) else factory
    try:
        return get_type_hints(target, include_extras=True)
    except (NameError, TypeError):
        found: dict[str, Any] = {}
    for name, annotation in getattr(target, "__annotations__", {}).items():
        alone = SimpleNamespace(__annotations__={name: annotation})
        try:
            found |= get_type_hints(alone, getattr(target, "__globals__", {}), include_extras=True)
        except (NameError, TypeError) as error:
            if "Annotated" in str(annotation):
                raise TypeError(
                    f"{factory.__qualname__}: the annotation of {name} cannot be read: {error}; "
                    "import what it names, also at run time"
                ) from error
    return found


def _parameter(argument: inspect.Parameter, kind: Kind) -> Parameter:
    required = argument.default is inspect.Parameter.empty
    return Parameter(
        key=kind.key or argument.name.removesuffix(kind.suffix),
        argument=argument.name,
        kind=kind,
        default=None if required else argument.default,
        required=required,
    )


def _inferred(argument: inspect.Parameter, hint: Any) -> Kind | None:
    """The kind of an argument without a note, from its default; from its type if it is required."""
    required = argument.default is inspect.Parameter.empty
    given: Any = hint if required else type(argument.default)
    if given is bool:
        return Flag("")
    if given is int:
        return Whole("")
    if given is float:
        return Duration("") if argument.name.endswith("_s") else Number("")
    return Kind("") if given is str else None


def arguments(factory: Callable[..., Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments for a class or function from values by key."""
    given: dict[str, Any] = {}
    parts: dict[tuple[str, type], dict[str, Any]] = {}
    for key, parameter in declared(factory).items():
        if key not in values:
            continue
        if parameter.part is None:
            given[parameter.argument] = values[key]
        else:
            parts.setdefault(parameter.part, {})[parameter.argument] = values[key]
    for (argument, kind), fields in parts.items():
        given[argument] = kind(**fields)
    return given


def convert(label: str, kind: Kind, value: Any, *, from_text: bool) -> Any:
    """The value that ``value`` stands for. An invalid one is an error that starts with ``label``.

    >>> convert("--slack", Share(""), "7", from_text=True)
    Traceback (most recent call last):
    ...
    ebbflow.errors.InputError: --slack: 7 is invalid; it must be a number above 0 and at most 1
    """
    try:
        return kind.parse(value) if from_text else kind.accept(value)
    except InputError as error:
        raise InputError(f"{label}: {error}") from None
    except ValueError:
        shown = value if from_text and value.strip() else _shown(value)
        raise InputError(f"{label}: {shown} is invalid; it must be {kind.must}") from None


def _shown(value: Any) -> str:
    """A value as TOML and Python people write it: true, not True."""
    return str(value).lower() if isinstance(value, bool) else repr(value)


def read_arguments(what: str, factory: Callable[..., Any], written: Mapping[str, str]) -> dict[str, Any]:
    """Values by key, from the text of an expression. ``what`` names the class or function in errors."""
    known = declared(factory)
    values = {}
    for key, text in written.items():
        if key not in known:
            there = f"It has: {', '.join(known)}" if known else "It has none"
            raise InputError(f"{what} has no parameter '{key}'{meant(key, known) or '.'} {there}")
        values[key] = convert(f"{what}, {key}", known[key].kind, text, from_text=True)
    return values


def check_order(low: str, low_value: float, high: str, high_value: float) -> None:
    """Raise ``InputError`` if the lower of two parameters is above the upper one.

    >>> check_order("low", 2, "high", 1)
    Traceback (most recent call last):
    ...
    ebbflow.errors.InputError: low is 2 and high is 1; low must be at most high
    """
    if low_value > high_value:
        raise InputError(f"{low} is {low_value:g} and {high} is {high_value:g}; {low} must be at most {high}")


def in_order(
    low: str, low_value: float | None, high: str, high_value: float | None, *, defaults: tuple[float, float]
) -> tuple[float, float]:
    """Two parameters of which the lower must be at most the upper. An unset one follows the other.

    It takes its default, or keeps the ratio of the defaults to the other one if that lies on the wrong side. A pair
    that contradicts itself raises ``InputError``.

    >>> in_order("low", None, "high", None, defaults=(3, 4)), in_order("low", None, "high", 2, defaults=(3, 4))
    ((3, 4), (1.5, 2))
    >>> in_order("low", 6, "high", None, defaults=(3, 4))
    (6, 8.0)
    """
    low_default, high_default = defaults
    if low_value is None:
        low_value = (
            low_default if high_value is None else min(low_default, high_value * low_default / high_default)
        )
    if high_value is None:
        high_value = max(high_default, low_value * high_default / low_default)
    check_order(low, low_value, high, high_value)
    return low_value, high_value


def meant(name: str, known: Iterable[str]) -> str:
    """A hint at the name that was probably meant, or an empty string.

    >>> meant("budgetout", ["budget_in", "budget_out"])
    "; did you mean 'budget_out'?"
    """
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean '{close[0]}'?" if close else ""
