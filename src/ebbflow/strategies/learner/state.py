"""States, actions, and the four regions of Figure 5.2 (§5.3.1, §5.3.2).

A state is the mean total latency over a window, in steps of ``latencyGranularity`` up to ``maxLatency``, and whether
the incoming messages rose or fell since the last window (``Direction``). The last step takes every latency beyond
``maxLatency``. With ``incomingMessageGranularity`` a state has the level of the messages too; it keeps the direction,
because the regions need it.

    region 1   below the target, rising        region 2   at or above the target, rising
    region 4   below the target, falling       region 3   at or above the target, falling

A step that contains the target counts as above it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import NamedTuple

from ebbflow.core.parameters import check_order

_ROUNDING = 1e-9
_UNCHANGED = 0.01
"""A relative change of messages below this is none."""


class Action(IntEnum):
    """What the agent can do. The numbers index the values of a state."""

    OUT = 0
    IN = 1
    NONE = 2

    @property
    def label(self) -> str:
        """The name in messages and files."""
        return self.name.lower()


class Direction(StrEnum):
    """Whether incoming messages rose or fell since the last window."""

    RISING = "rising"
    FALLING = "falling"

    @classmethod
    def of(cls, messages: tuple[float, float], latency_s: tuple[float, float]) -> Direction:
        """The direction from the last window to this one, from the (last, present) messages and latencies.

        Messages that have not changed have the direction of the latency: an overload by a constant load is region 2,
        not 3. If neither has changed, they fall, so that a constant load can be scaled in.

        >>> Direction.of((100.0, 120.0), (9.0, 5.0)).value, Direction.of((100.0, 100.0), (5.0, 9.0)).value
        ('rising', 'rising')
        >>> Direction.of((100.0, 90.0), (5.0, 9.0)).value, Direction.of((100.0, 100.0), (5.0, 5.0)).value
        ('falling', 'falling')
        """
        before, now = latency_s if math.isclose(*messages, rel_tol=_UNCHANGED) else messages
        return cls.RISING if now > before else cls.FALLING


class Region(IntEnum):
    """A region of Figure 5.2."""

    BELOW_RISING = 1
    ABOVE_RISING = 2
    ABOVE_FALLING = 3
    BELOW_FALLING = 4

    @classmethod
    def of(cls, *, above: bool, falling: bool) -> Region:
        """The region on one side of the target, while something rises or falls.

        >>> [Region.of(above=above, falling=falling).value for above, falling in ((0, 0), (1, 0), (1, 1), (0, 1))]
        [1, 2, 3, 4]
        """
        if above:
            return cls.ABOVE_FALLING if falling else cls.ABOVE_RISING
        return cls.BELOW_FALLING if falling else cls.BELOW_RISING

    @property
    def above(self) -> bool:
        """Whether latency is at or above the target."""
        return self in (Region.ABOVE_RISING, Region.ABOVE_FALLING)


class State(NamedTuple):
    """One state: steps of latency, direction of the load, steps of messages (0 if they are not part of the state)."""

    latency: int
    direction: Direction
    messages: int = 0


@dataclass(frozen=True, kw_only=True)
class StateSpace:
    """How latencies and messages become states.

    >>> space = StateSpace(granularity_s=1.0, max_latency_s=30.0, target_latency_s=15.0)
    >>> state = space.state(7.9, 820.0, Direction.RISING)
    >>> state.latency, state.messages, space.ratio(state), int(space.region(state))
    (7, 0, 0.4666666666666667, 1)
    >>> space.state(95.0, 820.0, Direction.FALLING).latency, space.last
    (30, 30)
    """

    granularity_s: float
    max_latency_s: float
    target_latency_s: float
    messages_per_state: float | None = None

    def __post_init__(self) -> None:
        check_order("targetLatency", self.target_latency_s, "maxLatency", self.max_latency_s)
        check_order("latencyGranularity", self.granularity_s, "targetLatency", self.target_latency_s)

    @property
    def last(self) -> int:
        """The step of ``maxLatency`` and everything beyond."""
        return int(self.max_latency_s / self.granularity_s + _ROUNDING)

    def state(self, latency_s: float, messages_per_s: float, direction: Direction) -> State:
        """The state of a mean latency, an arrival rate and its direction."""
        latency = min(int(latency_s / self.granularity_s + _ROUNDING), self.last)
        each = self.messages_per_state
        return State(latency, direction, 0 if each is None else int(messages_per_s / each + _ROUNDING))

    def latency_s(self, state: State) -> float:
        """The latency of a state: the lower end of its step."""
        return state.latency * self.granularity_s

    def ratio(self, state: State) -> float:
        """n = current latency / target latency (equation 5.9)."""
        return self.latency_s(state) / self.target_latency_s

    def above(self, state: State) -> bool:
        """Whether its step reaches beyond the target."""
        return (state.latency + 1) * self.granularity_s > self.target_latency_s * (1 + _ROUNDING)

    def region(self, state: State) -> Region:
        """The region of a state: the load says whether latency rises or falls."""
        return Region.of(above=self.above(state), falling=state.direction is Direction.FALLING)

    def region_after(self, before: State, state: State) -> Region:
        """The region that a change of latency led to. A latency that stays the same has not fallen."""
        return Region.of(above=self.above(state), falling=state.latency < before.latency)

    @property
    def first_above(self) -> int:
        """The first step at or above the target."""
        return int(self.target_latency_s * (1 + _ROUNDING) / self.granularity_s)
