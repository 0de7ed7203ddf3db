"""The time of the continuous engine: pipelines that share the cores of clusters, second by second."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ebbflow.core.layout import MAIN
from ebbflow.core.metrics import Metric
from ebbflow.core.readings import Reading
from ebbflow.targets.simulator.clusters import Link
from ebbflow.targets.simulator.continuous.busy_meter import BusyMeter
from ebbflow.targets.simulator.continuous.flow import Crowd, Flow, Instances, Stretch, Vertex
from ebbflow.targets.simulator.continuous.run import STEP_S, ContinuousRun
from ebbflow.targets.simulator.engine import Start
from ebbflow.targets.simulator.nodes import Node, NodeKind, Strength
from ebbflow.targets.simulator.nodes.pool import NodePool

_LEAST_STRETCH = 12
"""Seconds below which arrays do not pay."""
_FIRST_STRETCH, _MOST_STRETCH = 256, 4096
"""Seconds worked out ahead: few after a change, as the next may come soon; twice as many each time they passed."""
_REST = 24
"""Seconds after a stretch that came to little, before the next is tried."""


@dataclass
class _Ahead:
    """A stretch worked out ahead, and how far it has been played."""

    stretch: Stretch
    arrived: list[npt.NDArray[np.int64]]
    played: int = 0


class ContinuousWorld:
    """All pipelines, on all clusters."""

    def __init__(
        self, starts: Sequence[Start], pools: Mapping[str, NodePool], link: Link | None = None
    ) -> None:
        self.pools = pools
        self.link = link or Link()
        vertices: list[Vertex] = []
        self.runs: list[ContinuousRun] = []
        for number, start in enumerate(starts):
            self.runs.append(ContinuousRun(self, start, number, len(vertices)))
            _add_vertices(vertices, start, number)
        pending = [start.engine.max_pending_rows for start in starts]
        self.flow = Flow(vertices, [math.inf if most is None else most for most in pending])
        self.busy_meter = BusyMeter(self.flow)
        self._noisy = any(start.engine.noise for start in starts)
        self._now = 0
        self._looked = -1
        """The last second that nodes and rebalances were looked at for."""
        self._arrived = [0] * len(starts)
        self._known: dict[str, Strength] = {}
        self._seen: tuple[float, list[float]] = (0.0, list(self.flow.spent_s))
        self._rest = 0
        self._ahead: _Ahead | None = None
        self._reach = _FIRST_STRETCH
        """Seconds to work out ahead the next time."""
        self._weighed: list[int] = []
        """The version of each pipeline when its operators were weighed last."""
        self._by_node: list[tuple[str, int]] = []
        """(name, number of its kind) of each node that something is placed on."""
        self._node_kinds: list[tuple[NodeKind, Instances]] = []
        """What is alike of nodes: what they are, and the instances on them."""
        for run in self.runs:
            run.place(0.0)
        self._weigh(0.0)

    def advance(self, until_s: float) -> None:
        """Run whole steps up to a time. One that has begun by then is looked at already: what is ordered while it
        runs, the next one sees."""
        look_s = -math.inf  # whoever set the clock may have asked for other nodes, too
        while self._now < until_s - 1e-9:
            now_s, begun = float(self._now), self._looked == self._now
            if not begun:
                if now_s >= look_s:
                    self._look(now_s)
                    look_s = self._next_look_s()
                self._looked = self._now
            if self._now + STEP_S > until_s + 1e-9:
                return
            if self._ahead is None and not begun and not self._rest and self.flow.calm:
                self._work_ahead(now_s)
            if self._ahead is not None:
                self._play(self._ahead, now_s + STEP_S if begun else until_s)
            else:
                if self._rest:
                    self._rest -= 1
                self._step()

    def _next_look_s(self) -> float:
        """Until when there is nothing to look at, if nobody asks for anything meanwhile."""
        changes_s = [known.until_s for known in self._known.values()]
        return min(changes_s + [run.goes_on_s for run in self.runs if run.stopping_since_s is not None])

    def _look(self, now_s: float) -> None:
        """See to nodes that came or went, and to rebalances under way."""
        if not self._changed_clusters(now_s) and all(run.stopping_since_s is None for run in self.runs):
            return
        self._ahead, self._reach = None, _FIRST_STRETCH
        for cluster in self._changed_clusters(now_s):
            for run in self.runs:
                run.look_at_nodes(now_s, cluster)
        for run in self.runs:
            if run.stopping_since_s is not None:
                run.go_on(now_s)
        for cluster, pool in self.pools.items():
            if pool.some_leave:
                self._let_go(now_s, cluster)
        if self._versions() != self._weighed or self._changed_clusters(now_s):
            self._weigh(now_s)

    def _changed_clusters(self, now_s: float) -> list[str]:
        """Clusters whose nodes are not those that were weighed last."""
        return [c for c, pool in self.pools.items() if pool.strength(now_s) is not self._known[c]]

    def _versions(self) -> list[int]:
        return [run.version for run in self.runs]

    def _let_go(self, now_s: float, cluster: str) -> None:
        """Leaving nodes go when no pipeline works on them any more, or none stays that it could work on."""
        pool = self.pools[cluster]
        busy: set[Node] = set()
        if pool.working(now_s):
            for run in self.runs:
                if not run.standing:
                    busy.update(node for node in run.dealt(cluster) if not node.died)
        pool.let_go(now_s, between_batches=True, busy=busy)

    def _weigh(self, now_s: float) -> None:
        """What each operator can do where it is, without the nodes that are gone; nothing while it stands."""
        crowds: dict[tuple[float, float, Instances], int] = {}
        kinds: dict[tuple[str, Instances], int] = {}
        self._by_node = []
        for cluster, pool in self.pools.items():
            self._known[cluster] = pool.strength(now_s)
            alive = set(pool.alive)
            prefix = "" if cluster == MAIN else f"{cluster}/"
            dealt: dict[Node, Instances] = {}
            working: dict[Node, Instances] = {}
            for run in self.runs:
                for node in run.placed(cluster):
                    dealt.setdefault(node, ())
                for node, instances in run.dealt(cluster).items():
                    dealt[node] += instances
                    if not run.standing and node in alive and not (node.died and node.stop_s <= now_s):
                        working[node] = working.get(node, ()) + instances
            cores = pool.kind.left_cores
            for node, instances in working.items():
                crowd = (cores, node.speed_at(now_s), instances)
                crowds[crowd] = crowds.get(crowd, 0) + 1
            for node, instances in dealt.items():
                number = kinds.setdefault((cluster, instances), len(kinds))
                self._by_node.append((f"{prefix}node-{node.number}", number))
        self._node_kinds = [(self.pools[cluster].kind, instances) for cluster, instances in kinds]
        self.flow.place([Crowd(count, *kind) for kind, count in crowds.items()])
        self.flow.reads = [run.stopping_since_s is None for run in self.runs]
        self._weighed = self._versions()

    def dealt_before(self, run: ContinuousRun, cluster: str) -> int:
        """Instances in a cluster that are dealt out before those of a pipeline."""
        return sum(other.instances_in(cluster) for other in self.runs[: run.number])

    # -- seconds -------------------------------------------------------------------------------

    def _step(self) -> None:
        self._now += 1
        new_rows = []
        for number, run in enumerate(self.runs):
            arrived = run.inflow.rows_by_second(self._now)
            new_rows.append(float(arrived - self._arrived[number]))
            self._arrived[number] = arrived
        factors = None
        if self._noisy:
            factors = [run.noise.one() if run.engine.noise and not run.standing else 1.0 for run in self.runs]
        self.flow.step(new_rows, factors)
        for run, processed in zip(self.runs, self.flow.processed, strict=True):
            run.processed_rows.append(processed)

    def _work_ahead(self, now_s: float) -> None:
        """Many seconds at once, where nothing waits; they hold until something changes."""
        changes_s = min(known.until_s for known in self._known.values())
        count = self._reach
        if changes_s < math.inf:
            count = min(count, math.ceil(changes_s - now_s))  # the step after a change sees it
        if count >= _LEAST_STRETCH:
            arrived = [run.inflow.rows_by_seconds(self._now + 1, count) for run in self.runs]
            # what had arrived a second before each; all of it in whole rows, so that it is exact
            before = [run.inflow.rows_by_seconds(self._now, count) for run in self.runs]
            new_rows = [(rows - then).astype(np.float64) for rows, then in zip(arrived, before, strict=True)]
            factors = None
            if self._noisy:
                factors = [run.noise.peek(count) if run.engine.noise else np.ones(count) for run in self.runs]
            stretch = self.flow.stretch(new_rows, factors)
            if stretch.seconds >= _LEAST_STRETCH:
                self._ahead = _Ahead(stretch, arrived)
                return
        self._rest = _REST

    def _play(self, ahead: _Ahead, until_s: float) -> None:
        """Let the seconds that were worked out ahead pass, up to a time."""
        first = ahead.played
        last = min(ahead.stretch.seconds, first + int(until_s + 1e-9 - self._now))
        self.flow.play(ahead.stretch, last)
        for run in self.runs:
            run.processed_rows += ahead.stretch.processed[run.number][first + 1 : last + 1].tolist()
            self._arrived[run.number] = int(ahead.arrived[run.number][last - 1])
            if run.engine.noise:
                run.noise.take(last - first)
        self._now += last - first
        ahead.played = last
        if last == ahead.stretch.seconds:
            self._ahead = None
            self._reach = min(2 * self._reach, _MOST_STRETCH)

    # -- what is seen --------------------------------------------------------------------------

    def busy(self, _cluster: str) -> bool:
        """Nodes have instances on them."""
        return True

    def node_readings(self, now_s: float) -> list[Reading]:
        """CPU of each node since the last look: that of the instances dealt to it, and the engine's own."""
        since_s, spent_then = self._seen
        span_s = max(now_s - since_s, STEP_S)
        cpu = [
            (now - then) / (span_s * count)
            for now, then, count in zip(self.flow.spent_s, spent_then, self.flow.instances, strict=True)
        ]
        shares = []
        for kind, instances in self._node_kinds:
            used = 0.0
            for i, count in instances:
                used += count * cpu[i]
            shares.append(kind.cpu_share(used))
        self._seen = (now_s, list(self.flow.spent_s))
        return [Reading(now_s, name, Metric.NODE_CPU, shares[kind]) for name, kind in self._by_node]


def _add_vertices(vertices: list[Vertex], start: Start, number: int) -> None:
    """Append the operators of a pipeline."""
    engine, first = start.engine, len(vertices)
    order = engine.pipeline.order
    at = {name: first + k for k, name in enumerate(order)}
    for name in order:
        streams = [(at[s.source], s.selectivity) for s in engine.pipeline.streams if s.target == name]
        vertices.append(
            Vertex(
                pipeline=number,
                streams=tuple(streams),
                service_per_s=1.0 / engine.row_cost_s[name],
                per_source_row=engine.per_source_row[name],
                queue_bound_rows=engine.queue_bound_rows,
            )
        )
