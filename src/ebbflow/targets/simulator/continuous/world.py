"""The clock of the continuous engine: pipelines that share the cores of clusters, second by second."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ebbflow.core.layout import MAIN
from ebbflow.core.metrics import Metric
from ebbflow.core.readings import Reading
from ebbflow.targets.simulator.continuous.flow import (
    STEP_S,
    BusyMeter,
    Flow,
    FlowVertex,
    Instances,
    Lookahead,
    NodeGroup,
)
from ebbflow.targets.simulator.continuous.run import ContinuousRun
from ebbflow.targets.simulator.engine import Start
from ebbflow.targets.simulator.nodes import ActiveNodes, Link, Node, NodeKind, NodePool

_MIN_LOOKAHEAD = 12
"""Seconds; for fewer, arrays are slower."""
_FIRST_LOOKAHEAD, _MAX_LOOKAHEAD = 256, 4096
"""Seconds to look ahead: few after a change, as the next may come soon, and twice as many each time they pass."""
_LOOKAHEAD_BACKOFF = 24
"""Seconds to wait after a lookahead that was too short."""


@dataclass
class _Pending:
    """A lookahead, and how much of it has passed."""

    ahead: Lookahead
    arrived: list[npt.NDArray[np.int64]]
    replayed: int = 0


class ContinuousWorld:
    """All pipelines on all clusters."""

    def __init__(
        self, starts: Sequence[Start], pools: Mapping[str, NodePool], link: Link | None = None
    ) -> None:
        self._pools = pools
        max_pending = [start.engine.max_pending_rows for start in starts]
        self.flow = Flow(_vertices(starts), [math.inf if rows is None else rows for rows in max_pending])
        meter = BusyMeter(self.flow)
        self.runs: list[ContinuousRun] = []
        for start in starts:
            self.runs.append(ContinuousRun(start, pools, link or Link(), self.flow, meter, tuple(self.runs)))
        self._noisy = any(start.engine.noise for start in starts)
        self._now = 0
        self._checked = -1
        """The last second for which nodes and rebalances were checked."""
        self._arrived = [0] * len(starts)
        self._pending: _Pending | None = None
        self._lookahead = _FIRST_LOOKAHEAD
        """Seconds of the next lookahead."""
        self._lookahead_backoff = 0
        self._active: dict[str, ActiveNodes] = {}
        """The nodes of each cluster when the flow was last updated."""
        self._flow_versions: list[int] = []
        """The version of each pipeline when the flow was last updated."""
        self._nodes: list[tuple[str, int]] = []
        """(name, index into ``_node_kinds``) of each node that instances are assigned to."""
        self._node_kinds: list[tuple[NodeKind, Instances]] = []
        self._last_cpu: tuple[float, list[float]] = (0.0, list(self.flow.cpu_s))
        """The time and the CPU counters of the last node readings."""
        for run in self.runs:
            run.place(0.0)
        self._update_flow(0.0)

    def advance(self, until_s: float) -> None:
        """Simulate whole steps up to a time. A step that has begun by then sees later requests only in the next one."""
        check_s = -math.inf  # nodes may have been requested since the last call
        while self._now < until_s - 1e-9:
            now_s, begun = float(self._now), self._checked == self._now
            if not begun:
                if now_s >= check_s:
                    self._check(now_s)
                    check_s = self._next_check_s()
                self._checked = self._now
            if self._now + STEP_S > until_s + 1e-9:
                return
            if self._pending is None and not begun and not self._lookahead_backoff and self.flow.calm:
                self._look_ahead(now_s)
            if self._pending is not None:
                self._replay(self._pending, now_s + STEP_S if begun else until_s)
            else:
                if self._lookahead_backoff:
                    self._lookahead_backoff -= 1
                self._step()

    # -- nodes and rebalances ------------------------------------------------------------------

    def _next_check_s(self) -> float:
        """Until when nothing changes without a new request."""
        changes_s = [active.until_s for active in self._active.values()]
        return min(changes_s + [run.next_phase_s for run in self.runs if run.stopping_since_s is not None])

    def _check(self, now_s: float) -> None:
        """Handle nodes that joined or stopped, and rebalances in progress."""
        if not self._changed_clusters(now_s) and all(run.stopping_since_s is None for run in self.runs):
            return
        self._pending, self._lookahead = None, _FIRST_LOOKAHEAD
        for cluster in self._changed_clusters(now_s):
            for run in self.runs:
                run.check_nodes(now_s, cluster)
        for run in self.runs:
            if run.stopping_since_s is not None:
                run.continue_rebalance(now_s)
        for cluster, pool in self._pools.items():
            if pool.any_leaving:
                self._release(now_s, cluster)
        if self._versions() != self._flow_versions or self._changed_clusters(now_s):
            self._update_flow(now_s)

    def _changed_clusters(self, now_s: float) -> list[str]:
        """Clusters whose nodes have changed since the last update of the flow."""
        return [c for c, pool in self._pools.items() if pool.active(now_s) is not self._active[c]]

    def _versions(self) -> list[int]:
        return [run.version for run in self.runs]

    def _release(self, now_s: float, cluster: str) -> None:
        """Release leaving nodes that no pipeline works on; all of them if no other node stays to work on."""
        pool = self._pools[cluster]
        busy: set[Node] = set()
        if pool.working(now_s):
            for run in self.runs:
                if not run.stopped:
                    busy.update(node for node in run.assigned(cluster) if not node.died)
        pool.release(now_s, between_batches=True, busy=busy)

    def _update_flow(self, now_s: float) -> None:
        """Place the instances of running pipelines on the nodes that are still there."""
        groups: dict[tuple[float, float, Instances], int] = {}
        kinds: dict[tuple[str, Instances], int] = {}
        self._nodes = []
        for cluster, pool in self._pools.items():
            self._active[cluster] = pool.active(now_s)
            alive = set(pool.alive)
            prefix = "" if cluster == MAIN else f"{cluster}/"
            assigned: dict[Node, Instances] = {}
            working: dict[Node, Instances] = {}
            for run in self.runs:
                for node in run.placed(cluster):
                    assigned.setdefault(node, ())
                for node, instances in run.assigned(cluster).items():
                    assigned[node] += instances
                    if not run.stopped and node in alive and not (node.died and node.stop_s <= now_s):
                        working[node] = working.get(node, ()) + instances
            cores = pool.kind.instance_cores
            for node, instances in working.items():
                group = (cores, node.speed_at(now_s), instances)
                groups[group] = groups.get(group, 0) + 1
            for node, instances in assigned.items():
                number = kinds.setdefault((cluster, instances), len(kinds))
                self._nodes.append((f"{prefix}node-{node.number}", number))
        self._node_kinds = [(self._pools[cluster].kind, instances) for cluster, instances in kinds]
        self.flow.place([NodeGroup(count, *group) for group, count in groups.items()])
        self.flow.reading = [run.stopping_since_s is None for run in self.runs]
        self._flow_versions = self._versions()

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
            factors = [run.noise.next() if run.engine.noise and not run.stopped else 1.0 for run in self.runs]
        self.flow.step(new_rows, factors)
        for run, processed in zip(self.runs, self.flow.processed, strict=True):
            run.processed_rows.append(processed)

    def _look_ahead(self, now_s: float) -> None:
        """Compute many seconds at once; they hold until something changes."""
        changes_s = min(active.until_s for active in self._active.values())
        count = self._lookahead
        if changes_s < math.inf:
            count = min(count, math.ceil(changes_s - now_s))  # the step after a change sees it
        if count >= _MIN_LOOKAHEAD:
            arrived = [run.inflow.rows_by_seconds(self._now + 1, count) for run in self.runs]
            # one second earlier; whole rows, so the difference is exact
            before = [run.inflow.rows_by_seconds(self._now, count) for run in self.runs]
            new_rows = [(rows - then).astype(np.float64) for rows, then in zip(arrived, before, strict=True)]
            factors = None
            if self._noisy:
                factors = [run.noise.peek(count) if run.engine.noise else np.ones(count) for run in self.runs]
            ahead = self.flow.look_ahead(new_rows, factors)
            if ahead.seconds >= _MIN_LOOKAHEAD:
                self._pending = _Pending(ahead, arrived)
                return
        self._lookahead_backoff = _LOOKAHEAD_BACKOFF

    def _replay(self, pending: _Pending, until_s: float) -> None:
        """Advance through a lookahead up to a time."""
        first = pending.replayed
        last = min(pending.ahead.seconds, first + int(until_s + 1e-9 - self._now))
        self.flow.replay(pending.ahead, last)
        for run in self.runs:
            run.processed_rows += pending.ahead.processed[run.number][first + 1 : last + 1].tolist()
            self._arrived[run.number] = int(pending.arrived[run.number][last - 1])
            if run.engine.noise:
                run.noise.skip(last - first)
        self._now += last - first
        pending.replayed = last
        if last == pending.ahead.seconds:
            self._pending = None
            self._lookahead = min(2 * self._lookahead, _MAX_LOOKAHEAD)

    # -- monitoring ----------------------------------------------------------------------------

    def busy(self, _cluster: str) -> bool:
        """True: nodes have instances on them."""
        return True

    def topology(self, _now_s: float) -> None:
        """None: nodes hold no data of their own."""

    def node_readings(self, now_s: float) -> list[Reading]:
        """CPU of each node since the last call: that of its instances plus the engine's own."""
        since_s, cpu_then = self._last_cpu
        span_s = max(now_s - since_s, STEP_S)
        cpu = [
            (now - then) / (span_s * count)
            for now, then, count in zip(self.flow.cpu_s, cpu_then, self.flow.instances, strict=True)
        ]
        shares = []
        for kind, instances in self._node_kinds:
            used = 0.0
            for i, count in instances:
                used += count * cpu[i]
            shares.append(kind.cpu_share(used))
        self._last_cpu = (now_s, list(self.flow.cpu_s))
        return [Reading(now_s, name, Metric.NODE_CPU, shares[kind]) for name, kind in self._nodes]


def _vertices(starts: Sequence[Start]) -> list[FlowVertex]:
    """The operators of all pipelines, one pipeline after the other."""
    vertices: list[FlowVertex] = []
    for number, start in enumerate(starts):
        engine, first = start.engine, len(vertices)
        order = engine.pipeline.order
        at = {name: first + k for k, name in enumerate(order)}
        for name in order:
            streams = [(at[s.source], s.selectivity) for s in engine.pipeline.streams if s.target == name]
            vertices.append(
                FlowVertex(
                    pipeline=number,
                    streams=tuple(streams),
                    service_per_s=1.0 / engine.row_cost_s[name],
                    per_source_row=engine.per_source_row[name],
                    queue_bound_rows=engine.queue_bound_rows,
                    overload_speed=engine.overload_speed,
                )
            )
    return vertices
