"""Dask's adaptive deployment.

    target = min(ceil(occupancy / 5 s), tasks),      occupancy: seconds of work that wait or run

Evaluated every second. Above the plan it grows at once. A worker closes after 3 consecutive suggestions to close it.
Reference: dask/distributed, ``Scheduler.adaptive_target`` and ``AdaptiveCore.recommendations``.

Modelled: a worker is a node. Occupancy = lag × busy seconds per row, as last measured. Tasks are the most tasks of a
stage; a continuous target has no such cap. Three consecutive suggestions for the same workers leave the largest of the
three targets. The seconds between two snapshots repeat the suggestion of the earlier one. What they lead to is done at
the next snapshot, so with decisions more than a second apart it acts later than Dask, by up to that time, and never
earlier. Its rule for memory is left out.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Annotated

from ebbflow.core.decision import Decision, hold, want
from ebbflow.core.parameters import Duration, Whole
from ebbflow.core.periods import SLACK_S, Every
from ebbflow.core.plural import counted
from ebbflow.core.ports import Strategy
from ebbflow.core.signals import Signals
from ebbflow.core.snapshot import Snapshot

FORMULA = "n' = min(ceil(lag · busy time per row / target duration), tasks); down after 3 in a row"


class Dask(Strategy):
    """Workers for the waiting work. The module docstring has the rule."""

    name = "dask"
    brings_own_guards = True

    def __init__(
        self,
        *,
        interval_s: Annotated[float, Duration("Time between two suggestions.", above=0)] = 1.0,
        target_duration_s: Annotated[
            float, Duration("Time within which the waiting work is to be done.", above=0)
        ] = 5.0,
        wait_count: Annotated[
            int, Whole("Suggestions in a row before a worker is closed.", unit="suggestions", at_least=1)
        ] = 3,
    ) -> None:
        self._every = Every(interval_s)
        self._target_duration_s = target_duration_s
        self._wait_count = wait_count
        self._signals = Signals()
        self._per_row_s: float | None = None
        self._suggested: deque[int] = deque(maxlen=wait_count)
        self._previous: int | None = None
        """The target of the previous snapshot."""

    def decide(self, snapshot: Snapshot) -> Decision:
        """Enough workers to finish the waiting work within the target duration."""
        missing = self._signals.update(snapshot)
        self._learn()
        seconds = self._every.due(snapshot.now_s)
        previous, self._previous = self._previous, None
        lag_rows = self._signals.lag_rows
        if missing or lag_rows is None or self._per_row_s is None:
            self._suggested.clear()
            return hold(snapshot, missing or "no data: lag or work per row unknown", FORMULA)
        nodes = snapshot.planned.main_nodes
        occupancy_s = lag_rows * self._per_row_s
        target = max(1, math.ceil(occupancy_s / self._target_duration_s - SLACK_S))
        tasks = self._signals.most_tasks
        target = snapshot.limits.clamp(target if tasks is None else min(target, max(1, tasks)))
        self._previous = target
        if not seconds:
            return hold(snapshot, "waiting for the next suggestion", FORMULA)
        for _ in seconds[:-1]:
            self._suggest(previous, nodes)
        self._suggest(target, nodes)
        inputs: dict[str, float | str] = {
            "lag_rows": round(lag_rows, 1),
            "occupancy_s": round(occupancy_s, 3),
            "nodes": nodes,
            "target": target,
        }
        reason = (
            f"{occupancy_s:.1f} s of work waiting: {counted(target, 'node')} can finish it "
            f"in {self._target_duration_s:g} s"
        )
        if target == nodes:
            return hold(snapshot, reason, FORMULA, inputs)
        if target > nodes:
            return want(snapshot, target, reason, FORMULA, inputs)
        if len(self._suggested) < self._wait_count:
            reason += f"; suggested {len(self._suggested)} of {self._wait_count} times"
            return hold(snapshot, reason, FORMULA, inputs)
        largest = max(self._suggested)
        self._suggested.clear()
        return want(snapshot, largest, reason, FORMULA, inputs)

    def _suggest(self, target: int | None, nodes: int) -> None:
        """Count a suggestion to close workers. Anything else restarts the count."""
        if target is None or target >= nodes:
            self._suggested.clear()
        else:
            self._suggested.append(target)

    def _learn(self) -> None:
        """Busy seconds per source row, over all operators on a continuous target."""
        rate, busy = self._signals.processed_per_s, self._signals.done_slots
        if rate is not None and busy is not None and rate > 0:
            self._per_row_s = busy / rate
