"""Keeps what a loop saw, so that a run can be scored and drawn when it has ended."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from ebbflow.control.loop import CycleReport
from ebbflow.core.batches import Batch
from ebbflow.core.curve import Curve
from ebbflow.core.decision import LedgerEntry
from ebbflow.core.limits import Limits
from ebbflow.core.run import Run
from ebbflow.core.slo import Slo

_KEEP = 100_000
"""Batches and changes kept, in a few numbers each: a day of one-second batches. The oldest go first."""
_KEEP_WHOLE = 1_000
"""Batches kept with their stages and operators."""


class _Rows(NamedTuple):
    """What the curves need of a batch."""

    started_s: float
    ended_s: float
    rows: int
    backlog_rows: float
    oldest_arrival_s: float


class RunRecorder:
    """Called after every cycle of a loop; ``run`` makes the record.

    Rows are counted as the monitor saw them: what had arrived by the start of each batch, and what was
    done by its end. Whoever knows the arrivals better (the demo knows the load) replaces the curves.
    """

    def __init__(self) -> None:
        self._nodes: deque[tuple[float, float]] = deque(maxlen=_KEEP)
        self._working: deque[tuple[float, float]] = deque(maxlen=_KEEP)
        self._rows: deque[_Rows] = deque(maxlen=_KEEP)
        self._batches: deque[Batch] = deque(maxlen=_KEEP_WHOLE)
        self._last_s: float | None = None

    def __call__(self, report: CycleReport) -> None:
        """Take in one cycle."""
        seen = report.observation
        if seen is None or (self._last_s is not None and seen.time_s <= self._last_s):
            return
        self._last_s = seen.time_s
        working = float(seen.layout.main_nodes)
        held = float(working if seen.held_nodes is None else seen.held_nodes)
        for curve, value in ((self._nodes, held), (self._working, working)):
            if not curve or curve[-1][1] != value:
                curve.append((seen.time_s, value))
        self._batches.extend(seen.batches)
        self._rows.extend(
            _Rows(b.started_s, b.ended_s, b.rows, b.backlog_rows, b.oldest_arrival_s) for b in seen.batches
        )

    def executors(self, started_s: float) -> list[list[float]]:
        """[second, count] of the working nodes, at the start and at every change."""
        points = _from_start(self._working, started_s)
        return [[round(max(0.0, time_s - started_s), 1), count] for time_s, count in points]

    def run(
        self,
        *,
        strategy: str,
        pipeline: str,
        slo: Slo,
        limits: Limits,
        started_s: float,
        ended_s: float,
        decisions: list[LedgerEntry],
        arrived: Curve | None = None,
        processed: Curve | None = None,
    ) -> Run:
        """The record of what was seen between two times."""
        batches = list(self._batches)
        return Run(
            strategy=strategy,
            pipeline=pipeline,
            slo=slo,
            limits=limits,
            started_s=started_s,
            ended_s=ended_s,
            arrived=self._arrived(started_s, ended_s) if arrived is None else arrived,
            processed=self._processed(started_s) if processed is None else processed,
            nodes=Curve.of(_from_start(self._nodes, started_s)),
            nodes_working=Curve.of(_from_start(self._working, started_s)),
            batches=batches,
            decisions=[entry for entry in decisions if entry.time_s >= started_s],
            reconfigurations=sum(
                1 for e in decisions if e.verdict == "act" and e.changed and e.time_s >= started_s
            ),
        )

    def _arrived(self, started_s: float, ended_s: float) -> Curve:
        points, total = [(started_s, 0.0)], 0.0
        for batch in sorted(self._rows):
            if batch.oldest_arrival_s > points[-1][0]:  # nothing came before the oldest of its rows
                points.append((batch.oldest_arrival_s, points[-1][1]))
            total += batch.rows
            at_s = max(batch.started_s, points[-1][0])
            points.append((at_s, max(points[-1][1], total + batch.backlog_rows)))
        points.append((max(ended_s, points[-1][0]), points[-1][1]))
        return Curve.of(points)

    def _processed(self, started_s: float) -> Curve:
        points, total = [(started_s, 0.0)], 0.0
        for batch in sorted(self._rows, key=lambda b: b.ended_s):
            total += batch.rows
            points.append((max(batch.ended_s, points[-1][0]), total))
        return Curve.of(points)


def _from_start(points: Iterable[tuple[float, float]], started_s: float) -> list[tuple[float, float]]:
    """The curve from the start on. What was there at the first look is taken to have been there before it."""
    before = [value for time_s, value in points if time_s <= started_s]
    after = [(time_s, value) for time_s, value in points if time_s > started_s]
    first = before[-1] if before else (after[0][1] if after else None)
    if first is None:
        return []
    changes = [(started_s, first), *after]
    return [p for i, p in enumerate(changes) if i == 0 or p[1] != changes[i - 1][1]]
