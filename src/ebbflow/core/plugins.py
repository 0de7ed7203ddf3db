"""Strategies, guards and forecasters of other distributions, by entry point.

Whatever a plug-in does wrong is one line that names it: it cannot be loaded, it is of another kind, a parameter is
missing, its constructor raises.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Container, Mapping
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import Any, TypeVar

from ebbflow.core.parameters import arguments, declared
from ebbflow.core.plural import listed
from ebbflow.errors import InputError

log = logging.getLogger(__name__)

Made = TypeVar("Made")


def installed(group: str, noun: str, built_in: Container[str]) -> dict[str, EntryPoint]:
    """The entry points of a group by name. One with the name of a built-in is skipped, with a warning."""
    found = {}
    for entry_point in entry_points(group=group):
        if entry_point.name in built_in:
            warn_once(
                f"{noun} '{entry_point.name}' of {entry_point.value} is ignored: a built-in has this name"
            )
        else:
            found[entry_point.name] = entry_point
    return found


def load(entry_point: EntryPoint, noun: str, kind: type) -> Callable[..., Any]:
    """The class or function of an entry point."""
    where = f"{noun} '{entry_point.name}' cannot be loaded from {entry_point.value}"
    try:
        factory: Callable[..., Any] = entry_point.load()
    except Exception as error:
        raise InputError(f"{where}: {error}") from error
    if not callable(factory) or (inspect.isclass(factory) and not issubclass(factory, kind)):
        raise InputError(
            f"{where}: it must be a subclass of {kind.__name__} or a function that returns a {kind.__name__}"
        )
    return factory


def missing(factory: Callable[..., Any], values: Container[str], more: Container[str] = ()) -> list[str]:
    """Parameters without a default that get no value: neither by key nor as a further argument."""
    try:
        parameters = inspect.signature(factory).parameters
    except ValueError:
        return []
    keys = {each.argument: key for key, each in declared(factory).items() if each.part is None}
    parts = {each.part[0] for each in declared(factory).values() if each.part is not None}
    return [
        keys.get(name, name)
        for name, each in parameters.items()
        if each.default is inspect.Parameter.empty
        and each.kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        and name not in more
        and name not in parts
        and keys.get(name) not in values
    ]


def make(
    noun: str,
    name: str,
    factory: Callable[..., Made],
    kind: type,
    values: Mapping[str, Any],
    more: Mapping[str, Any] = MappingProxyType({}),
) -> Made:
    """Create an object from the values of its parameters by key, and further keyword arguments.

    >>> def rush(*, at_s: float) -> str:
    ...     return f"rush at {at_s}"
    >>> make("guard", "rush", rush, str, {"at": 8.0})
    'rush at 8.0'
    >>> make("guard", "rush", rush, str, {})
    Traceback (most recent call last):
    ...
    ebbflow.errors.InputError: guard rush needs at; write rush(at=…)
    """
    if needed := missing(factory, values, more):
        example = ", ".join(f"{key}=…" for key in needed)
        raise InputError(f"{noun} {name} needs {listed(needed)}; write {name}({example})")
    try:
        made = factory(**arguments(factory, values), **more)
    except InputError as error:
        raise InputError(f"{noun} {name}: {error}") from error
    except Exception as error:
        if _is_built_in(factory):
            raise
        raise InputError(
            f"{noun} {name} cannot be created: {_place(factory)} raised {type(error).__name__}: {error}"
        ) from error
    if not isinstance(made, kind):
        raise InputError(f"{noun} {name}: its entry point returned {made!r}, which is not a {kind.__name__}")
    return made


def _is_built_in(factory: Callable[..., Any]) -> bool:
    return _module(factory).partition(".")[0] == "ebbflow"


def _place(factory: Callable[..., Any]) -> str:
    own = factory.func if isinstance(factory, functools.partial) else factory
    return f"{_module(own)}:{getattr(own, '__qualname__', repr(own))}"


def _module(factory: Callable[..., Any]) -> str:
    own = factory.func if isinstance(factory, functools.partial) else factory
    return str(getattr(own, "__module__", ""))


@functools.cache
def warn_once(text: str) -> None:
    """Log a warning that was not logged before."""
    log.warning("%s", text)
