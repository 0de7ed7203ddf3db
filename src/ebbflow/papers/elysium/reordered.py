"""Whether it is the order of a load's minutes that tells two strategies apart.

Both look back a minute once a minute. A load that goes to and fro from minute to minute is never what it was when they
looked, and who follows it furthest is furthest off. With the same minutes, each as it was inside, but in order (the
quietest first and last, the busiest in the middle), that is gone and all else is as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ebbflow.core.curve import Floats
from ebbflow.papers.elysium.calibration import ASSESSED_EVERY_S
from ebbflow.papers.elysium.cases import Case
from ebbflow.papers.elysium.kit import Kit
from ebbflow.papers.elysium.published import JOINT, SIMULATOR, SYMBIOTIC
from ebbflow.papers.elysium.run import run_cases
from ebbflow.papers.elysium.verdict import Verdict
from ebbflow.workloads.load import Load, refined

_PIECE_S = ASSESSED_EVERY_S


@dataclass(frozen=True, kw_only=True)
class InOrder(Load):
    """The minutes of another load from the quietest to the busiest and down again.

    >>> from ebbflow.workloads import Square
    >>> load = Square(base_per_s=10, peak_per_s=30, period_s=120)  # 10, 30, 10, 30 and so on, a minute each
    >>> InOrder(load=load, seconds=300.0).rate_per_s(np.arange(5) * 60.0)
    array([10., 10., 30., 30., 10.])
    """

    load: Load
    seconds: float
    """So much of it, in whole minutes."""

    @property
    def duration_s(self) -> float:
        """Whole minutes."""
        return float(len(self.minutes_per_s) * _PIECE_S)

    @property
    def span_s(self) -> float:
        """All of it."""
        return self.duration_s

    @property
    def sample_step_s(self) -> float:
        """As of the load itself."""
        return self.load.sample_step_s

    @cached_property
    def minutes_per_s(self) -> Floats:
        """Rate of each minute of the load as it is."""
        count = int(self.seconds // _PIECE_S)
        return self.load.rows_between(_PIECE_S * np.arange(count + 1, dtype=np.float64)) / _PIECE_S

    @property
    def jump(self) -> float:
        """By how much a minute differs from the one before, in the mean, as a share of the load's mean."""
        each = self.minutes_per_s
        return float(np.abs(np.diff(each)).mean() / each.mean()) if len(each) > 1 else 0.0

    @cached_property
    def _order(self) -> npt.NDArray[np.intp]:
        rising = np.argsort(self.minutes_per_s, kind="stable")
        return np.concatenate((rising[::2], rising[1::2][::-1]))

    def _there(self, times_s: Floats, minutes: npt.NDArray[np.intp]) -> Floats:
        """When that is in the load as it is."""
        return np.asarray(_PIECE_S * self._order[minutes] + (times_s - _PIECE_S * minutes))

    def _rate_per_s(self, times_s: Floats) -> Floats:
        minutes = np.minimum((times_s // _PIECE_S).astype(np.intp), len(self._order) - 1)
        return self.load.rate_per_s(self._there(times_s, minutes))

    def _rows_between(self, edges_s: Floats) -> Floats:
        fine_s, old = refined(edges_s, _PIECE_S)
        minutes = np.minimum((fine_s[:-1] // _PIECE_S).astype(np.intp), len(self._order) - 1)
        begins_s, ends_s = self._there(fine_s[:-1], minutes), self._there(fine_s[1:], minutes)
        times_s = np.unique(np.concatenate((begins_s, ends_s)))
        by_then = np.concatenate(([0.0], np.cumsum(self.load.rows_between(times_s))))
        rows = by_then[np.searchsorted(times_s, ends_s)] - by_then[np.searchsorted(times_s, begins_s)]
        return np.diff(np.concatenate(([0.0], np.cumsum(rows)))[old])

    def __str__(self) -> str:
        return f"the minutes of {self.load} in order"


def explained(
    judged: Sequence[Verdict],
    chosen: Sequence[Case],
    kit: Kit,
    *,
    seeds: int = 3,
    workers: int | None = None,
) -> list[Verdict]:
    """The verdicts of the simulator; where symbiotic scaling degrades more on one load, with what came of its minutes
    in order."""
    return [
        replace(verdict, explanation=f"{verdict.explanation} {said}")
        if (said := _in_order(verdict, chosen, kit, seeds, workers))
        else verdict
        for verdict in judged
    ]


def _in_order(verdict: Verdict, chosen: Sequence[Case], kit: Kit, seeds: int, workers: int | None) -> str:
    if verdict.degrades_no_more or verdict.target != SIMULATOR or verdict.strategy != SYMBIOTIC:
        return ""  # a forecaster knows its load as it is, not in another order
    rows = {
        case.key.strategy: case
        for case in chosen
        if (case.key.application, case.key.load) == (verdict.application, verdict.load)
        and case.key.strategy in (JOINT, SYMBIOTIC)
        and not case.key.setting
    }
    loads = rows[SYMBIOTIC].loads
    if len(loads) > 1:
        return ""
    (application, load) = loads[0]
    ordered = InOrder(load=load, seconds=rows[SYMBIOTIC].seconds)
    again = [
        replace(rows[name], loads=((application, ordered),), seconds=ordered.duration_s)
        for name in (SYMBIOTIC, JOINT)
    ]
    ours, theirs = (
        each.measured.throughput_degradation or 0.0
        for each in run_cases(again, kit, seeds=seeds, workers=workers)
    )
    return (
        f"From one minute to the next the load changes by {100 * ordered.jump:.0f} % in the mean, as fast as it is "
        f"assessed. The same minutes in order, the quietest first and last: {ours:.3f} against {theirs:.3f}."
    )
