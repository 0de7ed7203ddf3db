"""The micro-batch engine at work; ``micro_batch`` has its formula."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from ebbflow.core.batches import Batch, OperatorRun, StageRun
from ebbflow.core.curve import Curve
from ebbflow.core.metrics import Metric
from ebbflow.core.readings import Reading
from ebbflow.targets.simulator.engine import Work
from ebbflow.targets.simulator.inflow import Inflow
from ebbflow.targets.simulator.list_scheduling import list_schedule
from ebbflow.targets.simulator.nodes import NodePool

if TYPE_CHECKING:
    from ebbflow.targets.simulator.micro_batch import MicroBatch

_DRAWS = 4096


@dataclass
class _Running:
    """A batch at work; ``stage_s`` is when its current stage began, ``task_s`` its mean task time."""

    started_s: float
    rows: int
    first_row: int
    arrived: int
    steady_since_s: float
    rate_per_s: float
    stage_s: float
    stage: int = 0
    task_s: float = -1.0
    runs: list[tuple[int, float, float, float]] = field(default_factory=list)
    """(tasks, Σ task time, wall, longest task) of each finished stage."""


@dataclass(frozen=True)
class _Done:
    batch: _Running
    ended_s: float
    slots: int
    batch_id: int


class MicroBatchRun:
    """The query at work."""

    def __init__(self, query: MicroBatch, inflow: Inflow, pool: NodePool, rng: np.random.Generator) -> None:
        self.query = query
        self._inflow = inflow
        self._pool = pool
        self._rng = rng
        self._stages = list(query.stages)
        self._factors: list[float] = []
        self._batch: _Running | None = None
        self._taken = 0
        self._arrived_then = 0
        self._last_start_s = 0.0
        self._free_s = 0.0
        self._due_s = 0.0
        """No batch starts before: the next trigger, or the end of a restart."""
        self._plan: tuple[int, float, tuple[float, float]] = (-1, 0.0, (0.0, 0.0))
        self._restart: dict[str, int] | None = None
        self._stopped: tuple[float, float] | None = None
        self._finished: list[_Done] = []
        self._batches = 0
        self._commit_times: list[float] = [0.0]
        self._commit_rows: list[int] = [0]
        self._left_behind = 0
        self._rate_per_s = 0.0
        rates = query.pipeline.input_rates(dict.fromkeys(query.pipeline.sources, 1.0))
        out = dict.fromkeys(query.pipeline.order, 0.0)
        for stream in query.pipeline.streams:
            out[stream.source] += rates[stream.source] * stream.selectivity
        self._per_source_row = [
            (name, rates[name], out[name] or rates[name]) for name in query.pipeline.order
        ]

    # -- time ----------------------------------------------------------------------------------

    def advance(self, until_s: float) -> None:
        """Run batches up to a time."""
        while True:
            batch = self._batch
            if batch is None:
                batch = self._begin(until_s)
                if batch is None:
                    return
                self._run_through(batch, until_s)
            while batch.stage < len(self._stages):
                end_s = self._stage_end_s(batch)
                if end_s > until_s:
                    return
                tasks = self._stages[batch.stage].tasks
                batch.runs.append((tasks, self._plan[2][0], end_s - batch.stage_s, self._plan[2][1]))
                batch.stage_s, batch.task_s = end_s, -1.0
                batch.stage += 1
                self._pool.let_go(end_s, between_batches=False)
            if batch.stage_s > until_s:
                return
            self._finish(batch)

    def _begin(self, until_s: float) -> _Running | None:
        """The next batch, if one starts by then."""
        interval_s = self.query.trigger_interval_s
        start_s = max(self._free_s, self._due_s)
        rows_by = self._inflow.rows_by
        taken = self._taken
        arrived = rows_by(start_s) if start_s <= until_s else taken
        if arrived <= taken:
            if start_s > until_s or rows_by(until_s) <= taken:
                return None
            start_s = self._inflow.arrival_s(taken)
            if interval_s:
                start_s = math.ceil(start_s / interval_s - 1e-9) * interval_s
            if start_s > until_s:
                return None
            arrived = rows_by(start_s)
        rows = arrived - taken
        limit = self.query.read_limit_rows
        if limit is not None and rows > limit:
            rows = limit
        span_s = start_s - self._last_start_s
        self._rate_per_s = (arrived - self._arrived_then) / span_s if span_s > 0 else 0.0
        self._batch = batch = _Running(
            started_s=start_s,
            rows=rows,
            first_row=taken,
            arrived=arrived,
            steady_since_s=self._free_s,
            rate_per_s=self._rate_per_s,
            stage_s=start_s + self.query.driver_s,
        )
        self._taken = taken + rows
        self._left_behind = arrived - self._taken
        self._last_start_s, self._arrived_then = start_s, arrived
        self._due_s = (math.floor(start_s / interval_s + 1e-9) + 1) * interval_s if interval_s else start_s
        return batch

    def _run_through(self, batch: _Running, until_s: float) -> None:
        """All stages at once, where equal nodes stay the same until the batch ends and it ends by then.

        Else nothing is done, and the stages are looked at one by one. With noise they always are: factors
        are drawn in the order of the stages, and must not be drawn for a batch that is then looked at again.
        """
        there = self._pool.strength(batch.stage_s)
        if there.speed is None or not there.slots or self.query.noise or self._pool.some_leave:
            return
        end_s, rows, runs = batch.stage_s, batch.rows, []
        for stage in self._stages:
            task_s = (stage.per_task_s + stage.per_row_s * rows / stage.tasks) / there.speed
            wall_s = stage.wall_s(task_s, there.slots)
            if wall_s is None:
                return
            runs.append((stage.tasks, stage.tasks * task_s, wall_s, stage.split(task_s)[0]))
            end_s += wall_s
        if end_s <= until_s and end_s <= there.until_s:
            batch.runs, batch.stage, batch.stage_s = runs, len(runs), end_s

    def _stage_end_s(self, batch: _Running) -> float:
        """When the current stage ends as far as is known; looked at anew when the nodes have changed."""
        stage, pool = self._stages[batch.stage], self._pool
        if batch.task_s < 0:
            batch.task_s = stage.per_task_s + stage.per_row_s * batch.rows / stage.tasks
            if self.query.noise:
                batch.task_s *= self._factor()
        elif self._plan[0] == pool.version:
            return self._plan[1]
        there = pool.strength(batch.stage_s)
        wall_s = None
        if there.speed is not None and there.slots:
            wall_s = stage.wall_s(batch.task_s / there.speed, there.slots)
        if wall_s is not None and batch.stage_s + wall_s <= there.until_s:
            assert there.speed is not None
            longest_s = stage.split(batch.task_s)[0] / there.speed
            end_s, spent = batch.stage_s + wall_s, (stage.tasks * batch.task_s / there.speed, longest_s)
        else:
            longest_s, short_s = stage.split(batch.task_s)
            tasks_s = [longest_s] + [short_s] * (stage.tasks - 1)
            placed = list_schedule(batch.stage_s, tasks_s, pool.alive, pool.kind.slots)
            end_s, spent = placed.end_s, (placed.task_time_s, placed.longest_task_s)
        self._plan = (pool.version, end_s, spent)
        return end_s

    def _finish(self, batch: _Running) -> None:
        ended_s = batch.stage_s
        self._batches += 1
        slots = self._pool.strength(ended_s).slots
        self._finished.append(_Done(batch, ended_s, slots, self._batches))
        self._commit_times.append(ended_s)
        self._commit_rows.append(self._taken)
        self._batch, self._free_s = None, ended_s
        self._pool.let_go(ended_s, between_batches=True)
        if self._restart is not None:
            self._stop(ended_s)

    def _factor(self) -> float:
        """One lognormal factor with mean 1; drawn in the order of the stages, whoever looks when."""
        if not self._factors:
            sigma = self.query.noise
            draws = np.exp(sigma * self._rng.standard_normal(_DRAWS) - sigma * sigma / 2)
            self._factors = draws[::-1].tolist()
        return self._factors.pop()

    # -- restarting ----------------------------------------------------------------------------

    @property
    def parallelism(self) -> Mapping[str, int]:
        """Tasks of the stages whose operators have a parallelism of their own."""
        return {stage.operator: stage.tasks for stage in self._stages if stage.operator}

    def set_parallelism(self, now_s: float, parallelism: Mapping[str, int]) -> str:
        """Stop at the next batch boundary, and start from the checkpoint with other numbers of tasks."""
        now = self.parallelism
        changed = {name: n for name, n in parallelism.items() if name in now and now[name] != n}
        if not changed:
            return ""
        self._restart = changed
        if self._batch is None:
            self._stop(now_s)
        return "restarted from its checkpoint"

    def _stop(self, at_s: float) -> None:
        changed, self._restart = self._restart or {}, None
        self._stages = [
            replace(stage, tasks=max(1, changed.get(stage.operator, stage.tasks))) for stage in self._stages
        ]
        self._stopped = (at_s, at_s + self.query.restart_s)
        self._due_s = max(self._due_s, self._stopped[1])

    def stopped_since_s(self) -> float | None:
        """Since when it is being restarted."""
        if self._stopped and self._batch is None and self._free_s <= self._stopped[0]:
            return self._stopped[0]
        return None

    # -- what is seen --------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether a batch runs."""
        return self._batch is not None

    def running(self) -> dict[str, float | None]:
        """The one query, and the start of its batch."""
        return {self.query.pipeline.name: self._batch.started_s if self._batch else None}

    def take_batches(self) -> list[Batch]:
        """Batches that finished since this was last asked; not the first, as on Spark: nothing says over
        what time its rows came."""
        finished, self._finished = self._finished, []
        return [self._as_batch(done) for done in finished if done.batch_id > 1]

    def _as_batch(self, done: _Done) -> Batch:
        batch = done.batch
        return Batch(
            query=self.query.pipeline.name,
            batch_id=done.batch_id,
            started_s=batch.started_s,
            duration_s=done.ended_s - batch.started_s,
            rows=batch.rows,
            slots=done.slots,
            steady=not self._pool.changed_between(batch.steady_since_s, done.ended_s),
            trigger_interval_s=self.query.trigger_interval_s,
            arrival_rate_per_s=batch.rate_per_s,
            backlog_rows=float(batch.arrived - batch.first_row - batch.rows),
            oldest_arrival_s=self._inflow.arrival_s(batch.first_row),
            stages=tuple(
                StageRun(
                    index=index, tasks=tasks, task_time_s=spent_s, cpu_time_s=spent_s, wall_s=wall_s,
                    longest_task_s=longest_s,
                )
                for index, (tasks, spent_s, wall_s, longest_s) in enumerate(batch.runs)
            ),
            operators=tuple(
                OperatorRun(name=name, rows_in=round(batch.rows * into), rows_out=round(batch.rows * out))
                for name, into, out in self._per_source_row
            ),
        )  # fmt: skip

    def readings(self, now_s: float, batches: Sequence[Batch], /) -> list[Reading]:
        """As the monitor of Spark reads them, with its blind spots: the queue is what the last offsets
        left behind and the arrival rate has brought since."""
        name, interval_s = self.query.pipeline.name, self.query.trigger_interval_s
        readings = []
        for batch in batches:
            at_s = batch.ended_s
            readings += [
                Reading(at_s, name, Metric.BATCH_ROWS, float(batch.rows)),
                Reading(at_s, name, Metric.BATCH_TIME, batch.duration_s),
                Reading(at_s, name, Metric.BACKLOG, batch.backlog_rows),
                Reading(at_s, name, Metric.FRESHNESS, at_s - batch.oldest_arrival_s),
            ]
            if interval_s:
                late_s = batch.started_s % interval_s
                readings.append(Reading(at_s, name, Metric.SCHEDULING_LATENCY, late_s))
            for run in batch.operators:
                readings.append(Reading(at_s, run.name, Metric.ROWS_IN, float(run.rows_in)))
                readings.append(Reading(at_s, run.name, Metric.ROWS_OUT, float(run.rows_out)))
        if self._batch is None and now_s > max(self._free_s, self._due_s) + 2.0:
            self._rate_per_s = 0.0  # well past its trigger and no batch: nothing arrives
        since_s = max(0.0, now_s - self._last_start_s)
        queue_rows = self._left_behind + self._rate_per_s * since_s
        if self._batch is not None:
            queue_rows += self._batch.rows
        readings.append(Reading(now_s, name, Metric.ARRIVAL_RATE, self._rate_per_s))
        readings.append(Reading(now_s, name, Metric.QUEUE_LENGTH, queue_rows))
        if self._batch is not None and not batches:
            age_s = now_s - self._inflow.arrival_s(self._batch.first_row)
            if age_s > 2 * interval_s + 2.0:  # a batch that takes long is known to be late before it ends
                readings.append(Reading(now_s, name, Metric.FRESHNESS, age_s))
        return readings

    def work(self, now_s: float) -> Work:
        """Where the rows are; nothing ever fails here."""
        done = self._commit_rows[-1]
        return Work(processed=float(done), waiting=float(self._inflow.rows_by(now_s) - done), failed=0.0)

    def left(self) -> Curve:
        """Rows committed, a step at each commit."""
        return Curve(np.asarray(self._commit_times), np.asarray(self._commit_rows, dtype=np.float64))
