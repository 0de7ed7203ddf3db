"""Whether what was seen of a case is what must be: in the simulator to the second, on Spark within one reading.

On Spark a reading comes with each batch, about once a second. It is told when its batch ends, of the rows that the
batch left behind when it began, so readings lag behind the queue. By how much is measured in the run, against the
simulator's queue, and may be two readings and no more. A change must come within one reading (and a cycle of the loop,
which looks once a second) of when it is expected so much later. How far apart readings were is measured too, just
before the change.

A query that changes its parallelism is restarted, and what came meanwhile has to be worked off. So a change after
another one is expected between when the simulator makes it without a pause, and with one as long as Spark was silent.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ebbflow.core.readings import slope_per_s
from ebbflow.papers.rules.cases import Case, Change
from ebbflow.papers.rules.in_simulator import run_in_simulator
from ebbflow.papers.rules.seen import Points, Seen

SIMULATOR, SPARK = "simulator", "spark"
CYCLE_S = 1.0
"""How often the loop looks."""
LAG_READINGS = 2
BEFORE_S = 15.0
SLOPE_OVER_S = 30.0
SLOPE_WITHIN_PER_S = {SIMULATOR: 0.01, SPARK: 0.5}


@dataclass(frozen=True, kw_only=True)
class Result:
    """A case, what was seen, and whether that is what must be."""

    case: Case
    target: str
    seen: Seen
    wrong: tuple[str, ...]
    measured_on: str = ""
    """The day, of a run in real time."""

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        case = self.case
        expected: dict[str, Any] = {
            "says": case.seed_says,
            "changes": [change.to_json() for change in case.changes],
        }
        measured: dict[str, Any] = {"changes": [change.to_json() for change in self.seen.changes]}
        if case.queue_slope_per_s is not None:
            expected["queue_slope_per_s"] = case.queue_slope_per_s
            measured["queue_slope_per_s"] = _rounded(queue_slope_per_s(self.seen))
        if case.most_queued is not None:
            expected["most_queued"] = case.most_queued
        measured["most_queued"] = _rounded(most_queued(self.seen))
        measured["reading_s"] = _rounded(usual_reading_s(self.seen))
        if self.target == SPARK:
            measured["lag_s"] = _rounded(lag_s(case, self.seen))
            expected["within_s"] = [
                [round(from_s, 1), round(to_s, 1)] for from_s, to_s in windows_s(case, self.seen)
            ]
        return {
            "case": case.name,
            "section": case.section,
            "target": self.target,
            **({"measured_on": self.measured_on} if self.measured_on else {}),
            "expected": expected,
            "measured": measured,
            "ok": not self.wrong,
            "wrong": list(self.wrong),
        }


def judge(case: Case, target: str, seen: Seen) -> Result:
    """Compare what was seen with what must be."""
    return Result(case=case, target=target, seen=seen, wrong=tuple(_wrong(case, target, seen)))


def _wrong(case: Case, target: str, seen: Seen) -> list[str]:
    wrong = []
    if _kinds(seen.changes) != _kinds(case.changes):
        return [f"changes {_steps(seen.changes)}; expected {_steps(case.changes)}"]
    windows = [(c.time_s, c.time_s) for c in case.changes] if target == SIMULATOR else windows_s(case, seen)
    for got, want, (from_s, to_s) in zip(seen.changes, case.changes, windows, strict=True):
        if not from_s <= got.time_s <= to_s:
            wrong.append(
                f"{want.operator} {want.before}→{want.after} at {got.time_s:.1f} s, "
                f"not from {from_s:.1f} to {to_s:.1f} s"
            )
    if target == SPARK and seen.changes:
        lag, reading_s = lag_s(case, seen), reading_before_s(seen, seen.changes[0])
        if lag > LAG_READINGS * reading_s + CYCLE_S / 2:
            wrong.append(
                f"readings were {lag:.1f} s behind the queue; two readings were {2 * reading_s:.1f} s"
            )
    slope = queue_slope_per_s(seen)
    if case.queue_slope_per_s is not None and (
        slope is None or abs(slope - case.queue_slope_per_s) > SLOPE_WITHIN_PER_S[target]
    ):
        wrong.append(f"the queue then moves by {slope} rows/s, not {case.queue_slope_per_s:g}")
    if case.most_queued is not None and most_queued(seen) > case.most_queued:
        wrong.append(f"{most_queued(seen):.0f} rows queued, not at most {case.most_queued:g}")
    return wrong


def windows_s(case: Case, seen: Seen) -> list[tuple[float, float]]:
    """Between which times each change must come on micro-batches; empty if others came than must."""
    if _kinds(seen.changes) != _kinds(case.changes):
        return []
    windows, late_s = [], lag_s(case, seen)
    for index, (got, want) in enumerate(zip(seen.changes, case.changes, strict=True)):
        times_s = [want.time_s]
        if index:
            paused = run_in_simulator(case, pause_s=pause_s(seen, seen.changes[index - 1])).changes
            times_s += [each.time_s for each in paused[index : index + 1]]
        reading_s = reading_before_s(seen, got)
        windows.append((min(times_s) - reading_s, max(times_s) + late_s + reading_s + CYCLE_S))
    return windows


def lag_s(case: Case, seen: Seen) -> float:
    """How far readings were behind the queue while it grew before the first change: the median."""
    if not seen.changes or not case.changes:
        return 0.0
    first = seen.changes[0]
    grew_s, rows = _growing(run_in_simulator(case).queues[first.operator], case.changes[0].time_s)
    seen_s, seen_rows = _growing(seen.queues[first.operator], first.time_s)
    lags_s = [
        time_s - float(np.interp(queued, rows, grew_s))
        for time_s, queued in zip(seen_s, seen_rows, strict=True)
        if queued <= rows[-1]
    ]
    return max(0.0, statistics.median(lags_s)) if lags_s else 0.0


def _growing(queue: Points, until_s: float) -> tuple[list[float], list[float]]:
    """(times, rows) from when a queue was last empty to a time."""
    before = [point for point in queue if point[0] <= until_s]
    empty = max((index for index, (_, rows) in enumerate(before) if rows <= 0), default=-1)
    grown = before[empty + 1 :]
    return [time_s for time_s, _ in grown], [rows for _, rows in grown]


def reading_before_s(seen: Seen, change: Change) -> float:
    """How far apart readings usually were just before a change: a stall at another time excuses nothing."""
    gaps_s = seen.gaps_s(change.operator, change.time_s - BEFORE_S, change.time_s)[1:]
    return statistics.median(gaps_s) if gaps_s else 0.0


def usual_reading_s(seen: Seen) -> float | None:
    """How far apart readings usually were."""
    gaps_s = [gap for name in seen.queues for gap in seen.gaps_s(name, 0.0, math.inf)]
    return statistics.median(gaps_s) if gaps_s else None


def pause_s(seen: Seen, change: Change) -> float:
    """For how long a change stopped its operator at most: the longest silence after it."""
    return max(seen.gaps_s(change.operator, change.time_s, change.time_s + SLOPE_OVER_S), default=0.0)


def queue_slope_per_s(seen: Seen) -> float | None:
    """How the queue of the operator that changed last moves once it works again: after the longest silence that
    follows the change."""
    if not seen.changes:
        return None
    last = seen.changes[-1]
    gaps_s = seen.gaps_s(last.operator, last.time_s, last.time_s + SLOPE_OVER_S)
    if not gaps_s:
        return None
    since_s = last.time_s + sum(gaps_s[: gaps_s.index(max(gaps_s)) + 1]) - 1e-6
    points = [p for p in seen.queues[last.operator] if since_s <= p[0] <= since_s + SLOPE_OVER_S]
    return slope_per_s(points)[0] if len(points) > 2 else None


def most_queued(seen: Seen) -> float:
    """The longest any queue got."""
    return max((rows for queue in seen.queues.values() for _, rows in queue), default=0.0)


def _kinds(changes: Sequence[Change]) -> list[tuple[str, int, int]]:
    return [(change.operator, change.before, change.after) for change in changes]


def _steps(changes: Sequence[Change]) -> str:
    return ", ".join(f"{c.operator} {c.before}→{c.after} at {c.time_s:g} s" for c in changes) or "none"


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3) + 0.0
