"""Spark's dynamic allocation of executors, with its defaults.

Spark looks every 100 ms: needed = ceil((pending + running tasks) / slots of an executor). While tasks are
pending for a second, it adds 1 executor, a second later 2, then 4, 8 …, never past what is needed. A lower
need lowers the target, which kills nothing. An executor without a task for 60 s is removed; never if it
holds shuffle data (shuffle tracking). Reference: core/ExecutorAllocationManager, ExecutorMonitor.

Modelled between two looks, on the same clock:

- A stage has pending tasks from its first wave until its last wave begins: with w = ceil(tasks / slots)
  waves of wall / w seconds, for (w − 1)·wall / w seconds. Step k of its backlog comes k seconds after it
  began and adds 2^(k−1); its timer starts anew with every stage, as in Spark.
- Finished batches tell their stages. A batch still running is taken to go as the one before, and one that
  outlasts it to be half-way through its last stage; without one before, nothing is known or done.
- An executor that was asked for comes even if the target fell meanwhile: cluster managers start it at once.
- Spark offers tasks to executors in random order, so the tasks of a minute touch min(n, Σ tasks) of them;
  only executors that were there for the whole minute and are not touched are idle.
- All stages of a batch but its last write shuffle data, and what they touched stays pinned for good
  (``shuffle_tracking``). So a query with a shuffle never shrinks, which is what users see.
- Tasks of a continuous engine never end: no backlog, no idle executor, nothing to decide on.

Spark's minimum of 0 is the minimum of the limits here.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, replace
from typing import Annotated

from ebbflow.core.batches import Batch
from ebbflow.core.decision import Decision, hold, want
from ebbflow.core.parameters import Duration, Flag, Share
from ebbflow.core.periods import SLACK_S
from ebbflow.core.ports import Strategy
from ebbflow.core.signals import Signals
from ebbflow.core.snapshot import Snapshot
from ebbflow.core.waves import waves

FORMULA = "needed = ceil((pending + running) / slots); +1, 2, 4 … each second of backlog; − idle for 60 s"


@dataclass(frozen=True, kw_only=True)
class _Stage:
    """When a stage began and how its waves went."""

    begun_s: float
    tasks: int
    slots: int
    wave_s: float

    @property
    def pending_until_s(self) -> float:
        return self.begun_s + (waves(self.tasks, self.slots) - 1) * self.wave_s

    def unfinished(self, now_s: float) -> int:
        """Tasks that run or wait, while some wait."""
        if not self.begun_s <= now_s <= self.pending_until_s + SLACK_S:
            return 0
        waves_done = math.floor((now_s - self.begun_s) / self.wave_s) if self.wave_s > 0 else 0
        return max(self.tasks - waves_done * self.slots, 0)


class SparkDra(Strategy):
    """Executors for the tasks that wait. See the module's text for the rule."""

    name = "spark-dra"
    brings_own_guards = True

    def __init__(
        self,
        *,
        backlog_timeout_s: Annotated[
            float, Duration("How long tasks must be pending before the first request.", above=0)
        ] = 1.0,
        sustained_timeout_s: Annotated[
            float, Duration("How long tasks must stay pending before each further request.", above=0)
        ] = 1.0,
        idle_timeout_s: Annotated[
            float, Duration("How long an executor must be idle before it is removed.")
        ] = 60.0,
        allocation_ratio: Annotated[
            float, Share("Share of the executors for full parallelism that is requested.")
        ] = 1.0,
        shuffle_tracking: Annotated[bool, Flag("Whether executors that hold shuffle data are kept.")] = True,
    ) -> None:
        self._backlog_timeout_s = backlog_timeout_s
        self._sustained_timeout_s = sustained_timeout_s
        self._idle_timeout_s = idle_timeout_s
        self._allocation_ratio = allocation_ratio
        self._shuffle_tracking = shuffle_tracking
        self._signals = Signals()
        self._looked_s: float | None = None
        self._sizes: deque[tuple[float, int]] = deque()
        self._touched: deque[tuple[float, int]] = deque()
        self._pinned = 0

    def decide(self, snapshot: Snapshot) -> Decision:
        """What the seconds since the last look would have led to."""
        missing = self._signals.look(snapshot)
        if missing:  # who was not seen did not idle
            self._sizes.clear()
            self._touched.clear()
        if missing or not self._signals.micro_batch:
            return hold(snapshot, missing or "no data: this engine has no tasks that end", FORMULA)
        here, now_s = snapshot.planned.main_nodes, snapshot.now_s
        stages = self._running(snapshot)
        for batch in snapshot.batches:
            stages += _stages(batch, batch.started_s, batch.slots)
        self._note_use(snapshot, here)
        grown = self._grow(stages, snapshot, here)
        self._looked_s = now_s
        inputs: dict[str, float | str] = {
            "nodes": here,
            "touched": min(here, self._touched_tasks()),
            "pinned": min(here, self._pinned),
        }
        if grown > here:
            reason = f"tasks were pending for over {self._backlog_timeout_s:g} s: {here} → {grown}"
            return want(snapshot, grown, reason, FORMULA, inputs)
        kept = max(min(here, self._touched_tasks()), min(here, self._pinned))
        idle = max(0, min(nodes for _, nodes in self._sizes) - kept)
        watched_s = now_s - self._sizes[0][0]
        if idle > 0 and watched_s >= self._idle_timeout_s - SLACK_S:
            reason = f"{idle} executors had no task for {self._idle_timeout_s:g} s and hold no shuffle data"
            return want(snapshot, max(1, here - idle), reason, FORMULA, inputs)
        return hold(snapshot, "no task waited for a second, no executor idled for a minute", FORMULA, inputs)

    # -- growing -------------------------------------------------------------------------------

    def _running(self, snapshot: Snapshot) -> list[_Stage]:
        """The stages of batches that still run, as those of the batch before went."""
        stages: list[_Stage] = []
        slots = max(1, snapshot.observed.main_nodes * snapshot.slots_per_node)
        for query, since_s in snapshot.queries.items():
            if since_s is None or query not in self._signals.batches:
                continue
            before = self._signals.batches[query]
            laid_out = _stages(before, since_s, slots)
            if laid_out and snapshot.now_s - since_s > before.duration_s:  # it takes longer this time
                last = laid_out.pop()
                passed_s = snapshot.now_s - last.begun_s
                wave_s = max(last.wave_s, 2 * passed_s / waves(last.tasks, last.slots))
                laid_out.append(replace(last, wave_s=wave_s))
            stages += laid_out
        return stages

    def _grow(self, stages: list[_Stage], snapshot: Snapshot, here: int) -> int:
        """The highest target that the steps since the last look lead to."""
        steps = []
        for stage in stages:
            until_s = min(stage.pending_until_s, snapshot.now_s)
            at_s, add = stage.begun_s + self._backlog_timeout_s, 1
            while at_s <= until_s + SLACK_S:
                if self._looked_s is None or at_s > self._looked_s + SLACK_S:
                    steps.append((at_s, add))
                at_s, add = at_s + self._sustained_timeout_s, min(2 * add, 1 << 20)
        target = here
        for at_s, add in sorted(steps):
            unfinished = sum(stage.unfinished(at_s) for stage in stages)
            needed = math.ceil(unfinished * self._allocation_ratio / snapshot.slots_per_node)
            target = max(target, min(target + add, needed, snapshot.limits.max_nodes))
        return target

    # -- idling --------------------------------------------------------------------------------

    def _note_use(self, snapshot: Snapshot, here: int) -> None:
        now_s = snapshot.now_s
        for batch in snapshot.batches:
            counts = [stage.tasks for stage in batch.stages]
            self._touched.append((batch.ended_s, sum(counts)))
            if self._shuffle_tracking:
                self._pinned = min(here, self._pinned + sum(counts[:-1]))
        for query, since_s in snapshot.queries.items():
            if since_s is not None and query in self._signals.batches:
                counts = [stage.tasks for stage in self._signals.batches[query].stages]
                self._touched.append((now_s, max(counts, default=here)))
        while self._touched and self._touched[0][0] <= now_s - self._idle_timeout_s:
            self._touched.popleft()
        self._sizes.append((now_s, here))
        while len(self._sizes) > 1 and self._sizes[1][0] <= now_s - self._idle_timeout_s + SLACK_S:
            self._sizes.popleft()

    def _touched_tasks(self) -> int:
        return sum(tasks for _, tasks in self._touched)


def _stages(batch: Batch, begun_s: float, slots: int) -> list[_Stage]:
    """A batch's stages, one after the other; the driver's time comes first."""
    at_s = begun_s + max(0.0, batch.duration_s - sum(stage.wall_s for stage in batch.stages))
    laid_out = []
    for stage in batch.stages:
        laid_out.append(
            _Stage(
                begun_s=at_s,
                tasks=stage.tasks,
                slots=max(1, slots),
                wave_s=stage.wall_s / waves(stage.tasks, slots),
            )
        )
        at_s += stage.wall_s
    return laid_out
