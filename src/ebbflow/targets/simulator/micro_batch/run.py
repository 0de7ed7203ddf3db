"""A query of the micro-batch engine: when its batches start and end, restarts, and what a monitor reads of it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from ebbflow.core.batches import Batch, OperatorRun, StageRun
from ebbflow.core.curve import Curve, Floats
from ebbflow.core.layout import MAIN
from ebbflow.core.metrics import Metric
from ebbflow.core.readings import Reading
from ebbflow.core.waves import waves
from ebbflow.errors import InputError, TargetError
from ebbflow.targets.simulator.engine import Inflow, NoiseDraws, PipelineRows, Start
from ebbflow.targets.simulator.micro_batch.slots import RunningStage
from ebbflow.targets.simulator.nodes import ActiveNodes, Link, NodePool

if TYPE_CHECKING:
    from ebbflow.targets.simulator.micro_batch import MicroBatch, Stage

Ints = npt.NDArray[np.int64]
StageTimes = tuple[int, float, float, float]
"""(tasks, Σ task time, wall time, longest task) of a finished stage."""

_ROWS_IN, _ROWS_OUT = Metric.ROWS_IN, Metric.ROWS_OUT
"""Looked up once, because they are read for each operator of each batch."""
_MIN_SERIES, _MAX_SERIES = 16, 4096
"""Batches in a series; for fewer, arrays are slower."""
_SERIES_BACKOFF = 64
"""Batches to wait after a series that was too short."""


class MicroBatchRun:
    """A running query."""

    def __init__(self, start: Start, pools: Mapping[str, NodePool], link: Link) -> None:
        query: MicroBatch = start.engine
        self.query = query
        self.stages = list(query.stages)
        self.batch: RunningBatch | None = None
        self.cluster = single_cluster(query, start.placement)
        self._pools, self._link = pools, link
        self._inflow = start.inflow
        self._noise = NoiseDraws(query.noise, start.rng)
        self._log = BatchLog(query, start.inflow)
        self._taken = 0
        self._last_arrived = 0
        self._last_start_s = 0.0
        self._free_s = 0.0
        """The end of the last batch."""
        self._due_s = 0.0
        """The earliest start of the next batch: its trigger, or the end of a restart."""
        self._backlog_rows = 0
        self._rate_per_s = 0.0
        self._series_backoff = 0
        """Batches until the next series is tried."""
        self._pending_restart: tuple[dict[str, int], str] | None = None
        self._restart_requested_s = 0.0
        self._restarting: tuple[float, float] | None = None
        """From when to when the last restart lasts."""
        self._restart_readings: list[Reading] = []
        """Readings of restarts, to be reported after their end."""

    @property
    def pool(self) -> NodePool:
        """The nodes it runs on."""
        return self._pools[self.cluster]

    # -- batches -------------------------------------------------------------------------------

    def next_start_s(self, until_s: float) -> float:
        """When its next batch starts; infinite if that is after ``until_s``."""
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

    def run_series(self, until_s: float) -> None:
        """Run many batches at once if possible; only for a query that shares its nodes with no other."""
        self._series_backoff -= 1
        interval_s, start_s = self.query.trigger_interval_s, max(self._free_s, self._due_s)
        if self._series_backoff > 0 or self.batch is not None or not interval_s:
            return
        count = min(int((until_s - start_s) / interval_s), _MAX_SERIES)
        if count < _MIN_SERIES:
            return
        first = math.ceil(start_s / interval_s - 1e-9)
        active = self.pool.active(start_s)
        if (
            first * interval_s != start_s or not active.slots
            or self.pool.any_leaving or any(stage.skew > 1.0 for stage in self.stages)
        ):  # fmt: skip
            return
        starts_s: Floats = np.arange(first, first + count, dtype=np.float64) * interval_s
        factors = None
        if self.query.noise:
            factors = self._noise.peek(count * len(self.stages)).reshape(count, -1)
        before = _Before(self._taken, self._last_arrived, self._last_start_s, self._free_s)
        series = batch_series(
            starts_s, self._inflow.rows_by_each(starts_s), before, self.stages, active,
            driver_s=self.query.driver_s, max_rows=self.query.read_limit_rows,
            until_s=min(until_s, active.until_s), factors=factors,
        )  # fmt: skip
        if series is None or len(series.ends_s) < _MIN_SERIES:
            self._series_backoff = _SERIES_BACKOFF
        if series is None:
            return
        self._log.add_series(series, self.pool, active.slots)
        if factors is not None:
            self._noise.skip(len(series.ends_s) * len(self.stages))
        self._rate_per_s, self._backlog_rows = series.last_rate_per_s, 0
        self._taken = self._last_arrived = int(series.arrived[-1])
        self._last_start_s, self._free_s = float(series.starts_s[-1]), float(series.ends_s[-1])
        self._due_s = (first + len(series.ends_s)) * interval_s

    def begin(self, start_s: float) -> RunningBatch:
        """Start a batch with the rows that have arrived."""
        query, taken = self.query, self._taken
        arrived = self._inflow.rows_by(start_s)
        rows = arrived - taken
        if query.read_limit_rows is not None and rows > query.read_limit_rows:
            rows = query.read_limit_rows
        self._rate_per_s = _rate_per_s(arrived - self._last_arrived, start_s - self._last_start_s)
        self.batch = batch = RunningBatch(
            started_s=start_s,
            rows=rows,
            first_row=taken,
            arrived=arrived,
            steady_since_s=self._free_s,
            rate_per_s=self._rate_per_s,
            stage_s=start_s + query.driver_s,
            factors=[self._noise.next() for _ in self.stages] if query.noise else None,
        )
        self._taken = taken + rows
        self._backlog_rows = arrived - self._taken
        self._last_start_s, self._last_arrived = start_s, arrived
        interval_s = query.trigger_interval_s
        self._due_s = (math.floor(start_s / interval_s + 1e-9) + 1) * interval_s if interval_s else start_s
        return batch

    def compute_end_s(self, batch: RunningBatch) -> float | None:
        """The end of the batch by the formula, if it has all slots of unchanging nodes; None if it does not."""
        active = self.pool.active(batch.stage_s)
        if not active.slots or self.pool.any_leaving:
            return None
        end_s, stage_times = batch.stage_s, []
        for index, stage in enumerate(self.stages):
            times = stage.run_alone(batch.task_s(index, stage), active)
            if times is None:
                return None
            stage_times.append(times)
            end_s += times[2]
        if end_s > active.until_s:
            return None
        batch.stage_times = stage_times
        return end_s

    def current_stage(self, number: int) -> RunningStage | None:
        """The tasks of the batch's current stage; None if all stages are done."""
        batch = self.batch
        assert batch is not None
        if batch.stage == len(self.stages):
            return None
        stage = self.stages[batch.stage]
        longest_s, other_s = stage.task_times_s(batch.task_s(batch.stage, stage))
        tasks = (
            [(longest_s, 1), (other_s, stage.tasks - 1)] if longest_s > other_s else [(other_s, stage.tasks)]
        )
        return RunningStage((batch.started_s, number), [task for task in tasks if task[1]])

    def end_stage(self, at_s: float, stage: RunningStage) -> None:
        """Record the times of a finished stage."""
        batch = self.batch
        assert batch is not None
        tasks = self.stages[batch.stage].tasks
        batch.stage_times.append((tasks, stage.task_time_s, at_s - stage.first_s, stage.longest_task_s))
        batch.stage += 1
        batch.stage_s = at_s

    def finish(self, ended_s: float) -> None:
        """Commit the batch, and restart the query if that was requested."""
        batch = self.batch
        assert batch is not None
        self._log.add(batch, ended_s, self.pool)
        self.batch, self._free_s = None, ended_s
        if self._pending_restart is not None:
            self._restart(ended_s)

    # -- restarts ------------------------------------------------------------------------------

    @property
    def parallelism(self) -> Mapping[str, int]:
        """The requested tasks of the stages whose operators have their own parallelism."""
        wanted, _ = self._pending_restart or ({}, "")
        return {s.operator: wanted.get(s.operator, s.tasks) for s in self.stages if s.operator}

    @property
    def placement(self) -> Mapping[str, str]:
        """The requested cluster of its operators if that is not the main one; the same for all."""
        cluster = self.cluster if self._pending_restart is None else self._pending_restart[1]
        return {} if cluster == MAIN else dict.fromkeys(self.query.pipeline.order, cluster)

    def set_parallelism(
        self, now_s: float, parallelism: Mapping[str, int], placement: Mapping[str, str] | None = None
    ) -> str:
        """Restart from the checkpoint at the next batch boundary, with other numbers of tasks or in another cluster."""
        pending, cluster = self._pending_restart or ({}, self.cluster)
        wanted = {**pending, **parallelism}
        changed = {}
        for stage in self.stages:
            if stage.operator and stage.operator in wanted:
                tasks = stage.with_tasks(wanted[stage.operator]).tasks
                if tasks != stage.tasks:
                    changed[stage.operator] = tasks
        if placement is not None:
            try:
                cluster = single_cluster(self.query, placement)
            except InputError as error:
                raise TargetError(str(error)) from None
        if not changed and cluster == self.cluster:
            self._pending_restart = None
            return ""
        if self._pending_restart is None:
            self._restart_requested_s = now_s
        self._pending_restart = (changed, cluster)
        where = f" in {cluster}" if cluster != self.cluster else ""
        if self.batch is None:
            self._restart(now_s)
        return f"restarted from its checkpoint{where}"

    def _restart(self, at_s: float) -> None:
        changed, cluster = self._pending_restart or ({}, self.cluster)
        self._pending_restart = None
        self.stages = [stage.with_tasks(changed.get(stage.operator, stage.tasks)) for stage in self.stages]
        move_s = 0.0
        if cluster != self.cluster:
            move_s = self._link.latency_s + self.query.state_mb / self._link.mb_per_s
            self.cluster = cluster
        name, started_s = self.query.pipeline.name, at_s + self.query.restart_s + move_s
        self._restarting = (at_s, started_s)
        self._restart_readings += [
            Reading(started_s, name, Metric.RESTART_STOP, at_s - min(self._restart_requested_s, at_s)),
            Reading(started_s, name, Metric.RESTART_STATE, move_s),
            Reading(started_s, name, Metric.RESTART_START, self.query.restart_s),
        ]
        self._due_s = max(self._due_s, started_s)

    def stopped_since_s(self) -> float | None:
        """Since when it is restarting; None while it runs."""
        if self._restarting and self.batch is None and self._free_s <= self._restarting[0]:
            return self._restarting[0]
        return None

    # -- monitoring ----------------------------------------------------------------------------

    def running(self) -> dict[str, float | None]:
        """The query and the start of its batch."""
        return {self.query.pipeline.name: self.batch.started_s if self.batch else None}

    def take_batches(self) -> list[Batch]:
        """Batches that finished since the last call."""
        return self._log.take()

    def readings(self, now_s: float, batches: Sequence[Batch], /) -> list[Reading]:
        """What Spark's monitor reads, with its gaps: the queue is estimated as the rows that the last offsets left
        plus the arrival rate since then."""
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
            if len(self._pools) > 1:
                readings += self._event_readings(batch)
        if self._restart_readings and self._restart_readings[0].time_s <= now_s:
            readings += [r for r in self._restart_readings if r.time_s <= now_s]
            self._restart_readings = [r for r in self._restart_readings if r.time_s > now_s]
        if self.batch is None and now_s > max(self._free_s, self._due_s) + 2.0:
            self._rate_per_s = 0.0  # well past its trigger without a batch: nothing arrives
            if self.query.read_limit_rows is not None and not self._backlog_rows:
                readings.append(Reading(now_s, name, Metric.BACKLOG, 0.0))
            if len(self._pools) > 1:
                readings.append(Reading(now_s, self.query.pipeline.order[0], Metric.EVENT_RATE, 0.0))
        since_s = max(0.0, now_s - self._last_start_s)
        queue_rows = self._backlog_rows + self._rate_per_s * since_s
        if self.batch is not None:
            queue_rows += self.batch.rows
        readings.append(Reading(now_s, name, Metric.ARRIVAL_RATE, self._rate_per_s))
        readings.append(Reading(now_s, name, Metric.QUEUE_LENGTH, queue_rows))
        if self.batch is not None and not batches:
            age_s = now_s - self._inflow.arrival_s(self.batch.first_row)
            if age_s > 2 * interval_s + 2.0:  # a long batch is known to be late before it ends
                readings.append(Reading(now_s, name, Metric.FRESHNESS, age_s))
        return readings

    def _event_readings(self, batch: Batch) -> Iterator[Reading]:
        """Rate and cost of events of a query that may move, at its first operator: the others move with it."""
        first, at_s = self.query.pipeline.order[0], batch.ended_s
        yield Reading(at_s, first, Metric.EVENT_RATE, batch.arrival_rate_per_s)
        if batch.rows:
            busy_s = sum(stage.task_time_s for stage in batch.stages)
            yield Reading(at_s, first, Metric.TIME_PER_EVENT, busy_s / batch.rows / self.pool.kind.slots)
        if self.query.state_mb:
            yield Reading(at_s, first, Metric.STATE_SIZE, self.query.state_mb * 1e6)

    def work(self, now_s: float) -> PipelineRows:
        """The current row counts; no row ever fails."""
        done = self._log.committed
        return PipelineRows(
            processed=float(done), waiting=float(self._inflow.rows_by(now_s) - done), failed=0.0
        )

    def processed(self) -> Curve:
        """Committed rows, with a step at each commit."""
        return self._log.processed()

    def lost(self, _arrived: Curve) -> Curve:
        """Always 0."""
        return Curve.of([(0.0, 0.0)])


def single_cluster(query: MicroBatch, placement: Mapping[str, str]) -> str:
    """The cluster that a query is placed in; ``InputError`` if there are several."""
    wanted = {placement.get(name, MAIN) for name in query.pipeline.order}
    if len(wanted) > 1:
        raise InputError(
            f"query '{query.pipeline.name}' cannot be split across {' and '.join(sorted(wanted))}; "
            "a micro-batch query runs in one cluster with all its operators"
        )
    return wanted.pop()


def _rate_per_s(rows: int, span_s: float) -> float:
    return rows / span_s if span_s > 0 else 0.0


@dataclass
class RunningBatch:
    """A batch in progress. ``stage_s`` is the earliest start of its current stage."""

    started_s: float
    rows: int
    first_row: int
    arrived: int
    steady_since_s: float
    rate_per_s: float
    stage_s: float
    factors: Sequence[float] | None = None
    """Noise on the task times of each stage, drawn at the start so that a second simulation gives the same."""
    stage: int = 0
    stage_times: list[StageTimes] = field(default_factory=list)

    def task_s(self, index: int, stage: Stage) -> float:
        """The mean task time of a stage at speed 1."""
        seconds = stage.per_task_s + stage.per_row_s * self.rows / stage.tasks
        return seconds if self.factors is None else seconds * self.factors[index]


# -- many batches at once ------------------------------------------------------------------------


class _Before(NamedTuple):
    """The state of a query before a series of batches."""

    taken: int
    last_arrived: int
    last_start_s: float
    free_s: float


@dataclass(frozen=True, kw_only=True, eq=False)
class BatchSeries:
    """Consecutive batches that each begin at their trigger and end before the next.

    Such batches do not depend on each other, so the formula applies to arrays: the same operations in the same order
    as for a single batch, hence the same bits.
    """

    starts_s: Floats
    ends_s: Floats
    arrived: Ints
    """Rows that had arrived at each start."""
    stages: Sequence[Stage]
    task_times_s: Sequence[Floats]
    """For each stage, the task time at speed 1 in each batch."""
    active: ActiveNodes
    driver_s: float
    before: _Before

    @property
    def last_rate_per_s(self) -> float:
        """Rows per second between the last two starts."""
        last_arrived, last_start_s = self.before.last_arrived, self.before.last_start_s
        if len(self.starts_s) > 1:
            last_arrived, last_start_s = int(self.arrived[-2]), float(self.starts_s[-2])
        return _rate_per_s(int(self.arrived[-1]) - last_arrived, float(self.starts_s[-1]) - last_start_s)

    def batches(self) -> Iterator[tuple[RunningBatch, float]]:
        """The batches, each with its end."""
        taken, last_arrived, last_start_s, free_s = self.before
        for k, (start_s, end_s, arrived) in enumerate(
            zip(self.starts_s.tolist(), self.ends_s.tolist(), self.arrived.tolist(), strict=True)
        ):
            stage_times = [
                times
                for stage, times_s in zip(self.stages, self.task_times_s, strict=True)
                if (times := stage.run_alone(float(times_s[k]), self.active)) is not None
            ]
            yield (
                RunningBatch(
                    started_s=start_s,
                    rows=arrived - taken,
                    first_row=taken,
                    arrived=arrived,
                    steady_since_s=free_s,
                    rate_per_s=_rate_per_s(arrived - last_arrived, start_s - last_start_s),
                    stage_s=start_s + self.driver_s,
                    stage=len(stage_times),
                    stage_times=stage_times,
                ),
                end_s,
            )
            taken = last_arrived = arrived
            last_start_s, free_s = start_s, end_s


def batch_series(
    starts_s: Floats, arrived: Ints, before: _Before, stages: Sequence[Stage], active: ActiveNodes,
    *, driver_s: float, max_rows: int | None, until_s: float, factors: Floats | None,
) -> BatchSeries | None:  # fmt: skip
    """The longest series from the first trigger on; None if not even the first batch qualifies.

    ``factors``: noise for each batch (rows) and stage (columns).
    """
    rows = np.diff(arrived, prepend=before.taken)
    ends_s = starts_s + driver_s
    times_s = []
    for index, stage in enumerate(stages):
        task_s = stage.per_task_s + stage.per_row_s * rows / stage.tasks
        if factors is not None:
            task_s = task_s * factors[:, index]
        times_s.append(task_s)
        if active.speed is None:
            ends_s = ends_s + active.schedule(stage.tasks).wall * task_s
        else:
            ends_s = ends_s + waves(stage.tasks, active.slots) * (task_s / active.speed)
    fits = (rows > 0) & (ends_s <= until_s)
    fits[1:] &= ends_s[:-1] <= starts_s[1:]
    if max_rows is not None:
        fits &= rows <= max_rows
    count = len(fits) if fits.all() else int(np.argmin(fits))
    if not count:
        return None
    return BatchSeries(
        starts_s=starts_s[:count], ends_s=ends_s[:count], arrived=arrived[:count], stages=stages,
        task_times_s=[t[:count] for t in times_s], active=active, driver_s=driver_s, before=before,
    )  # fmt: skip


# -- finished batches ----------------------------------------------------------------------------


class _FinishedBatch(NamedTuple):
    batch: RunningBatch
    ended_s: float
    pool: NodePool
    slots: int
    batch_id: int


class BatchLog:
    """The committed rows of a query, and its batches that are not reported yet."""

    def __init__(self, query: MicroBatch, inflow: Inflow) -> None:
        self._query, self._inflow = query, inflow
        self._unreported: list[_FinishedBatch | tuple[int, NodePool, int, BatchSeries]] = []
        self._batches = 0
        self._times_s: list[float] = [0.0]
        self._rows: list[int] = [0]
        pipeline = query.pipeline
        rates = pipeline.input_rates(dict.fromkeys(pipeline.sources, 1.0))
        out = dict.fromkeys(pipeline.order, 0.0)
        for stream in pipeline.streams:
            out[stream.source] += rates[stream.source] * stream.selectivity
        self._per_source_row = [(name, rates[name], out[name] or rates[name]) for name in pipeline.order]

    @property
    def committed(self) -> int:
        """Rows committed so far."""
        return self._rows[-1]

    def add(self, batch: RunningBatch, ended_s: float, pool: NodePool) -> None:
        """Add a finished batch."""
        self._batches += 1
        slots = pool.active(ended_s).slots
        self._unreported.append(_FinishedBatch(batch, ended_s, pool, slots, self._batches))
        self._times_s.append(ended_s)
        self._rows.append(batch.first_row + batch.rows)

    def add_series(self, series: BatchSeries, pool: NodePool, slots: int) -> None:
        """Add a series of finished batches; they are created only when they are taken."""
        self._unreported.append((self._batches, pool, slots, series))
        self._batches += len(series.ends_s)
        self._times_s += series.ends_s.tolist()
        self._rows += series.arrived.tolist()

    def take(self) -> list[Batch]:
        """Batches since the last call, except the first ever: as on Spark, its rows arrived over an unknown time."""
        unreported, self._unreported = self._unreported, []
        finished: list[_FinishedBatch] = []
        for item in unreported:
            if isinstance(item, _FinishedBatch):
                finished.append(item)
            else:
                before, pool, slots, series = item
                finished += [
                    _FinishedBatch(batch, ended_s, pool, slots, before + number)
                    for number, (batch, ended_s) in enumerate(series.batches(), start=1)
                ]
        return [self._as_batch(item) for item in finished if item.batch_id > 1]

    def processed(self) -> Curve:
        """Committed rows, with a step at each commit."""
        return Curve(np.asarray(self._times_s), np.asarray(self._rows, dtype=np.float64))

    def _as_batch(self, finished: _FinishedBatch) -> Batch:
        batch = finished.batch
        return Batch(
            query=self._query.pipeline.name,
            batch_id=finished.batch_id,
            started_s=batch.started_s,
            duration_s=finished.ended_s - batch.started_s,
            rows=batch.rows,
            slots=finished.slots,
            steady=not finished.pool.changed_between(batch.steady_since_s, finished.ended_s),
            trigger_interval_s=self._query.trigger_interval_s,
            arrival_rate_per_s=batch.rate_per_s,
            backlog_rows=float(batch.arrived - batch.first_row - batch.rows),
            oldest_arrival_s=self._inflow.arrival_s(batch.first_row),
            stages=tuple([
                StageRun(
                    index=index, tasks=tasks, task_time_s=spent_s, cpu_time_s=spent_s, wall_s=wall_s,
                    longest_task_s=longest_s,
                )
                for index, (tasks, spent_s, wall_s, longest_s) in enumerate(batch.stage_times)
            ]),
            operators=tuple([
                OperatorRun(name=name, rows_in=round(batch.rows * into), rows_out=round(batch.rows * out))
                for name, into, out in self._per_source_row
            ]),
        )  # fmt: skip
