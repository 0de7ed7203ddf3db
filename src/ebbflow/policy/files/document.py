"""Convert between a policy and plain values (tables, lists, text, numbers), which TOML, YAML and JSON share.

``read_document`` reports all problems of a document, each with its path.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, TypeVar, get_args

import msgspec

from ebbflow.errors import InputError, PolicyError, UnknownNameError
from ebbflow.policy.model import (
    BOUNDS,
    DAYS,
    RULE,
    AllOf,
    AnyOf,
    BoundsRule,
    Condition,
    Policy,
    PolicyPath,
    Problem,
    Rule,
    RuleAction,
    Trigger,
    Weekday,
    days_named,
)
from ebbflow.policy.values import Limit, Measure, Occurrences, Quantity, Span, StepSize, TimeOfDay, quoted

PART = TypeVar("PART", Rule, BoundsRule, Trigger, AllOf, AnyOf)

SCALARS: tuple[Any, ...] = (Span, Quantity, StepSize, Limit, Measure, Occurrences, TimeOfDay)

EXAMPLES = {
    "name": 'name = "too many rows wait"',
    "action": 'action = "scale-out" or "scale-in"',
    "when": "when = a list of conditions, each with metric and above or below",
    "metric": 'metric = "queue-length" or another metric of `ebbflow metrics`',
}
"""What to write where a key is missing."""


class _UnreadableError(Exception):
    """A value could not be read; the problem has been recorded."""


class _MissingValueError(Exception):
    """A check used a value that could not be read, so it does not apply."""


class _Partial:
    """Stands in for a part of a policy in its own checks when only some of its values could be read.

    >>> partial = _Partial(BoundsRule, {"name": "b", "at_least": 9, "at_most": 3})
    >>> [key for check in (BoundsRule._check_at_least, BoundsRule._check_range) for key, _ in check(partial)]
    ['at-least']
    >>> partial.timezone
    Traceback (most recent call last):
    ...
    ebbflow.policy.files.document._MissingValueError: timezone
    """

    def __init__(self, kind: type, values: Mapping[str, Any]) -> None:
        self._kind, self._values = kind, values

    def __getattr__(self, name: str) -> Any:
        if name in self._values:
            return self._values[name]
        attribute = inspect.getattr_static(self._kind, name)
        if isinstance(attribute, property) and attribute.fget is not None:
            return attribute.fget(self)
        raise _MissingValueError(name)


def read_document(document: object) -> tuple[Policy | None, list[Problem]]:
    """The policy of a document, or None and what is wrong with it."""
    reader = _Reader()
    policy = reader.policy(document)
    return (None, reader.problems) if reader.problems else (policy, [])


def write_document(policy: Policy) -> dict[str, Any]:
    """The policy as plain values; the inverse of ``read_document``."""
    written: dict[str, Any] = {}
    if policy.rules:
        written[RULE] = [_plain(rule) for rule in policy.rules]
    if policy.bounds:
        written[BOUNDS] = [_plain(bounds) for bounds in policy.bounds]
    return written


def bare_type(annotation: Any) -> Any:
    """The type of a field without its description and without None."""
    while hasattr(annotation, "__metadata__"):
        annotation = annotation.__origin__
    inner = [each for each in get_args(annotation) if each is not type(None)]
    if type(None) in get_args(annotation) and len(inner) == 1:
        return inner[0]
    return annotation


@cache
def _fields(kind: type[msgspec.Struct]) -> dict[str, msgspec.structs.FieldInfo]:
    """The fields of a table by their keys, with bare types. Cached: inspecting them is half the cost of reading."""
    return {
        field.encode_name: msgspec.structs.replace(field, type=bare_type(field.type))
        for field in msgspec.structs.fields(kind)
    }


class _Reader:
    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def policy(self, document: object) -> Policy | None:
        if not isinstance(document, Mapping):
            self._add(
                (), "a policy is a table of rules and bounds; start with [[rule]] (TOML) or rule: (YAML)"
            )
            return None
        for key in document:
            if key not in (RULE, BOUNDS):
                self._add((key,), _unknown("key", key, (RULE, BOUNDS)))
        parts: dict[str, Rule | BoundsRule] = {}
        for key, kind in ((RULE, Rule), (BOUNDS, BoundsRule)):
            for index, table in self._items(document.get(key, ()), (key,), f"a list of {key} tables"):
                part = self._attempt(self._part, kind, table, (key, index))
                if part is not None:
                    if part.name in parts:
                        self._add(
                            (key, index, "name"),
                            f"duplicate name '{part.name}'; give each rule and bounds a name of its own",
                        )
                    else:
                        parts[part.name] = part
        return Policy(*parts.values())

    def _attempt(self, read: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return read(*arguments)
        except _UnreadableError:
            return None

    def _add(self, path: PolicyPath, text: str) -> None:
        self.problems.append(Problem(path, text))

    def _fail(self, path: PolicyPath, text: str) -> _UnreadableError:
        self._add(path, text)
        return _UnreadableError()

    def _items(self, found: object, path: PolicyPath, what: str) -> Iterable[tuple[int, object]]:
        if not isinstance(found, list | tuple):
            self._add(path, f"expected {what}, found {quoted(found)}")
            return ()
        return enumerate(found)

    def _part(self, kind: type[PART], table: object, path: PolicyPath) -> PART:
        """A table as a rule, bounds or condition."""
        if not isinstance(table, Mapping):
            raise self._fail(path, f"expected a table, found {quoted(table)}")
        fields = _fields(kind)
        read: dict[str, Any] = {}
        complete = True
        misspelled: set[str] = set()
        for key, value in table.items():
            field = fields.get(key)
            if field is None:
                self._add((*path, key), _unknown("key", key, fields))
                misspelled.update(difflib.get_close_matches(key, fields, n=1) if isinstance(key, str) else ())
                complete = False
                continue
            try:
                read[field.name] = self._value(field.type, value, (*path, key))
            except _UnreadableError:
                complete = False
        for field in fields.values():
            if field.required and field.encode_name not in table and field.encode_name not in misspelled:
                self._add(path, f"missing key '{field.encode_name}'; write {EXAMPLES[field.encode_name]}")
                complete = False
        if not complete:
            self._check_partial(kind, table, read, misspelled, path)
            raise _UnreadableError
        try:
            return kind(**read)
        except PolicyError as error:
            for key, text in zip(error.keys, error.problems, strict=True):
                self._add((*path, key) if key in table else path, text)
            raise _UnreadableError from None

    def _check_partial(
        self,
        kind: type[PART],
        table: Mapping[str, object],
        read: dict[str, Any],
        misspelled: set[str],
        path: PolicyPath,
    ) -> None:
        """Check the values of a table that could be read although others could not."""
        defaults = {
            field.name: field.default
            for key, field in _fields(kind).items()
            if not field.required and key not in table and key not in misspelled
        }
        partial: Any = _Partial(kind, {**defaults, **read})
        for check in kind.CHECKS:
            try:
                for key, text in check(partial):
                    self._add((*path, key) if key in table else path, text)
            except _MissingValueError:
                continue

    def _value(self, kind: Any, value: object, path: PolicyPath) -> Any:
        if kind in SCALARS:
            try:
                return kind.parse(value)
            except InputError as error:
                raise self._fail(path, str(error)) from None
        if kind is str:
            if not isinstance(value, str):
                raise self._fail(path, f"expected text, found {quoted(value)}")
            return value
        if kind is int:
            if not isinstance(value, int) or isinstance(value, bool):
                raise self._fail(path, f"expected a whole number, found {quoted(value)}")
            return value
        if kind is RuleAction:
            if value not in tuple(RuleAction):
                raise self._fail(path, f"unknown action {quoted(value)}; write scale-out or scale-in")
            return RuleAction(str(value))
        if kind == tuple[Weekday, ...]:
            return self._days(value, path)
        return self._conditions(value, path)

    def _days(self, value: object, path: PolicyPath) -> tuple[Weekday, ...]:
        names = [value] if isinstance(value, str) else value
        if not isinstance(names, list | tuple) or not names:
            raise self._fail(
                path,
                f"expected days, found {quoted(value)}; write weekdays or a list such as [monday, friday]",
            )
        known = [name for name in names if isinstance(name, str) and name in DAYS]
        for index, name in enumerate(names):
            if name not in known:
                where = path if isinstance(value, str) else (*path, index)
                self._add(where, _unknown("day", name, DAYS))
        if len(known) < len(names):
            raise _UnreadableError
        return days_named(tuple(known))

    def _conditions(self, value: object, path: PolicyPath) -> tuple[Condition, ...]:
        before = len(self.problems)
        found = [
            self._attempt(self._condition, table, (*path, index))
            for index, table in self._items(value, path, "a list of conditions")
        ]
        if len(self.problems) > before:
            raise _UnreadableError
        return tuple(found)

    def _condition(self, table: object, path: PolicyPath) -> Condition:
        if isinstance(table, Mapping):
            if "all-of" in table and "any-of" in table:
                raise self._fail(
                    (*path, "any-of"),
                    "a condition has either all-of or any-of; nest one inside the other",
                )
            if "all-of" in table:
                return self._part(AllOf, table, path)
            if "any-of" in table:
                return self._part(AnyOf, table, path)
        return self._part(Trigger, table, path)


def _plain(part: Rule | BoundsRule | Condition) -> dict[str, Any]:
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
        elif isinstance(value, RuleAction):
            value = value.value
        written[field.encode_name] = value
    return written


def _plain_days(days: tuple[Weekday, ...]) -> str | list[str]:
    for name in ("weekdays", "weekends"):
        if days == DAYS[name]:
            return name
    return [day.value for day in days]


def _unknown(what: str, name: object, known: Iterable[str]) -> str:
    return str(UnknownNameError(what, str(name), known))
