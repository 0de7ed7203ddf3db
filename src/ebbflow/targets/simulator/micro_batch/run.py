"""One query of the micro-batch engine at work; ``micro_batch`` has its formula, ``micro_batch_world`` its time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ebbflow.core.batches import Batch
from ebbflow.core.curve import Curve, Floats
from ebbflow.core.layout import MAIN
from ebbflow.core.metrics import Metric
from ebbflow.core.readings import Reading
from ebbflow.errors import InputError, TargetError
from ebbflow.targets.simulator.engine import Work
from ebbflow.targets.simulator.micro_batch.record import BatchAtWork, BatchRecord, rate_per_s, stretch
from ebbflow.targets.simulator.micro_batch.slots import StageAtWork
from ebbflow.targets.simulator.noise import NoiseDraws

if TYPE_CHECKING:
    from ebbflow.targets.simulator.engine import Start
    from ebbflow.targets.simulator.micro_batch.engine import MicroBatch
    from ebbflow.targets.simulator.micro_batch.world import MicroBatchWorld
    from ebbflow.targets.simulator.nodes.pool import NodePool


_ROWS_IN, _ROWS_OUT = Metric.ROWS_IN, Metric.ROWS_OUT
"""Read of each operator in each batch, so they are not looked up each time."""
_LEAST_STRETCH = 16
"""Batches below which arrays do not pay."""
_MOST_STRETCH = 4096
_REST = 64
"""Batches after a stretch that came to nothing, before the next is tried."""


class MicroBatchRun:
    """A query at work."""

    def __init__(self, start: Start, world: MicroBatchWorld) -> None:
        query: MicroBatch = start.engine
        self.query = query
        self.stages = list(query.stages)
        self.batch: BatchAtWork | None = None
        self.cluster = one_cluster(query, start.placement)
        self._inflow, self._world = start.inflow, world
        self._noise = NoiseDraws(query.noise, start.rng)
        self._taken = 0
        self._arrived_then = 0
        self._last_start_s = 0.0
        self._free_s = 0.0
        self._due_s = 0.0
        """No batch starts before: the next trigger, or the end of a restart."""
        self._restart: tuple[dict[str, int], str] | None = None
        self._restart_asked_s = 0.0
        self._stopped: tuple[float, float] | None = None
        self._restarts: list[Reading] = []
        """What restarts took, until a look after their end tells it."""
        self._record = BatchRecord(query, start.inflow)
        self._left_behind = 0
        self._rate_per_s = 0.0
        self._rest = 0
        """Batches to go before a stretch is tried again."""

    @property
    def pool(self) -> NodePool:
        """The nodes it runs on."""
        return self._world.pools[self.cluster]

    # -- time ----------------------------------------------------------------------------------

    def next_start_s(self, until_s: float) -> float:
        """When its next batch starts, if that is by then; infinite else."""
        start_s = max(self._free_s, self._due_s)
        if start_s > until_s:
            return math.inf
        rows_by, taken = self._inflow.rows_by, self._taken
        if rows_by(start_s) > taken:
            return start_s
        if rows_by(until_s) <= taken:
            return math.inf
        interval_s = self.query.trigger_interval_s
        start_s = self._inflow.arrival_s(taken)
        if interval_s:
            start_s = math.ceil(start_s / interval_s - 1e-9) * interval_s
        return start_s if start_s <= until_s else math.inf

    def run_stretch(self, until_s: float) -> None:
        """Many batches at once, where that is possible; only for a query that shares its nodes with none."""
        self._rest -= 1
        interval_s, start_s = self.query.trigger_interval_s, max(self._free_s, self._due_s)
        if self._rest > 0 or self.batch is not None or not interval_s:
            return
        count = min(int((until_s - start_s) / interval_s), _MOST_STRETCH)
        if count < _LEAST_STRETCH:
            return
        first = math.ceil(start_s / interval_s - 1e-9)
        there = self.pool.strength(start_s)
        if (
            first * interval_s != start_s or not there.slots
            or self.pool.some_leave or any(stage.skew > 1.0 for stage in self.stages)
        ):  # fmt: skip
            return
        starts_s: Floats = np.arange(first, first + count, dtype=np.float64) * interval_s
        factors = None
        if self.query.noise:
            factors = self._noise.peek(count * len(self.stages)).reshape(count, -1)
        done = stretch(
            starts_s, self._inflow.rows_by_each(starts_s),
            (self._taken, self._arrived_then, self._last_start_s, self._free_s), self.stages,
            there, driver_s=self.query.driver_s,
            most_rows=self.query.read_limit_rows, until_s=min(until_s, there.until_s), factors=factors,
        )  # fmt: skip
        if done is None or len(done.ends_s) < _LEAST_STRETCH:
            self._rest = _REST
        if done is None:
            return
        self._record.add_stretch(done, self.pool, there.slots)
        if factors is not None:
            self._noise.take(len(done.ends_s) * len(self.stages))
        self._rate_per_s, self._left_behind = done.last_rate_per_s, 0
        self._taken = self._arrived_then = int(done.arrived[-1])
        self._last_start_s, self._free_s = float(done.starts_s[-1]), float(done.ends_s[-1])
        self._due_s = (first + len(done.ends_s)) * interval_s

    def begin(self, start_s: float) -> BatchAtWork:
        """Start a batch with what has arrived."""
        query, taken = self.query, self._taken
        arrived = self._inflow.rows_by(start_s)
        rows = arrived - taken
        if query.read_limit_rows is not None and rows > query.read_limit_rows:
            rows = query.read_limit_rows
        self._rate_per_s = rate_per_s(arrived - self._arrived_then, start_s - self._last_start_s)
        self.batch = batch = BatchAtWork(
            started_s=start_s,
            rows=rows,
            first_row=taken,
            arrived=arrived,
            steady_since_s=self._free_s,
            rate_per_s=self._rate_per_s,
            stage_s=start_s + query.driver_s,
            factors=[self._noise.one() for _ in self.stages] if query.noise else None,
        )
        self._taken = taken + rows
        self._left_behind = arrived - self._taken
        self._last_start_s, self._arrived_then = start_s, arrived
        interval_s = query.trigger_interval_s
        self._due_s = (math.floor(start_s / interval_s + 1e-9) + 1) * interval_s if interval_s else start_s
        return batch

    def run_through(self, batch: BatchAtWork) -> float | None:
        """When the batch ends if it has the slots for itself and the nodes stay as they are: the formula.

        None where that is not known to be so, and tasks must be looked at one by one.
        """
        there = self.pool.strength(batch.stage_s)
        if not there.slots or self.pool.some_leave:
            return None
        end_s, runs = batch.stage_s, []
        for index, stage in enumerate(self.stages):
            run = stage.run(batch.task_s(index, stage), there)
            if run is None:
                return None
            runs.append(run)
            end_s += run[2]
        if end_s > there.until_s:
            return None
        batch.runs = runs
        return end_s

    def stage_at_work(self, number: int) -> StageAtWork | None:
        """The tasks of the stage that the batch is in; None if it is through."""
        batch = self.batch
        assert batch is not None
        if batch.stage == len(self.stages):
            return None
        stage = self.stages[batch.stage]
        longest_s, short_s = stage.split(batch.task_s(batch.stage, stage))
        tasks = (
            [(longest_s, 1), (short_s, stage.tasks - 1)] if longest_s > short_s else [(short_s, stage.tasks)]
        )
        return StageAtWork((batch.started_s, number), [task for task in tasks if task[1]])

    def stage_over(self, at_s: float, stage: StageAtWork) -> None:
        """Note what a stage took."""
        batch = self.batch
        assert batch is not None
        tasks = self.stages[batch.stage].tasks
        batch.runs.append((tasks, stage.task_time_s, at_s - stage.first_s, stage.longest_task_s))
        batch.stage += 1
        batch.stage_s = at_s

    def finish(self, ended_s: float) -> None:
        """Commit the batch; stop if that was asked for."""
        batch = self.batch
        assert batch is not None
        self._record.add(batch, ended_s, self.pool)
        self.batch, self._free_s = None, ended_s
        if self._restart is not None:
            self._stop(ended_s)

    # -- restarting ----------------------------------------------------------------------------

    @property
    def parallelism(self) -> Mapping[str, int]:
        """Tasks of the stages whose operators have a parallelism of their own, as wanted last."""
        wanted, _ = self._restart or ({}, "")
        return {s.operator: wanted.get(s.operator, s.tasks) for s in self.stages if s.operator}

    @property
    def placement(self) -> Mapping[str, str]:
        """The cluster of its operators, where that is not the main one: the same for all."""
        return {} if self.cluster == MAIN else dict.fromkeys(self.query.pipeline.order, self.cluster)

    def set_parallelism(
        self, now_s: float, parallelism: Mapping[str, int], placement: Mapping[str, str] | None = None
    ) -> str:
        """Stop at the next batch boundary, and start from the checkpoint: with other numbers of tasks, or
        in another cluster."""
        pending, cluster = self._restart or ({}, self.cluster)
        wanted = {**pending, **parallelism}
        changed = {}
        for stage in self.stages:
            if stage.operator and stage.operator in wanted:
                tasks = stage.with_tasks(wanted[stage.operator]).tasks
                if tasks != stage.tasks:
                    changed[stage.operator] = tasks
        if placement is not None:
            cluster = self._wanted_cluster(placement)
        if not changed and cluster == self.cluster:
            self._restart = None
            return ""
        if self._restart is None:
            self._restart_asked_s = now_s
        self._restart = (changed, cluster)
        moves = f" in {cluster}" if cluster != self.cluster else ""
        if self.batch is None:
            self._stop(now_s)
        return f"restarted from its checkpoint{moves}"

    def _wanted_cluster(self, placement: Mapping[str, str]) -> str:
        try:
            return one_cluster(self.query, placement)
        except InputError as error:
            raise TargetError(str(error)) from None

    def _stop(self, at_s: float) -> None:
        changed, cluster = self._restart or ({}, self.cluster)
        self._restart = None
        self.stages = [stage.with_tasks(changed.get(stage.operator, stage.tasks)) for stage in self.stages]
        move_s = 0.0
        if cluster != self.cluster:
            move_s = self._world.link.latency_s + self.query.state_mb / self._world.link.mb_per_s
            self.cluster = cluster
        self._stopped = (at_s, at_s + self.query.restart_s + move_s)
        name, started_s = self.query.pipeline.name, self._stopped[1]
        self._restarts += [
            Reading(started_s, name, Metric.RESTART_STOP, at_s - min(self._restart_asked_s, at_s)),
            Reading(started_s, name, Metric.RESTART_STATE, move_s),
            Reading(started_s, name, Metric.RESTART_START, self.query.restart_s),
        ]
        self._due_s = max(self._due_s, self._stopped[1])

    def stopped_since_s(self) -> float | None:
        """Since when it is being restarted."""
        if self._stopped and self.batch is None and self._free_s <= self._stopped[0]:
            return self._stopped[0]
        return None

    # -- what is seen --------------------------------------------------------------------------

    def running(self) -> dict[str, float | None]:
        """The one query, and the start of its batch."""
        return {self.query.pipeline.name: self.batch.started_s if self.batch else None}

    def take_batches(self) -> list[Batch]:
        """Batches that finished since this was last asked."""
        return self._record.take()

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
                Reading(at_s, name, Metric.FRESHNESS, at_s - batch.oldest_arrival_s),
            ]
            if batch.backlog_rows is not None:
                readings.append(Reading(at_s, name, Metric.BACKLOG, batch.backlog_rows))
            if interval_s:
                late_s = batch.started_s % interval_s
                readings.append(Reading(at_s, name, Metric.SCHEDULING_LATENCY, late_s))
            for run in batch.operators:
                readings += (
                    Reading(at_s, run.name, _ROWS_IN, float(run.rows_in)),
                    Reading(at_s, run.name, _ROWS_OUT, float(run.rows_out)),
                )
        if self._restarts and self._restarts[0].time_s <= now_s:
            readings += [r for r in self._restarts if r.time_s <= now_s]
            self._restarts = [r for r in self._restarts if r.time_s > now_s]
        if self.batch is None and now_s > max(self._free_s, self._due_s) + 2.0:
            self._rate_per_s = 0.0  # well past its trigger and no batch: nothing arrives
            if self.query.read_limit_rows is not None and not self._left_behind:
                readings.append(Reading(now_s, name, Metric.BACKLOG, 0.0))
        since_s = max(0.0, now_s - self._last_start_s)
        queue_rows = self._left_behind + self._rate_per_s * since_s
        if self.batch is not None:
            queue_rows += self.batch.rows
        readings.append(Reading(now_s, name, Metric.ARRIVAL_RATE, self._rate_per_s))
        readings.append(Reading(now_s, name, Metric.QUEUE_LENGTH, queue_rows))
        if self.batch is not None and not batches:
            age_s = now_s - self._inflow.arrival_s(self.batch.first_row)
            if age_s > 2 * interval_s + 2.0:  # a batch that takes long is known to be late before it ends
                readings.append(Reading(now_s, name, Metric.FRESHNESS, age_s))
        return readings

    def work(self, now_s: float) -> Work:
        """Where the rows are; nothing ever fails here."""
        done = self._record.committed
        return Work(processed=float(done), waiting=float(self._inflow.rows_by(now_s) - done), failed=0.0)

    def processed(self) -> Curve:
        """Rows committed, a step at each commit."""
        return self._record.processed()

    def lost(self, _arrived: Curve) -> Curve:
        """None ever."""
        return Curve.of([(0.0, 0.0)])


def one_cluster(query: MicroBatch, placement: Mapping[str, str]) -> str:
    """The cluster that a query is placed in; ``InputError`` if that is more than one."""
    wanted = {placement.get(name, MAIN) for name in query.pipeline.order}
    if len(wanted) > 1:
        raise InputError(
            f"query '{query.pipeline.name}' cannot be spread over {' and '.join(sorted(wanted))}; "
            "a micro-batch query runs in one cluster, with all its operators"
        )
    return wanted.pop()
