"""The arithmetic of the continuous engine: rows through operators, second by second, and how busy instances are.

The package docstring has the formulas. The operators of all pipelines form one list, upstream before downstream. A
step is plain Python on purpose: six operators are too few for numpy. While nothing waits, ``look_ahead`` computes
many seconds at once on arrays, with the same operations in the same order as a step, hence the same bits.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from ebbflow.core.curve import Floats

STEP_S = 1.0

Instances = tuple[tuple[int, int], ...]
"""(operator, its number of instances on a node), ascending."""
Demand = tuple[float, list[tuple[int, float]]]
"""(cores of a node, [(operator, CPU seconds on this node per row that the operator finishes on all nodes)])."""


@dataclass(frozen=True)
class FlowVertex:
    """An operator in the flow graph."""

    pipeline: int
    streams: tuple[tuple[int, float], ...]
    """(upstream operator, selectivity) of each input stream; a source has none."""
    service_per_s: float
    per_source_row: float
    queue_bound_rows: float | None
    overload_speed: float = 1.0


@dataclass(frozen=True)
class NodeGroup:
    """Nodes of a cluster with the same speed and the same instances."""

    nodes: int
    cores: float
    """Cores of a node that its instances can use."""
    speed: float
    instances: Instances


@dataclass
class Wire:
    """A stream between clusters: rows wait for bandwidth, then travel for some steps."""

    rows_per_s: float
    steps: int
    waiting: float = 0.0
    in_transit: deque[float] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.in_transit.extend([0.0] * self.steps)

    @property
    def rows(self) -> float:
        """All rows on it."""
        return self.waiting + math.fsum(self.in_transit)

    def delivered(self, rows: float) -> float:
        """Rows that come out in a step in which ``rows`` go in."""
        return self.in_transit[0] if self.steps else min(self.waiting + rows, self.rows_per_s)

    def push(self, rows: float) -> None:
        """Advance by one step in which ``rows`` go in."""
        sent = min(self.waiting + rows, self.rows_per_s)
        self.waiting += rows - sent
        if self.steps:
            self.in_transit.popleft()
            self.in_transit.append(sent)


class Flow:
    """The rows at and through every operator.

    ``place`` puts instances on nodes; ``step`` advances by one second, ``look_ahead`` and ``replay`` by many.
    """

    def __init__(self, vertices: Sequence[FlowVertex], max_pending: Sequence[float]) -> None:
        """``max_pending``: the maximum of unfinished source rows of each pipeline."""
        count = len(vertices)
        self.vertices = vertices
        self._pipeline_of = [v.pipeline for v in vertices]
        self._source_of = [v.pipeline if not v.streams else -1 for v in vertices]
        self._streams = [v.streams for v in vertices]
        self._only_stream = [v.streams[0] if len(v.streams) == 1 else None for v in vertices]
        """The stream of an operator with exactly one, the usual case."""
        self._rate = [v.per_source_row for v in vertices]
        self._service = [v.service_per_s for v in vertices]
        self._slows_down = any(v.overload_speed < 1.0 for v in vertices)
        self._max_pending = max_pending
        self._final = final_operators(vertices, len(max_pending))

        # instances on nodes, set by place()
        self.instances = [1] * count
        self.groups: Sequence[NodeGroup] = ()
        self._placed: tuple[list[NodeGroup], list[int]] | None = None
        self._capacity = [0.0] * count
        self._queue_bounds = [math.inf] * count
        self._any_bound = False
        self._demands: list[Demand] = []
        """The demand of each kind of node."""
        self._places: list[list[tuple[int, float, int]]] = [[] for _ in vertices]
        """For each operator: (index into ``_demands``, share of its capacity, instances) for each node group."""
        self._tightest: list[Demand] = []
        """If none of these nodes is saturated, no node is."""
        self.wires: dict[tuple[int, int], Wire] = {}
        """Streams that leave their cluster, by (upstream, downstream)."""
        self.reading = [True] * len(max_pending)
        """Whether the sources of each pipeline read."""

        # rows and CPU
        self.queue = [0.0] * count
        self.done = [0.0] * count
        self.failed = [0.0] * count
        self.cpu_s = [0.0] * count
        self.saturated_s = [0.0] * count
        """Instance-seconds with rows in hand on saturated nodes."""
        self.saturated_rows = [0.0] * count
        """Rows finished on saturated nodes."""
        self.lost = [0.0] * count
        """Source rows that an operator will never see or finish because they failed there or upstream."""
        self._any_lost = False
        self._losses: dict[int, list[tuple[float, float]]] = {i: [] for each in self._final for i in each}
        """For each final operator, every loss: (source rows that had reached the queue, source rows lost)."""
        self.settled = [0.0] * len(max_pending)
        """Source rows processed or lost at the slowest operator of each pipeline."""
        self.processed = self.settled
        """Source rows processed by all operators of each pipeline."""

    # -- instances on nodes --------------------------------------------------------------------

    def place(self, groups: Sequence[NodeGroup]) -> None:
        """Put the instances on these nodes. All that depends only on them is computed here, not in each step."""
        placed = (list(groups), list(self.instances))
        if placed == self._placed:
            return  # for example if nodes have joined without instances
        self._placed = placed
        self.groups = groups
        self._capacity = [0.0] * len(self.vertices)
        self._queue_bounds = [
            math.inf if v.queue_bound_rows is None or not v.streams else v.queue_bound_rows * n
            for v, n in zip(self.vertices, self.instances, strict=True)
        ]
        self._any_bound = any(bound < math.inf for bound in self._queue_bounds)
        for group in groups:
            for i, count in group.instances:
                self._capacity[i] += group.nodes * count * group.speed * self._service[i]
        self._tightest = [
            self._demand(cores, instances)
            for cores, instances in most_loaded(frozenset((group.cores, group.instances) for group in groups))
        ]
        # demand does not depend on speed, so groups that differ only in speed share it
        kinds = node_kinds(groups)
        self._demands = [self._demand(cores, instances) for cores, instances in kinds]
        self._places = [[] for _ in self.vertices]
        for group in groups:
            kind = kinds[group.cores, group.instances]
            for i, n in group.instances:
                if (capacity := self._capacity[i]) > 0:
                    share = group.nodes * n * group.speed * self._service[i] / capacity
                    self._places[i].append((kind, share, group.nodes * n))

    def _demand(self, cores: float, instances: Instances) -> Demand:
        return cores, [(i, n / self._capacity[i]) for i, n in instances if self._capacity[i] > 0]

    def capacity(self, operator: int) -> float:
        """Rows per second that an operator can finish if its nodes are not saturated."""
        return self._capacity[operator]

    # -- one second ----------------------------------------------------------------------------

    def step(self, new_rows: Sequence[float], factors: Sequence[float] | None = None) -> None:
        """Advance by one second; if nodes are saturated, compute it again with shared cores.

        ``new_rows``: rows that arrive at each pipeline. ``factors``: noise on the service rates of each pipeline.
        """
        capacity = self._capacity
        if factors is not None:
            factors = [factors[pipeline] for pipeline in self._pipeline_of]
        if self._slows_down:
            factors = self._with_overload(factors)
        if factors is not None:
            capacity = [rows * factor for rows, factor in zip(capacity, factors, strict=True)]
        present, outs = self._outs(new_rows, capacity)
        if self._is_saturated(outs, factors):
            present, outs = self._outs(new_rows, self._shared_capacity(outs, factors))
        self._commit(present, outs, factors)

    def _with_overload(self, factors: Sequence[float] | None) -> Sequence[float] | None:
        """The factors on service rates, lower for operators with more than a second of work queued before them."""
        slow = {
            i: vertex.overload_speed
            for i, vertex in enumerate(self.vertices)
            if vertex.overload_speed < 1.0 and vertex.streams and self.queue[i] > self._capacity[i] * STEP_S
        }
        if not slow:
            return factors
        before = [1.0] * len(self.vertices) if factors is None else factors
        return [factor * slow.get(i, 1.0) for i, factor in enumerate(before)]

    def _outs(self, new_rows: Sequence[float], capacity: Sequence[float]) -> tuple[list[float], list[float]]:
        """(rows present, rows finished) of each operator in the step for a given capacity."""
        wires, only_stream = self.wires, self._only_stream
        present: list[float] = []
        outs: list[float] = []
        for i, (rows, source, limit) in enumerate(zip(self.queue, self._source_of, capacity, strict=True)):
            if source < 0:
                if not wires and (stream := only_stream[i]) is not None:
                    rows += outs[stream[0]] * stream[1]
                else:
                    for j, selectivity in self._streams[i]:
                        sent, wire = outs[j] * selectivity, wires.get((j, i))
                        rows += sent if wire is None else wire.delivered(sent)
                offered = rows
            else:
                rows += new_rows[source]
                offered = rows
                if not self.reading[source]:
                    offered = 0.0
                elif (pending := self._max_pending[source]) < math.inf:
                    # less the source rows that were passed on and are not settled yet
                    allowed = pending - (self.done[i] - self.settled[source])
                    if allowed < offered:
                        offered = allowed if allowed > 0.0 else 0.0
            present.append(rows)
            outs.append(offered if offered < limit else limit)
        return present, outs

    def _is_saturated(self, outs: Sequence[float], factors: Sequence[float] | None) -> bool:
        for cores, on_node in self._tightest:
            wanted = 0.0
            if factors is None:
                for i, cpu_s in on_node:
                    wanted += outs[i] * cpu_s
            else:
                for i, cpu_s in on_node:
                    wanted += outs[i] * cpu_s / factors[i]
            if wanted > cores:
                return True
        return False

    def _shared_capacity(self, outs: Sequence[float], factors: Sequence[float] | None) -> list[float]:
        """Rows that each operator can finish if saturated nodes share their cores: for each node group, what it would
        finish there times the CPU share of the node."""
        shares: list[float | None] = []
        for cores, on_node in self._demands:
            wanted = 0.0  # as above; inlined because it runs every second for every kind of node
            if factors is None:
                for i, cpu_s in on_node:
                    wanted += outs[i] * cpu_s
            else:
                for i, cpu_s in on_node:
                    wanted += outs[i] * cpu_s / factors[i]
            shares.append(cores / wanted if wanted > cores else None)
        capacity: list[float] = []
        for i, out in enumerate(outs):
            total = 0.0
            if out:
                saturated_s, saturated_rows = self.saturated_s[i], self.saturated_rows[i]
                for kind, part, instances in self._places[i]:
                    share = shares[kind]
                    if share is None:
                        total += out * part
                    else:
                        rows = out * part * share
                        total += rows
                        saturated_rows += rows
                        saturated_s += instances
                self.saturated_s[i], self.saturated_rows[i] = saturated_s, saturated_rows
            capacity.append(total)
        return capacity

    def _commit(self, present: list[float], outs: Sequence[float], factors: Sequence[float] | None) -> None:
        """Apply a step. ``present``: rows at each operator, including those that arrive in the step."""
        if self.wires:
            self._push_wires(present, outs)
        service = self._service
        if factors is not None:
            service = [per_s * factor for per_s, factor in zip(service, factors, strict=True)]
        self.queue = [rows - out for rows, out in zip(present, outs, strict=True)]
        self.done = done = [before + out for before, out in zip(self.done, outs, strict=True)]
        self.cpu_s = [
            before + out / per_s for before, out, per_s in zip(self.cpu_s, outs, service, strict=True)
        ]
        if self._any_bound:
            self._drop_overflow()
        rate, lost = self._rate, self.lost
        self.settled = [
            done[final[0]] / rate[final[0]] + lost[final[0]]
            if len(final) == 1
            else min([done[i] / rate[i] + lost[i] for i in final])
            for final in self._final
        ]
        self.processed = self.settled
        if self._any_lost:
            self.processed = [min([done[i] / rate[i] for i in final]) for final in self._final]

    def _push_wires(self, present: list[float], outs: Sequence[float]) -> None:
        """Advance the wires; what they deliver is then ``present``."""
        for i, streams in enumerate(self._streams):
            if not streams:
                continue
            rows = self.queue[i]
            for j, selectivity in streams:
                sent, wire = outs[j] * selectivity, self.wires.get((j, i))
                rows += sent if wire is None else wire.delivered(sent)
                if wire is not None:
                    wire.push(sent)
            present[i] = rows

    def _drop_overflow(self) -> None:
        """Rows beyond the bound of a queue fail."""
        for i, (rows, bound) in enumerate(zip(self.queue, self._queue_bounds, strict=True)):
            if rows > bound:
                self.queue[i] = rows - (rows - bound)
                self._fail(i, rows - bound)

    def _fail(self, at: int, rows: float) -> None:
        """Record rows that failed at an operator and so never reach those downstream."""
        self.failed[at] += rows
        self._any_lost = True
        lost_here = [0.0] * len(self.vertices)
        lost_here[at] = rows / self._rate[at]
        for i in range(at + 1, len(self.vertices)):
            for j, selectivity in self._streams[i] if self._rate[i] else ():
                lost_here[i] += lost_here[j] * self._rate[j] * selectivity / self._rate[i]
        self.lost = [a + b for a, b in zip(self.lost, lost_here, strict=True)]
        reached = (self.done[at] + self.queue[at]) / self._rate[at] + self.lost[at]
        for i, losses in self._losses.items():
            if lost_here[i]:
                losses.append((reached, lost_here[i]))

    def processed_and_lost(self, pipeline: int) -> tuple[float, float]:
        """Source rows processed by all operators of a pipeline, and source rows lost by any.

        Which rows two branches lost is unknown; they are assumed to be the same, so the larger number counts.
        """
        return self.processed[pipeline], max([self.lost[i] for i in self._final[pipeline]])

    def losses(self, pipeline: int) -> list[list[tuple[float, float]]]:
        """Every loss of each final operator: (source rows that had reached the queue, source rows lost).

        The rows lost are the last of those that had reached it, because a full queue takes no more.
        """
        return [self._losses[i] for i in self._final[pipeline]]

    # -- many seconds --------------------------------------------------------------------------

    @property
    def calm(self) -> bool:
        """Whether nothing waits and all sources read, so that ``look_ahead`` applies."""
        return not any(self.queue) and not self.wires and all(self.reading)

    def look_ahead(self, new_rows: Sequence[Floats], factors: Sequence[Floats] | None) -> Lookahead:
        """Compute the next seconds, up to the first in which a row must wait. Only valid while ``calm``.

        Changes nothing; ``replay`` applies the result.
        """
        count = len(new_rows[0])
        outs = np.empty((len(self.vertices), count))
        for i, source in enumerate(self._source_of):
            out = new_rows[source] if source >= 0 else np.zeros(count)
            for j, selectivity in self._streams[i]:
                out = out + outs[j] * selectivity
            outs[i] = out
        factor = None if factors is None else np.stack([factors[v.pipeline] for v in self.vertices])
        capacity = np.asarray(self._capacity)[:, None]
        fits = np.all(outs <= (capacity if factor is None else capacity * factor), axis=0)
        if self._tightest:
            # all nodes at once; an operator that is not on a node adds 0, which does not change the sum
            cores = np.asarray([[cores] for cores, _ in self._tightest])
            cpu_s = np.zeros((len(self.vertices), len(self._tightest), 1))
            for node, (_, on_node) in enumerate(self._tightest):
                for i, seconds in on_node:
                    cpu_s[i, node] = seconds
            wanted = np.zeros((len(cores), count))
            for i, out in enumerate(outs):
                cpu = out * cpu_s[i]
                wanted += cpu if factor is None else cpu / factor[i]
            fits &= np.all(wanted <= cores, axis=0)
        done = _running_sums(self.done, outs)
        service = np.asarray(self._service)[:, None]
        settled, processed = [], []
        for pipeline, final in enumerate(self._final):
            through = _minimum([done[i] / self._rate[i] + self.lost[i] for i in final])
            settled.append(through)
            processed.append(
                _minimum([done[i] / self._rate[i] for i in final]) if self._any_lost else through
            )
            if self._max_pending[pipeline] < math.inf:
                for i, source in enumerate(self._source_of):
                    if source == pipeline:
                        allowed = self._max_pending[pipeline] - (done[i][:-1] - through[:-1])
                        fits &= outs[i] <= np.maximum(0.0, allowed)
        return Lookahead(
            seconds=count if fits.all() else int(np.argmin(fits)),
            done=done,
            cpu_s=_running_sums(self.cpu_s, outs / (service if factor is None else service * factor)),
            settled=settled,
            processed=processed,
        )

    def replay(self, ahead: Lookahead, seconds: int) -> None:
        """Advance to the given second of a lookahead."""
        self.done = ahead.done[:, seconds].tolist()
        self.cpu_s = ahead.cpu_s[:, seconds].tolist()
        self.settled = [float(rows[seconds]) for rows in ahead.settled]
        self.processed = [float(rows[seconds]) for rows in ahead.processed]


@dataclass(frozen=True, kw_only=True, eq=False)
class Lookahead:
    """The next seconds, in which nothing waits. Columns: after 0, 1, 2, … seconds."""

    seconds: int
    done: Floats
    cpu_s: Floats
    settled: Sequence[Floats]
    """Source rows processed or lost, for each pipeline."""
    processed: Sequence[Floats]
    """Source rows processed, for each pipeline."""


def _minimum(each: Sequence[Floats]) -> Floats:
    return each[0] if len(each) == 1 else np.asarray(np.min(each, axis=0))


def _running_sums(start: Sequence[float], more: Floats) -> Floats:
    """For each row: start, start + a, start + a + b, …, added in this order."""
    first = np.asarray(start)[:, None]
    return np.asarray(np.cumsum(np.concatenate((first, more), axis=1), axis=1))


def node_kinds(groups: Sequence[NodeGroup]) -> dict[tuple[float, Instances], int]:
    """Groups that differ at most in speed are of one kind: its (cores, instances) and number."""
    kinds: dict[tuple[float, Instances], int] = {}
    for group in groups:
        kinds.setdefault((group.cores, group.instances), len(kinds))
    return kinds


@lru_cache(maxsize=256)
def most_loaded(nodes: frozenset[tuple[float, Instances]]) -> list[tuple[float, Instances]]:
    """Those (cores, instances) that no other dominates: if none of them is saturated, no node is.

    >>> most_loaded(frozenset({(2, ((0, 1), (1, 1))), (2, ((1, 1),)), (1, ((1, 1),))}))
    [(1, ((1, 1),)), (2, ((0, 1), (1, 1)))]
    """
    counts = {node: dict(node[1]) for node in nodes}
    return [
        (cores, instances)
        for cores, instances in sorted(nodes)
        if not any(
            other != (cores, instances) and other[0] <= cores and all(on.get(i, 0) >= n for i, n in instances)
            for other, on in counts.items()
        )
    ]


def final_operators(vertices: Sequence[FlowVertex], pipelines: int) -> list[list[int]]:
    """For each pipeline, the operators that determine how many source rows all its operators have done.

    An operator with one input stream has done no more than its upstream operator. So these are the sinks, and operators
    that feed only joins: a join has done the mean of its branches, but a row is processed when all of them are.

    >>> read, left, right = (FlowVertex(0, streams, 1.0, 1.0, None) for streams in ((), ((0, 1.0),), ((0, 1.0),)))
    >>> join = FlowVertex(0, ((1, 1.0), (2, 1.0)), 1.0, 2.0, None)
    >>> final_operators([read, left, right], 1), final_operators([read, left, right, join], 1)
    ([[1, 2]], [[1, 2, 3]])
    """
    has_input = [v.per_source_row > 0 for v in vertices]
    before = {
        v.streams[0][0] for v, some in zip(vertices, has_input, strict=True) if some and len(v.streams) == 1
    }
    return [
        [i for i, v in enumerate(vertices) if v.pipeline == pipeline and has_input[i] and i not in before]
        for pipeline in range(pipelines)
    ]


# -- busy time -----------------------------------------------------------------------------------


class BusyMeter:
    """The share of time that instances have rows in hand: their CPU time and the wait for CPU.

    An instance uses at most one core, and what the others on its node leave:

        busy = cpu / min(1, cores − CPU of the others)

    On one core that is processor sharing (M/G/1-PS: a row takes cost / (1 − load of the others)). With several cores
    it is a lower bound, because a row does not wait while a core is free. In a second in which a node is saturated,
    every instance with rows is busy throughout. Wall-clock metrics show that (Flink's busyTimeMsPerSecond); CPU time
    does not. A source counts as busy there even if pending rows hold it back.

    Seconds on saturated nodes are counted one by one, the others by their mean CPU and the current placement.
    """

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._cost_s = [1 / vertex.service_per_s for vertex in flow.vertices]
        self._measured_s = 0.0
        self._shares = [0.0] * len(flow.vertices)
        self._last_counters = self._counters()
        self._groups: Sequence[NodeGroup] | None = None
        self._cores: list[float] = []
        self._distribution = distribution((), len(flow.vertices))

    def shares(self, now_s: float) -> Sequence[float]:
        """The mean busy share of an instance of each operator since the last time; the same at the same time."""
        if now_s > self._measured_s:
            if self._flow.groups is not self._groups:
                self._update_placement()
            self._shares = self._since_last(max(now_s - self._measured_s, STEP_S))
            self._measured_s = now_s
        return self._shares

    def _since_last(self, span_s: float) -> list[float]:
        (cpu_then, saturated_then, rows_then), self._last_counters = self._last_counters, self._counters()
        cpu_now, saturated_now, rows_now = self._last_counters
        saturated: dict[int, float] = {}
        cpu: list[float] = []
        for i, (spent_s, before_s, cores) in enumerate(zip(cpu_now, cpu_then, self._cores, strict=True)):
            spent_s -= before_s
            available_s = cores * span_s
            if saturated_now[i] > saturated_then[i]:
                share = min(1.0, (saturated_now[i] - saturated_then[i]) / (self._flow.instances[i] * span_s))
                saturated[i] = share
                spent_s -= (rows_now[i] - rows_then[i]) * self._cost_s[i]
                available_s *= 1 - share
            if spent_s > 0 and available_s > 0:
                cpu.append(spent_s / available_s if spent_s < available_s else 1.0)
            else:
                cpu.append(0.0)
        busy = busy_shares(self._distribution, cpu)
        for i, share in saturated.items():
            busy[i] = share + (1 - share) * busy[i]
        return busy

    def _update_placement(self) -> None:
        """The placement has changed. A stopped operator counts as on cores of speed 1."""
        flow = self._flow
        self._groups = flow.groups
        self._distribution = distribution(flow.groups, len(flow.vertices))
        self._cores = [
            flow.capacity(i) * cost_s or float(flow.instances[i]) for i, cost_s in enumerate(self._cost_s)
        ]

    def _counters(self) -> tuple[list[float], list[float], list[float]]:
        flow = self._flow
        return list(flow.cpu_s), list(flow.saturated_s), list(flow.saturated_rows)


@dataclass(frozen=True)
class Distribution:
    """How instances are distributed over kinds of nodes."""

    nodes: Sequence[tuple[float, Instances]]
    """For each kind of node: cores for instances, and the instances."""
    parts: Sequence[Sequence[tuple[int, float]]]
    """For each operator: (kind of node, fraction of its instances) for each node group."""


def distribution(groups: Sequence[NodeGroup], operators: int) -> Distribution:
    """The distribution of instances over node groups."""
    instances = [0] * operators
    for group in groups:
        for i, count in group.instances:
            instances[i] += group.nodes * count
    kinds = node_kinds(groups)
    parts: list[list[tuple[int, float]]] = [[] for _ in range(operators)]
    for group in groups:
        kind = kinds[group.cores, group.instances]
        for i, count in group.instances:
            parts[i].append((kind, group.nodes * count / instances[i]))
    return Distribution(list(kinds), parts)


def busy_shares(where: Distribution, cpu: Sequence[float]) -> list[float]:
    """The mean busy share of an instance of each operator, given its CPU share.

    >>> one_core = distribution([NodeGroup(nodes=1, cores=1, speed=1.0, instances=((0, 1), (1, 2)))], operators=2)
    >>> busy_shares(one_core, [0.25, 0.25])  # each: 0.25 / (1 − 0.5)
    [0.5, 0.5]
    >>> busy_shares(one_core, [0.5, 0.25])  # the whole core
    [1.0, 1.0]
    >>> two_cores = distribution([NodeGroup(nodes=1, cores=2, speed=1.0, instances=((0, 1), (1, 2)))], operators=2)
    >>> busy_shares(two_cores, [0.25, 0.25])
    [0.25, 0.25]
    """
    unused = []
    for left, on_node in where.nodes:
        for i, count in on_node:
            left -= count * cpu[i]
        unused.append(left)
    shares = []
    for own, parts in zip(cpu, where.parts, strict=True):
        busy = 0.0
        for kind, part in parts if own > 0 else ():
            left = unused[kind]
            available = left + own
            if available >= 1:
                busy += part * own
            else:
                busy += part * (own / available if left > 0 else 1.0)
        shares.append(busy)
    return shares
