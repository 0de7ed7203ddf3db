"""The micro-batch engine: Spark Structured Streaming, without Spark.

A batch of n source rows on S slots takes, without noise and while the nodes stay the same,

    batch(n, S) = d + Σ_i ceil(p_i / S) · (o_i + c_i · n / p_i)

d: driver seconds, p_i: tasks of stage i, o_i: seconds a task costs before its first row, c_i: task seconds
a source row costs in the stage. It starts at its trigger (a multiple of the interval), or at once when the
one before was late, and takes what has arrived by then, up to the read limit. Where nodes come or go within a
stage, or batches of several queries meet, tasks are placed as slots get free (``slots``); else the formula is
used, so that the work per batch is O(stages) and a day takes a fraction of a second. Where nodes differ, what
``dealing`` finds for them takes the place of ceil(p / S).

A query runs in one cluster. It is restarted from its checkpoint, at a batch boundary, with another parallelism
(``restart_s``) or in another cluster (as long as its state takes over the link, besides).
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
from ebbflow.targets.simulator.clusters import Link
from ebbflow.targets.simulator.engine import Start, named_apart
from ebbflow.targets.simulator.micro_batch.record import StageTimes
from ebbflow.targets.simulator.micro_batch.world import MicroBatchWorld
from ebbflow.targets.simulator.nodes import NodeKind, Strength
from ebbflow.targets.simulator.nodes.pool import NodePool

FASTEST_ROWS_PER_S = 1e12
"""The rate of what costs nothing."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A stage: its tasks and what they cost."""

    tasks: int
    per_task_s: float = 0.0
    """o: seconds a task costs before its first row."""
    per_row_s: float = 0.0
    """c: task seconds of one source row."""
    skew: float = 1.0
    """Longest task ÷ mean task."""
    operator: str = ""
    """The operator with a parallelism of its own that it runs; its parallelism is the number of tasks."""
    most_tasks: int | None = None
    """Tasks it can have at most, where its operator may be told to have more; None: no limit."""

    def __post_init__(self) -> None:
        if self.tasks < 1:
            raise InputError(f"a stage of {self.tasks} tasks does nothing; the fewest is 1")
        if self.most_tasks is not None and self.most_tasks < self.tasks:
            raise InputError(f"a stage of {self.tasks} tasks has more than its most, {self.most_tasks}")
        if not (self.per_task_s >= 0 and self.per_row_s >= 0 and self.skew >= 1):
            raise InputError("costs of a stage must be 0 or more, its skew 1 or more")

    def with_tasks(self, tasks: int) -> Stage:
        """The same with another number of tasks, or with the nearest that it can have."""
        return replace(self, tasks=int(min(max(tasks, 1), self.ever_tasks)))

    @property
    def ever_tasks(self) -> float:
        """The most tasks that anyone can give it: those it has, if no operator is sized by them."""
        if not self.operator:
            return self.tasks
        return math.inf if self.most_tasks is None else self.most_tasks

    def run(self, task_s: float, there: Strength) -> StageTimes | None:
        """On slots that it has for itself, at a mean task time of speed 1; None where a formula does not do."""
        if there.speed is None:
            if self.skew != 1.0:
                return None
            deal = there.deal(self.tasks)
            return self.tasks, deal.work * task_s, deal.wall * task_s, deal.longest * task_s
        task_s /= there.speed
        if self.skew == 1.0:  # what follows, in short
            return self.tasks, self.tasks * task_s, waves(self.tasks, there.slots) * task_s, task_s
        wall_s = self.wall_s(task_s, there.slots)
        return None if wall_s is None else (self.tasks, self.tasks * task_s, wall_s, self.split(task_s)[0])

    def wall_s(self, task_s: float, slots: int) -> float | None:
        """Seconds on ``slots`` equal slots at a mean task time; None where a formula does not do."""
        if self.skew == 1.0 or slots == 1:
            return waves(self.tasks, slots) * task_s
        longest_s, short_s = self.split(task_s)
        in_turns_s = waves(self.tasks - 1, slots - 1) * short_s
        return longest_s if in_turns_s <= longest_s else None

    def split(self, task_s: float) -> tuple[float, float]:
        """(the longest task, each of the others) at a mean task time."""
        if self.skew == 1.0 or self.tasks == 1:
            return task_s, task_s
        skew = min(self.skew, float(self.tasks))
        return skew * task_s, (self.tasks - skew) / (self.tasks - 1) * task_s


@dataclass(frozen=True, kw_only=True)
class MicroBatch:
    """A streaming query on a micro-batch engine.

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
    """How long the query stands still when it is restarted from its checkpoint."""
    state_mb: float = 0.0
    """State that goes along when it moves to another cluster."""

    def __post_init__(self) -> None:
        if not self.stages:
            raise InputError(f"query '{self.pipeline.name}' has no stages; it needs at least one")

    def batch_s(self, rows: float, slots: int) -> float:
        """The formula: how long a batch takes without noise, skew aside."""
        return self.driver_s + sum(
            waves(s.tasks, slots) * (s.per_task_s + s.per_row_s * rows / s.tasks) for s in self.stages
        )

    def stages_rows_per_s(self, kind: NodeKind, max_nodes: int) -> Floats:
        """min(p_i, S) / c_i: what goes through each stage while it runs, in an endless batch whose waves are all full,
        with the most tasks p_i that each can ever be given. Stages that cost nothing a row are left out.

        Waves that are not full (ceil(p/S) > p/S) are left out on purpose: slots that a last wave leaves idle
        may be let go before it, so counting them would make the oracle dearer than what can be done.
        """
        slots = np.arange(max_nodes + 1, dtype=np.float64) * kind.slots
        speed = max(kind.speeds)
        rates = [
            np.minimum(stage.ever_tasks, slots) * speed / stage.per_row_s
            for stage in self.stages
            if stage.per_row_s > 0.0
        ]
        return np.minimum(rates or [np.where(slots > 0, FASTEST_ROWS_PER_S, 0.0)], FASTEST_ROWS_PER_S)

    def capacity_rows_per_s(self, kind: NodeKind, max_nodes: int) -> Floats:
        """1 ÷ Σ c_i / min(p_i, S): the same for all stages, one after the other on nodes that stay."""
        with np.errstate(divide="ignore"):
            return np.asarray(1.0 / (1.0 / self.stages_rows_per_s(kind, max_nodes)).sum(axis=0))

    @property
    def step_s(self) -> float:
        """It works tasks, not steps."""
        return 0.0

    @property
    def operators_named_apart(self) -> MicroBatch:
        """The same with its operators named ``pipeline/operator``, for where several pipelines are."""
        stages = [
            replace(s, operator=f"{self.pipeline.name}/{s.operator}") if s.operator else s
            for s in self.stages
        ]
        return replace(self, pipeline=named_apart(self.pipeline), stages=tuple(stages))

    def start_together(
        self, starts: Sequence[Start], pools: Mapping[str, NodePool], link: Link
    ) -> MicroBatchWorld:
        """Set it to work on clusters, with others of its kind or alone."""
        return MicroBatchWorld(starts, pools, link)
