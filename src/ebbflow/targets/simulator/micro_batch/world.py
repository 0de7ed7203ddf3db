"""The event loop of the micro-batch engine: queries that share the slots of clusters.

A batch that has its cluster to itself, on unchanging nodes, gets its end from the formula when it begins. If another
query's batch or a change of the nodes interferes, the batch is simulated again from its beginning, task by task
(``slots``), with the same result for the part that is already past.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ebbflow.core.readings import Reading
from ebbflow.targets.simulator.engine import Start
from ebbflow.targets.simulator.micro_batch.run import MicroBatchRun
from ebbflow.targets.simulator.micro_batch.slots import RunningStage, Slots
from ebbflow.targets.simulator.nodes import Link, NodePool


@dataclass(frozen=True)
class _ComputedBatch:
    """A batch whose end comes from the formula, valid for one version of the node pool."""

    run: MicroBatchRun
    end_s: float
    pool_version: int


class _ClusterState:
    """What runs in a cluster: one batch by the formula, or stages on slots."""

    def __init__(self, pool: NodePool) -> None:
        self.pool = pool
        self.slots = Slots(pool)
        self.computed: _ComputedBatch | None = None
        self.owners: dict[RunningStage, MicroBatchRun] = {}

    def next_event_s(self) -> float:
        """When something ends or changes next."""
        return self.computed.end_s if self.computed else self.slots.next_event_s()


class MicroBatchWorld:
    """All queries on all clusters."""

    def __init__(
        self, starts: Sequence[Start], pools: Mapping[str, NodePool], link: Link | None = None
    ) -> None:
        self._clusters = {cluster: _ClusterState(pool) for cluster, pool in pools.items()}
        self.runs = [MicroBatchRun(start, pools, link or Link()) for start in starts]
        self._numbers = {run: number for number, run in enumerate(self.runs)}

    def advance(self, until_s: float) -> None:
        """Simulate up to a time."""
        if len(self.runs) == 1:
            self._advance_single(self.runs[0], until_s)
        else:
            while self._next_event(until_s):
                pass

    def busy(self, cluster: str) -> bool:
        """Whether a batch runs in a cluster."""
        return any(run.batch is not None and run.cluster == cluster for run in self.runs)

    def topology(self, _now_s: float) -> None:
        """None: nodes hold no data of their own."""

    def node_readings(self, _now_s: float) -> list[Reading]:
        """None: Spark's monitor has no node readings."""
        return []

    # -- events --------------------------------------------------------------------------------

    def _advance_single(self, run: MicroBatchRun, until_s: float) -> None:
        """The loop for one query, where the order of events is known."""
        while True:
            if run.batch is None:
                run.run_series(until_s)
                start_s = run.next_start_s(until_s)
                if start_s > until_s:
                    return
                self._begin(run, start_s)
            state = self._clusters[run.cluster]
            self._check_computed(state)
            next_s = state.next_event_s()
            if next_s > until_s:
                return
            self._process(state, next_s, math.inf, until_s)

    def _next_event(self, until_s: float) -> bool:
        """Begin the next batch, or process earlier events until a batch ends; False if there is none by then.

        At the same time, batches begin before slots are assigned.
        """
        start_s, starting = math.inf, None
        for run in self.runs:
            if run.batch is None and (run_start_s := run.next_start_s(until_s)) < start_s:
                start_s, starting = run_start_s, run
        while True:
            first_s, second_s, first = math.inf, math.inf, None
            for state in self._clusters.values():
                self._check_computed(state)
                event_s = state.next_event_s()
                if event_s < first_s:
                    first_s, second_s, first = event_s, first_s, state
                else:
                    second_s = min(second_s, event_s)
            if min(start_s, first_s) > until_s:
                return False
            if starting is not None and start_s <= first_s:
                if self._clusters[starting.cluster].computed is None:
                    self._begin(starting, start_s)
                    return True
                self._simulate_tasks(self._clusters[starting.cluster])  # first its tasks up to now
            elif first is not None and self._process(first, first_s, min(start_s, second_s), until_s):
                return True

    def _begin(self, run: MicroBatchRun, start_s: float) -> None:
        batch = run.begin(start_s)
        state = self._clusters[run.cluster]
        end_s = run.compute_end_s(batch) if state.slots.idle and not state.computed else None
        if end_s is not None:
            state.computed = _ComputedBatch(run, end_s, state.pool.version)
        else:
            self._submit(state, run)

    def _check_computed(self, state: _ClusterState) -> None:
        if state.computed is not None and state.computed.pool_version != state.pool.version:
            self._simulate_tasks(state)

    def _simulate_tasks(self, state: _ClusterState) -> None:
        """The formula no longer holds for a batch: simulate its tasks from its start."""
        assert state.computed is not None
        run, state.computed = state.computed.run, None
        assert run.batch is not None
        run.batch.stage_times = []
        self._submit(state, run)

    def _submit(self, state: _ClusterState, run: MicroBatchRun) -> bool:
        """Submit the current stage of a batch; False if all its stages are done."""
        stage = run.current_stage(self._numbers[run])
        if stage is None or run.batch is None:
            return False
        state.owners[stage] = run
        state.slots.submit(run.batch.stage_s, stage)
        return True

    def _process(self, state: _ClusterState, at_s: float, before_s: float, until_s: float) -> bool:
        """Process the next events of a cluster up to the end of a stage, or until something happens elsewhere
        (``before_s``). Returns whether a batch ended."""
        if state.computed is not None:
            run, state.computed = state.computed.run, None
            self._finish(state, run, at_s)
            return True
        slots, pool, ended = state.slots, state.pool, False
        while not (done := slots.end_tasks(at_s)):
            slots.assign_tasks(at_s)
            pool.release(at_s, between_batches=False, busy=slots.busy_nodes)
            slots.run_waves(before_s, until_s)
            at_s = slots.next_event_s()
            if at_s >= before_s or at_s > until_s:
                return False
        for stage in done:
            run = state.owners.pop(stage)
            run.end_stage(at_s, stage)
            if not self._submit(state, run):
                self._finish(state, run, at_s)
                ended = True
        slots.assign_tasks(at_s)
        pool.release(at_s, between_batches=False, busy=slots.busy_nodes)
        return ended

    def _finish(self, state: _ClusterState, run: MicroBatchRun, at_s: float) -> None:
        cluster = run.cluster
        run.finish(at_s)
        state.pool.release(at_s, between_batches=not self.busy(cluster), busy=state.slots.busy_nodes)
