"""State of forecasters as plain values, so that a model file can be written as JSON and restored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ebbflow.errors import InputError

State = dict[str, Any]
"""Numbers, texts, lists and mappings of them."""


class Stateful:
    """Saves and restores all attributes that change: numbers, arrays and other ``Stateful`` objects.

    Constructor arguments are not part of the state: make an equal object, then restore.

    >>> class Count(Stateful):
    ...     def __init__(self) -> None:
    ...         self.seen = 0
    ...         self.last = np.zeros(2)
    >>> one, other = Count(), Count()
    >>> one.seen, one.last[:] = 3, (1.0, np.nan)
    >>> other.restore(one.state())
    >>> other.seen, other.last.tolist()
    (3, [1.0, nan])
    """

    def state(self) -> State:
        """Everything learned so far."""
        return {name: _plain(value) for name, value in vars(self).items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        own = vars(self)
        if set(own) != set(state):
            odd = sorted(set(own) ^ set(state))[0]
            raise InputError(
                f"this state is not one of {type(self).__name__} of this version: {odd!r} differs; learn again"
            )
        for name, value in own.items():
            own[name] = _restored(value, state[name])


def _plain(value: Any) -> Any:
    if isinstance(value, Stateful):
        return value.state()
    if isinstance(value, np.ndarray):
        return {"shape": list(value.shape), "values": value.ravel().tolist()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, np.generic):
        return value.item()
    return value


def _restored(now: Any, saved: Any) -> Any:
    if isinstance(now, Stateful):
        now.restore(saved)
        return now
    if isinstance(now, np.ndarray):
        # JSON has no NaN; it comes back as None, which numpy reads as NaN again.
        return np.asarray(saved["values"], dtype=now.dtype).reshape(saved["shape"])
    if isinstance(now, (list, tuple)):
        if len(now) == len(saved):
            return type(now)(_restored(one, other) for one, other in zip(now, saved, strict=True))
        return type(now)(saved)
    return saved
