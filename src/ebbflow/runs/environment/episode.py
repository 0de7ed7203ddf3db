"""A scenario that advances step by step; the caller chooses the number of nodes before each step.

Loop, guards and scores are those of every run; the caller replaces the strategy. The costs of the steps add up exactly
to the scores of the whole run:

    Σ node_seconds = node_seconds          Σ late_rows = violation · rows
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ebbflow.control.loop import ControlLoop
from ebbflow.core.batches import Batch
from ebbflow.core.clock import ManualClock
from ebbflow.core.curve import Curve
from ebbflow.core.decision import Decision, LedgerEntry, Outcome
from ebbflow.core.layout import Layout
from ebbflow.core.plural import counted
from ebbflow.core.ports import Guard, Observation, Strategy
from ebbflow.core.slo import Slo
from ebbflow.core.snapshot import ActionKind, Snapshot
from ebbflow.errors import TargetError
from ebbflow.guards import Bounds
from ebbflow.monitoring.store import MemoryStore
from ebbflow.runs.score import LATE_TOLERANCE_S, Waits
from ebbflow.runs.simulation import Simulation, finished_simulation
from ebbflow.targets.simulator.scenario import Scenario
from ebbflow.targets.simulator.target import SimulatorTarget


@dataclass(frozen=True, kw_only=True)
class StepCost:
    """The cost of a step."""

    node_seconds: float
    late_rows: float
    """Rows that became late in this step."""


class Episode:
    """One scenario from start to end.

    >>> from ebbflow.targets.simulator import built_in_engine
    >>> from ebbflow.workloads import parse_load
    >>> world = Scenario(engine=built_in_engine("top-words"), load=parse_load("constant(300)"), seconds=60)
    >>> episode = Episode(world)
    >>> while not episode.over:
    ...     step = episode.step(4)
    >>> episode.time_s, step.node_seconds, episode.simulation.run.reconfigurations
    (60.0, 40.0, 1)
    """

    def __init__(
        self, scenario: Scenario, *, guards: Sequence[Guard] | None = None, name: str = "policy"
    ) -> None:
        """``guards`` restrain the chosen nodes; by default only the bounds."""
        self.scenario = scenario
        self._clock = ManualClock(0.0)
        self._target = scenario.target(self._clock)
        self._view = _TargetView(self._target)
        self._strategy = _ChosenNodes(name, scenario.first_nodes)
        self._loop = ControlLoop(
            remember_decisions=10_000_000,
            target=self._view,
            strategy=self._strategy,
            guards=(Bounds(),) if guards is None else guards,
            store=MemoryStore(),
            clock=self._clock,
            limits=scenario.limits,
            slo=scenario.slo,
            cycle_s=scenario.cycle_s,
            decide_at_least_every_s=scenario.cycle_s,
        )
        arrived = self._target.arrived(scenario.duration_s)
        self.rows = float(arrived.values[-1])
        """Rows that arrive in the whole episode."""
        self._late_rows_so_far = _LateRows(arrived, scenario.slo)
        self._end_s = scenario.duration_s
        self._steps = 0
        self._batches: list[Batch] = []
        self._done = self._failed = 0.0
        self._simulation: Simulation | None = None
        self.planned_nodes = scenario.first_nodes
        """The last plan, after the guards."""
        self.entry: LedgerEntry | None = None
        """The ledger entry of the last step."""
        self.observation: Observation | None = self._view.refresh()
        """The current observation; None while metrics are missing."""

    @property
    def time_s(self) -> float:
        """Seconds since the start."""
        return self._clock.now_s()

    @property
    def over(self) -> bool:
        """Whether the scenario has ended."""
        return self.time_s >= self._end_s

    @property
    def simulation(self) -> Simulation:
        """The finished simulation; only after the end."""
        assert self.over, "the episode is not over"
        if self._simulation is None:
            scenario, name = self.scenario, self._strategy.name
            self._simulation = finished_simulation(scenario, name, self._target, self._loop, self._batches)
        return self._simulation

    def step(self, nodes: int) -> StepCost:
        """Request a number of nodes and advance one cycle."""
        start_s, before = self.time_s, self.observation
        self._strategy.nodes = nodes
        report = self._loop.cycle()
        self.entry = report.entry
        if report.planned is not None:
            self.planned_nodes = report.planned.main_nodes
        self._steps += 1
        end_s = min(self._steps * self.scenario.cycle_s, self._end_s)
        self._clock.advance(end_s - start_s)
        self.observation = self._view.refresh()
        if self.observation is not None:
            self._batches += self.observation.batches
        return StepCost(
            node_seconds=self._node_seconds(start_s, end_s, before),
            late_rows=self._late_rows(start_s, end_s),
        )

    def _node_seconds(self, start_s: float, end_s: float, before: Observation | None) -> float:
        """∫ nodes held dt.

        Nodes are held from their request at the start of the step. If none leaves, their number is then constant, and
        the whole history need not be integrated.
        """
        if before is not None and before.time_s == start_s and before.held_nodes is not None:
            outcome = None if self.entry is None else self.entry.outcome
            requested = before.requested if outcome is None else outcome.requested
            more = sum(requested.nodes.values()) - sum(before.requested.nodes.values())
            leaving = any(action.kind is ActionKind.SHRINK for action in before.under_way)
            if more >= 0 and not leaving:
                return (before.held_nodes + more) * (end_s - start_s)
        return self._target.held().integral(start_s, end_s)

    def _late_rows(self, start_s: float, end_s: float) -> float:
        work = self._target.work()
        before, self._done = self._done, work.processed
        if work.failed > self._failed:
            self._failed = work.failed
            self._late_rows_so_far.lose(self._target.lost(self._end_s))
        elif self._late_rows_so_far.none_until(end_s, before):
            return 0.0
        return self._late_rows_so_far.until(end_s, self._commits(start_s, end_s, before))

    def _commits(self, start_s: float, end_s: float, before: float) -> Curve:
        """Rows processed at the start of the step, then every commit within it.

        From the batches if they account for all rows, else from the whole history.
        """
        batches = () if self.observation is None else self.observation.batches
        if self._done == before + sum(batch.rows for batch in batches) and all(
            start_s < batch.ended_s <= end_s for batch in batches
        ):
            times_s = np.array([start_s, *(batch.ended_s for batch in batches)])
            return Curve(times_s, before + np.cumsum([0.0, *(float(batch.rows) for batch in batches)]))
        done = self._target.processed()
        first = int(np.searchsorted(done.times_s, start_s, side="right"))
        return Curve(
            np.concatenate(([start_s], done.times_s[first:])), np.concatenate(([before], done.values[first:]))
        )


class _TargetView:
    """The target with the observation that the caller has seen: batches and rates are reported only once, so the loop
    must not observe again."""

    def __init__(self, target: SimulatorTarget) -> None:
        self._target = target
        self._observed: Observation | TargetError | None = None

    def refresh(self) -> Observation | None:
        """Observe now; None if metrics are missing."""
        try:
            self._observed = self._target.observe()
        except TargetError as error:
            self._observed = error
            return None
        return self._observed

    def observe(self) -> Observation:
        """The observation of the last refresh."""
        if isinstance(self._observed, TargetError):
            raise self._observed
        assert self._observed is not None
        return self._observed

    def apply(self, planned: Layout) -> Outcome:
        """Request a layout."""
        return self._target.apply(planned)

    def close(self) -> None:
        """Nothing to close."""


class _ChosenNodes(Strategy):
    """A strategy that wants the nodes set by the caller."""

    brings_own_guards = True

    def __init__(self, name: str, nodes: int) -> None:
        self.name = name
        self.nodes = nodes

    def decide(self, snapshot: Snapshot) -> Decision:
        """The chosen nodes."""
        return Decision(
            wanted=snapshot.planned.with_nodes(self.nodes),
            reason=f"{self.name} chose {counted(self.nodes, 'node')}",
        )


class _LateRows:
    """Counts late rows step by step, as ``score`` does at the end: committed late, waiting and overdue, and lost.

    >>> counted = _LateRows(Curve.of([(0, 0), (20, 200)]), Slo(freshness_s=5.0))
    >>> round(counted.until(10.0, Curve.of([(0, 0)])))  # 100 arrived, 50 of them more than 5 s ago
    50
    >>> round(counted.until(20.0, Curve.of([(10, 0), (12, 100)])))  # 70 were late at 12 s, 100 … 150 are now
    70
    """

    def __init__(self, arrived: Curve, slo: Slo) -> None:
        self._arrived = self._survived = arrived
        self._lost = 0.0
        self._limit_s = slo.freshness_s + LATE_TOLERANCE_S
        self._committed_late = 0.0
        self._late = 0.0

    def lose(self, lost: Curve) -> None:
        """Set the rows lost so far, cumulative over their arrival. Processed rows arrived before them."""
        left = self._arrived.minus(lost)
        self._survived = Curve(left.times_s, np.maximum.accumulate(left.values))
        self._lost = float(lost.values[-1])

    def none_until(self, time_s: float, done: float) -> bool:
        """Whether all rows that could be late by ``time_s`` were processed before."""
        return float(self._survived.interpolated(time_s - self._limit_s)) <= done

    def until(self, time_s: float, commits: Curve) -> float:
        """Rows that became late since the last call; ``commits`` starts with the rows processed by then."""
        waits = Waits.of(self._around(commits), commits)
        self._committed_late += waits.rows_beyond(self._limit_s)
        due = float(self._survived.interpolated(time_s - self._limit_s))
        late = self._committed_late + max(due - float(commits.values[-1]), 0.0) + self._lost
        more, self._late = max(late - self._late, 0.0), max(late, self._late)
        return more

    def _around(self, commits: Curve) -> Curve:
        """The part of the arrivals that these commits cover: a whole day has many more points."""
        values = self._survived.values
        first = int(np.searchsorted(values, commits.values[0], side="right")) - 1
        last = int(np.searchsorted(values, commits.values[-1], side="left")) + 1
        first = max(min(first, len(values) - 2), 0)
        last = max(last, first + 2)
        return Curve(self._survived.times_s[first:last], values[first:last])
