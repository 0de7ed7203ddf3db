"""The loop's own time: it passes evenly, whatever happens to the wall clock.

A machine's clock may be set back or leap forward while a job runs. If the loop used wall time, readings from before a
step back would look newer than all that follow, and a leap forward would make everything old at once. So the loop runs
on a time of its own,

    loop time = wall time + offset,

and the offset changes with every step, so that loop time follows the monotonic clock. Observations are shifted to loop
time as they enter the loop (``date``), and everything behind it is on loop time: windows, strategies, guards, the
ledger and the store. So the times of a stored run never overlap. Calendar rules ask for the wall time
(``Snapshot.wall_s``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace as replace_fields

import msgspec

from ebbflow.core.batches import Batch
from ebbflow.core.clock import Clock
from ebbflow.core.ports import Observation

STEP_S = 5.0
"""Smaller steps, as time servers make them, do not change the offset; after one back, loop time stands still."""
_TOLERANCE_S = 1.0


@dataclass(frozen=True)
class _Era:
    """A time without steps of the wall clock."""

    from_s: float
    """Wall time at its start, if the clock leapt forward then. After a step back its times may be from before it."""
    offset_s: float


class LoopClock:
    """Turns wall time into a time that passes evenly.

    >>> from ebbflow.core.clock import ManualClock
    >>> wall = ManualClock(100.0)
    >>> clock = LoopClock(wall)
    >>> clock.tick(), clock.stepped_s
    (100.0, 0.0)
    >>> wall.advance(1.0)
    >>> wall.set(wall.now_s() - 3600.0)
    >>> clock.tick(), clock.stepped_s, clock.offset_s
    (101.0, -3600.0, 3600.0)
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._eras = [_Era(-math.inf, 0.0)]
        self.now_s = -math.inf
        """Loop time at the last ``tick``."""
        self._monotonic_s = 0.0
        """Monotonic time at the last ``tick``."""
        self.stepped_s = 0.0
        """How far the wall clock stepped before the last ``tick``; negative if it was set back."""

    @property
    def offset_s(self) -> float:
        """Loop time minus wall time."""
        return self._eras[-1].offset_s

    def tick(self) -> float:
        """Read the clocks, once per cycle, and return the loop time."""
        wall_s, monotonic_s = self._clock.now_s(), self._clock.monotonic_s()
        loop_s, self.stepped_s = wall_s + self.offset_s, 0.0
        if self.now_s > -math.inf:
            expected_s = self.now_s + (monotonic_s - self._monotonic_s)
            if abs(loop_s - expected_s) > STEP_S:
                self.stepped_s = loop_s - expected_s
                from_s = wall_s if self.stepped_s > 0 else -math.inf
                self._eras.append(_Era(from_s, self.offset_s - self.stepped_s))
                loop_s = expected_s
        self.now_s, self._monotonic_s = max(self.now_s, loop_s), monotonic_s
        return self.now_s

    def date(self, observation: Observation) -> Observation:
        """Shift every time of an observation from wall time to loop time."""
        if len(self._eras) == 1:
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
        """The offset at a wall time, by the newest era that it fits in: not before its start, and not in the future."""
        for era in reversed(self._eras):
            if wall_s >= era.from_s - _TOLERANCE_S and wall_s + era.offset_s <= self.now_s + _TOLERANCE_S:
                return era.offset_s
        return self._eras[0].offset_s
