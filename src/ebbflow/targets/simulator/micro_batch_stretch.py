"""Many batches of one query at once: a stretch in which each begins at its trigger and ends before the next.

There the batches do not depend on each other, and the formula holds for arrays as it does for one batch: the same
operations in the same order, so the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ebbflow.core.curve import Floats
from ebbflow.targets.simulator.micro_batch_record import BatchAtWork

if TYPE_CHECKING:
    from ebbflow.targets.simulator.micro_batch import Stage
    from ebbflow.targets.simulator.nodes import Strength

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
            ends_s = ends_s + -(-stage.tasks // there.slots) * (task_s / there.speed)
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
