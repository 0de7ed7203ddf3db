"""Dask's adaptive deployment.

Every second: target = ceil(occupancy / 5 s), with occupancy the seconds of work that wait or run, and no
more workers than tasks. Above the plan it grows at once; a worker closes after 3 consecutive suggestions
to close it. Reference: distributed, Scheduler.adaptive_target, AdaptiveCore.recommendations.

Modelled: a worker is a node; occupancy = lag × busy seconds per row, as last measured; tasks are the most
tasks of a stage (a continuous target has no such cap). Three consecutive suggestions for the same workers
leave the largest of the three targets. The seconds between two looks count as suggestions of the look before: the
load is held. What they lead to is done at the next look, so that with decisions further apart than a second it is
later than Dask by up to the time between them, never earlier. Its rule for memory is left out.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Annotated

from ebbflow.core.decision import Decision, hold, want
from ebbflow.core.parameters import Duration, Whole
from ebbflow.core.periods import SLACK_S, Every
from ebbflow.core.ports import Strategy
from ebbflow.core.signals import Signals
from ebbflow.core.snapshot import Snapshot

FORMULA = "n' = min(ceil(lag · busy time per row / target duration), tasks); down after 3 in a row"


class Dask(Strategy):
    """Workers for the work that waits. See the module's text for the rule."""

    name = "dask"
    brings_own_guards = True

    def __init__(
        self,
        *,
        interval_s: Annotated[float, Duration("Time between two suggestions.", above=0)] = 1.0,
        target_duration_s: Annotated[
            float, Duration("Time within which the waiting work is to be done.", above=0)
        ] = 5.0,
        wait_count: Annotated[int, Whole("Suggestions in a row before a worker is closed.", at_least=1)] = 3,
    ) -> None:
        self._every = Every(interval_s)
        self._target_duration_s = target_duration_s
        self._wait_count = wait_count
        self._signals = Signals()
        self._per_row_s: float | None = None
        self._suggested: deque[int] = deque(maxlen=wait_count)
        self._held: int | None = None
        """The target of the look before."""

    def decide(self, snapshot: Snapshot) -> Decision:
        """Enough workers to finish what waits within the target duration."""
        missing = self._signals.look(snapshot)
        self._learn()
        seconds = self._every.due(snapshot.now_s)
        held, self._held = self._held, None
        lag_rows = self._signals.lag_rows
        if missing or lag_rows is None or self._per_row_s is None:
            self._suggested.clear()
            return hold(snapshot, missing or "no data: lag or work per row unknown", FORMULA)
        here = snapshot.planned.main_nodes
        occupancy_s = lag_rows * self._per_row_s
        target = max(1, math.ceil(occupancy_s / self._target_duration_s - SLACK_S))
        tasks = self._signals.most_tasks
        target = snapshot.limits.clamp(target if tasks is None else min(target, max(1, tasks)))
        self._held = target
        if not seconds:
            return hold(snapshot, "waits for its next look", FORMULA)
        for _ in seconds[:-1]:
            self._suggest(held, here)
        self._suggest(target, here)
        inputs: dict[str, float | str] = {
            "lag_rows": round(lag_rows, 1),
            "occupancy_s": round(occupancy_s, 3),
            "nodes": here,
            "target": target,
        }
        reason = f"{occupancy_s:.1f} s of work wait: {target} finish it in {self._target_duration_s:g} s"
        if target == here:
            return hold(snapshot, reason, FORMULA, inputs)
        if target > here:
            return want(snapshot, target, reason, FORMULA, inputs)
        if len(self._suggested) < self._wait_count:
            reason += f"; suggested {len(self._suggested)} of {self._wait_count} times"
            return hold(snapshot, reason, FORMULA, inputs)
        nodes = max(self._suggested)
        self._suggested.clear()
        return want(snapshot, nodes, reason, FORMULA, inputs)

    def _suggest(self, target: int | None, here: int) -> None:
        """One more suggestion to close workers, or none: then the next is the first again."""
        if target is None or target >= here:
            self._suggested.clear()
        else:
            self._suggested.append(target)

    def _learn(self) -> None:
        """Busy seconds of a source row: of all operators together on a continuous target."""
        rate, busy = self._signals.processed_per_s, self._signals.done_slots
        if rate is not None and busy is not None and rate > 0:
            self._per_row_s = busy / rate
