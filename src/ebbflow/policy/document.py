"""Between a policy and plain values (tables, lists, text, numbers): what TOML, YAML and JSON all have.

``read_document`` finds everything that is wrong, not only the first thing, and tells where by its path.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from types import MethodType
from typing import Any, TypeVar, get_args

import msgspec

from ebbflow.errors import InputError, PolicyError
from ebbflow.policy.language.builder import DAYS, days_named
from ebbflow.policy.model import Action, AllOf, AnyOf, Bounds, Condition, Day, Policy, Rule, Trigger
from ebbflow.policy.quantities import Clock, Quantity, Span, shown
from ebbflow.policy.values import Limit, Measure, Often, Step

# A table of which some values could not be read, as its checks see it.


class NotReadError(Exception):
    """A check asked for a value that is not there: it has nothing to say."""


class HalfRead:
    """Stands in for a part of a policy: the values that are known, its properties and its methods.

    >>> from ebbflow.policy.model import Bounds
    >>> half = HalfRead(Bounds, {"name": "b", "at_least": 9, "at_most": 3})
    >>> [key for check in Bounds.CHECKS[:5] if check.__name__ != "_wrong_operator" for key, _ in check(half)]
    ['at-least']
    >>> half.timezone
    Traceback (most recent call last):
    ...
    ebbflow.policy.document.NotReadError: timezone
    """

    def __init__(self, kind: type, known: Mapping[str, Any]) -> None:
        self._kind, self._known = kind, known

    def __getattr__(self, name: str) -> Any:
        if name in self._known:
            return self._known[name]
        found = inspect.getattr_static(self._kind, name)
        if isinstance(found, property) and found.fget is not None:
            return found.fget(self)
        if inspect.isfunction(found):
            return MethodType(found, self)
        raise NotReadError(name)


Path = tuple[str | int, ...]
"""Where something stands: ``("rule", 0, "when", 1, "above")``."""

PART = TypeVar("PART", Rule, Bounds, Trigger, AllOf, AnyOf)

SCALARS: tuple[Any, ...] = (Span, Quantity, Step, Limit, Measure, Often, Clock)
RULE, BOUNDS = "rule", "bounds"


class Problem(msgspec.Struct, frozen=True):
    """Something wrong, and where."""

    path: Path
    text: str


EXAMPLES = {
    "name": 'name = "too many rows wait"',
    "action": 'action = "scale-out" or "scale-in"',
    "when": "when, a list of conditions, each with metric and above or below",
    "metric": 'metric = "queue-length" or another of `ebbflow metrics`',
    "all-of": "all-of, a list of conditions",
    "any-of": "any-of, a list of conditions",
}
"""What would be right where a key is missing."""


class _UnreadableError(Exception):
    """A value that cannot be read; the problem is written down."""


def read_document(document: object) -> tuple[Policy | None, list[Problem]]:
    """The policy a document holds, or what is wrong with it."""
    reader = _Reader()
    policy = reader.policy(document)
    return (None, reader.problems) if reader.problems else (policy, [])


def write_document(policy: Policy) -> dict[str, Any]:
    """The policy as plain values; reading them gives the same policy."""
    written: dict[str, Any] = {}
    if policy.rules:
        written[RULE] = [_plain(rule) for rule in policy.rules]
    if policy.bounds:
        written[BOUNDS] = [_plain(bounds) for bounds in policy.bounds]
    return written


def bare_type(annotation: Any) -> Any:
    """The type of a field, without its description and without None."""
    while hasattr(annotation, "__metadata__"):
        annotation = annotation.__origin__
    inner = [each for each in get_args(annotation) if each is not type(None)]
    if type(None) in get_args(annotation) and len(inner) == 1:
        return inner[0]
    return annotation


@cache
def _fields(kind: type[msgspec.Struct]) -> dict[str, msgspec.structs.FieldInfo]:
    """The fields of a table by their keys, with bare types. Finding them is half of the work of reading a table."""
    return {
        field.encode_name: msgspec.structs.replace(field, type=bare_type(field.type))
        for field in msgspec.structs.fields(kind)
    }


class _Reader:
    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def policy(self, document: object) -> Policy | None:
        if not isinstance(document, Mapping):
            self._note((), "a policy is a table with rules; write [[rule]] and its keys")
            return None
        for key in document:
            if key not in (RULE, BOUNDS):
                self._note((key,), _unknown(key, (RULE, BOUNDS)))
        parts: dict[str, Rule | Bounds] = {}
        for key, kind in ((RULE, Rule), (BOUNDS, Bounds)):
            for index, table in self._items(document.get(key, ()), (key,), f"a list of {key} tables"):
                part = self._attempt(self._part, kind, table, (key, index))
                if part is not None:
                    if part.name in parts:
                        self._note(
                            (key, index, "name"), f"a second part named '{part.name}'; names tell them apart"
                        )
                    else:
                        parts[part.name] = part
        return Policy(*parts.values())

    def _attempt(self, read: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return read(*arguments)
        except _UnreadableError:
            return None

    def _note(self, path: Path, text: str) -> None:
        self.problems.append(Problem(path, text))

    def _fail(self, path: Path, text: str) -> _UnreadableError:
        self._note(path, text)
        return _UnreadableError()

    def _items(self, found: object, path: Path, what: str) -> Iterable[tuple[int, object]]:
        if not isinstance(found, list | tuple):
            self._note(path, f"{shown(found)} where {what} should be")
            return ()
        return enumerate(found)

    def _part(self, kind: type[PART], table: object, path: Path) -> PART:
        """One table as a rule, bounds or condition."""
        if not isinstance(table, Mapping):
            raise self._fail(path, f"{shown(table)} where a table should be")
        fields = _fields(kind)
        read: dict[str, Any] = {}
        whole = True
        meant: set[str] = set()
        for key, value in table.items():
            field = fields.get(key)
            if field is None:
                self._note((*path, key), _unknown(key, fields))
                meant.update(difflib.get_close_matches(key, fields, n=1) if isinstance(key, str) else ())
                whole = False
                continue
            try:
                read[field.name] = self._value(field.type, value, (*path, key))
            except _UnreadableError:
                whole = False
        for field in fields.values():
            if field.required and field.encode_name not in table and field.encode_name not in meant:
                example = EXAMPLES.get(field.encode_name, "")
                self._note(path, f"'{field.encode_name}' is missing; write {example or field.encode_name}")
                whole = False
        if not whole:
            self._look_at_the_rest(kind, table, read, meant, path)
            raise _UnreadableError
        try:
            return kind(**read)
        except PolicyError as error:
            for key, text in zip(error.keys, error.problems, strict=True):
                self._note((*path, key) if key in table else path, text)
            raise _UnreadableError from None

    def _look_at_the_rest(
        self, kind: type[PART], table: Mapping[str, object], read: dict[str, Any], meant: set[str], path: Path
    ) -> None:
        """What is wrong with those values of a table that could be read."""
        left_out = {
            field.name: field.default
            for key, field in _fields(kind).items()
            if not field.required and key not in table and key not in meant
        }
        half: Any = HalfRead(kind, {**left_out, **read})
        for check in kind.CHECKS:
            try:
                for key, text in check(half):
                    self._note((*path, key) if key in table else path, text)
            except NotReadError:
                continue

    def _value(self, kind: Any, value: object, path: Path) -> Any:
        if kind in SCALARS:
            try:
                return kind.parse(value)
            except InputError as error:
                raise self._fail(path, str(error)) from None
        if kind is str:
            if not isinstance(value, str):
                raise self._fail(path, f"{shown(value)} where text should be")
            return value
        if kind is int:
            if not isinstance(value, int) or isinstance(value, bool):
                raise self._fail(path, f"{shown(value)} where a whole number should be")
            return value
        if kind is Action:
            if value not in tuple(Action):
                raise self._fail(path, f"{shown(value)} is no action; write scale-out or scale-in")
            return Action(str(value))
        if kind == tuple[Day, ...]:
            return self._days(value, path)
        return self._conditions(value, path)

    def _days(self, value: object, path: Path) -> tuple[Day, ...]:
        names = [value] if isinstance(value, str) else value
        if not isinstance(names, list | tuple) or not names:
            raise self._fail(path, f"{shown(value)} where days should be; write weekdays or [monday, friday]")
        known = [name for name in names if isinstance(name, str) and name in DAYS]
        for index, name in enumerate(names):
            if name not in known:
                where = path if isinstance(value, str) else (*path, index)
                self._note(where, _unknown(name, DAYS, "day"))
        if len(known) < len(names):
            raise _UnreadableError
        return days_named(tuple(known))

    def _conditions(self, value: object, path: Path) -> tuple[Condition, ...]:
        before = len(self.problems)
        found = [
            self._attempt(self._condition, table, (*path, index))
            for index, table in self._items(value, path, "a list of conditions")
        ]
        if len(self.problems) > before:
            raise _UnreadableError
        return tuple(found)

    def _condition(self, table: object, path: Path) -> Condition:
        if isinstance(table, Mapping):
            if "all-of" in table and "any-of" in table:
                raise self._fail(
                    (*path, "any-of"),
                    "all-of and any-of in one table; write one, and the other as a condition in it",
                )
            if "all-of" in table:
                return self._part(AllOf, table, path)
            if "any-of" in table:
                return self._part(AnyOf, table, path)
        return self._part(Trigger, table, path)


def _plain(part: Rule | Bounds | Condition) -> dict[str, Any]:
    written: dict[str, Any] = {}
    for field in _fields(type(part)).values():
        value = getattr(part, field.name)
        if not field.required and value == field.default:
            continue
        if isinstance(value, SCALARS):
            value = value.plain()
        elif field.name == "on":
            value = _plain_days(value)
        elif isinstance(value, tuple):
            value = [_plain(each) for each in value]
        elif isinstance(value, Action):
            value = value.value
        written[field.encode_name] = value
    return written


def _plain_days(days: tuple[Day, ...]) -> str | list[str]:
    for name in ("weekdays", "weekends"):
        if days == DAYS[name]:
            return name
    return [day.value for day in days]


def _unknown(key: object, known: Iterable[str], what: str = "key") -> str:
    names = list(known)
    close = difflib.get_close_matches(key, names, n=1) if isinstance(key, str) else []
    hint = f"did you mean '{close[0]}'? " if close else ""
    return f"unknown {what} {shown(key)}: {hint}There are: {', '.join(names)}"
