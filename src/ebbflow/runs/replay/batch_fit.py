"""The micro-batch model fitted to a whole record: the formula of ``profiling.batch_model``, without fading.

A record tells how long a batch took, how many rows it had, and perhaps on how many slots; not how long its tasks
took. So one stage stands for all, with p tasks in w = ceil(p / S) waves:

    batch(n, S) = d + w · (o + c · n / p)

d, o, c ≥ 0 by least squares on relative errors, which count in part only beyond twice the usual one (Huber). Where the
slots were always the same, d and o cannot be told apart: o is then taken to be 4 ms, what is left is d. Where
batches were all of one size, d and c cannot: all is put on the rows, which asks for more nodes and never for fewer.
"""

from __future__ import annotations

import itertools
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ebbflow.core.curve import Floats
from ebbflow.core.waves import waves_on

USUAL_TASK_S = 0.004
"""What launching a task costs where the record cannot tell."""
_ROUNDS = 10
_GOOD = 0.05
"""An error below this share is no outlier, however alike the other batches are."""
_ALIKE = 0.1
"""Sizes that differ by less than this share of their mean are one size."""


@dataclass(frozen=True, kw_only=True)
class BatchFit:
    """What a batch costs, and how well that explains the recorded ones."""

    tasks: int
    driver_s: float
    """d: seconds a batch costs whatever its size and whatever the slots."""
    per_task_s: float
    """o: seconds a task costs before its first row."""
    per_row_s: float
    """c: task seconds of a row."""
    median_error: float
    """Half of the batches took no more than this share longer or shorter than the model says."""
    wide_error: float
    """The same of nine in ten."""
    noise: float
    """σ of what is left unexplained, as a factor on the task times."""
    slots_varied: bool
    sizes_varied: bool

    def batch_s(self, rows: Floats, slots: Floats) -> Floats:
        """Seconds that batches take.

        >>> fit = BatchFit(tasks=4, driver_s=0.5, per_task_s=0.1, per_row_s=0.01, median_error=0, wide_error=0, noise=0,
        ...                slots_varied=True, sizes_varied=True)
        >>> fit.batch_s(np.array([400.0, 400.0]), np.array([2.0, 3.0])).tolist()
        [2.7, 2.7]
        """
        waves = waves_on(self.tasks, slots)
        return np.asarray(self.driver_s + waves * (self.per_task_s + self.per_row_s * rows / self.tasks))

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def fit_batches(
    *, rows: Floats, slots: Floats, seconds: Floats, work_s: Floats | None, tasks: int
) -> BatchFit:
    """Fit the model to batches; ``work_s`` is the part of ``seconds`` in which stages ran, where it is known.

    >>> rows = np.array([100.0, 200, 300, 400, 100, 200, 300, 400])
    >>> slots = np.array([2.0, 2, 2, 2, 4, 4, 4, 4])
    >>> seconds = 0.5 + np.ceil(4 / slots) * (0.1 + 0.01 * rows / 4)
    >>> fit = fit_batches(rows=rows, slots=slots, seconds=seconds, work_s=None, tasks=4)
    >>> round(fit.driver_s, 6), round(fit.per_task_s, 6), round(fit.per_row_s, 6), round(fit.median_error, 6)
    (0.5, 0.1, 0.01, 0.0)
    """
    waves = waves_on(tasks, slots)
    per_row = waves * rows / tasks
    outside_s = 0.0 if work_s is None else float(np.median(seconds - work_s))
    inside_s = seconds if work_s is None else work_s
    slots_varied = float(np.ptp(waves)) > 0
    sizes_varied = float(np.std(per_row)) >= _ALIKE * float(np.mean(per_row))
    columns = {"d": np.ones_like(per_row), "o": waves, "c": per_row}
    if not slots_varied:
        del columns["o"]
    if not sizes_varied:
        del columns["d"]
        columns.pop("o", None)
    costs = _fitted(columns, inside_s)
    d, o, c = costs.get("d", 0.0), costs.get("o", 0.0), costs.get("c", 0.0)
    if not slots_varied:
        o = min(USUAL_TASK_S, d / float(waves[0]))
        d -= o * float(waves[0])
    in_tasks_s = waves * o + per_row * c
    off_s = seconds - (outside_s + d + in_tasks_s)
    error = np.abs(off_s) / np.maximum(seconds, 1e-3)
    noise = 1.4826 * float(np.median(np.abs(off_s) / np.maximum(in_tasks_s, 1e-3)))
    return BatchFit(
        tasks=tasks,
        driver_s=outside_s + d,
        per_task_s=o,
        per_row_s=c,
        median_error=float(np.median(error)),
        wide_error=float(np.quantile(error, 0.9)),
        noise=min(noise, 0.5) if noise >= 0.01 else 0.0,
        slots_varied=slots_varied,
        sizes_varied=sizes_varied,
    )


def _fitted(columns: dict[str, Floats], measured: Floats) -> dict[str, float]:
    """Costs of 0 or more that explain what was measured, in relative terms; outliers count in part."""
    names, table = list(columns), np.column_stack(list(columns.values()))
    weights = np.ones(len(measured))
    costs = np.zeros(len(names))
    for _ in range(_ROUNDS):
        costs = _non_negative(table * weights[:, None], measured * weights)
        expected = np.maximum(table @ costs, 1e-3)
        off = np.abs(measured - expected) / expected
        usual = max(2.0 * float(np.median(off)), _GOOD)
        weights = np.sqrt(np.minimum(1.0, usual / np.maximum(off, 1e-9))) / expected
    return dict(zip(names, costs.tolist(), strict=True))


def _non_negative(table: npt.NDArray[np.float64], measured: Floats) -> Floats:
    """Least squares with no coefficient below 0: the best of all ways to leave columns out. There are three."""
    best, best_error = np.zeros(table.shape[1]), float(np.sum(measured**2))
    for size in range(1, table.shape[1] + 1):
        for chosen in itertools.combinations(range(table.shape[1]), size):
            answer = np.linalg.lstsq(table[:, chosen], measured, rcond=None)[0]
            if np.any(answer < 0):
                continue
            error = float(np.sum((table[:, chosen] @ answer - measured) ** 2))
            if error < best_error - 1e-15:
                best, best_error = np.zeros(table.shape[1]), error
                best[list(chosen)] = answer
    return best
