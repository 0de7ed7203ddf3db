"""Strategies decide. One file each; to add one: the file, a line in ``STRATEGIES``, a test.

A strategy is a class with a ``name``, a constructor that needs no arguments, and ``decide``.
"""

from __future__ import annotations

from collections.abc import Callable

from ebbflow.core.ports import Strategy
from ebbflow.errors import UnknownNameError
from ebbflow.strategies.capacity import Capacity
from ebbflow.strategies.static import Static

__all__ = ["STRATEGIES", "Capacity", "Static", "make_strategy"]

STRATEGIES: dict[str, Callable[[], Strategy]] = {
    Capacity.name: Capacity,
    Static.name: Static,
}


def make_strategy(name: str) -> Strategy:
    """A fresh strategy by its name.

    >>> make_strategy("capacity").name
    'capacity'
    """
    try:
        return STRATEGIES[name]()
    except KeyError:
        raise UnknownNameError("strategy", name, STRATEGIES) from None
