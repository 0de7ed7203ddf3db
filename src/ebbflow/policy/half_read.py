"""A table of which some values could not be read, as its checks see it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import MethodType
from typing import Any


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
    ebbflow.policy.half_read.NotReadError: timezone
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
