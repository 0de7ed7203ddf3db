"""A load that was counted: how many rows had come at which time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ebbflow.core.curve import Curve, Floats
from ebbflow.errors import LoadError
from ebbflow.workloads.load import Load


@dataclass(frozen=True, kw_only=True)
class Counted(Load):
    """Rows as they were counted, evenly between one count and the next. It ends with the last count.

    >>> load = Counted(source="run.jsonl", arrived=Curve.of([(0, 0), (10, 100), (15, 400)]))
    >>> load.rate_per_s(np.array([0.0, 9.9, 10.0, 15.0])), load.duration_s
    (array([10., 10., 60.,  0.]), 15.0)
    >>> str(load)
    'recorded(run.jsonl)'
    """

    source: str
    """Where it was counted, for people."""
    arrived: Curve
    """(time, rows so far): times ascend from 0, rows never fall."""

    def __post_init__(self) -> None:
        times_s, rows = self.arrived.times_s, self.arrived.values
        if len(times_s) < 2 or times_s[0] != 0.0 or np.any(np.diff(times_s) <= 0):
            raise LoadError(f"the counts of {self.source} must be at two times or more that ascend from 0")
        if not np.all(np.isfinite(rows)) or np.any(np.diff(rows) < 0):
            raise LoadError(f"the counts of {self.source} must be finite and never fall")

    @property
    def duration_s(self) -> float:
        """When the last count was."""
        return float(self.arrived.times_s[-1])

    @property
    def span_s(self) -> float:
        """The same: it has an end."""
        return self.duration_s

    @property
    def sample_step_s(self) -> float:
        """The median distance of its counts."""
        return float(np.median(np.diff(self.arrived.times_s)))

    def _rate_per_s(self, times_s: Floats) -> Floats:
        slopes = np.diff(self.arrived.values) / np.diff(self.arrived.times_s)
        index = np.searchsorted(self.arrived.times_s, times_s, side="right") - 1
        return np.asarray(slopes[np.clip(index, 0, len(slopes) - 1)])

    def _rows_between(self, edges_s: Floats) -> Floats:
        return np.diff(self.arrived.interpolated(edges_s))

    def __str__(self) -> str:
        return f"recorded({self.source})"
