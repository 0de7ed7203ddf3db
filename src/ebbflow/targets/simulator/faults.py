"""What can go wrong in a simulated cluster, and when. Times are seconds since the start."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ebbflow.core.layout import MAIN
from ebbflow.errors import InputError

SLOWEST_FACTOR = 1e-6
"""Below, a task would outlast every run."""


@dataclass(frozen=True, kw_only=True)
class NodeDies:
    """A node is gone at once; its running tasks are lost and run again. It is replaced after a lead time."""

    at_s: float
    node: int = 0
    """Which of those that work then, oldest first; counted round where there are fewer."""
    cluster: str = MAIN

    def __post_init__(self) -> None:
        _check_time("a node that dies", "at", self.at_s)
        _check_node(self.node)


@dataclass(frozen=True, kw_only=True)
class SlowNode:
    """A node works at a part of its speed for a while."""

    from_s: float
    until_s: float
    factor: float = 0.25
    node: int = 0
    cluster: str = MAIN

    def __post_init__(self) -> None:
        _check_span("a slow node", self.from_s, self.until_s)
        _check_node(self.node)
        if not SLOWEST_FACTOR <= self.factor <= 1:
            raise InputError(
                f"a slow node at {self.factor:g} times its speed; write a factor from {SLOWEST_FACTOR:g} to 1"
            )


@dataclass(frozen=True, kw_only=True)
class MissingMetrics:
    """Nothing can be seen for a while; the pipeline goes on."""

    from_s: float
    until_s: float

    def __post_init__(self) -> None:
        _check_span("missing metrics", self.from_s, self.until_s)


@dataclass(frozen=True, kw_only=True)
class LateMetrics:
    """What is seen is ``delay_s`` old for a while."""

    from_s: float
    until_s: float
    delay_s: float = 30.0

    def __post_init__(self) -> None:
        _check_span("late metrics", self.from_s, self.until_s)
        _check_time("late metrics", "the delay", self.delay_s)


def _check_time(what: str, which: str, time_s: float) -> None:
    if not 0 <= time_s < math.inf:
        raise InputError(f"{what}: {which} is {time_s:g} s; it must be 0 s or more")


def _check_span(what: str, from_s: float, until_s: float) -> None:
    _check_time(what, "from", from_s)
    if not from_s < until_s:
        raise InputError(f"{what} from {from_s:g} s until {until_s:g} s; until must be later than from")


def _check_node(node: int) -> None:
    if node < 0:
        raise InputError(f"node is {node}; it must be a whole number from 0 up, 0 for the oldest")


Fault = NodeDies | SlowNode | MissingMetrics | LateMetrics
