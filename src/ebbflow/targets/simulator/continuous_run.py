"""The continuous engine at work; ``continuous`` has its formulas.

The flow is plain Python on purpose: six operators are too few for numpy to pay.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ebbflow.core.batches import Batch
from ebbflow.core.curve import Curve
from ebbflow.core.metrics import Metric
from ebbflow.core.readings import Reading
from ebbflow.targets.simulator.engine import Work
from ebbflow.targets.simulator.inflow import Inflow
from ebbflow.targets.simulator.nodes import Node, NodePool, Strength
from ebbflow.targets.simulator.placement import even, state_moved

if TYPE_CHECKING:
    from ebbflow.targets.simulator.continuous import Continuous

STEP_S = 1.0
_DRAWS = 4096


class ContinuousRun:
    """The pipeline at work."""

    def __init__(self, engine: Continuous, inflow: Inflow, pool: NodePool, rng: np.random.Generator) -> None:
        self.engine = engine
        self._inflow, self._pool, self._rng = inflow, pool, rng
        order = engine.pipeline.order
        self._names, count = order, len(order)
        at = {name: i for i, name in enumerate(order)}
        self._streams: list[list[tuple[int, float]]] = [[] for _ in order]
        for stream in engine.pipeline.streams:
            self._streams[at[stream.target]].append((at[stream.source], stream.selectivity))
        self._is_source = [name in engine.pipeline.sources for name in order]
        fed_from = {stream.source for stream in engine.pipeline.streams}
        self._sinks = [i for i, name in enumerate(order) if name not in fed_from]
        self._rate = [engine.per_source_row[name] for name in order]
        self._service = [1.0 / engine.row_cost_s[name] for name in order]
        self._instances = [max(1, engine.parallelism.get(name, 1)) for name in order]
        self._wanted = list(self._instances)
        self._now = 0
        self._arrived = 0
        self._queue = [0.0] * count
        self._done = [0.0] * count
        self._failed = [0.0] * count
        self._lost = [0.0] * count
        """Source rows that operator i will never see or finish, because they failed here or upstream."""
        self._busy_s = [0.0] * count
        self._left: list[float] = [0.0]
        self._factors: list[float] = []
        self._placed: tuple[Node, ...] = ()
        self._known: Strength | None = None
        self._capacity = [0.0] * count
        self._shares: list[list[tuple[int, int]]] = []
        self._speeds: list[float] = []
        self._most_on_a_node = [0] * count
        self._pause_s = self._drain_until_s = 0.0
        self._stop_until_s: float | None = None
        self._stopping_since_s: float | None = None
        self._seen: tuple[float, list[float], list[float]] = (0.0, [0.0] * count, [0.0] * count)
        self._place(pool.strength(0.0).nodes)

    # -- time ----------------------------------------------------------------------------------

    def advance(self, until_s: float) -> None:
        """Run whole steps up to a time."""
        while self._now + STEP_S <= until_s + 1e-9:
            now_s = float(self._now)
            if self._pool.strength(now_s) is not self._known:
                self._look_at_nodes(now_s)
            if self._stopping_since_s is not None:
                self._go_on(now_s)
            arrived = self._inflow.rows_by(now_s + STEP_S)
            new_rows, self._arrived = arrived - self._arrived, arrived
            if self._stop_until_s is None:
                self._step(new_rows)
            else:
                for i, source in enumerate(self._is_source):
                    if source:
                        self._queue[i] += new_rows
            self._left.append(self._settled())
            self._now += 1

    def _step(self, new_rows: float) -> None:
        """One second of flow; a second time with less CPU each where a node has too few cores."""
        factor = self._factor() if self.engine.noise else 1.0
        capacity = self._capacity if factor == 1.0 else [factor * c for c in self._capacity]
        outs = self._flow(new_rows, capacity)
        busy = [out / c if c > 0 else 0.0 for out, c in zip(outs, capacity, strict=True)]
        cores = self._pool.kind.slots
        if sum(b * k for b, k in zip(busy, self._most_on_a_node, strict=True)) > cores:
            capacity, crowded = self._shared(busy, factor)
            if crowded:
                outs = self._flow(new_rows, capacity)
        queue, done, failed, spent_s, rate = self._queue, self._done, self._failed, self._busy_s, self._rate
        bound = self.engine.queue_bound_rows
        for i, out in enumerate(outs):
            offered = queue[i] + (new_rows if self._is_source[i] else 0.0)
            for j, selectivity in self._streams[i]:
                offered += outs[j] * selectivity
            left = offered - out
            if bound is not None and not self._is_source[i] and left > bound * self._instances[i]:
                over = left - bound * self._instances[i]
                failed[i] += over
                left -= over
                self._note_loss(i, over / rate[i])
            queue[i] = left
            done[i] += out
            spent_s[i] += out / self._service[i]

    def _flow(self, new_rows: float, capacity: Sequence[float]) -> list[float]:
        """Rows that each operator finishes in the step, given how many it can."""
        queue, streams = self._queue, self._streams
        outs: list[float] = []
        for i, source in enumerate(self._is_source):
            offered = queue[i]
            if source:
                offered += new_rows
                if self._stopping_since_s is not None:
                    offered = 0.0
                elif self.engine.max_pending_rows is not None:
                    offered = min(offered, max(0.0, self.engine.max_pending_rows - self._pending(i)))
            else:
                for j, selectivity in streams[i]:
                    offered += outs[j] * selectivity
            most = capacity[i]
            outs.append(offered if offered < most else most)
        return outs

    def _pending(self, source: int) -> float:
        """Source rows that the source has passed on and the slowest sink has not finished."""
        return self._done[source] - self._settled()

    def _shared(self, busy: Sequence[float], factor: float) -> tuple[list[float], bool]:
        """Rows each operator can finish when crowded nodes share their cores."""
        cores, capacity, crowded = self._pool.kind.slots, [0.0] * len(busy), False
        for on_node, speed in zip(self._shares, self._speeds, strict=True):
            wanted = sum(count * busy[i] for i, count in on_node)
            crowded = crowded or wanted > cores
            share = min(1.0, cores / wanted) if wanted > 0 else 1.0
            for i, count in on_node:
                capacity[i] += count * speed * self._service[i] * factor * share * busy[i]
        return capacity, crowded

    def _settled(self) -> float:
        """Source rows that are through or lost, at the slowest of the sinks."""
        done, rate, lost = self._done, self._rate, self._lost
        return min([done[i] / rate[i] + lost[i] for i in self._sinks])

    def _note_loss(self, at: int, source_rows: float) -> None:
        """Rows that failed at an operator never come to those downstream of it."""
        lost_here = [0.0] * len(self._names)
        lost_here[at] = source_rows
        for i in range(at + 1, len(self._names)):
            for j, selectivity in self._streams[i]:
                lost_here[i] += lost_here[j] * self._rate[j] * selectivity / self._rate[i]
        self._lost = [a + b for a, b in zip(self._lost, lost_here, strict=True)]

    def _factor(self) -> float:
        if not self._factors:
            sigma = self.engine.noise
            self._factors = np.exp(sigma * self._rng.standard_normal(_DRAWS) - sigma * sigma / 2).tolist()
        return self._factors.pop()

    # -- layout --------------------------------------------------------------------------------

    def _look_at_nodes(self, now_s: float) -> None:
        """Who is there has changed: lose what went, and rebalance when all that was asked for is there."""
        self._known = self._pool.strength(now_s)
        self._weigh(now_s)
        staying = self._pool.working(now_s)
        if self._stopping_since_s is None:
            lost = any(not node.stays_after(now_s) for node in self._placed)
            came = set(staying) - set(self._placed)
            if (lost and staying) or (came and not self._pool.coming(now_s)):
                self._rebalance(now_s)
            elif self._pool.leaving:
                self._pool.let_go(now_s, between_batches=True)

    def _rebalance(self, now_s: float) -> None:
        """Stop the source, drain, stand still, move state; the new layout holds afterwards."""
        low_s, high_s = self.engine.pause_s
        inside = sum(q / c for q, c in zip(self._queue, self._capacity, strict=True) if c > 0)
        sources = sum(
            self._queue[i] / c for i, c in enumerate(self._capacity) if self._is_source[i] and c > 0
        )
        drain_s = min(self.engine.drain_limit_s, math.ceil(inside - sources))
        nodes_before, nodes_after = len(self._placed), len(self._pool.working(now_s))
        moved_mb = 0.0
        for name, old, new in zip(self._names, self._instances, self._wanted, strict=True):
            share = max(state_moved(old, new), state_moved(nodes_before, nodes_after))
            moved_mb += self.engine.state_mb.get(name, 0.0) * share
        pause_s = float(self._rng.uniform(low_s, high_s)) if high_s > low_s else low_s
        self._stopping_since_s = now_s
        self._drain_until_s = now_s + max(0.0, drain_s)
        self._pause_s = pause_s + moved_mb / self.engine.transfer_mb_per_s

    def _go_on(self, now_s: float) -> None:
        """Within a rebalance: from draining to standing still, and from there to the new layout."""
        if self._stop_until_s is None and now_s >= self._drain_until_s:
            self._stop_until_s = now_s + self._pause_s
            self._pool.let_go(now_s, between_batches=True)
        if self._stop_until_s is not None and now_s >= self._stop_until_s:
            self._stopping_since_s = self._stop_until_s = None
            self._instances = list(self._wanted)
            self._place(tuple(self._pool.working(now_s)))

    def _place(self, nodes: tuple[Node, ...]) -> None:
        self._placed = nodes
        self._placement = even(self._instances, len(nodes))
        self._known = None  # look again: others may have come in the meantime
        self._weigh(float(self._now))

    def _weigh(self, now_s: float) -> None:
        """What each operator can do where it is, without the nodes that are gone."""
        alive = set(self._pool.alive)
        self._shares, self._speeds = [], []
        self._capacity = [0.0] * len(self._names)
        for column, node in enumerate(self._placed):
            if (node.died and node.stop_s <= now_s) or node not in alive:
                continue
            on_node = [(i, row[column]) for i, row in enumerate(self._placement) if row[column]]
            speed = node.speed_at(now_s)
            self._shares.append(on_node)
            self._speeds.append(speed)
            for i, count in on_node:
                self._capacity[i] += count * speed * self._service[i]
        self._most_on_a_node = [max(row, default=0) for row in self._placement]

    @property
    def parallelism(self) -> Mapping[str, int]:
        """Instances of each operator, as wanted last."""
        return dict(zip(self._names, self._wanted, strict=True))

    def set_parallelism(self, now_s: float, parallelism: Mapping[str, int]) -> str:
        """Rebalance to other numbers of instances."""
        wanted = [max(1, parallelism.get(n, old)) for n, old in zip(self._names, self._wanted, strict=True)]
        if wanted == self._wanted:
            return ""
        self._wanted = wanted
        if self._stopping_since_s is None:
            self._rebalance(now_s)
        return "rebalanced: stopped, drained, started again"

    def stopped_since_s(self) -> float | None:
        """Since when a rebalance is under way."""
        return self._stopping_since_s

    # -- what is seen --------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Nodes always have instances on them."""
        return True

    def running(self) -> dict[str, float | None]:
        """There are no batches; the pipeline itself runs."""
        return {self.engine.pipeline.name: None}

    def take_batches(self) -> list[Batch]:
        """None: this engine has no batches."""
        return []

    def readings(self, now_s: float, _batches: Sequence[Batch], /) -> list[Reading]:
        """Rates and CPU since the last look, queues as they are."""
        name, work = self.engine.pipeline.name, self.work(now_s)
        since_s, done_then, busy_then = self._seen
        span_s = max(now_s - since_s, STEP_S)
        settled = int(work.processed + work.failed + 1e-6)
        age_s = now_s - self._inflow.arrival_s(settled) if work.waiting >= 1 else 0.0
        new_rows = self._inflow.rows_by(now_s) - self._inflow.rows_by(since_s)
        readings = [
            Reading(now_s, name, Metric.ARRIVAL_RATE, new_rows / span_s),
            Reading(now_s, name, Metric.QUEUE_LENGTH, work.waiting),
            Reading(now_s, name, Metric.FRESHNESS, max(0.0, age_s)),
            Reading(now_s, name, Metric.FAILED_ROWS, work.failed),
        ]
        cpu = [
            (b - then) / (span_s * n)
            for b, then, n in zip(self._busy_s, busy_then, self._instances, strict=True)
        ]
        for i, operator in enumerate(self._names):
            rows = self._done[i] - done_then[i]
            readings += [
                Reading(now_s, operator, Metric.ROWS_IN, rows),
                Reading(now_s, operator, Metric.ROWS_OUT, rows * self._selectivity_out(i)),
                Reading(now_s, operator, Metric.OPERATOR_QUEUE, self._queue[i]),
                Reading(now_s, operator, Metric.INSTANCE_CPU, cpu[i]),
                Reading(now_s, operator, Metric.INSTANCES, float(self._instances[i])),
            ]
        cores = self._pool.kind.slots
        for column, node in enumerate(self._placed):
            share = sum(row[column] * cpu[i] for i, row in enumerate(self._placement)) / cores
            readings.append(Reading(now_s, f"node-{node.number}", Metric.NODE_CPU, min(1.0, share)))
        self._seen = (now_s, list(self._done), list(self._busy_s))
        return readings

    def _selectivity_out(self, operator: int) -> float:
        name = self._names[operator]
        streams = [s.selectivity for s in self.engine.pipeline.streams if s.source == name]
        return sum(streams) if streams else 1.0

    def work(self, now_s: float) -> Work:
        """Where the rows are, at the slowest of the sinks."""
        slowest = min(self._sinks, key=lambda i: self._done[i] / self._rate[i] + self._lost[i])
        processed, failed = self._done[slowest] / self._rate[slowest], self._lost[slowest]
        arrived = self._inflow.rows_by(now_s)
        return Work(processed=processed, waiting=max(0.0, arrived - processed - failed), failed=failed)

    def left(self) -> Curve:
        """Rows that are through or lost, each second."""
        left = np.minimum.accumulate(np.asarray(self._left)[::-1])[::-1]
        return Curve(np.arange(len(left), dtype=np.float64), np.asarray(left))
