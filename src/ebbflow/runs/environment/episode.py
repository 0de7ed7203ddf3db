"""A scenario played step by step, by someone who says before each step how many nodes there shall be.

The loop, the guards and the record are those of every run; only the strategy is whoever holds the episode. What a
step costs is counted so that the steps add up to the scores of the whole run, exactly:

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
from ebbflow.core.ports import Guard, Observation, Strategy
from ebbflow.core.slo import Slo
from ebbflow.core.snapshot import ActionKind, Snapshot
from ebbflow.errors import TargetError
from ebbflow.guards import Bounds
from ebbflow.monitoring.store import MemoryStore
from ebbflow.runs.score import LATE_TOLERANCE_S, Waits
from ebbflow.runs.simulation import Simulation, recorded
from ebbflow.targets.simulator.scenario import Scenario
from ebbflow.targets.simulator.target import SimulatorTarget


@dataclass(frozen=True, kw_only=True)
class Step:
    """What a step cost."""

    node_seconds: float
    late_rows: float
    """Rows that became late in it."""


class Episode:
    """One scenario from its start to its end.

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
        """``guards`` restrain what is asked for; only the bounds if not told."""
        self.scenario = scenario
        self._clock = ManualClock(0.0)
        self._target = scenario.target(self._clock)
        self._glass = _Glass(self._target)
        self._chosen = _Chosen(name, scenario.first_nodes)
        self._loop = ControlLoop(
            remember_decisions=10_000_000,
            target=self._glass,
            strategy=self._chosen,
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
        self._lateness = _Lateness(arrived, scenario.slo)
        self._end_s = scenario.duration_s
        self._steps = 0
        self._batches: list[Batch] = []
        self._done = self._failed = 0.0
        self._simulation: Simulation | None = None
        self.planned_nodes = scenario.first_nodes
        """What was asked for last, after the guards."""
        self.entry: LedgerEntry | None = None
        """What the ledger says of the last step."""
        self.seen: Observation | None = self._glass.look()
        """What the monitor shows now; None while it is blind."""

    @property
    def time_s(self) -> float:
        """Seconds since the start."""
        return self._clock.now_s()

    @property
    def over(self) -> bool:
        """Whether the end of the scenario is reached."""
        return self.time_s >= self._end_s

    @property
    def simulation(self) -> Simulation:
        """The record, once it is over; the same as of any other run."""
        assert self.over, "an episode is recorded when it is over"
        if self._simulation is None:
            scenario, name = self.scenario, self._chosen.name
            self._simulation = recorded(scenario, name, self._target, self._loop, self._batches)
        return self._simulation

    def step(self, nodes: int) -> Step:
        """Ask for a number of nodes, and let one period pass."""
        start_s, before = self.time_s, self.seen
        self._chosen.nodes = nodes
        report = self._loop.cycle()
        self.entry = report.entry
        if report.planned is not None:
            self.planned_nodes = report.planned.main_nodes
        self._steps += 1
        end_s = min(self._steps * self.scenario.cycle_s, self._end_s)
        self._clock.advance(end_s - start_s)
        self.seen = self._glass.look()
        if self.seen is not None:
            self._batches += self.seen.batches
        return Step(
            node_seconds=self._node_seconds(start_s, end_s, before),
            late_rows=self._late_rows(start_s, end_s),
        )

    def _node_seconds(self, start_s: float, end_s: float, before: Observation | None) -> float:
        """∫ nodes held dt. Nodes come to be held when they are asked for, at the start of the step; where none
        leaves, their number then stays the same, and the whole history need not be counted."""
        if before is not None and before.time_s == start_s and before.held_nodes is not None:
            outcome = None if self.entry is None else self.entry.outcome
            asked = before.requested if outcome is None else outcome.requested
            more = sum(asked.nodes.values()) - sum(before.requested.nodes.values())
            leaving = any(action.kind is ActionKind.SHRINK for action in before.under_way)
            if more >= 0 and not leaving:
                return (before.held_nodes + more) * (end_s - start_s)
        return self._target.held().integral(start_s, end_s)

    def _late_rows(self, start_s: float, end_s: float) -> float:
        work = self._target.work()
        before, self._done = self._done, work.processed
        if work.failed > self._failed:
            self._failed = work.failed
            self._lateness.lose(self._target.lost(self._end_s))
        elif self._lateness.none_until(end_s, before):
            return 0.0
        return self._lateness.until(end_s, self._commits(start_s, end_s, before))

    def _commits(self, start_s: float, end_s: float, before: float) -> Curve:
        """Rows done at the start of the step, then every commit within it; from the batches where they account
        for all of it, else from the whole record."""
        batches = () if self.seen is None else self.seen.batches
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


class _Glass:
    """The target as it was shown to whoever decides: the loop must not look a second time, for batches and rates
    are told once."""

    def __init__(self, target: SimulatorTarget) -> None:
        self._target = target
        self._seen: Observation | TargetError | None = None

    def look(self) -> Observation | None:
        """Look now; None if nothing can be seen."""
        try:
            self._seen = self._target.observe()
        except TargetError as error:
            self._seen = error
            return None
        return self._seen

    def observe(self) -> Observation:
        """What was seen at the last look."""
        if isinstance(self._seen, TargetError):
            raise self._seen
        assert self._seen is not None
        return self._seen

    def apply(self, planned: Layout) -> Outcome:
        """Ask for a layout."""
        return self._target.apply(planned)

    def close(self) -> None:
        """Nothing to let go of."""


class _Chosen(Strategy):
    """A strategy that wants what it was told."""

    brings_own_guards = True

    def __init__(self, name: str, nodes: int) -> None:
        self.name = name
        self.nodes = nodes

    def decide(self, snapshot: Snapshot) -> Decision:
        """The nodes that were chosen."""
        return Decision(
            wanted=snapshot.planned.with_nodes(self.nodes), reason=f"{self.name} chose {self.nodes} nodes"
        )


class _Lateness:
    """Counts late rows step by step, as ``score`` counts them in the end: those committed too late, those that have
    waited too long already, and those that were lost.

    >>> counted = _Lateness(Curve.of([(0, 0), (20, 200)]), Slo(freshness_s=5.0))
    >>> round(counted.until(10.0, Curve.of([(0, 0)])))  # 100 came, 50 of them more than 5 s ago
    50
    >>> round(counted.until(20.0, Curve.of([(10, 0), (12, 100)])))  # 70 were late by 12 s; 100 … 150 are now
    70
    """

    def __init__(self, arrived: Curve, slo: Slo) -> None:
        self._arrived = self._survived = arrived
        self._lost = 0.0
        self._limit_s = slo.freshness_s + LATE_TOLERANCE_S
        self._committed_late = 0.0
        self._late = 0.0

    def lose(self, lost: Curve) -> None:
        """Rows have been lost: all so far, cumulative over their arrival. Those done come before them, and stay."""
        left = self._arrived.minus(lost)
        self._survived = Curve(left.times_s, np.maximum.accumulate(left.values))
        self._lost = float(lost.values[-1])

    def none_until(self, time_s: float, done: float) -> bool:
        """Whether all rows that could be late by a time were done before, so that nobody need look when."""
        return float(self._survived.interpolated(time_s - self._limit_s)) <= done

    def until(self, time_s: float, commits: Curve) -> float:
        """Rows that became late since the last time; ``commits`` starts with what was done by then."""
        waits = Waits.of(self._around(commits), commits)
        self._committed_late += waits.rows_beyond(self._limit_s)
        due = float(self._survived.interpolated(time_s - self._limit_s))
        late = self._committed_late + max(due - float(commits.values[-1]), 0.0) + self._lost
        more, self._late = max(late - self._late, 0.0), max(late, self._late)
        return more

    def _around(self, commits: Curve) -> Curve:
        """The part of the arrivals in which the rows of these commits lie: a day has many more."""
        values = self._survived.values
        first = int(np.searchsorted(values, commits.values[0], side="right")) - 1
        last = int(np.searchsorted(values, commits.values[-1], side="left")) + 1
        first = max(min(first, len(values) - 2), 0)
        last = max(last, first + 2)
        return Curve(self._survived.times_s[first:last], values[first:last])
