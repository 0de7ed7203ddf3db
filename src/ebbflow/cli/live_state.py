"""Turns the cycles of a loop into what the live view shows."""

from __future__ import annotations

from collections import deque

from ebbflow.bench.live_run import LiveScenario
from ebbflow.control.loop import CycleReport
from ebbflow.core.batches import Batch
from ebbflow.core.decision import LedgerEntry
from ebbflow.core.layout import MAIN
from ebbflow.core.metrics import Metric
from ebbflow.core.ports import Observation
from ebbflow.pipelines.rankings import Rankings
from ebbflow.report.live import LiveState

_HISTORY = 240


class LiveFeed:
    """Remembers the recent past of a run, one value a cycle."""

    def __init__(self, *, title: str, strategy: str, scenario: LiveScenario) -> None:
        self._title = title
        self._strategy = strategy
        self._scenario = scenario
        self._started_s = 0.0
        self._rankings: Rankings | None = None
        self._load: deque[float] = deque(maxlen=_HISTORY)
        self._backlog: deque[float] = deque(maxlen=_HISTORY)
        self._freshness: deque[float] = deque(maxlen=_HISTORY)
        self._nodes: deque[float] = deque(maxlen=_HISTORY)
        self._batch: Batch | None = None
        self._entry: LedgerEntry | None = None

    def started(self, at_s: float, rankings: Rankings) -> None:
        """The load begins."""
        self._started_s = at_s
        self._rankings = rankings

    def state(self, cycle: CycleReport) -> LiveState:
        """What to show after a cycle."""
        seen = cycle.observation
        if cycle.entry is not None:
            self._entry = cycle.entry
        if seen is not None:
            self._take(seen)
        entry, batch, scenario = self._entry, self._batch, self._scenario
        now_s = seen.time_s if seen is not None else self._started_s
        return LiveState(
            title=self._title,
            strategy=self._strategy,
            elapsed_s=max(0.0, now_s - self._started_s),
            total_s=scenario.seconds,
            load_per_s=_last(self._load),
            load_history=tuple(self._load),
            backlog_rows=_last(self._backlog),
            backlog_history=tuple(self._backlog),
            freshness_s=_last(self._freshness),
            freshness_history=tuple(self._freshness),
            slo_s=scenario.slo.freshness_s,
            nodes_working=None if seen is None else seen.layout.main_nodes,
            nodes_requested=None if seen is None else seen.requested.main_nodes,
            nodes_history=tuple(self._nodes),
            limits=scenario.limits,
            batch_id=None if batch is None else batch.batch_id,
            batch_rows=None if batch is None else batch.rows,
            batch_duration_s=None if batch is None else batch.duration_s,
            verdict=None if entry is None else entry.verdict,
            reason=None if entry is None else entry.decision.reason,
            bound_by=None
            if entry is None
            else "; ".join(f"{c.name}: {c.why}" for c in entry.decision.bound_by),
            decision_age_s=None if entry is None else now_s - entry.time_s,
            top_items=() if self._rankings is None else tuple(self._rankings.top()),
        )

    def _take(self, seen: Observation) -> None:
        about = {seen.pipeline.name, MAIN}
        latest = {reading.metric: reading.value for reading in seen.readings if reading.subject in about}
        for metric, history in (
            (Metric.ARRIVAL_RATE, self._load),
            (Metric.QUEUE_LENGTH, self._backlog),
            (Metric.FRESHNESS, self._freshness),
            (Metric.NODES, self._nodes),
        ):
            value = latest.get(metric, _last(history))
            if value is not None:
                history.append(value)
        if seen.batches:
            self._batch = seen.batches[-1]


def _last(history: deque[float]) -> float | None:
    return history[-1] if history else None
