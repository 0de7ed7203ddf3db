"""Faults of a simulated cluster. Times are seconds since the start."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ebbflow.core.layout import MAIN
from ebbflow.errors import InputError

MIN_SLOW_FACTOR = 1e-6
"""At a lower factor a task would outlast every run."""


@dataclass(frozen=True, kw_only=True)
class NodeDies:
    """A node fails. Its running tasks are lost and run again; a replacement is requested at once."""

    at_s: float
    node: int = 0
    """Index among the nodes working at that time, oldest first, modulo their number."""
    cluster: str = MAIN

    def __post_init__(self) -> None:
        _check_time("a node that dies", "at", self.at_s)
        _check_node(self.node)


@dataclass(frozen=True, kw_only=True)
class SlowNode:
    """A node runs at a fraction of its speed for a while."""

    from_s: float
    until_s: float
    factor: float = 0.25
    node: int = 0
    cluster: str = MAIN

    def __post_init__(self) -> None:
        _check_span("a slow node", self.from_s, self.until_s)
        _check_node(self.node)
        if not MIN_SLOW_FACTOR <= self.factor <= 1:
            raise InputError(
                f"a slow node at {self.factor:g} times its speed; "
                f"the factor must be from {MIN_SLOW_FACTOR:g} to 1"
            )


@dataclass(frozen=True, kw_only=True)
class MissingMetrics:
    """The monitor fails for a while; the pipeline keeps running."""

    from_s: float
    until_s: float

    def __post_init__(self) -> None:
        _check_span("missing metrics", self.from_s, self.until_s)


@dataclass(frozen=True, kw_only=True)
class LateMetrics:
    """Observations arrive ``delay_s`` late for a while."""

    from_s: float
    until_s: float
    delay_s: float = 30.0

    def __post_init__(self) -> None:
        _check_span("late metrics", self.from_s, self.until_s)
        _check_time("late metrics", "the delay", self.delay_s)


Fault = NodeDies | SlowNode | MissingMetrics | LateMetrics


def _check_time(what: str, which: str, time_s: float) -> None:
    if not 0 <= time_s < math.inf:
        raise InputError(f"{what}: {which} is {time_s:g} s; it must be 0 s or more")


def _check_span(what: str, from_s: float, until_s: float) -> None:
    _check_time(what, "from", from_s)
    if not from_s < until_s:
        raise InputError(f"{what} from {from_s:g} s until {until_s:g} s; until must be later than from")


def _check_node(node: int) -> None:
    if node < 0:
        raise InputError(f"node is {node}; it must be 0 (the oldest node) or more")
