"""The datastore benchmark in the simulator, at the paper's size: 3 to 6 nodes, 1 GB, 92,476 to 131,406 requests/s.

The store is made from Tables 3 and 4. It is profiled first, and the strategies know the learned profile, not the
tables. The workload model is learned from the days before the test.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ebbflow.control.loop import CycleReport
from ebbflow.core.clock import ManualClock
from ebbflow.core.layout import Layout
from ebbflow.core.limits import Limits
from ebbflow.core.metrics import Metric
from ebbflow.core.plural import counted
from ebbflow.core.ports import Strategy
from ebbflow.guards import guards_for, topology_guards
from ebbflow.papers import SIMULATOR
from ebbflow.papers.pascal.datastore.loads import DAY_S, MINUTES, SPEED, DatastoreLoad
from ebbflow.papers.pascal.datastore.published import IMPACT_AT_S, IMPACT_PER_S, RESPONSE_S
from ebbflow.papers.pascal.datastore.results import (
    ALGORITHM_2,
    COSTS,
    REACTIVE,
    SLO,
    STATIC_FEW,
    STATIC_MOST,
    Impact,
    ReadingsRecorder,
    StoreRun,
)
from ebbflow.papers.rows import run_rows
from ebbflow.profiling.datastore import DatastoreProfile, DatastoreProfiling
from ebbflow.profiling.datastore.profile import paper_profile
from ebbflow.runs.simulation import run_simulation
from ebbflow.strategies.datastore import Datastore, DatastoreCosts
from ebbflow.strategies.static import Static
from ebbflow.targets.simulator import DataNodes, Scenario, SimulatorTarget
from ebbflow.targets.simulator import Datastore as Engine
from ebbflow.targets.simulator.datastore.under_load import SimulatedStore
from ebbflow.workloads import Arrivals, parse_load

LIMITS = Limits(min_nodes=3, max_nodes=6)
STEP_S = 30.0
"""Steps of the forecast: six minutes of the trace."""
CYCLE_S = 5.0
TIME_NOISE = 0.05
"""Spread of the times to join and to leave: those in Table 5 differ by as much."""
CAPACITY_NOISE = 0.01
IMPACT_S = 420.0


@dataclass(frozen=True, kw_only=True)
class SimulatedBench:
    """The benchmark in the simulator; the same values give the same results."""

    load: DatastoreLoad
    seed: int = 1
    workers: int | None = None

    @property
    def target(self) -> str:
        """Its name."""
        return SIMULATOR

    @property
    def facts(self) -> Sequence[str]:
        """What was run."""
        past, tested = len(self.load.past) // MINUTES, len(self.load.present) // MINUTES
        return (
            "simulator: 3 to 6 nodes, replication factor 3, 1 GB",
            f"{counted(past, 'day')} to learn from, {counted(tested, 'day')} of test, {SPEED:g} times as fast",
            "a generated trace" if self.load.name == "made" else "a recorded trace",
        )

    @property
    def drawn_s(self) -> tuple[float, float]:
        """The day with the highest load."""
        days = self.load.present.reshape(-1, MINUTES).max(axis=1)
        day = int(np.argmax(days))
        return day * DAY_S, (day + 1) * DAY_S

    def profile(self) -> DatastoreProfile:
        """Step the load on each size, and time the changes with 1, 2 and 4 GB."""
        profiling = DatastoreProfiling(
            first_per_s=20_000.0,
            sizes=paper_profile().sizes,
            hold_s=30.0,
            tolerance=0.01,
            data_gb=(2.0, 4.0),
            wanted_response_s=RESPONSE_S,
        )
        return profiling.run(SimulatedStore(paper_profile(), seed=self.seed))

    def impacts(self) -> list[Impact]:
        """3 → 4 and 4 → 3 nodes at 50,000 requests/s."""
        return [self._impact(3, 4), self._impact(4, 3)]

    def _impact(self, before: int, after: int) -> Impact:
        clock = ManualClock(0.0)
        target = SimulatorTarget(
            _engine(), _nodes(), Arrivals(parse_load(f"constant({IMPACT_PER_S:g})")), clock, self.seed,
            initial_nodes=before,
        )  # fmt: skip
        recorder = ReadingsRecorder()
        per_node, changes, cleaned_s = [], [], None
        for second in range(1, round(IMPACT_S) + 1):
            clock.advance(1.0)
            seen = target.observe()
            recorder.record(seen.readings)
            assert seen.topology is not None
            serving = [node for node in seen.topology.nodes if node.data_bytes]
            per_node.append((float(second), recorder.points[Metric.THROUGHPUT][-1][1] / len(serving)))
            if seen.topology.changing:
                changes.append(float(second))
            if any(node.cleanups for node in seen.topology.nodes):
                cleaned_s = float(second)
            if second == round(IMPACT_AT_S):
                target.apply(Layout.of(after))
        return Impact(
            before=before,
            after=after,
            rate_per_s=IMPACT_PER_S,
            began_s=IMPACT_AT_S,
            ended_s=max(changes),
            cleaned_s=cleaned_s,
            throughput=recorder.points[Metric.THROUGHPUT],
            per_node=per_node,
            response=recorder.points[Metric.RESPONSE_TIME],
        )

    def runs(self, profile: DatastoreProfile, strategies: Sequence[str]) -> list[StoreRun]:
        """Run each strategy on the days of the test, in parallel."""
        found = run_rows(
            _run, (self.load, profile), list(strategies), name=str, seeds=1, workers=self.workers
        )
        return [runs[0] for runs, _ in found]


def _engine() -> Engine:
    return Engine.of(paper_profile(), noise=CAPACITY_NOISE)


def _nodes() -> DataNodes:
    return DataNodes.of(paper_profile(), noise=TIME_NOISE)


def strategy_for(
    name: str,
    profile: DatastoreProfile,
    history: Iterable[tuple[float, float]],
    *,
    step_s: float = STEP_S,
    speed: float = SPEED,
) -> Strategy:
    """A new strategy that has learned the past of a load. The load is an approximated trace already."""
    if name in (STATIC_MOST, STATIC_FEW):
        return Static()
    made: Datastore
    if name == COSTS:
        made = DatastoreCosts(profile=profile, step_s=step_s, percentile_over_s=0.0, speed=speed)
    else:
        forecaster = {ALGORITHM_2: "mixture", REACTIVE: "last-value"}[name]
        made = Datastore(
            profile=profile, step_s=step_s, percentile_over_s=0.0, speed=speed, forecaster=forecaster
        )
    made.learn_past(history)
    return made


def _run(context: tuple[DatastoreLoad, DatastoreProfile], name: str, seed: int) -> tuple[StoreRun, None]:
    load, profile = context
    nodes = LIMITS.max_nodes if name == STATIC_MOST else LIMITS.min_nodes
    limits = Limits(min_nodes=nodes, max_nodes=nodes) if name in (STATIC_MOST, STATIC_FEW) else LIMITS
    scenario = Scenario(
        engine=_engine(), load=load.load, limits=limits, slo=SLO, nodes=_nodes(), initial_nodes=nodes,
        seconds=load.seconds, cycle_s=CYCLE_S, seed=seed,
    )  # fmt: skip
    recorder = ReadingsRecorder()

    def record(report: CycleReport) -> None:
        if report.observation is not None:
            recorder.record(report.observation.readings)

    strategy = strategy_for(name, profile, load.history(STEP_S))
    guards = guards_for(strategy, added=topology_guards())
    run = run_simulation(scenario, strategy, guards, on_cycle=record).run
    acts = [entry for entry in run.decisions if entry.verdict == "act"]
    return StoreRun(
        strategy=name,
        target=SIMULATOR,
        run=replace(run, decisions=acts, batches=()),
        profile=profile,
        points=recorder.points,
        most_nodes=LIMITS.max_nodes,
    ), None
