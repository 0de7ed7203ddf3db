"""The simulator behind the target port: what a strategy meets here is what it meets on Spark."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from ebbflow.core.clock import Clock
from ebbflow.core.curve import Curve
from ebbflow.core.decision import Outcome
from ebbflow.core.layout import MAIN, Layout
from ebbflow.core.metrics import Metric
from ebbflow.core.ports import Observation
from ebbflow.core.readings import Reading
from ebbflow.core.snapshot import ActionKind, ActionUnderWay
from ebbflow.errors import TargetError
from ebbflow.targets.simulator.engine import Engine, Work
from ebbflow.targets.simulator.faults import Fault, LateMetrics, MissingMetrics
from ebbflow.targets.simulator.inflow import Inflow
from ebbflow.targets.simulator.nodes import NodeKind, NodePool
from ebbflow.workloads.arrivals import Arrivals


class SimulatorTarget:
    """A simulated pipeline. Second 0 of the load is time 0 of the clock; time passes when it is observed.

    The same seed, arguments and calls give the same answers.

    >>> from ebbflow.core.clock import ManualClock
    >>> from ebbflow.core.pipeline import Pipeline
    >>> from ebbflow.targets.simulator.micro_batch import MicroBatch, Stage
    >>> from ebbflow.workloads import parse_load
    >>> clock = ManualClock()
    >>> query = MicroBatch(pipeline=Pipeline.chain("p", "read"), stages=(Stage(tasks=2, per_row_s=0.01),))
    >>> target = SimulatorTarget(query, NodeKind(), Arrivals(parse_load("constant(50)")), clock, seed=1)
    >>> clock.advance(12.0)
    >>> [(b.rows, b.started_s, round(b.ended_s, 3)) for b in target.observe().batches]
    []
    >>> clock.advance(6.0)
    >>> [(b.rows, b.started_s, round(b.ended_s, 3)) for b in target.observe().batches]
    [(250, 10.0, 12.9), (250, 15.0, 17.9)]
    """

    def __init__(
        self,
        engine: Engine,
        nodes: NodeKind,
        arrivals: Arrivals,
        clock: Clock,
        seed: int = 0,
        *,
        initial_nodes: int = 1,
        faults: Sequence[Fault] = (),
    ) -> None:
        for_nodes, for_engine = np.random.default_rng(seed).spawn(2)
        self._engine = engine
        self._clock = clock
        self._pool = NodePool(nodes, initial_nodes, for_nodes, faults)
        self._inflow = Inflow(arrivals)
        self._running = engine.start(self._inflow, self._pool, for_engine)
        self._missing = [f for f in faults if isinstance(f, MissingMetrics)]
        self._late = [f for f in faults if isinstance(f, LateMetrics)]
        self._on_the_way: deque[Observation] = deque()
        self._parallelism = dict(self._running.parallelism)

    # -- the port ------------------------------------------------------------------------------

    def observe(self) -> Observation:
        """Let time pass up to now, and look. ``TargetError`` while metrics are missing."""
        now_s = self.advance()
        if any(f.from_s <= now_s < f.until_s for f in self._missing):
            raise TargetError(f"the simulated monitor is blind at {now_s:g} s")
        seen = self._look(now_s)
        delay_s = max((f.delay_s for f in self._late if f.from_s <= now_s < f.until_s), default=0.0)
        if not delay_s and not self._on_the_way:
            return seen
        return self._delayed(seen, now_s - delay_s)

    def apply(self, planned: Layout) -> Outcome:
        """Ask for nodes and parallelism."""
        now_s = self.advance()
        note = self._running.set_parallelism(now_s, planned.parallelism)
        self._parallelism = {**self._parallelism, **planned.parallelism}
        requested = self._pool.set_nodes(now_s, planned.main_nodes, busy=self._running.busy)
        return Outcome(requested=self._layout(requested), note=note)

    def close(self) -> None:
        """Nothing to let go of."""

    # -- for whoever keeps the record ------------------------------------------------------------

    def advance(self) -> float:
        """Let time pass up to now; returns it."""
        now_s = self._clock.now_s()
        self._pool.advance(now_s)
        self._running.advance(now_s)
        return now_s

    def work(self) -> Work:
        """Where the rows are."""
        return self._running.work(self.advance())

    def arrived(self, until_s: float) -> Curve:
        """Rows that had arrived, cumulative."""
        return self._inflow.curve(until_s)

    def left(self) -> Curve:
        """Rows that have left the pipeline (processed or failed), cumulative."""
        return self._running.left()

    def held(self) -> Curve:
        """Nodes paid for."""
        return self._pool.held()

    def at_work(self) -> Curve:
        """Nodes that were there and could work."""
        return self._pool.at_work()

    # -- looking -------------------------------------------------------------------------------

    def _look(self, now_s: float) -> Observation:
        pool, running = self._pool, self._running
        batches = running.take_batches()
        working, requested = len(pool.working(now_s)), pool.requested
        readings = running.readings(now_s, batches)
        readings += [
            Reading(now_s, MAIN, Metric.NODES, float(working)),
            Reading(now_s, MAIN, Metric.NODES_REQUESTED, float(requested)),
            Reading(now_s, MAIN, Metric.SLOTS, float(working * pool.kind.slots)),
        ]
        return Observation(
            time_s=now_s,
            pipeline=self._engine.pipeline,
            layout=self._layout(working),
            requested=self._layout(requested),
            slots_per_node=pool.kind.slots,
            lead_time_s=pool.lead_time_s,
            readings=readings,
            batches=batches,
            under_way=self._under_way(now_s),
            queries=running.running(),
            held_nodes=sum(node.gone_s > now_s for node in pool.alive),
        )

    def _layout(self, nodes: int) -> Layout:
        return Layout(nodes={MAIN: nodes}, parallelism=self._parallelism)

    def _under_way(self, now_s: float) -> list[ActionUnderWay]:
        actions = []
        coming = self._pool.coming(now_s)
        if coming:
            asked_s = max(node.asked_s for node in coming)
            actions.append(ActionUnderWay(kind=ActionKind.GROW, since_s=asked_s, nodes=len(coming)))
        leaving = [node for node in self._pool.leaving if node.gone_s > now_s]
        if leaving:
            actions.append(ActionUnderWay(kind=ActionKind.SHRINK, since_s=now_s, nodes=len(leaving)))
        stopped_s = self._running.stopped_since_s()
        if stopped_s is not None:
            actions.append(ActionUnderWay(kind=ActionKind.RESTART, since_s=stopped_s))
        return actions

    def _delayed(self, seen: Observation, by_s: float) -> Observation:
        """The newest look made by a time, with all that those before it saw and nobody was told."""
        self._on_the_way.append(seen)
        told: list[Observation] = []
        while self._on_the_way and self._on_the_way[0].time_s <= by_s + 1e-9:
            told.append(self._on_the_way.popleft())
        if not told:
            raise TargetError(f"nothing newer than {by_s:g} s has come from the simulated monitor")
        return _merged(told)


def _merged(looks: Sequence[Observation]) -> Observation:
    """The last look, with the readings and batches of all."""
    last = looks[-1]
    if len(looks) == 1:
        return last
    return Observation(
        **{
            **{name: getattr(last, name) for name in last.__dataclass_fields__},
            "readings": [reading for look in looks for reading in look.readings],
            "batches": [batch for look in looks for batch in look.batches],
        }
    )
