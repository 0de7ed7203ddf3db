"""Keeps what a loop saw, so that a run can be scored and drawn when it has ended."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import msgspec
import numpy as np

from ebbflow.control.loop import CycleReport
from ebbflow.core.batches import Batch
from ebbflow.core.curve import Curve, Floats
from ebbflow.core.decision import LedgerEntry
from ebbflow.core.limits import Limits
from ebbflow.core.run import Run
from ebbflow.core.slo import Slo
from ebbflow.runs.score import Scores, score_together
from ebbflow.workloads import Arrivals, Load

_KEEP = 100_000
"""Batches of all queries, and changes, kept in a few numbers each: a day of one-second batches. The oldest go
first; their rows stay counted."""
_KEEP_WHOLE = 1_000
"""Batches kept with their stages and operators."""


class _Rows(NamedTuple):
    """What the curves need of a batch."""

    started_s: float
    ended_s: float
    rows: int
    backlog_rows: float
    """0 where the source did not tell."""
    oldest_arrival_s: float


class _Query:
    """The batches of one query that are kept, and the rows of those that are not."""

    def __init__(self) -> None:
        self.batches: deque[_Rows] = deque()
        self.forgotten_rows = 0

    def forget_oldest(self) -> None:
        self.forgotten_rows += self.batches.popleft().rows


class RunRecorder:
    """Called after every cycle of a loop; ``run`` makes the record.

    Rows are counted as the monitor saw them: what had arrived by the start of each batch, and what was
    done by its end. Those that a query began with are taken to have come when its first batch started: how long they
    had waited by then nobody knows. Whoever knows better (the demo knows the load, and what its sink counted) says so.
    Rows leave in the order of their arrival within a query, not among several: ``score`` looks at each.

    Where the clock is set back, what comes after is dated on as if it had not been: a run has one time, that of its
    start. ``ended_s`` and the decisions come as the clock showed them; the load counts from ``started_s``.
    """

    def __init__(self) -> None:
        self._nodes: deque[tuple[float, float]] = deque(maxlen=_KEEP)
        self._working: deque[tuple[float, float]] = deque(maxlen=_KEEP)
        self._queries: dict[str, _Query] = {}
        self._batches: deque[Batch] = deque(maxlen=_KEEP_WHOLE)
        self._last_s: float | None = None
        """As the clock showed it."""
        self._set_back_s: list[float] = []
        """By how much the clock was set back, each time."""

    def __call__(self, report: CycleReport) -> None:
        """Take in one cycle."""
        seen = report.observation
        if seen is None or seen.time_s == self._last_s:  # nothing was seen since
            return
        if self._last_s is not None and seen.time_s < self._last_s:
            self._set_back_s.append(self._last_s - seen.time_s)
        self._last_s = seen.time_s
        at_s = seen.time_s + sum(self._set_back_s)
        working = float(seen.layout.main_nodes)
        held = float(working if seen.held_nodes is None else seen.held_nodes)
        for curve, value in ((self._nodes, held), (self._working, working)):
            if not curve or curve[-1][1] != value:
                curve.append((at_s, value))
        batches, first_batches = self._dated(seen.batches), self._dated(seen.first_batches)
        self._batches.extend(batches)
        for b in sorted((*first_batches, *batches), key=lambda b: b.started_s):
            query = self._queries.setdefault(b.query, _Query())
            query.batches.append(
                _Rows(b.started_s, b.ended_s, b.rows, b.backlog_rows or 0.0, b.oldest_arrival_s)
            )
        while sum(len(query.batches) for query in self._queries.values()) > _KEEP:
            max(self._queries.values(), key=lambda query: len(query.batches)).forget_oldest()

    def _dated(self, batches: Sequence[Batch]) -> Sequence[Batch]:
        """On the clock of the start. A batch that seems to begin after it was seen began before the last set-back."""
        if not self._set_back_s or self._last_s is None:
            return batches
        ahead_s, before_s = sum(self._set_back_s), sum(self._set_back_s[:-1])
        return [
            msgspec.structs.replace(
                batch, started_s=batch.started_s + by_s, oldest_arrival_s=batch.oldest_arrival_s + by_s
            )
            for batch in batches
            for by_s in [ahead_s if batch.started_s <= self._last_s else before_s]
        ]

    def on_one_clock(self, times_s: Sequence[float]) -> list[float]:
        """Times that followed each other, on the clock of the start: the last ones are of after all set-backs, those
        before a leap of before it."""
        set_back_s, dated_s = list(self._set_back_s), []
        later_s = math.inf
        for time_s in reversed(times_s):
            if set_back_s and time_s > later_s + set_back_s[-1] / 2:
                set_back_s.pop()
            later_s = time_s
            dated_s.append(time_s + sum(set_back_s))
        return dated_s[::-1]

    def _decided(self, decisions: Sequence[LedgerEntry]) -> list[LedgerEntry]:
        dated_s = self.on_one_clock([entry.time_s for entry in decisions])
        return [
            msgspec.structs.replace(entry, time_s=time_s)
            for entry, time_s in zip(decisions, dated_s, strict=True)
        ]

    @property
    def rows_not_timed(self) -> int:
        """Rows of batches too old to be kept: they are counted, and in no latency."""
        return sum(query.forgotten_rows for query in self._queries.values())

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
        decisions: Sequence[LedgerEntry],
        reconfigurations: int | None = None,
        load: Load | None = None,
        processed: Curve | None = None,
    ) -> Run:
        """The record of what was seen between two times. ``reconfigurations``: where ``decisions`` are not all;
        ``load`` and ``processed``: where they are known; the latter on the clock of the start.
        """
        decisions = self._decided(decisions)
        # The last set-back is not known if it came after the last look.
        ended_s = max(started_s, ended_s + sum(self._set_back_s))
        if reconfigurations is None:
            acts = [e for e in decisions if e.verdict == "act" and e.time_s >= started_s]
            reconfigurations = sum(act.changed for act in acts)
        queries = list(self._queries.values())
        arrived = _arrived(queries, started_s, ended_s) if load is None else _came(load, started_s, ended_s)
        return Run(
            strategy=strategy,
            pipeline=pipeline,
            slo=slo,
            limits=limits,
            started_s=started_s,
            ended_s=ended_s,
            arrived=arrived,
            processed=_processed(queries, started_s) if processed is None else processed,
            nodes=Curve.of(_from_start(self._nodes, started_s)),
            nodes_working=Curve.of(_from_start(self._working, started_s)),
            batches=list(self._batches),
            decisions=[entry for entry in decisions if entry.time_s >= started_s],
            reconfigurations=reconfigurations,
        )

    def by_query(self, run: Run) -> list[Run]:
        """The same run, each time with the rows of one query."""
        return [
            replace(
                run,
                pipeline=name,
                arrived=_arrived([query], run.started_s, run.ended_s),
                processed=_processed([query], run.started_s),
                batches=[batch for batch in run.batches if batch.query == name],
            )
            for name, query in self._queries.items()
        ]

    def score(self, run: Run) -> Scores:
        """Latency and violation over the rows of each query, so that none hides behind another; all rows counted."""
        scores, old = score_together(self.by_query(run) or [run]), self.rows_not_timed
        return replace(scores, rows_in=scores.rows_in + old, rows_out=scores.rows_out + old)


def _came(load: Load, started_s: float, ended_s: float) -> Curve:
    times_s = np.arange(0.0, ended_s - started_s + 1.0, 0.5)
    return Curve(times_s + started_s, Arrivals(load).rows_by_each(times_s).astype(np.float64))


def _arrived(queries: Sequence[_Query], started_s: float, ended_s: float) -> Curve:
    total = float(sum(query.forgotten_rows for query in queries))
    points = [(started_s, total)]
    for batch in sorted(batch for query in queries for batch in query.batches):
        if batch.oldest_arrival_s > points[-1][0]:  # nothing came before the oldest of its rows
            points.append((batch.oldest_arrival_s, points[-1][1]))
        total += batch.rows
        at_s = max(batch.started_s, points[-1][0])
        points.append((at_s, max(points[-1][1], total + batch.backlog_rows)))
    points.append((max(ended_s, points[-1][0]), points[-1][1]))
    return Curve.of(points)


def _processed(queries: Sequence[_Query], started_s: float) -> Curve:
    total = float(sum(query.forgotten_rows for query in queries))
    points = [(started_s, total)]
    for batch in sorted((b for query in queries for b in query.batches), key=lambda b: b.ended_s):
        total += batch.rows
        points.append((max(batch.ended_s, points[-1][0]), total))
    return Curve.of(points)


def without(run: Run, lost_rows: Sequence[int]) -> Run:
    """A run in which rows were lost that the source counts as done: an audit found their numbers, ascending and in the
    order of arrival from 0.

    >>> from ebbflow.workloads import parse_load
    >>> run = RunRecorder().run(
    ...     strategy="static", pipeline="count", slo=Slo(freshness_s=4.0), limits=Limits.parse("1:4"), started_s=0.0,
    ...     ended_s=10.0, decisions=[], load=parse_load("constant(1)"), processed=Curve.of([(0, 0), (10, 10)])
    ... )
    >>> audited = without(run, [3, 7])
    >>> audited.processed.values.tolist(), audited.lost.stepped(np.array([3.0, 4.0, 8.0])).tolist()
    ([0.0, 8.0], [0.0, 1.0, 2.0])
    """
    numbers = np.asarray(lost_rows, dtype=np.float64)

    def lost(rows: Floats) -> Floats:
        return np.searchsorted(numbers, rows).astype(np.float64)

    done = run.processed
    return replace(
        run,
        processed=Curve(done.times_s, done.values - lost(done.values)),
        lost=Curve(run.arrived.times_s, lost(run.arrived.values)),
    )


def _from_start(points: Iterable[tuple[float, float]], started_s: float) -> list[tuple[float, float]]:
    """The curve from the start on. What was there at the first look is taken to have been there before it."""
    before = [value for time_s, value in points if time_s <= started_s]
    after = [(time_s, value) for time_s, value in points if time_s > started_s]
    first = before[-1] if before else (after[0][1] if after else None)
    if first is None:
        return []
    changes = [(started_s, first), *after]
    return [p for i, p in enumerate(changes) if i == 0 or p[1] != changes[i - 1][1]]
