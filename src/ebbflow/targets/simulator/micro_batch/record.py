"""What a query has done: its batches, and the rows it has committed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from ebbflow.core.batches import Batch, OperatorRun, StageRun
from ebbflow.core.curve import Curve, Floats
from ebbflow.core.waves import waves

if TYPE_CHECKING:
    from ebbflow.targets.simulator.inflow import Inflow
    from ebbflow.targets.simulator.micro_batch.engine import MicroBatch, Stage
    from ebbflow.targets.simulator.nodes import Strength
    from ebbflow.targets.simulator.nodes.pool import NodePool


StageTimes = tuple[int, float, float, float]
"""(tasks, Σ task time, wall, longest task) of a finished stage."""


@dataclass
class BatchAtWork:
    """A batch. ``stage_s`` is when its current stage could begin."""

    started_s: float
    rows: int
    first_row: int
    arrived: int
    steady_since_s: float
    rate_per_s: float
    stage_s: float
    factors: Sequence[float] | None = None
    """Noise on the task times of each stage; drawn as it starts, so that looking again changes nothing."""
    stage: int = 0
    runs: list[StageTimes] = field(default_factory=list)

    def task_s(self, index: int, stage: Stage) -> float:
        """Mean task time of a stage at speed 1."""
        seconds = stage.per_task_s + stage.per_row_s * self.rows / stage.tasks
        return seconds if self.factors is None else seconds * self.factors[index]


class _Done(NamedTuple):
    batch: BatchAtWork
    ended_s: float
    pool: NodePool
    slots: int
    batch_id: int


class BatchRecord:
    """Batches that nobody has asked for yet, and the curve of commits."""

    def __init__(self, query: MicroBatch, inflow: Inflow) -> None:
        self._query, self._inflow = query, inflow
        self._untold: list[_Done | tuple[int, NodePool, int, Stretch]] = []
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

    def add(self, batch: BatchAtWork, ended_s: float, pool: NodePool) -> None:
        """A batch has ended."""
        self._batches += 1
        self._untold.append(_Done(batch, ended_s, pool, pool.strength(ended_s).slots, self._batches))
        self._times_s.append(ended_s)
        self._rows.append(batch.first_row + batch.rows)

    def add_stretch(self, stretch: Stretch, pool: NodePool, slots: int) -> None:
        """Many batches have."""
        self._untold.append((self._batches, pool, slots, stretch))
        self._batches += len(stretch.ends_s)
        self._times_s += stretch.ends_s.tolist()
        self._rows += stretch.arrived.tolist()

    def take(self) -> list[Batch]:
        """Batches since this was last asked; not the first, as on Spark: nothing says over what time its
        rows came."""
        untold, self._untold = self._untold, []
        done: list[_Done] = []
        for item in untold:
            if isinstance(item, _Done):
                done.append(item)
            else:
                before, pool, slots, stretch = item
                done += [
                    _Done(batch, ended_s, pool, slots, before + number)
                    for number, (batch, ended_s) in enumerate(stretch.batches(), start=1)
                ]
        return [self._as_batch(item) for item in done if item.batch_id > 1]

    def processed(self) -> Curve:
        """Rows committed, a step at each commit."""
        return Curve(np.asarray(self._times_s), np.asarray(self._rows, dtype=np.float64))

    def _as_batch(self, done: _Done) -> Batch:
        batch = done.batch
        return Batch(
            query=self._query.pipeline.name,
            batch_id=done.batch_id,
            started_s=batch.started_s,
            duration_s=done.ended_s - batch.started_s,
            rows=batch.rows,
            slots=done.slots,
            steady=not done.pool.changed_between(batch.steady_since_s, done.ended_s),
            trigger_interval_s=self._query.trigger_interval_s,
            arrival_rate_per_s=batch.rate_per_s,
            backlog_rows=float(batch.arrived - batch.first_row - batch.rows),
            oldest_arrival_s=self._inflow.arrival_s(batch.first_row),
            stages=tuple([
                StageRun(
                    index=index, tasks=tasks, task_time_s=spent_s, cpu_time_s=spent_s, wall_s=wall_s,
                    longest_task_s=longest_s,
                )
                for index, (tasks, spent_s, wall_s, longest_s) in enumerate(batch.runs)
            ]),
            operators=tuple([
                OperatorRun(name=name, rows_in=round(batch.rows * into), rows_out=round(batch.rows * out))
                for name, into, out in self._per_source_row
            ]),
        )  # fmt: skip


# Many batches of one query at once: a stretch in which each begins at its trigger and ends before the next.
#
# There the batches do not depend on each other, and the formula holds for arrays as it does for one batch: the same
# operations in the same order, so the same bits.


Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Stretch:
    """Batches k = 0, 1, …: when they begin and end, and the rows that had arrived when they began."""

    starts_s: Floats
    ends_s: Floats
    arrived: Ints
    stages: Sequence[Stage]
    task_times_s: Sequence[Floats]
    """Of each stage, for each batch: the time of a task at speed 1."""
    there: Strength
    driver_s: float
    before: tuple[int, int, float, float]
    """Rows taken, rows arrived at the start before, that start, and the end of the batch before the first."""

    @property
    def last_rate_per_s(self) -> float:
        """Rows per second between the last two starts."""
        _, arrived_then, last_start_s, _ = self.before
        if len(self.starts_s) > 1:
            arrived_then, last_start_s = int(self.arrived[-2]), float(self.starts_s[-2])
        return rate_per_s(int(self.arrived[-1]) - arrived_then, float(self.starts_s[-1]) - last_start_s)

    def batches(self) -> Iterator[tuple[BatchAtWork, float]]:
        """One by one, each with its end."""
        taken, arrived_then, last_start_s, free_s = self.before
        for k, (start_s, end_s, arrived) in enumerate(
            zip(self.starts_s.tolist(), self.ends_s.tolist(), self.arrived.tolist(), strict=True)
        ):
            runs = [
                run
                for stage, times_s in zip(self.stages, self.task_times_s, strict=True)
                if (run := stage.run(float(times_s[k]), self.there)) is not None
            ]
            yield (
                BatchAtWork(
                    started_s=start_s,
                    rows=arrived - taken,
                    first_row=taken,
                    arrived=arrived,
                    steady_since_s=free_s,
                    rate_per_s=rate_per_s(arrived - arrived_then, start_s - last_start_s),
                    stage_s=start_s + self.driver_s,
                    stage=len(runs),
                    runs=runs,
                ),
                end_s,
            )
            taken = arrived_then = arrived
            last_start_s, free_s = start_s, end_s


def rate_per_s(rows: int, span_s: float) -> float:
    """Rows per second over the time between two starts."""
    return rows / span_s if span_s > 0 else 0.0


def stretch(
    starts_s: Floats, arrived: Ints, before: tuple[int, int, float, float], stages: Sequence[Stage],
    there: Strength, *,
    driver_s: float, most_rows: int | None, until_s: float, factors: Floats | None,
) -> Stretch | None:  # fmt: skip
    """The batches of as many triggers, one after the other, as the rules above and the limits allow.

    ``factors``: noise for each batch (rows) and stage (columns). None if not even the first can be told.
    """
    rows = np.diff(arrived, prepend=before[0])
    ends_s = starts_s + driver_s
    times_s = []
    for index, stage in enumerate(stages):
        task_s = stage.per_task_s + stage.per_row_s * rows / stage.tasks
        if factors is not None:
            task_s = task_s * factors[:, index]
        times_s.append(task_s)
        if there.speed is None:
            ends_s = ends_s + there.deal(stage.tasks).wall * task_s
        else:
            ends_s = ends_s + waves(stage.tasks, there.slots) * (task_s / there.speed)
    fits = (rows > 0) & (ends_s <= until_s)
    fits[1:] &= ends_s[:-1] <= starts_s[1:]
    if most_rows is not None:
        fits &= rows <= most_rows
    count = len(fits) if fits.all() else int(np.argmin(fits))
    if not count:
        return None
    return Stretch(
        starts_s=starts_s[:count], ends_s=ends_s[:count], arrived=arrived[:count],
        stages=stages, task_times_s=[t[:count] for t in times_s], there=there, driver_s=driver_s, before=before,
    )  # fmt: skip
