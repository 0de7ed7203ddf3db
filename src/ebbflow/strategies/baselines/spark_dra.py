"""Spark's dynamic allocation of executors, with its defaults.

    needed = ceil((pending + running tasks) / slots of an executor)

Every 100 ms. If tasks are pending for a second it adds 1 executor, a second later 2, then 4, 8 …, never more than
needed. A lower need lowers the target, which kills nothing. An executor without a task for 60 s is removed, but never
if it holds shuffle data (shuffle tracking). Reference: apache/spark, core/ExecutorAllocationManager and
ExecutorMonitor.

Modelled between two snapshots, on the same clock:

- A stage has pending tasks from its first wave until its last wave starts: with w = ceil(tasks / slots) waves of
  wall / w seconds, for (w − 1)·wall / w seconds. Step k of its backlog comes k seconds after its start and adds
  2^(k−1). The timer restarts with every stage, as in Spark.
- Finished batches have their stages. A running batch is assumed to go like the previous one, and one that outlasts it
  to be half-way through its last stage. Without a previous one nothing is known or done.
- A requested executor starts even if the target falls meanwhile: cluster managers start it at once.
- Spark offers tasks to executors in random order, so the tasks of a minute use min(n, Σ tasks) of them. Only executors
  that were there for the whole minute and had no task are idle.
- All stages of a batch but its last write shuffle data, which pins the executors they used for good
  (``shuffle_tracking``). So a query with a shuffle never shrinks, which is what users see.
- Tasks of a continuous engine never end: no backlog, no idle executor, nothing to decide on.

Spark's minimum of 0 is the minimum of the limits.
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
class _StageTiming:
    """When a stage started, and its waves."""

    started_s: float
    tasks: int
    slots: int
    wave_s: float

    @property
    def pending_until_s(self) -> float:
        return self.started_s + (waves(self.tasks, self.slots) - 1) * self.wave_s

    def unfinished(self, now_s: float) -> int:
        """Pending and running tasks, while some are pending."""
        if not self.started_s <= now_s <= self.pending_until_s + SLACK_S:
            return 0
        waves_done = math.floor((now_s - self.started_s) / self.wave_s) if self.wave_s > 0 else 0
        return max(self.tasks - waves_done * self.slots, 0)


class SparkDra(Strategy):
    """Executors for the pending tasks. The module docstring has the rule."""

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
        self._last_s: float | None = None
        self._sizes: deque[tuple[float, int]] = deque()
        self._tasks: deque[tuple[float, int]] = deque()
        self._pinned = 0

    def decide(self, snapshot: Snapshot) -> Decision:
        """The size to which the time since the last snapshot leads."""
        missing = self._signals.update(snapshot)
        if missing:  # unknown is not idle
            self._sizes.clear()
            self._tasks.clear()
        if missing or not self._signals.micro_batch:
            return hold(snapshot, missing or "no data: tasks of a continuous engine never end", FORMULA)
        nodes, now_s = snapshot.planned.main_nodes, snapshot.now_s
        stages = self._running(snapshot)
        for batch in snapshot.batches:
            stages += _stages(batch, batch.started_s, batch.slots)
        self._note_use(snapshot, nodes)
        grown = self._grow(stages, snapshot, nodes)
        self._last_s = now_s
        inputs: dict[str, float | str] = {
            "nodes": nodes,
            "used": min(nodes, self._recent_tasks()),
            "pinned": min(nodes, self._pinned),
        }
        if grown > nodes:
            reason = f"tasks were pending for over {self._backlog_timeout_s:g} s: {nodes} → {grown}"
            return want(snapshot, grown, reason, FORMULA, inputs)
        in_use = max(min(nodes, self._recent_tasks()), min(nodes, self._pinned))
        idle = max(0, min(size for _, size in self._sizes) - in_use)
        watched_s = now_s - self._sizes[0][0]
        if idle > 0 and watched_s >= self._idle_timeout_s - SLACK_S:
            reason = f"{idle} executors had no task for {self._idle_timeout_s:g} s and hold no shuffle data"
            return want(snapshot, max(1, nodes - idle), reason, FORMULA, inputs)
        return hold(snapshot, "no long backlog of tasks and no idle executor", FORMULA, inputs)

    # -- growing -------------------------------------------------------------------------------

    def _running(self, snapshot: Snapshot) -> list[_StageTiming]:
        """The stages of running batches, assumed to go like those of the previous batch."""
        stages: list[_StageTiming] = []
        for query, since_s in snapshot.queries.items():
            if since_s is None or query not in self._signals.batches:
                continue
            previous = self._signals.batches[query]
            stage_times = _stages(previous, since_s, snapshot.slots)
            if stage_times and snapshot.now_s - since_s > previous.duration_s:  # it takes longer this time
                last = stage_times.pop()
                passed_s = snapshot.now_s - last.started_s
                wave_s = max(last.wave_s, 2 * passed_s / waves(last.tasks, last.slots))
                stage_times.append(replace(last, wave_s=wave_s))
            stages += stage_times
        return stages

    def _grow(self, stages: list[_StageTiming], snapshot: Snapshot, nodes: int) -> int:
        """The highest target of the steps since the last snapshot."""
        steps = []
        for stage in stages:
            until_s = min(stage.pending_until_s, snapshot.now_s)
            at_s, add = stage.started_s + self._backlog_timeout_s, 1
            while at_s <= until_s + SLACK_S:
                if self._last_s is None or at_s > self._last_s + SLACK_S:
                    steps.append((at_s, add))
                at_s, add = at_s + self._sustained_timeout_s, min(2 * add, 1 << 20)
        target = nodes
        for at_s, add in sorted(steps):
            unfinished = sum(stage.unfinished(at_s) for stage in stages)
            needed = math.ceil(unfinished * self._allocation_ratio / snapshot.slots_per_node)
            target = max(target, min(target + add, needed, snapshot.limits.max_nodes))
        return target

    # -- idling --------------------------------------------------------------------------------

    def _note_use(self, snapshot: Snapshot, nodes: int) -> None:
        now_s = snapshot.now_s
        for batch in snapshot.batches:
            counts = [stage.tasks for stage in batch.stages]
            self._tasks.append((batch.ended_s, sum(counts)))
            if self._shuffle_tracking:
                self._pinned = min(nodes, self._pinned + sum(counts[:-1]))
        for query, since_s in snapshot.queries.items():
            if since_s is not None and query in self._signals.batches:
                counts = [stage.tasks for stage in self._signals.batches[query].stages]
                self._tasks.append((now_s, max(counts, default=nodes)))
        while self._tasks and self._tasks[0][0] <= now_s - self._idle_timeout_s:
            self._tasks.popleft()
        self._sizes.append((now_s, nodes))
        while len(self._sizes) > 1 and self._sizes[1][0] <= now_s - self._idle_timeout_s + SLACK_S:
            self._sizes.popleft()

    def _recent_tasks(self) -> int:
        return sum(tasks for _, tasks in self._tasks)


def _stages(batch: Batch, started_s: float, slots: int) -> list[_StageTiming]:
    """The stages of a batch, one after the other, after the time of the driver."""
    at_s = started_s + max(0.0, batch.duration_s - sum(stage.wall_s for stage in batch.stages))
    stage_times = []
    for stage in batch.stages:
        stage_times.append(
            _StageTiming(
                started_s=at_s,
                tasks=stage.tasks,
                slots=max(1, slots),
                wave_s=stage.wall_s / waves(stage.tasks, slots),
            )
        )
        at_s += stage.wall_s
    return stage_times
