"""The micro-batch engine: Spark Structured Streaming without Spark.

A batch of n source rows on S slots takes, without noise and with unchanging nodes,

    batch(n, S) = d + Σ_i ceil(p_i / S) · (o_i + c_i · n / p_i)

d: driver seconds; p_i: tasks of stage i; o_i: seconds per task before its first row; c_i: task seconds per source
row. A batch starts at its trigger (a multiple of the interval), or at once if the previous one was late, and takes
the rows that have arrived, up to the read limit.

The formula makes a batch O(stages), so a day takes a fraction of a second. If nodes change within a stage or batches of
several queries overlap, tasks are assigned one by one as slots become free (``slots``). If nodes differ in speed,
``schedule_equal_tasks`` replaces ceil(p / S).

A query runs in one cluster. A change of its parallelism (``restart_s``) or its cluster (in addition the transfer of its
state) restarts it from its checkpoint at a batch boundary.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ebbflow.core.curve import Floats
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.waves import waves
from ebbflow.errors import InputError
from ebbflow.profiling.batch.model import BatchTime
from ebbflow.targets.simulator.engine import Start, with_qualified_names
from ebbflow.targets.simulator.micro_batch.run import StageTimes
from ebbflow.targets.simulator.micro_batch.world import MicroBatchWorld
from ebbflow.targets.simulator.nodes import ActiveNodes, Link, NodeKind, NodePool

MAX_ROWS_PER_S = 1e12
"""The rate of a stage without costs."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A stage: its tasks and their costs."""

    tasks: int
    per_task_s: float = 0.0
    """o: seconds per task before its first row."""
    per_row_s: float = 0.0
    """c: task seconds per source row."""
    skew: float = 1.0
    """Longest task ÷ mean task."""
    operator: str = ""
    """The operator whose parallelism is the number of tasks, if there is one."""
    max_tasks: int | None = None
    """The most tasks that the operator can have; None: no limit."""

    def __post_init__(self) -> None:
        if self.tasks < 1:
            raise InputError(f"a stage has {self.tasks} tasks; it needs at least 1")
        if self.max_tasks is not None and self.max_tasks < self.tasks:
            raise InputError(f"a stage of {self.tasks} tasks exceeds its maximum of {self.max_tasks}")
        if not (self.per_task_s >= 0 and self.per_row_s >= 0 and self.skew >= 1):
            raise InputError("the costs of a stage must be 0 or more, and its skew 1 or more")

    def with_tasks(self, tasks: int) -> Stage:
        """A copy with another number of tasks, or the nearest possible one."""
        return replace(self, tasks=int(min(max(tasks, 1), self.possible_tasks)))

    @property
    def possible_tasks(self) -> float:
        """The most tasks it can be given: its own number if it has no operator."""
        if not self.operator:
            return self.tasks
        return math.inf if self.max_tasks is None else self.max_tasks

    def run_alone(self, task_s: float, active: ActiveNodes) -> StageTimes | None:
        """Its times if it has all slots, for a mean task time at speed 1; None if there is no formula."""
        if active.speed is None:
            if self.skew != 1.0:
                return None
            schedule = active.schedule(self.tasks)
            return self.tasks, schedule.work * task_s, schedule.wall * task_s, schedule.longest * task_s
        task_s /= active.speed
        if self.skew == 1.0:  # the general case, simplified
            return self.tasks, self.tasks * task_s, waves(self.tasks, active.slots) * task_s, task_s
        wall_s = self._wall_s(task_s, active.slots)
        return (
            None
            if wall_s is None
            else (self.tasks, self.tasks * task_s, wall_s, self.task_times_s(task_s)[0])
        )

    def _wall_s(self, task_s: float, slots: int) -> float | None:
        """Seconds on equal slots for a mean task time; None if there is no formula."""
        if self.skew == 1.0 or slots == 1:
            return waves(self.tasks, slots) * task_s
        longest_s, other_s = self.task_times_s(task_s)
        others_wall_s = waves(self.tasks - 1, slots - 1) * other_s
        return longest_s if others_wall_s <= longest_s else None

    def task_times_s(self, task_s: float) -> tuple[float, float]:
        """(the longest task, each of the others) for a mean task time."""
        if self.skew == 1.0 or self.tasks == 1:
            return task_s, task_s
        skew = min(self.skew, float(self.tasks))
        return skew * task_s, (self.tasks - skew) / (self.tasks - 1) * task_s


@dataclass(frozen=True, kw_only=True)
class MicroBatch:
    """A streaming query on the micro-batch engine.

    >>> query = MicroBatch(pipeline=Pipeline.chain("p", "read"), driver_s=0.5,
    ...                    stages=(Stage(tasks=4, per_task_s=0.1, per_row_s=0.01),))
    >>> [round(query.batch_s(400, slots), 3) for slots in (1, 2, 3, 4, 8)]
    [4.9, 2.7, 2.7, 1.6, 1.6]
    """

    pipeline: Pipeline
    stages: tuple[Stage, ...]
    trigger_interval_s: float = 5.0
    driver_s: float = 0.4
    read_limit_rows: int | None = None
    noise: float = 0.0
    """σ of the lognormal factor (mean 1) on the task times of each stage of each batch."""
    restart_s: float = 5.0
    """The downtime of a restart from the checkpoint."""
    state_mb: float = 0.0
    """State that is transferred when the query moves to another cluster."""

    def __post_init__(self) -> None:
        if not self.stages:
            raise InputError(f"query '{self.pipeline.name}' has no stages; it needs at least one")

    def batch_s(self, rows: float, slots: int) -> float:
        """The formula: the duration of a batch without noise and skew."""
        return self.driver_s + sum(
            waves(s.tasks, slots) * (s.per_task_s + s.per_row_s * rows / s.tasks) for s in self.stages
        )

    def stages_rows_per_s(self, kind: NodeKind, max_nodes: int) -> Floats:
        """min(p_i, S) / c_i: the rate of each stage while it runs, in an endless batch of full waves with the most
        tasks p_i that it can be given. Stages without a cost per row are left out.

        Partial waves (ceil(p/S) > p/S) are ignored on purpose: slots that a last wave leaves idle could be released
        before it, so counting them would make the oracle more expensive than the cheapest possible schedule.
        """
        slots = np.arange(max_nodes + 1, dtype=np.float64) * kind.slots
        speed = max(kind.speeds)
        rates = [
            np.minimum(stage.possible_tasks, slots) * speed / stage.per_row_s
            for stage in self.stages
            if stage.per_row_s > 0.0
        ]
        return np.minimum(rates or [np.where(slots > 0, MAX_ROWS_PER_S, 0.0)], MAX_ROWS_PER_S)

    def capacity_rows_per_s(self, kind: NodeKind, max_nodes: int) -> Floats:
        """1 ÷ Σ c_i / min(p_i, S): the same for all stages in sequence on unchanging nodes."""
        with np.errstate(divide="ignore"):
            return np.asarray(1.0 / (1.0 / self.stages_rows_per_s(kind, max_nodes)).sum(axis=0))

    def sustained_rows_per_s(self, kind: NodeKind, max_nodes: int, freshness_s: float) -> Floats:
        """The rate at which batches keep up, with the initial tasks, partial waves and all overheads.

        >>> query = MicroBatch(pipeline=Pipeline.chain("p", "read"), driver_s=0.5,
        ...                    stages=(Stage(tasks=4, per_task_s=0.1, per_row_s=0.01),))
        >>> query.sustained_rows_per_s(NodeKind(), 4, 20.0).round(1).tolist()  # 3 nodes save no wave
        [0.0, 91.0, 186.0, 186.0, 376.0]
        """
        rates = [0.0]
        for nodes in range(1, max_nodes + 1):
            time = self._batch_time(nodes * kind.slots, max(kind.speeds))
            rate = time.sustained_rows_per_s(self.trigger_interval_s, freshness_s)
            if self.read_limit_rows is not None:
                limit = self.read_limit_rows
                rate = min(rate, limit / max(self.trigger_interval_s, time.of(limit), 1e-9))
            rates.append(min(rate, MAX_ROWS_PER_S))
        return np.array(rates)

    def _batch_time(self, slots: int, speed: float) -> BatchTime:
        fixed_s, per_row_s = self.driver_s, 0.0
        for stage in self.stages:
            rounds = max(waves(stage.tasks, slots), min(stage.skew, float(stage.tasks))) / speed
            fixed_s += rounds * stage.per_task_s
            per_row_s += rounds * stage.per_row_s / stage.tasks
        return BatchTime(fixed_s=fixed_s, per_row_s=per_row_s)

    @property
    def step_s(self) -> float:
        """0: this engine works in tasks, not in time steps."""
        return 0.0

    @property
    def read_limited(self) -> bool:
        """Whether a batch takes at most ``read_limit_rows``."""
        return self.read_limit_rows is not None

    @property
    def with_qualified_operators(self) -> MicroBatch:
        """A copy whose operators are named ``pipeline/operator``, for several pipelines side by side."""
        stages = [
            replace(s, operator=f"{self.pipeline.name}/{s.operator}") if s.operator else s
            for s in self.stages
        ]
        return replace(self, pipeline=with_qualified_names(self.pipeline), stages=tuple(stages))

    def start_together(
        self, starts: Sequence[Start], pools: Mapping[str, NodePool], link: Link
    ) -> MicroBatchWorld:
        """Start queries on shared clusters."""
        return MicroBatchWorld(starts, pools, link)
