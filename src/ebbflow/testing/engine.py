"""A small micro-batch engine for tests of a strategy: known costs, a trigger, and nodes with a lead time.

Tasks are placed one by one on free slots, so a node that joins during a batch helps from then on, as on Spark. The real
loop and the real guards run on a manual clock; five simulated minutes take a fraction of a second.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ebbflow.control.loop import ControlLoop
from ebbflow.core.batches import Batch, StageRun
from ebbflow.core.clock import ManualClock
from ebbflow.core.decision import LedgerEntry, Outcome
from ebbflow.core.layout import Layout
from ebbflow.core.limits import Limits
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.ports import Observation, Strategy
from ebbflow.core.readings import Reading
from ebbflow.core.slo import Slo
from ebbflow.core.snapshot import ActionKind, ActionUnderWay
from ebbflow.errors import TargetError
from ebbflow.guards import default_guards
from ebbflow.monitoring.store import MemoryStore
from ebbflow.strategies.capacity import Capacity

STEP_S = 0.1


@dataclass(frozen=True, kw_only=True)
class FakeStage:
    """A stage: ``tasks`` of equal size, except for the longest, which takes ``skew`` times the mean."""

    tasks: int
    per_task_s: float = 0.05
    per_row_s: float = 0.01
    skew: float = 1.0

    def task_times_s(self, rows: float) -> list[float]:
        """Return the duration of every task, longest first."""
        mean_s = self.per_task_s + self.per_row_s * rows / self.tasks
        others_s = mean_s * (self.tasks - self.skew) / max(1, self.tasks - 1)
        return [mean_s * self.skew] + [others_s] * (self.tasks - 1)


@dataclass
class _RunningBatch:
    """A running batch: the tasks of its current stage, then the next stages."""

    started_s: float
    rows: float
    first_row: float
    rate_per_s: float
    since_s: float
    behind: float
    slots: int
    stages: list[list[float]]
    ready_s: float
    ends_s: list[float] = field(default_factory=list)
    steady: bool = True

    def work(self, now_s: float, slots: int) -> float | None:
        """Place tasks until ``now_s``; return when the batch ended, or None."""
        self.steady &= slots == self.slots
        while self.stages:
            tasks = self.stages[0]
            while tasks:
                busy = sorted(self.ends_s)[-slots:] if len(self.ends_s) >= slots else []
                # A free slot has been free since its last task; a new slot is free from now on.
                start_s = max(busy[0] if busy else self.ready_s, self.ready_s)
                if start_s > now_s:
                    return None
                if not busy and now_s - start_s > 2 * STEP_S:
                    start_s = now_s
                self.ends_s.append(start_s + tasks.pop(0))
            last_s = max(self.ends_s)
            if last_s > now_s:
                return None
            self.ready_s, self.ends_s = last_s, []
            self.stages.pop(0)
        return self.ready_s


@dataclass
class FakeQuery:
    """A streaming query: ``load(second)`` gives its arrivals in rows per second."""

    load: Callable[[float], float]
    stages: Sequence[FakeStage]
    name: str = "q"
    driver_s: float = 0.3
    trigger_s: float = 5.0
    read_limit: float = math.inf
    starts_s: float = 0.0
    """When it is (re)started. Its first batch takes all earlier rows and is not reported, as on Spark."""
    reports_backlog: bool = True
    """Whether the source reports what a batch left behind. If not, rows read count as arrivals."""
    arrived: float = 0.0
    taken: float = 0.0
    running: _RunningBatch | None = None
    last_start_s: float = 0.0
    arrived_then: float = 0.0
    batch_id: int = 0
    rows_by_step: list[float] = field(default_factory=lambda: [0.0])
    freshness: list[tuple[float, float, float]] = field(default_factory=list)
    """(end, end − arrival of the oldest row, rows) of each batch."""

    def step(self, now_s: float, slots: int) -> Batch | None:
        """Advance by ``STEP_S`` on a number of slots; return the batch that ended, or None."""
        self.arrived += self.load(now_s) * STEP_S
        self.rows_by_step.append(self.arrived)
        if now_s < self.starts_s:
            return None
        if self.running is not None:
            ended_s = self.running.work(now_s, slots)
            return None if ended_s is None else self._finish(self.running, ended_s)
        last_s, interval_s = self.last_start_s, self.trigger_s
        due = interval_s == 0 or math.floor(now_s / interval_s + 1e-9) > math.floor(
            last_s / interval_s + 1e-9
        )
        if due and self.arrived - self.taken >= 1:
            rows = min(self.arrived - self.taken, self.read_limit)
            behind = self.arrived - self.taken - rows
            self.running = _RunningBatch(
                started_s=now_s,
                rows=rows,
                first_row=self.taken,
                rate_per_s=(self.arrived - self.arrived_then if self.reports_backlog else rows)
                / (now_s - last_s),
                since_s=last_s,
                behind=behind if behind >= 1 else 0.0,
                slots=slots,
                stages=[stage.task_times_s(rows) for stage in self.stages],
                ready_s=now_s + self.driver_s,
            )
            self.taken += rows
            self.last_start_s, self.arrived_then = now_s, self.arrived
        return None

    @property
    def unseen(self) -> bool:
        """Whether no batch has been reported yet, as after a restart."""
        return self.starts_s > 0 and self.batch_id == 0

    @property
    def done(self) -> float:
        """Rows of finished batches."""
        return self.taken if self.running is None else self.running.first_row

    def arrival_s(self, row: float) -> float:
        """Return when a row arrived."""
        at = bisect.bisect_left(self.rows_by_step, row)
        if at == 0 or at == len(self.rows_by_step):
            return STEP_S * at
        before, after = self.rows_by_step[at - 1 : at + 1]
        return STEP_S * (at - 1 + (row - before) / (after - before))

    def _finish(self, run: _RunningBatch, ended_s: float) -> Batch:
        self.running, self.batch_id = None, self.batch_id + 1
        oldest_s = self.arrival_s(run.first_row)
        self.freshness.append((ended_s, ended_s - oldest_s, run.rows))
        times = [stage.task_times_s(run.rows) for stage in self.stages]
        return Batch(
            query=self.name,
            batch_id=self.batch_id,
            started_s=run.started_s,
            duration_s=ended_s - run.started_s,
            rows=round(run.rows),
            slots=run.slots,
            steady=run.steady,
            trigger_interval_s=self.trigger_s,
            arrival_rate_per_s=run.rate_per_s,
            backlog_rows=run.behind if self.reports_backlog else None,
            oldest_arrival_s=oldest_s if self.reports_backlog else run.since_s,
            stages=tuple(
                StageRun(
                    index=index,
                    tasks=len(tasks),
                    task_time_s=sum(tasks),
                    cpu_time_s=0.0,
                    wall_s=sum(tasks) / run.slots,
                    longest_task_s=max(tasks),
                )
                for index, tasks in enumerate(times)
            ),
        )


class SmallEngine:
    """The target. Nodes arrive ``lead_time_s`` after their request and leave at once.

    Observations fail during ``blind`` (from, until).
    """

    def __init__(
        self,
        clock: ManualClock,
        *queries: FakeQuery,
        nodes: int = 1,
        lead_time_s: float = 12.0,
        slots: int = 1,
        blind: tuple[float, float] | None = None,
    ) -> None:
        self.blind = blind
        self.clock, self.queries, self.lead_time_s, self.slots = clock, queries, lead_time_s, slots
        self.nodes = nodes
        self.coming: list[float] = []
        self.requests: list[tuple[float, int]] = [(0.0, nodes)]
        self.now_s = clock.now_s()

    def observe(self) -> Observation:
        if self.blind is not None and self.blind[0] <= self.clock.now_s() < self.blind[1]:
            raise TargetError("the target does not respond")
        batches: list[Batch] = []
        while self.now_s + STEP_S <= self.clock.now_s() + 1e-9:
            self.now_s = round(self.now_s + STEP_S, 6)
            came = [t for t in self.coming if t + self.lead_time_s <= self.now_s]
            self.coming = self.coming[len(came) :]
            self.nodes += len(came)
            busy = sum(query.running is not None for query in self.queries) or 1
            for query in self.queries:  # concurrent batches share the slots evenly
                unseen = query.unseen
                ended = query.step(self.now_s, max(1, self.nodes * self.slots // busy))
                batches += [ended] if ended and not unseen else []
        now_s = self.clock.now_s()
        there = [query for query in self.queries if query.starts_s <= now_s]
        readings = []
        if all(query.reports_backlog and not query.unseen for query in there):
            waiting = sum(query.arrived - query.done for query in there)
            readings.append(Reading(now_s, "small", Metric.QUEUE_LENGTH, waiting))
        for batch in batches:
            readings.append(
                Reading(batch.ended_s, "small", Metric.FRESHNESS, batch.ended_s - batch.oldest_arrival_s)
            )
            for subject in (batch.query, "small"):
                readings.append(Reading(batch.ended_s, subject, Metric.BATCH_ROWS, float(batch.rows)))
                readings.append(Reading(batch.ended_s, subject, Metric.BATCH_TIME, batch.duration_s))
                if batch.backlog_rows is not None:
                    readings.append(Reading(batch.ended_s, subject, Metric.BACKLOG, batch.backlog_rows))
        late_s = [
            now_s - (q.arrival_s(q.done) if q.reports_backlog and not q.unseen else q.running.started_s)
            for q in there
            if q.running and now_s - q.running.started_s > 10
        ]
        if late_s:  # a long batch is known to be late before it ends
            readings.append(Reading(now_s, "small", Metric.FRESHNESS, max(late_s)))
        return Observation(
            time_s=now_s,
            pipeline=Pipeline.chain("small", "read", "count"),
            layout=Layout.of(self.nodes),
            requested=Layout.of(self.nodes + len(self.coming)),
            slots_per_node=self.slots,
            lead_time_s=self.lead_time_s,
            readings=readings,
            batches=batches,
            under_way=[ActionUnderWay(kind=ActionKind.GROW, since_s=t, nodes=1) for t in self.coming],
            queries={q.name: q.running.started_s if q.running else None for q in there},
        )

    def apply(self, planned: Layout) -> Outcome:
        wanted = planned.main_nodes
        more = wanted - self.nodes - len(self.coming)
        self.coming = (self.coming + [self.clock.now_s()] * more)[: max(0, wanted - self.nodes)]
        self.nodes = min(self.nodes, wanted)
        self.requests.append((self.clock.now_s(), wanted))
        return Outcome(requested=planned)

    def close(self) -> None:
        """Release nothing."""


@dataclass(frozen=True, kw_only=True)
class LoopRun:
    """The result of ``run_loop``."""

    target: SmallEngine
    entries: Sequence[LedgerEntry]
    slo: Slo

    def acts(self, start_s: float = 0.0, end_s: float = math.inf) -> list[LedgerEntry]:
        """Return the changes of the layout in a time range."""
        return [e for e in self.entries if e.verdict == "act" and start_s <= e.time_s < end_s]

    def nodes_at(self, time_s: float) -> int:
        """Return the nodes requested at a time."""
        return [nodes for requested_s, nodes in self.target.requests if requested_s <= time_s][-1]

    @property
    def nodes(self) -> int:
        """Nodes requested at the end."""
        return self.target.requests[-1][1]

    @property
    def most_nodes(self) -> int:
        """The most nodes ever requested."""
        return max(nodes for _, nodes in self.target.requests)

    def worst_s(self, start_s: float = 0.0) -> float:
        """Return the worst freshness of batches that ended after a time."""
        return max(f for q in self.target.queries for end_s, f, _ in q.freshness if end_s >= start_s)

    def late_share(self) -> float:
        """Return the share of rows in batches that missed the SLO."""
        batches = [(f, rows) for q in self.target.queries for _, f, rows in q.freshness]
        late = sum(rows for f, rows in batches if f > self.slo.freshness_s)
        return late / max(1.0, sum(rows for _, rows in batches))

    def constraints(self, start_s: float = 0.0) -> set[str]:
        """Return the names of all constraints that bound a decision."""
        return {c.name for e in self.entries if e.time_s >= start_s for c in e.decision.bound_by}


def run_loop(
    *queries: FakeQuery,
    seconds: float = 300.0,
    limits: str = "1:20",
    slo_s: float = 30.0,
    strategy: Strategy | None = None,
    **engine: Any,
) -> LoopRun:
    """Run the loop on the small engine, one cycle per second.

    >>> from ebbflow.strategies.static import Static
    >>> run = run_loop(FakeQuery(load=lambda t: 50.0, stages=[FakeStage(tasks=4)]), strategy=Static(), limits="1:3")
    >>> run.nodes
    3
    """
    clock, slo = ManualClock(0.0), Slo(freshness_s=slo_s)
    target = SmallEngine(clock, *queries, **engine)
    loop = ControlLoop(
        target=target,
        strategy=strategy or Capacity(),
        guards=default_guards(),
        store=MemoryStore(),
        clock=clock,
        limits=Limits.parse(limits),
        slo=slo,
    )
    for _ in range(round(seconds)):
        clock.advance(1.0)
        loop.cycle()
    return LoopRun(target=target, entries=loop.ledger.entries, slo=slo)
