"""A pipeline of the continuous engine: where its instances are, rebalances, and what a monitor reads of it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ebbflow.core.batches import Batch
from ebbflow.core.curve import Curve, Floats
from ebbflow.core.layout import MAIN
from ebbflow.core.metrics import Metric
from ebbflow.core.placement import even
from ebbflow.core.readings import Reading
from ebbflow.core.ring import state_moved
from ebbflow.targets.simulator.continuous.flow import STEP_S, BusyMeter, Flow, Instances, Wire
from ebbflow.targets.simulator.engine import NoiseDraws, PipelineRows, Start
from ebbflow.targets.simulator.nodes import Link, Node, NodePool

_ROWS_IN, _ROWS_OUT, _QUEUE = Metric.ROWS_IN, Metric.ROWS_OUT, Metric.OPERATOR_QUEUE
_CPU, _BUSY, _INSTANCES = Metric.INSTANCE_CPU, Metric.INSTANCE_BUSY, Metric.INSTANCES
"""Looked up once, because they are read for each operator at each observation."""


class ContinuousRun:
    """A running pipeline. Its operators are ``_first``, ``_first`` + 1, … of the flow."""

    def __init__(
        self, start: Start, pools: Mapping[str, NodePool], link: Link, flow: Flow, busy_meter: BusyMeter,
        previous: Sequence[ContinuousRun],
    ) -> None:  # fmt: skip
        """``previous``: the pipelines whose instances are assigned to nodes before its own."""
        engine = start.engine
        self.engine = engine
        self.inflow = start.inflow
        # its own generator, so that noise drawn ahead does not change the length of the next rebalance
        self.noise = NoiseDraws(engine.noise, start.rng.spawn(1)[0])
        self.number = len(previous)
        self.version = 0
        """Changes whenever the flow has to be updated."""
        self.processed_rows: list[float] = [0.0]
        """Processed source rows after 0, 1, 2, … seconds."""
        self.stopping_since_s: float | None = None
        """The start of the rebalance in progress."""
        self._rng, self._pools, self._link = start.rng, pools, link
        self._flow, self._busy_meter, self._previous = flow, busy_meter, previous
        self._names: tuple[str, ...] = engine.pipeline.order
        self._first = sum(len(run._names) for run in previous)
        self._mine = slice(self._first, self._first + len(self._names))
        self._instances = [max(1, engine.parallelism.get(name, 1)) for name in self._names]
        self._clusters = [start.placement.get(name, MAIN) for name in self._names]
        self._wanted = (list(self._instances), list(self._clusters))
        self._placement: dict[str, str] | None = None
        self._placed: dict[str, tuple[Node, ...]] = {}
        self._assigned: dict[str, dict[Node, Instances]] = {}
        self._pause_s = self._move_s = self._drain_until_s = 0.0
        self._stopped_until_s: float | None = None
        self._restart_readings: list[Reading] = []
        """Readings of rebalances, for the next observation."""
        self._selectivity_out = [
            sum(s.selectivity for s in engine.pipeline.streams if s.source == name) or 1.0
            for name in self._names
        ]
        zeros = [0.0] * len(self._names)
        self._last = (0.0, 0, zeros, zeros, zeros)
        """Time, arrived rows, done rows, CPU and queues of the last observation."""

    # -- placement -----------------------------------------------------------------------------

    def place(self, now_s: float) -> None:
        """Assign the instances to the working nodes; the world then updates the flow."""
        self._placed, self._assigned = {}, {}
        self.version += 1
        for cluster in dict.fromkeys(self._clusters):
            nodes = tuple(self._pools[cluster].working(now_s))
            here = [k for k, c in enumerate(self._clusters) if c == cluster]
            if self.engine.on_every_node:
                for k in here:
                    self._instances[k] = max(1, len(nodes))
            before = sum(run._instances_in(cluster) for run in self._previous)
            rows = even([self._instances[k] for k in here], len(nodes), before)
            self._placed[cluster] = nodes
            assigned: dict[Node, Instances] = {}
            for k, row in zip(here, rows, strict=True):
                for node, count in zip(nodes, row, strict=True):
                    if count:
                        assigned[node] = (*assigned.get(node, ()), (self._first + k, count))
            self._assigned[cluster] = assigned
        self._flow.instances[self._mine] = self._instances
        self._lay_wires()

    def _instances_in(self, cluster: str) -> int:
        return sum(n for n, c in zip(self._instances, self._clusters, strict=True) if c == cluster)

    def placed(self, cluster: str) -> Sequence[Node]:
        """The nodes of a cluster among which its instances were assigned."""
        return self._placed.get(cluster, ())

    def assigned(self, cluster: str) -> Mapping[Node, Instances]:
        """Its instances on each node of a cluster that has some."""
        return self._assigned.get(cluster, {})

    def _lay_wires(self) -> None:
        """Add wires for streams between clusters. The rows of a wire no longer needed go to the queue at its end."""
        flow, link = self._flow, self._link
        for k in range(len(self._names)):
            i = self._first + k
            for j, _ in flow.vertices[i].streams:
                crosses = self._clusters[j - self._first] != self._clusters[k]
                wire = flow.wires.get((j, i))
                if crosses and wire is None:
                    flow.wires[(j, i)] = Wire(link.rows_per_s(self.engine.row_kb), link.steps)
                elif not crosses and wire is not None:
                    flow.queue[i] += flow.wires.pop((j, i)).rows

    @property
    def parallelism(self) -> Mapping[str, int]:
        """The requested instances of each operator; none if they follow the nodes."""
        if self.engine.on_every_node:
            return {}
        return dict(zip(self._names, self._wanted[0], strict=True))

    @property
    def placement(self) -> Mapping[str, str]:
        """The requested cluster of each operator outside the main cluster."""
        if self._placement is None:  # cached, because every observation reads it
            clusters = zip(self._names, self._wanted[1], strict=True)
            self._placement = {name: cluster for name, cluster in clusters if cluster != MAIN}
        return self._placement

    # -- rebalances ----------------------------------------------------------------------------

    def set_parallelism(
        self, now_s: float, parallelism: Mapping[str, int], placement: Mapping[str, str] | None = None
    ) -> str:
        """Rebalance to other numbers of instances or other clusters."""
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
        return "rebalanced: stopped, drained, restarted"

    def check_nodes(self, now_s: float, cluster: str) -> None:
        """Rebalance after a change of the nodes if one was lost, or if all requested nodes have joined; with an
        instance on every node, whenever one has."""
        pool = self._pools[cluster]
        if self.stopping_since_s is not None or cluster not in self._clusters:
            return
        staying, placed = pool.working(now_s), self.placed(cluster)
        lost = any(not node.stays_after(now_s) for node in placed)
        joined = set(staying) - set(placed)
        complete = self.engine.on_every_node or not pool.joining(now_s)
        if (lost and staying) or (joined and complete):
            self._rebalance(now_s)

    def _rebalance(self, now_s: float) -> None:
        """Stop the source, drain, pause, move state. The new layout applies afterwards."""
        engine, flow = self.engine, self._flow
        drain_s = 0.0
        for i in range(self._mine.start, self._mine.stop):
            if flow.vertices[i].streams and flow.capacity(i) > 0:
                drain_s += flow.queue[i] / flow.capacity(i)
        wires = [wire for (_, i), wire in flow.wires.items() if self._mine.start <= i < self._mine.stop]
        drain_s += sum(wire.steps + wire.waiting / wire.rows_per_s for wire in wires)
        self.stopping_since_s = now_s
        self.version += 1
        self._drain_until_s = now_s + min(engine.drain_limit_s, math.ceil(drain_s - 1e-9))
        low_s, high_s = engine.pause_s
        self._pause_s = float(self._rng.uniform(low_s, high_s)) if high_s > low_s else low_s
        self._move_s = self._transfer_s(now_s)

    def _transfer_s(self, now_s: float) -> float:
        """The transfer time of state: the hash ring's share between instances, all of it between clusters."""
        seconds = 0.0
        for k, name in enumerate(self._names):
            state_mb = self.engine.state_mb.get(name, 0.0)
            cluster = self._clusters[k]
            if self._wanted[1][k] != cluster:
                seconds += state_mb / self._link.mb_per_s
                continue
            nodes_before = len(self.placed(cluster))
            nodes_after = len(self._pools[cluster].working(now_s))
            share = state_moved(nodes_before, nodes_after)
            if not self.engine.on_every_node:
                share = max(share, state_moved(self._instances[k], self._wanted[0][k]))
            seconds += state_mb * share / self.engine.transfer_mb_per_s
        return seconds

    @property
    def next_phase_s(self) -> float:
        """The end of the current phase of a rebalance."""
        return self._drain_until_s if self._stopped_until_s is None else self._stopped_until_s

    def continue_rebalance(self, now_s: float) -> None:
        """Go from draining to the pause, and from there to the new layout, when it is time."""
        if self._stopped_until_s is None and now_s >= self._drain_until_s:
            self._stopped_until_s = now_s + (self._pause_s + self._move_s)
            self.version += 1
        if self._stopped_until_s is not None and now_s >= self._stopped_until_s:
            name, requested_s = self.engine.pipeline.name, self.stopping_since_s or 0.0
            drained_s = (self._stopped_until_s or now_s) - self._pause_s - self._move_s
            self._restart_readings += [
                Reading(now_s, name, Metric.RESTART_STOP, max(0.0, drained_s - requested_s)),
                Reading(now_s, name, Metric.RESTART_STATE, self._move_s),
                Reading(now_s, name, Metric.RESTART_START, self._pause_s),
            ]
            self.stopping_since_s = self._stopped_until_s = None
            self._instances, self._clusters = list(self._wanted[0]), list(self._wanted[1])
            self.place(now_s)

    @property
    def stopped(self) -> bool:
        """Whether it stands still in a rebalance, after draining."""
        return self._stopped_until_s is not None

    def stopped_since_s(self) -> float | None:
        """The start of the rebalance in progress; None if there is none."""
        return self.stopping_since_s

    # -- monitoring ----------------------------------------------------------------------------

    def running(self) -> dict[str, float | None]:
        """The pipeline, without a batch."""
        return {self.engine.pipeline.name: None}

    def take_batches(self) -> list[Batch]:
        """None: this engine has no batches."""
        return []

    def readings(self, now_s: float, _batches: Sequence[Batch], /) -> list[Reading]:
        """Rates, CPU and busy time since the last observation, and the current queues."""
        flow, name, mine = self._flow, self.engine.pipeline.name, self._mine
        arrived = self.inflow.rows_by(now_s)
        work = self._work(arrived)
        since_s, arrived_then, done_then, cpu_then, queue_then = self._last
        done, cpu_s, queue = flow.done[mine], flow.cpu_s[mine], flow.queue[mine]
        span_s = max(now_s - since_s, STEP_S)
        settled = int(work.processed + work.failed + 1e-6)
        age_s = now_s - self.inflow.arrival_s(settled) if work.waiting >= 1 else 0.0
        readings = [
            Reading(now_s, name, Metric.ARRIVAL_RATE, (arrived - arrived_then) / span_s),
            Reading(now_s, name, Metric.QUEUE_LENGTH, work.waiting),
            Reading(now_s, name, Metric.FRESHNESS, max(0.0, age_s)),
            Reading(now_s, name, Metric.FAILED_ROWS, work.failed),
        ]
        readings += self._restart_readings
        self._restart_readings = []
        busy = self._busy_meter.shares(now_s)[mine]
        for k, (operator, instances) in enumerate(zip(self._names, self._instances, strict=True)):
            rows = done[k] - done_then[k]
            cpu = (cpu_s[k] - cpu_then[k]) / (span_s * instances)
            # the meter uses mean costs, so with noise it may report less than the CPU used
            least = cpu if cpu < 1.0 else 1.0
            readings += (
                Reading(now_s, operator, _ROWS_IN, rows),
                Reading(now_s, operator, _ROWS_OUT, rows * self._selectivity_out[k]),
                Reading(now_s, operator, _QUEUE, queue[k]),
                Reading(now_s, operator, _CPU, cpu),
                Reading(now_s, operator, _BUSY, busy[k] if busy[k] > least else least),
                Reading(now_s, operator, _INSTANCES, float(instances)),
            )
            if len(self._pools) > 1:
                came = rows + queue[k] - queue_then[k]
                readings += self._event_readings(now_s, k, came / span_s, cpu * span_s * instances, rows)
        self._last = (now_s, arrived, done, cpu_s, queue)
        return readings

    def _event_readings(
        self, now_s: float, k: int, came_per_s: float, cpu_s: float, rows: float
    ) -> Iterator[Reading]:
        """Rate and cost of events, and the state, of an operator that may move; none while it is stopped."""
        name = self._names[k]
        if self.stopping_since_s is not None:
            return
        yield Reading(now_s, name, Metric.EVENT_RATE, max(0.0, came_per_s))
        if rows > 0:
            slots = self._pools[self._clusters[k]].kind.slots
            yield Reading(now_s, name, Metric.TIME_PER_EVENT, cpu_s / rows / slots)
        if name in self.engine.state_mb:
            yield Reading(now_s, name, Metric.STATE_SIZE, self.engine.state_mb[name] * 1e6)

    def work(self, now_s: float) -> PipelineRows:
        """Rows processed by all operators, waiting, and failed at any operator."""
        return self._work(self.inflow.rows_by(now_s))

    def _work(self, arrived: int) -> PipelineRows:
        processed, failed = self._flow.processed_and_lost(self.number)
        return PipelineRows(
            processed=processed, waiting=max(0.0, arrived - processed - failed), failed=failed
        )

    def processed(self) -> Curve:
        """Processed rows at each second."""
        rows = np.asarray(self.processed_rows)
        return Curve(np.arange(len(rows), dtype=np.float64), rows)

    def lost(self, arrived: Curve) -> Curve:
        """Failed rows, each at its arrival time."""
        return lost_by_arrival(arrived, self._flow.losses(self.number))


def lost_by_arrival(arrived: Curve, losses: Sequence[Sequence[tuple[float, float]]]) -> Curve:
    """Rows lost among those that had arrived by a time; ``losses``: (x, l) for each branch.

    A full queue takes no more rows, so the last of the rows that had reached it are lost. With losses of l_k rows when
    x_k source rows had reached the queue, in the order of x, and L_k = l_1 + … + l_k, the first x source rows leave

        S(x) = min( x − L_before(x), min over x_k ≥ x of (x_k − L_k) )

    to be processed: it rises by one for each row and stays level over lost ones. With branches, a row must be
    processed by all of them: S is the least of theirs. This is exact for losses at one operator. At a second operator
    that loses rows, rows lost upstream count as having reached it before they would have, so its losses are placed
    that many rows too late.

    At 10 rows/s, 15 rows were lost when 40 had arrived: rows 25 to 40, which arrived from 2.5 s to 4 s.

    >>> lost = lost_by_arrival(Curve.of([(0, 0), (10, 100)]), [[(40.0, 15.0)]])
    >>> lost.times_s.tolist(), lost.values.tolist()
    ([0.0, 2.5, 4.0, 10.0], [0.0, 0.0, 15.0, 15.0])
    """
    corners = [_corners(each) for each in losses if each]
    if not corners:
        return Curve.of([(0.0, 0.0)])
    # at the corners of all branches, so that each is linear in between
    times_s = np.union1d(arrived.times_s, arrived.time_of(np.concatenate([rows for rows, _ in corners])))
    came = arrived.interpolated(times_s)
    return Curve(times_s, np.max([np.interp(came, rows, lost) for rows, lost in corners], axis=0))


def _corners(losses: Sequence[tuple[float, float]]) -> tuple[Floats, Floats]:
    """The corners (x, x − S(x)) of the rows lost among the first x: the begin and end of each loss."""
    came, rows = np.array(sorted(losses)).T
    total = np.cumsum(rows)
    left = np.minimum.accumulate((came - total)[::-1])[::-1]
    before = np.concatenate(([0.0], came[:-1]))
    begins = np.maximum(left + total - rows, before)
    corners = np.stack((begins, came), axis=1).ravel()
    return corners, np.maximum.accumulate(np.maximum(corners - np.repeat(left, 2), 0.0))
