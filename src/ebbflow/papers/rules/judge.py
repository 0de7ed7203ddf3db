"""Compare a run of a case with its expected result: exactly in the simulator, within one reading on Spark.

On Spark each batch gives one reading, about once a second. It arrives when the batch ends and counts the rows that the
batch left behind when it began, so readings lag behind the queue. The lag is measured in the run, against the
simulator's queue, and may be at most two readings. Given this lag, a change must come within one reading and one cycle
of the loop of its expected time. The time between readings is measured just before the change.

Changing the parallelism restarts a query, and the rows that arrive meanwhile have to be processed later. A change
after another one is therefore expected between two times: when the simulator makes it without a pause, and when it
makes it with a pause as long as Spark gave no reading.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ebbflow.core.readings import slope_per_s
from ebbflow.papers import SIMULATOR, SPARK
from ebbflow.papers.rules.cases import Case, Change
from ebbflow.papers.rules.record import CaseRun, Points, run_in_simulator

CYCLE_S = 1.0
"""Cycle of the control loop."""
LAG_READINGS = 2
BEFORE_S = 15.0
SLOPE_OVER_S = 30.0
SLOPE_WITHIN_PER_S = {SIMULATOR: 0.01, SPARK: 0.5}


@dataclass(frozen=True, kw_only=True)
class CaseResult:
    """A run of a case and the ways in which it differs from the expected result."""

    case: Case
    target: str
    run: CaseRun
    problems: tuple[str, ...]
    measured_on: str = ""
    """The date of a run in real time."""

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        case = self.case
        expected: dict[str, Any] = {
            "says": case.expectation,
            "changes": [change.to_json() for change in case.changes],
        }
        measured: dict[str, Any] = {"changes": [change.to_json() for change in self.run.changes]}
        if case.queue_slope_per_s is not None:
            expected["queue_slope_per_s"] = case.queue_slope_per_s
            measured["queue_slope_per_s"] = _rounded(queue_slope_per_s(self.run))
        if case.most_queued is not None:
            expected["most_queued"] = case.most_queued
        measured["most_queued"] = _rounded(most_queued(self.run))
        measured["reading_s"] = _rounded(usual_reading_s(self.run))
        if self.target == SPARK:
            measured["lag_s"] = _rounded(lag_s(case, self.run))
            expected["within_s"] = [
                [round(from_s, 1), round(to_s, 1)] for from_s, to_s in windows_s(case, self.run)
            ]
        return {
            "case": case.name,
            "section": case.section,
            "target": self.target,
            **({"measured_on": self.measured_on} if self.measured_on else {}),
            "expected": expected,
            "measured": measured,
            "ok": not self.problems,
            "wrong": list(self.problems),
        }


def judge(case: Case, target: str, run: CaseRun) -> CaseResult:
    """Compare a run with the expected result of its case."""
    return CaseResult(case=case, target=target, run=run, problems=tuple(_problems(case, target, run)))


def _problems(case: Case, target: str, run: CaseRun) -> list[str]:
    problems = []
    if _steps(run.changes) != _steps(case.changes):
        return [f"changes {_listed(run.changes)}; expected {_listed(case.changes)}"]
    windows = [(c.time_s, c.time_s) for c in case.changes] if target == SIMULATOR else windows_s(case, run)
    for got, want, (from_s, to_s) in zip(run.changes, case.changes, windows, strict=True):
        if not from_s <= got.time_s <= to_s:
            problems.append(
                f"{want.operator} {want.before}→{want.after} at {got.time_s:.1f} s, "
                f"expected from {from_s:.1f} to {to_s:.1f} s"
            )
    if target == SPARK and run.changes:
        lag, reading_s = lag_s(case, run), reading_before_s(run, run.changes[0])
        if lag > LAG_READINGS * reading_s + CYCLE_S / 2:
            problems.append(
                f"readings lagged {lag:.1f} s behind the queue; two readings take {2 * reading_s:.1f} s"
            )
    slope = queue_slope_per_s(run)
    if case.queue_slope_per_s is not None and (
        slope is None or abs(slope - case.queue_slope_per_s) > SLOPE_WITHIN_PER_S[target]
    ):
        problems.append(f"the queue then changes by {slope} rows/s; expected {case.queue_slope_per_s:g}")
    if case.most_queued is not None and most_queued(run) > case.most_queued:
        problems.append(f"{most_queued(run):.0f} rows queued; expected at most {case.most_queued:g}")
    return problems


def windows_s(case: Case, run: CaseRun) -> list[tuple[float, float]]:
    """Return the period in which each change must come on Spark; empty if the changes are not the expected ones."""
    if _steps(run.changes) != _steps(case.changes):
        return []
    windows, late_s = [], lag_s(case, run)
    for index, (got, want) in enumerate(zip(run.changes, case.changes, strict=True)):
        times_s = [want.time_s]
        if index:
            paused = run_in_simulator(case, pause_s=pause_s(run, run.changes[index - 1])).changes
            times_s += [each.time_s for each in paused[index : index + 1]]
        reading_s = reading_before_s(run, got)
        windows.append((min(times_s) - reading_s, max(times_s) + late_s + reading_s + CYCLE_S))
    return windows


def lag_s(case: Case, run: CaseRun) -> float:
    """Return the median lag of the readings while the queue grew before the first change."""
    if not run.changes or not case.changes:
        return 0.0
    first = run.changes[0]
    expected_s, rows = _growth(run_in_simulator(case).queues[first.operator], case.changes[0].time_s)
    measured_s, measured_rows = _growth(run.queues[first.operator], first.time_s)
    lags_s = [
        time_s - float(np.interp(queued, rows, expected_s))
        for time_s, queued in zip(measured_s, measured_rows, strict=True)
        if queued <= rows[-1]
    ]
    return max(0.0, statistics.median(lags_s)) if lags_s else 0.0


def _growth(queue: Points, until_s: float) -> tuple[list[float], list[float]]:
    """Return (times, rows) from when the queue was last empty until a time."""
    before = [point for point in queue if point[0] <= until_s]
    empty = max((index for index, (_, rows) in enumerate(before) if rows <= 0), default=-1)
    grown = before[empty + 1 :]
    return [time_s for time_s, _ in grown], [rows for _, rows in grown]


def reading_before_s(run: CaseRun, change: Change) -> float:
    """Return the median time between readings just before a change, so that a stall at another time does not count."""
    gaps_s = run.gaps_s(change.operator, change.time_s - BEFORE_S, change.time_s)[1:]
    return statistics.median(gaps_s) if gaps_s else 0.0


def usual_reading_s(run: CaseRun) -> float | None:
    """Return the median time between readings over the whole run."""
    gaps_s = [gap for name in run.queues for gap in run.gaps_s(name, 0.0, math.inf)]
    return statistics.median(gaps_s) if gaps_s else None


def pause_s(run: CaseRun, change: Change) -> float:
    """Return the longest time without a reading after a change: at most this long it stopped its operator."""
    return max(run.gaps_s(change.operator, change.time_s, change.time_s + SLOPE_OVER_S), default=0.0)


def queue_slope_per_s(run: CaseRun) -> float | None:
    """Return the slope of the queue of the operator that changed last, from when it runs again: after the longest time
    without a reading that follows the change."""
    if not run.changes:
        return None
    last = run.changes[-1]
    gaps_s = run.gaps_s(last.operator, last.time_s, last.time_s + SLOPE_OVER_S)
    if not gaps_s:
        return None
    since_s = last.time_s + sum(gaps_s[: gaps_s.index(max(gaps_s)) + 1]) - 1e-6
    points = [p for p in run.queues[last.operator] if since_s <= p[0] <= since_s + SLOPE_OVER_S]
    return slope_per_s(points)[0] if len(points) > 2 else None


def most_queued(run: CaseRun) -> float:
    """Return the length of the longest queue."""
    return max((rows for queue in run.queues.values() for _, rows in queue), default=0.0)


def _steps(changes: Sequence[Change]) -> list[tuple[str, int, int]]:
    return [(change.operator, change.before, change.after) for change in changes]


def _listed(changes: Sequence[Change]) -> str:
    return ", ".join(f"{c.operator} {c.before}→{c.after} at {c.time_s:g} s" for c in changes) or "none"


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3) + 0.0
