"""The loop's own time: the wall clock, without its steps back.

A machine's clock may be set back while a job runs. If the loop used wall time, readings from before the step would
look newer than all that follow, and a cool-down could last an hour too long. So the loop runs on a time of its own,

    loop time = wall time + offset,

and the offset grows by every step back. Observations are shifted to loop time as they enter the loop (``date``), and
everything behind it is on loop time: windows, strategies, guards, the ledger and the store. So the times of a stored
run never overlap. Calendar rules ask for the wall time (``Snapshot.wall_s``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace as replace_fields

import msgspec

from ebbflow.core.batches import Batch
from ebbflow.core.clock import Clock
from ebbflow.core.ports import Observation

SET_BACK_S = 5.0
"""Smaller steps back, as time servers make them, do not change the offset; loop time stands still meanwhile."""
_TOLERANCE_S = 1.0


class LoopClock:
    """Turns wall time into a time that never goes backwards.

    >>> from ebbflow.core.clock import ManualClock
    >>> wall = ManualClock(100.0)
    >>> clock = LoopClock(wall, cycle_s=1.0)
    >>> clock.tick(), clock.set_back_s
    (100.0, 0.0)
    >>> wall.advance(-3599.0)
    >>> clock.tick(), clock.set_back_s, clock.offset_s
    (101.0, 3600.0, 3600.0)
    """

    def __init__(self, clock: Clock, *, cycle_s: float) -> None:
        """``cycle_s`` is the time assumed to pass in the cycle in which the clock is set back."""
        self._clock = clock
        self._cycle_s = cycle_s
        self._offsets_s = [0.0]
        """The offset at the start, and after each step back."""
        self.now_s = -math.inf
        """Loop time at the last ``tick``."""
        self.set_back_s = 0.0
        """How far the clock was set back before the last ``tick``; 0 if it was not."""

    @property
    def offset_s(self) -> float:
        """Loop time minus wall time."""
        return self._offsets_s[-1]

    def tick(self) -> float:
        """Read the wall clock, once per cycle, and return the loop time."""
        loop_s = self._clock.now_s() + self._offsets_s[-1]
        self.set_back_s = 0.0
        if self.now_s - loop_s > SET_BACK_S:
            self.set_back_s = self.now_s + self._cycle_s - loop_s
            self._offsets_s.append(self._offsets_s[-1] + self.set_back_s)
            loop_s = self.now_s + self._cycle_s
        self.now_s = max(self.now_s, loop_s)
        return self.now_s

    def date(self, observation: Observation) -> Observation:
        """Shift every time of an observation from wall time to loop time."""
        if len(self._offsets_s) == 1:
            if observation.time_s <= self.now_s:
                return observation
            return msgspec.structs.replace(observation, time_s=self.now_s)
        return msgspec.structs.replace(
            observation,
            time_s=self._loop_s(observation.time_s),
            readings=[
                msgspec.structs.replace(reading, time_s=self._loop_s(reading.time_s))
                for reading in observation.readings
            ],
            batches=self._dated(observation.batches),
            first_batches=self._dated(observation.first_batches),
            under_way=[
                replace_fields(action, since_s=self._loop_s(action.since_s))
                for action in observation.under_way
            ],
            queries={
                query: None if since_s is None else self._loop_s(since_s)
                for query, since_s in observation.queries.items()
            },
        )

    def _dated(self, batches: Sequence[Batch]) -> list[Batch]:
        dated = []
        for batch in batches:
            started_s = batch.started_s + self._offset_s_at(batch.ended_s)
            arrival_s = min(self._loop_s(batch.oldest_arrival_s), started_s)  # may be from before the step
            dated.append(msgspec.structs.replace(batch, started_s=started_s, oldest_arrival_s=arrival_s))
        return dated

    def _loop_s(self, wall_s: float) -> float:
        return min(wall_s + self._offset_s_at(wall_s), self.now_s)

    def _offset_s_at(self, wall_s: float) -> float:
        """The offset at a wall time that has been. A time still to come was taken before the last step back."""
        for offset_s in reversed(self._offsets_s):
            if wall_s + offset_s <= self.now_s + _TOLERANCE_S:
                return offset_s
        return 0.0
