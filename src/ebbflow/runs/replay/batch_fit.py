"""Fit the micro-batch model of ``profiling.batch.model`` to all batches of a recording.

A recording contains the duration and rows of each batch and perhaps the slots, but not the task times. So one stage
stands for all, with p tasks in w = ceil(p / S) waves:

    batch(n, S) = d + w · (o + c · n / p)

d, o, c ≥ 0 minimise the squared relative errors, with outliers beyond twice the median error weighted down (Huber). If
the slots never changed, d and o cannot be separated: o is assumed to be 4 ms, the rest is d. If all batches had the
same size, d and c cannot be separated: all is attributed to the rows, which overestimates the nodes needed rather than
underestimating them.
"""

from __future__ import annotations

import itertools
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ebbflow.core.curve import Floats
from ebbflow.core.waves import waves_on

DEFAULT_TASK_S = 0.004
"""Cost of launching a task if the recording does not show it."""
_ROUNDS = 10
_GOOD = 0.05
"""A relative error below this is no outlier, however similar the other batches are."""
_ALIKE = 0.1
"""Sizes with a relative deviation below this count as equal."""


@dataclass(frozen=True, kw_only=True)
class BatchFit:
    """The cost of a batch, and how well it explains the recorded ones."""

    tasks: int
    driver_s: float
    """d: seconds per batch, whatever its size and the slots."""
    per_task_s: float
    """o: seconds per task before its first row."""
    per_row_s: float
    """c: task seconds per row."""
    median_error: float
    """Median relative error of the batches."""
    wide_error: float
    """90th percentile of the relative error."""
    noise: float
    """σ of the unexplained part, as a factor on the task times."""
    slots_varied: bool
    sizes_varied: bool

    def batch_s(self, rows: Floats, slots: Floats) -> Floats:
        """Expected durations of batches.

        >>> fit = BatchFit(tasks=4, driver_s=0.5, per_task_s=0.1, per_row_s=0.01, median_error=0, wide_error=0, noise=0,
        ...                slots_varied=True, sizes_varied=True)
        >>> fit.batch_s(np.array([400.0, 400.0]), np.array([2.0, 3.0])).tolist()
        [2.7, 2.7]
        """
        waves = waves_on(self.tasks, slots)
        return np.asarray(self.driver_s + waves * (self.per_task_s + self.per_row_s * rows / self.tasks))

    def to_json(self) -> dict[str, Any]:
        """Convert to plain values."""
        return asdict(self)


def fit_batches(
    *, rows: Floats, slots: Floats, seconds: Floats, work_s: Floats | None, tasks: int
) -> BatchFit:
    """Fit the model to batches; ``work_s`` is the part of ``seconds`` in which stages ran, if known.

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
        o = min(DEFAULT_TASK_S, d / float(waves[0]))
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


def _fitted(columns: dict[str, Floats], measured_s: Floats) -> dict[str, float]:
    """Non-negative costs that fit the measurements in relative terms, with outliers weighted down."""
    names, table = list(columns), np.column_stack(list(columns.values()))
    weights = np.ones(len(measured_s))
    costs = np.zeros(len(names))
    for _ in range(_ROUNDS):
        costs = _non_negative(table * weights[:, None], measured_s * weights)
        expected = np.maximum(table @ costs, 1e-3)
        off = np.abs(measured_s - expected) / expected
        limit = max(2.0 * float(np.median(off)), _GOOD)
        weights = np.sqrt(np.minimum(1.0, limit / np.maximum(off, 1e-9))) / expected
    return dict(zip(names, costs.tolist(), strict=True))


def _non_negative(table: npt.NDArray[np.float64], measured_s: Floats) -> Floats:
    """Non-negative least squares: the best of all subsets of the (at most three) columns."""
    best, best_error = np.zeros(table.shape[1]), float(np.sum(measured_s**2))
    for size in range(1, table.shape[1] + 1):
        for chosen in itertools.combinations(range(table.shape[1]), size):
            answer = np.linalg.lstsq(table[:, chosen], measured_s, rcond=None)[0]
            if np.any(answer < 0):
                continue
            error = float(np.sum((table[:, chosen] @ answer - measured_s) ** 2))
            if error < best_error - 1e-15:
                best, best_error = np.zeros(table.shape[1]), error
                best[list(chosen)] = answer
    return best
