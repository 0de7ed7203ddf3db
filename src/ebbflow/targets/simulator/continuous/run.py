"""One pipeline of the continuous engine at work: where its instances are, and how that changes.

``continuous`` has the formulas, ``flow`` the arithmetic, ``continuous_world`` the time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ebbflow.core.batches import Batch
from ebbflow.core.curve import Curve, Floats
from ebbflow.core.layout import MAIN
from ebbflow.core.metrics import Metric
from ebbflow.core.placement import even, state_moved
from ebbflow.core.readings import Reading
from ebbflow.targets.simulator.continuous.flow import Flow, Instances, Wire
from ebbflow.targets.simulator.engine import Work
from ebbflow.targets.simulator.noise import NoiseDraws

if TYPE_CHECKING:
    from ebbflow.targets.simulator.continuous.world import ContinuousWorld
    from ebbflow.targets.simulator.engine import Start
    from ebbflow.targets.simulator.nodes import Node


# Which rows a pipeline lost: from how many had come to a full queue to when they had arrived at the source.
#
# A queue that is full takes no more, so of the rows that had come to it the last ones are lost. With losses of l_k rows
# when x_k source rows had come, in the order of x, and L_k = l_1 + … + l_k, the first x source rows leave
#
#     S(x) = min( x − L_before(x), min over x_k ≥ x of (x_k − L_k) )
#
# to be processed: it rises by one for each row, and stands still over those that are lost. Where a pipeline has
# branches, a row must be through at all of them: S is the least of theirs.
#
# Exact for losses at one operator. Of rows lost upstream, those that had not come yet to a second operator that loses
# rows count as come there: its losses are then put that many rows too late.


def lost_by_arrival(arrived: Curve, losses: Sequence[Sequence[tuple[float, float]]]) -> Curve:
    """Rows lost among those that had arrived by a time; ``losses``: (x, l) for each branch.

    10 rows/s; 15 rows were lost when 40 had come: rows 25 to 40, which arrived from 2.5 s to 4 s.

    >>> lost = lost_by_arrival(Curve.of([(0, 0), (10, 100)]), [[(40.0, 15.0)]])
    >>> lost.times_s.tolist(), lost.values.tolist()
    ([0.0, 2.5, 4.0, 10.0], [0.0, 0.0, 15.0, 15.0])
    """
    corners = [_corners(each) for each in losses if each]
    if not corners:
        return Curve.of([(0.0, 0.0)])
    # at the corners of all, so that each is a straight line in between
    times_s = np.union1d(arrived.times_s, arrived.time_of(np.concatenate([rows for rows, _ in corners])))
    came = arrived.interpolated(times_s)
    return Curve(times_s, np.max([np.interp(came, rows, lost) for rows, lost in corners], axis=0))


def _corners(losses: Sequence[tuple[float, float]]) -> tuple[Floats, Floats]:
    """Corners (x, x − S(x)) of the rows lost among the first x: where each hole begins, and where it ends."""
    came, rows = np.array(sorted(losses)).T
    total = np.cumsum(rows)
    left = np.minimum.accumulate((came - total)[::-1])[::-1]
    before = np.concatenate(([0.0], came[:-1]))
    begins = np.maximum(left + total - rows, before)
    corners = np.stack((begins, came), axis=1).ravel()
    return corners, np.maximum.accumulate(np.maximum(corners - np.repeat(left, 2), 0.0))


STEP_S = 1.0
_ROWS_IN, _ROWS_OUT, _QUEUE = Metric.ROWS_IN, Metric.ROWS_OUT, Metric.OPERATOR_QUEUE
_CPU, _BUSY, _INSTANCES = Metric.INSTANCE_CPU, Metric.INSTANCE_BUSY, Metric.INSTANCES
"""Read of each operator at every look, so they are not looked up each time."""


class ContinuousRun:
    """A pipeline at work; its operators are ``first``, ``first`` + 1, … of the flow."""

    def __init__(self, world: ContinuousWorld, start: Start, number: int, first: int) -> None:
        engine = start.engine
        self.engine = engine
        self.inflow = start.inflow
        # of its own, so that noise drawn ahead does not change how long the next rebalance takes
        self.noise = NoiseDraws(engine.noise, start.rng.spawn(1)[0])
        self.first, self.number = first, number
        self.version = 0
        """Changes whenever what its operators can do has to be weighed anew."""
        self._world, self._rng = world, start.rng
        self._names: tuple[str, ...] = engine.pipeline.order
        self._instances = [max(1, engine.parallelism.get(name, 1)) for name in self._names]
        self._clusters = [start.placement.get(name, MAIN) for name in self._names]
        self._wanted = (list(self._instances), list(self._clusters))
        self._placement: dict[str, str] | None = None
        self.processed_rows: list[float] = [0.0]
        """Source rows that are through, after 0, 1, 2, … seconds."""
        self._placed: dict[str, tuple[Node, ...]] = {}
        self._dealt: dict[str, dict[Node, Instances]] = {}
        """In each cluster: its instances on each of the nodes that have some."""
        self._pause_s = self._move_s = self._drain_until_s = 0.0
        self._restarts: list[Reading] = []
        """What rebalances took, until the next look tells it."""
        self._stop_until_s: float | None = None
        self.stopping_since_s: float | None = None
        self._selectivity_out = [
            sum(s.selectivity for s in engine.pipeline.streams if s.source == name) or 1.0
            for name in self._names
        ]
        zeros = [0.0] * len(self._names)
        self._seen = (0.0, 0, zeros, zeros)

    @property
    def _flow(self) -> Flow:
        return self._world.flow

    @property
    def _mine(self) -> slice:
        return slice(self.first, self.first + len(self._names))

    # -- layout --------------------------------------------------------------------------------

    @property
    def standing(self) -> bool:
        """Whether it stands still within a rebalance."""
        return self._stop_until_s is not None

    @property
    def goes_on_s(self) -> float:
        """When the next part of a rebalance that is under way begins."""
        return self._drain_until_s if self._stop_until_s is None else self._stop_until_s

    def look_at_nodes(self, now_s: float, cluster: str) -> None:
        """Who is there has changed: rebalance when something was lost, or all that was asked for is there."""
        pool = self._world.pools[cluster]
        if self.stopping_since_s is not None or cluster not in self._clusters:
            return
        staying, placed = pool.working(now_s), self.placed(cluster)
        lost = any(not node.stays_after(now_s) for node in placed)
        came = set(staying) - set(placed)
        if (lost and staying) or (came and not pool.coming(now_s)):
            self._rebalance(now_s)

    def _rebalance(self, now_s: float) -> None:
        """Stop the source, drain, stand still, move state; the new layout holds afterwards."""
        engine, flow = self.engine, self._flow
        inside_s = 0.0
        for i in range(self.first, self.first + len(self._names)):
            if flow.vertices[i].streams and flow.capacity(i) > 0:
                inside_s += flow.queue[i] / flow.capacity(i)
        inside_s += sum(wire.steps + wire.waiting / wire.rows_per_s for wire in self._wires())
        self.stopping_since_s = now_s
        self.version += 1
        self._drain_until_s = now_s + min(engine.drain_limit_s, math.ceil(inside_s - 1e-9))
        low_s, high_s = engine.pause_s
        self._pause_s = float(self._rng.uniform(low_s, high_s)) if high_s > low_s else low_s
        self._move_s = self._transfer_s(now_s)

    def _transfer_s(self, now_s: float) -> float:
        """How long state is under way: between instances by the hash ring's share, between clusters all of it."""
        seconds = 0.0
        for k, name in enumerate(self._names):
            state_mb = self.engine.state_mb.get(name, 0.0)
            cluster = self._clusters[k]
            if self._wanted[1][k] != cluster:
                seconds += state_mb / self._world.link.mb_per_s
                continue
            nodes_before = len(self.placed(cluster))
            nodes_after = len(self._world.pools[cluster].working(now_s))
            share = max(
                state_moved(self._instances[k], self._wanted[0][k]), state_moved(nodes_before, nodes_after)
            )
            seconds += state_mb * share / self.engine.transfer_mb_per_s
        return seconds

    def go_on(self, now_s: float) -> None:
        """Within a rebalance: from draining to standing still, and from there to the new layout."""
        if self._stop_until_s is None and now_s >= self._drain_until_s:
            self._stop_until_s = now_s + (self._pause_s + self._move_s)
            self.version += 1
        if self._stop_until_s is not None and now_s >= self._stop_until_s:
            self._note_restart(now_s)
            self.stopping_since_s = self._stop_until_s = None
            self._instances, self._clusters = list(self._wanted[0]), list(self._wanted[1])
            self.place(now_s)

    def _note_restart(self, now_s: float) -> None:
        name, asked_s = self.engine.pipeline.name, self.stopping_since_s or 0.0
        stopped_s = (self._stop_until_s or now_s) - self._pause_s - self._move_s
        self._restarts += [
            Reading(now_s, name, Metric.RESTART_STOP, max(0.0, stopped_s - asked_s)),
            Reading(now_s, name, Metric.RESTART_STATE, self._move_s),
            Reading(now_s, name, Metric.RESTART_START, self._pause_s),
        ]

    def place(self, now_s: float) -> None:
        """Deal the instances out to the nodes that are there; the world weighs them afterwards."""
        self._placed, self._dealt = {}, {}
        self.version += 1
        for cluster in dict.fromkeys(self._clusters):
            nodes = tuple(self._world.pools[cluster].working(now_s))
            here = [k for k, c in enumerate(self._clusters) if c == cluster]
            rows = even(
                [self._instances[k] for k in here], len(nodes), self._world.dealt_before(self, cluster)
            )
            self._placed[cluster] = nodes
            dealt: dict[Node, Instances] = {}
            for k, row in zip(here, rows, strict=True):
                for node, count in zip(nodes, row, strict=True):
                    if count:
                        dealt[node] = (*dealt.get(node, ()), (self.first + k, count))
            self._dealt[cluster] = dealt
        self._flow.instances[self._mine] = self._instances
        self._lay_wires()

    def instances_in(self, cluster: str) -> int:
        """How many of its instances are in a cluster."""
        return sum(n for n, c in zip(self._instances, self._clusters, strict=True) if c == cluster)

    def placed(self, cluster: str) -> Sequence[Node]:
        """The nodes of a cluster that its instances were dealt to."""
        return self._placed.get(cluster, ())

    def dealt(self, cluster: str) -> Mapping[Node, Instances]:
        """Its instances on each of the nodes of a cluster that have some."""
        return self._dealt.get(cluster, {})

    def _wires(self) -> list[Wire]:
        return [wire for (_, i), wire in self._flow.wires.items() if self._mine.start <= i < self._mine.stop]

    def _lay_wires(self) -> None:
        """Streams between clusters get a wire; rows on one that is not needed any more wait at its end."""
        flow, link = self._flow, self._world.link
        for k in range(len(self._names)):
            i = self.first + k
            for j, _ in flow.vertices[i].streams:
                crosses = self._clusters[j - self.first] != self._clusters[k]
                wire = flow.wires.get((j, i))
                if crosses and wire is None:
                    flow.wires[(j, i)] = Wire(link.rows_per_s(self.engine.row_kb), link.steps)
                elif not crosses and wire is not None:
                    flow.queue[i] += flow.wires.pop((j, i)).rows

    @property
    def parallelism(self) -> Mapping[str, int]:
        """Instances of each operator, as wanted last."""
        return dict(zip(self._names, self._wanted[0], strict=True))

    @property
    def placement(self) -> Mapping[str, str]:
        """The cluster of each operator that is not in the main one, as wanted last."""
        if self._placement is None:  # asked at every look
            clusters = zip(self._names, self._wanted[1], strict=True)
            self._placement = {name: cluster for name, cluster in clusters if cluster != MAIN}
        return self._placement

    def set_parallelism(
        self, now_s: float, parallelism: Mapping[str, int], placement: Mapping[str, str] | None = None
    ) -> str:
        """Rebalance to other numbers of instances, or other clusters."""
        instances, clusters = self._wanted
        instances = [max(1, parallelism.get(n, old)) for n, old in zip(self._names, instances, strict=True)]
        if placement is not None:
            clusters = [placement.get(name, MAIN) for name in self._names]
        if (instances, clusters) == self._wanted:
            return ""
        self._wanted = (instances, clusters)
        self._placement = None
        if self.stopping_since_s is None:
            self._rebalance(now_s)
        return "rebalanced: stopped, drained, started again"

    def stopped_since_s(self) -> float | None:
        """Since when a rebalance is under way."""
        return self.stopping_since_s

    # -- what is seen --------------------------------------------------------------------------

    def running(self) -> dict[str, float | None]:
        """There are no batches; the pipeline itself runs."""
        return {self.engine.pipeline.name: None}

    def take_batches(self) -> list[Batch]:
        """None: this engine has no batches."""
        return []

    def readings(self, now_s: float, _batches: Sequence[Batch], /) -> list[Reading]:
        """Rates, CPU and busy time since the last look, queues as they are."""
        flow, name, mine = self._flow, self.engine.pipeline.name, self._mine
        arrived = self.inflow.rows_by(now_s)
        work = self._work(arrived)
        since_s, arrived_then, done_then, spent_then = self._seen
        done, spent_s, queue = flow.done[mine], flow.spent_s[mine], flow.queue[mine]
        span_s = max(now_s - since_s, STEP_S)
        settled = int(work.processed + work.failed + 1e-6)
        age_s = now_s - self.inflow.arrival_s(settled) if work.waiting >= 1 else 0.0
        readings = [
            Reading(now_s, name, Metric.ARRIVAL_RATE, (arrived - arrived_then) / span_s),
            Reading(now_s, name, Metric.QUEUE_LENGTH, work.waiting),
            Reading(now_s, name, Metric.FRESHNESS, max(0.0, age_s)),
            Reading(now_s, name, Metric.FAILED_ROWS, work.failed),
        ]
        readings += self._restarts
        self._restarts = []
        busy = self._world.busy_meter.look(now_s)[mine]
        for k, (operator, instances) in enumerate(zip(self._names, self._instances, strict=True)):
            rows = done[k] - done_then[k]
            cpu = (spent_s[k] - spent_then[k]) / (span_s * instances)
            # With noisy costs the meter, which goes by the mean ones, may find less than was spent.
            least = cpu if cpu < 1.0 else 1.0
            readings += (
                Reading(now_s, operator, _ROWS_IN, rows),
                Reading(now_s, operator, _ROWS_OUT, rows * self._selectivity_out[k]),
                Reading(now_s, operator, _QUEUE, queue[k]),
                Reading(now_s, operator, _CPU, cpu),
                Reading(now_s, operator, _BUSY, busy[k] if busy[k] > least else least),
                Reading(now_s, operator, _INSTANCES, float(instances)),
            )
        self._seen = (now_s, arrived, done, spent_s)
        return readings

    def work(self, now_s: float) -> Work:
        """Where the rows are: processed at all operators, failed at any of them."""
        return self._work(self.inflow.rows_by(now_s))

    def _work(self, arrived: int) -> Work:
        processed, failed = self._flow.through(self.number)
        return Work(processed=processed, waiting=max(0.0, arrived - processed - failed), failed=failed)

    def processed(self) -> Curve:
        """Rows that are through, each second."""
        rows = np.asarray(self.processed_rows)
        return Curve(np.arange(len(rows), dtype=np.float64), rows)

    def lost(self, arrived: Curve) -> Curve:
        """Rows that failed, each at the time at which it arrived."""
        return lost_by_arrival(arrived, self._flow.losses(self.number))
