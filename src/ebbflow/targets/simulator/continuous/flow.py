"""The flow of the continuous engine: a second at a time (``flow_step``), or many at once where nothing waits.

Where nothing waits and there is room for all that comes, ``stretch`` does many seconds at once on arrays, with the
same operations in the same order as a step: the same bits.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from ebbflow.core.curve import Floats

# What the flow of the continuous engine runs through: operators, streams between clusters, nodes alike.


Instances = tuple[tuple[int, int], ...]
"""(operator, how many of it on a node), ascending."""


@dataclass
class Wire:
    """A stream between clusters: rows wait for its bandwidth, then are under way for some steps."""

    rows_per_s: float
    steps: int
    waiting: float = 0.0
    under_way: deque[float] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.under_way.extend([0.0] * self.steps)

    @property
    def rows(self) -> float:
        """All rows on it."""
        return self.waiting + math.fsum(self.under_way)

    def passed(self, rows: float) -> float:
        """Rows that come out in a step in which some go in."""
        return self.under_way[0] if self.steps else min(self.waiting + rows, self.rows_per_s)

    def push(self, rows: float) -> None:
        """Let the step happen."""
        sent = min(self.waiting + rows, self.rows_per_s)
        self.waiting += rows - sent
        if self.steps:
            self.under_way.popleft()
            self.under_way.append(sent)


@dataclass(frozen=True)
class Vertex:
    """An operator, as far as the flow is concerned."""

    pipeline: int
    streams: tuple[tuple[int, float], ...]
    """(upstream operator, selectivity) of each stream that enters it; none enters a source."""
    service_per_s: float
    per_source_row: float
    queue_bound_rows: float | None


@dataclass(frozen=True)
class Crowd:
    """Nodes of a cluster that are equally fast and have the same instances on them."""

    nodes: int
    cores: float
    """That its instances can use."""
    speed: float
    instances: Instances


def alike(crowds: Sequence[Crowd]) -> dict[tuple[float, Instances], int]:
    """Crowds that differ in speed at most are of one kind: (cores, instances) of each, with its number."""
    kinds: dict[tuple[float, Instances], int] = {}
    for crowd in crowds:
        kinds.setdefault((crowd.cores, crowd.instances), len(kinds))
    return kinds


@lru_cache(maxsize=256)
def fullest(nodes: frozenset[tuple[float, Instances]]) -> list[tuple[float, Instances]]:
    """Those (cores, instances) that no other has at least as full: if none of them is crowded, no node is.

    >>> fullest(frozenset({(2, ((0, 1), (1, 1))), (2, ((1, 1),)), (1, ((1, 1),))}))
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


def last_operators(vertices: Sequence[Vertex], pipelines: int) -> list[list[int]]:
    """Of each pipeline, the operators that tell how many source rows all of its operators have done.

    Who takes in one stream only has done no more than the operator that it comes from. So sinks tell, and who feeds
    nothing but joins: a join has done the mean of its branches, and a row is through when all of them are.

    >>> read, left, right = (Vertex(0, streams, 1.0, 1.0, None) for streams in ((), ((0, 1.0),), ((0, 1.0),)))
    >>> join = Vertex(0, ((1, 1.0), (2, 1.0)), 1.0, 2.0, None)
    >>> last_operators([read, left, right], 1), last_operators([read, left, right, join], 1)
    ([[1, 2]], [[1, 2, 3]])
    """
    sees = [v.per_source_row > 0 for v in vertices]
    before = {v.streams[0][0] for v, some in zip(vertices, sees, strict=True) if some and len(v.streams) == 1}
    return [
        [i for i, v in enumerate(vertices) if v.pipeline == pipeline and sees[i] and i not in before]
        for pipeline in range(pipelines)
    ]


# Where the instances of operators are, and so how many rows a second each operator can finish.


Wants = tuple[float, list[tuple[int, float]]]
"""Cores of a node; CPU seconds of it that are wanted for each row that an operator finishes, on all nodes."""


class PlacedOperators:
    """Operators on nodes. Arithmetic is done when they are put there, so that a second finds it done."""

    def __init__(self, vertices: Sequence[Vertex]) -> None:
        count = len(vertices)
        self.vertices = vertices
        self._service = [v.service_per_s for v in vertices]
        self.instances = [1] * count
        self.crowds: Sequence[Crowd] = ()
        self._capacity = [0.0] * count
        self._bounds = [math.inf] * count
        """Most rows that may wait before each operator."""
        self._bounded = False
        """Whether one of them has a bound."""
        self._placed: tuple[list[Crowd], list[int]] | None = None
        self._wants: list[Wants] = []
        """Of each kind of node."""
        self._places: list[list[tuple[int, float, int]]] = [[] for _ in vertices]
        """Of each operator: (which of ``_wants``, part of its capacity, its instances) on nodes that are alike."""
        self._tightest: list[Wants] = []
        """If none of these nodes has too few cores, no node has."""

    def place(self, crowds: Sequence[Crowd]) -> None:
        """Instances are on these nodes now."""
        placed = (list(crowds), list(self.instances))
        if placed == self._placed:
            return  # nodes have come, say, and nothing was put on them yet
        self._placed = placed
        self.crowds = crowds
        self._capacity = [0.0] * len(self.vertices)
        self._bounds = [
            math.inf if v.queue_bound_rows is None or not v.streams else v.queue_bound_rows * n
            for v, n in zip(self.vertices, self.instances, strict=True)
        ]  # sources have none
        self._bounded = any(most < math.inf for most in self._bounds)
        for crowd in crowds:
            for i, count in crowd.instances:
                self._capacity[i] += crowd.nodes * count * crowd.speed * self._service[i]
        self._tightest = [
            self._wanted_by(cores, instances)
            for cores, instances in fullest(frozenset((crowd.cores, crowd.instances) for crowd in crowds))
        ]
        # What is wanted does not depend on speed: it is counted once for nodes that differ in nothing else.
        kinds = alike(crowds)
        self._wants = [self._wanted_by(cores, instances) for cores, instances in kinds]
        self._places = [[] for _ in self.vertices]
        for crowd in crowds:
            kind = kinds[crowd.cores, crowd.instances]
            for i, n in crowd.instances:
                if (most := self._capacity[i]) > 0:
                    part = crowd.nodes * n * crowd.speed * self._service[i] / most
                    self._places[i].append((kind, part, crowd.nodes * n))

    def _wanted_by(self, cores: float, instances: Instances) -> Wants:
        return cores, [(i, n / self._capacity[i]) for i, n in instances if self._capacity[i] > 0]

    def capacity(self, operator: int) -> float:
        """Rows per second that an operator can finish, with the CPU for itself."""
        return self._capacity[operator]


# One second of flow through the operators of all pipelines, and the rows that are lost in it.
#
# ``continuous`` has the formulas. Operators of all pipelines stand in one row, upstream before downstream. Plain
# Python on purpose: six operators are too few for numpy to pay.


class SteppedFlow(PlacedOperators):
    """Rows in, at and through every operator, a second at a time."""

    def __init__(self, vertices: Sequence[Vertex], pending: Sequence[float]) -> None:
        """``pending``: most source rows under way, of each pipeline."""
        super().__init__(vertices)
        count = len(vertices)
        self._most_pending = pending
        self._last = last_operators(vertices, len(pending))
        self._pipeline_of = [v.pipeline for v in vertices]
        self._source_of = [v.pipeline if not v.streams else -1 for v in vertices]
        self._streams = [v.streams for v in vertices]
        self._only = [v.streams[0] if len(v.streams) == 1 else None for v in vertices]
        """The stream of an operator that has one, as most have."""
        self._rate = [v.per_source_row for v in vertices]
        self.wires: dict[tuple[int, int], Wire] = {}
        """By (upstream, downstream): the streams that leave their cluster."""
        self.reads = [True] * len(pending)
        """Whether the sources of each pipeline read."""
        self.queue = [0.0] * count
        self.done = [0.0] * count
        self.failed = [0.0] * count
        self.lost = [0.0] * count
        """Source rows that operator i will never see or finish, because they failed here or upstream."""
        self._some_lost = False
        self._losses: dict[int, list[tuple[float, float]]] = {i: [] for each in self._last for i in each}
        """For each of the last, every loss: (source rows that had come to where it happened, source rows lost)."""
        self.spent_s = [0.0] * count
        self.crowded_s = [0.0] * count
        """Instance-seconds with rows in hand on nodes that had too few cores, and the rows finished there."""
        self.crowded_rows = [0.0] * count
        self.settled = [0.0] * len(pending)
        """Source rows that are through or lost, at the slowest of the operators of each pipeline."""
        self.processed = self.settled
        """Source rows that are through at all of the operators of each pipeline."""

    def step(self, new_rows: Sequence[float], factors: Sequence[float] | None = None) -> None:
        """One second; a second time with less CPU each where a node has too few cores.

        ``new_rows``: rows that come to each pipeline. ``factors``: noise on the service rates of each.
        """
        capacity = self._capacity
        if factors is not None:
            factors = [factors[pipeline] for pipeline in self._pipeline_of]
            capacity = [most * factor for most, factor in zip(capacity, factors, strict=True)]
        there, outs = self._outs(new_rows, capacity)
        if self._may_be_crowded(outs, factors):
            there, outs = self._outs(new_rows, self._shared(outs, factors))
        self._settle(there, outs, factors)

    def _outs(self, new_rows: Sequence[float], capacity: Sequence[float]) -> tuple[list[float], list[float]]:
        """(rows there, rows finished) of each operator in the step, given how many it can finish."""
        wires, only = self.wires, self._only
        there: list[float] = []
        outs: list[float] = []
        for i, (rows, source, most) in enumerate(zip(self.queue, self._source_of, capacity, strict=True)):
            if source < 0:
                if not wires and (stream := only[i]) is not None:
                    rows += outs[stream[0]] * stream[1]
                else:
                    rows = self._joined(i, rows, outs)
                offered = rows
            else:
                rows += new_rows[source]
                offered = rows
                if not self.reads[source]:
                    offered = 0.0
                elif (pending := self._most_pending[source]) < math.inf:
                    # less the source rows that it has passed on and the slowest operator has not finished
                    room = pending - (self.done[i] - self.settled[source])
                    if room < offered:
                        offered = room if room > 0.0 else 0.0
            there.append(rows)
            outs.append(offered if offered < most else most)
        return there, outs

    def _joined(self, i: int, rows: float, outs: Sequence[float]) -> float:
        """The rows of an operator's queue with those of all its streams, some of which may be on wires."""
        for j, selectivity in self._streams[i]:
            sent, wire = outs[j] * selectivity, self.wires.get((j, i))
            rows += sent if wire is None else wire.passed(sent)
        return rows

    def _may_be_crowded(self, outs: Sequence[float], factors: Sequence[float] | None) -> bool:
        for cores, on in self._tightest:
            wanted = 0.0
            if factors is None:
                for i, cpu_s in on:
                    wanted += outs[i] * cpu_s
            else:
                for i, cpu_s in on:
                    wanted += outs[i] * cpu_s / factors[i]
            if wanted > cores:
                return True
        return False

    def _shared(self, outs: Sequence[float], factors: Sequence[float] | None) -> list[float]:
        """Rows each operator can finish when crowded nodes share their cores: each part of what it would
        finish, times the share of the nodes it is on."""
        shares: list[float | None] = []
        for cores, on in self._wants:
            wanted = 0.0  # as above, and not in a function: every second comes through here for every node
            if factors is None:
                for i, cpu_s in on:
                    wanted += outs[i] * cpu_s
            else:
                for i, cpu_s in on:
                    wanted += outs[i] * cpu_s / factors[i]
            shares.append(cores / wanted if wanted > cores else None)
        shared: list[float] = []
        for i, out in enumerate(outs):
            can = 0.0
            if out:
                in_s, rows_there = self.crowded_s[i], self.crowded_rows[i]
                for kind, part, instances in self._places[i]:
                    share = shares[kind]
                    if share is None:
                        can += out * part
                    else:
                        rows = out * part * share
                        can += rows
                        rows_there += rows
                        in_s += instances
                self.crowded_s[i], self.crowded_rows[i] = in_s, rows_there
            shared.append(can)
        return shared

    def _settle(self, there: list[float], outs: Sequence[float], factors: Sequence[float] | None) -> None:
        """Let the step have happened. ``there``: rows before each operator, those that came in it included."""
        if self.wires:
            self._push(there, outs)
        service = self._service
        if factors is not None:
            service = [per_s * factor for per_s, factor in zip(service, factors, strict=True)]
        self.queue = [rows - out for rows, out in zip(there, outs, strict=True)]
        self.done = done = [before + out for before, out in zip(self.done, outs, strict=True)]
        self.spent_s = [
            before + out / per_s for before, out, per_s in zip(self.spent_s, outs, service, strict=True)
        ]
        if self._bounded:
            self._cut_queues()
        rate, lost = self._rate, self.lost
        self.settled = [
            done[last[0]] / rate[last[0]] + lost[last[0]]
            if len(last) == 1
            else min([done[i] / rate[i] + lost[i] for i in last])
            for last in self._last
        ]
        self.processed = self.settled
        if self._some_lost:
            self.processed = [min([done[i] / rate[i] for i in last]) for last in self._last]

    def _cut_queues(self) -> None:
        """Rows that a full queue does not take have failed."""
        for i, (left, most) in enumerate(zip(self.queue, self._bounds, strict=True)):
            if left > most:
                self.queue[i] = left - (left - most)
                self._fail(i, left - most)

    def _push(self, there: list[float], outs: Sequence[float]) -> None:
        """Let rows go over the wires; what comes out of them is then ``there``."""
        for i, streams in enumerate(self._streams):
            if not streams:
                continue
            rows = self.queue[i]
            for j, selectivity in streams:
                sent, wire = outs[j] * selectivity, self.wires.get((j, i))
                rows += sent if wire is None else wire.passed(sent)
                if wire is not None:
                    wire.push(sent)
            there[i] = rows

    def through(self, pipeline: int) -> tuple[float, float]:
        """(source rows processed, source rows lost): through at all of its operators, lost to at least one.

        Which rows two branches lost nobody knows; they are taken to be the same ones, so the larger number counts.
        """
        return self.processed[pipeline], max([self.lost[i] for i in self._last[pipeline]])

    def losses(self, pipeline: int) -> list[list[tuple[float, float]]]:
        """For each of the last operators of a pipeline, every loss: (source rows that had come to where it happened,
        source rows lost). Of those that had come, the last ones were lost: a full queue takes no more."""
        return [self._losses[i] for i in self._last[pipeline]]

    def _fail(self, at: int, rows: float) -> None:
        """Rows that failed at an operator never come to those downstream of it."""
        self.failed[at] += rows
        self._some_lost = True
        lost_here = [0.0] * len(self.vertices)
        lost_here[at] = rows / self._rate[at]
        for i in range(at + 1, len(self.vertices)):
            for j, selectivity in self._streams[i] if self._rate[i] else ():
                lost_here[i] += lost_here[j] * self._rate[j] * selectivity / self._rate[i]
        self.lost = [a + b for a, b in zip(self.lost, lost_here, strict=True)]
        came = (self.done[at] + self.queue[at]) / self._rate[at] + self.lost[at]
        for i, losses in self._losses.items():
            if lost_here[i]:
                losses.append((came, lost_here[i]))


class Flow(SteppedFlow):
    """Rows in, at and through every operator. ``place`` puts instances on nodes, ``step`` and ``play`` let time go."""

    @property
    def calm(self) -> bool:
        """Whether nothing waits and all sources read, so that a stretch may be tried."""
        return not any(self.queue) and not self.wires and all(self.reads)

    def stretch(self, new_rows: Sequence[Floats], factors: Sequence[Floats] | None) -> Stretch:
        """As many of the next seconds as pass without a row that has to wait; ask only when ``calm``.

        Nothing has happened yet: ``play`` lets it.
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
            # all nodes at once; who is not on a node adds nothing there, so it is as if each were done by itself
            cores, cpu_s = self._tightest_as_arrays(len(self.vertices))
            wanted = np.zeros((len(cores), count))
            for i, out in enumerate(outs):
                cpu = out * cpu_s[i]
                wanted += cpu if factor is None else cpu / factor[i]
            fits &= np.all(wanted <= cores, axis=0)
        done = _running_sums(self.done, outs)
        service = np.asarray(self._service)[:, None]
        settled, processed = [], []
        for pipeline, last in enumerate(self._last):
            through = _least([done[i] / self._rate[i] + self.lost[i] for i in last])
            settled.append(through)
            processed.append(_least([done[i] / self._rate[i] for i in last]) if self._some_lost else through)
            if self._most_pending[pipeline] < math.inf:
                for i, source in enumerate(self._source_of):
                    if source == pipeline:
                        room = self._most_pending[pipeline] - (done[i][:-1] - through[:-1])
                        fits &= outs[i] <= np.maximum(0.0, room)
        return Stretch(
            seconds=count if fits.all() else int(np.argmin(fits)),
            done=done,
            spent_s=_running_sums(self.spent_s, outs / (service if factor is None else service * factor)),
            settled=settled,
            processed=processed,
        )

    def _tightest_as_arrays(self, operators: int) -> tuple[Floats, Floats]:
        """Of the tightest nodes: cores (a line for each), CPU seconds for each operator (then a line for each)."""
        cpu_s = np.zeros((operators, len(self._tightest), 1))
        for node, (_, on) in enumerate(self._tightest):
            for i, seconds in on:
                cpu_s[i, node] = seconds
        return np.asarray([[cores] for cores, _ in self._tightest]), cpu_s

    def play(self, stretch: Stretch, seconds: int) -> None:
        """Let the first seconds of a stretch have happened."""
        self.done = stretch.done[:, seconds].tolist()
        self.spent_s = stretch.spent_s[:, seconds].tolist()
        self.settled = [float(through[seconds]) for through in stretch.settled]
        self.processed = [float(through[seconds]) for through in stretch.processed]


@dataclass(frozen=True, kw_only=True, eq=False)
class Stretch:
    """Seconds ahead in which nothing waits. Columns: after 0, 1, 2, … seconds."""

    seconds: int
    done: Floats
    spent_s: Floats
    settled: Sequence[Floats]
    """Source rows through or lost, for each pipeline."""
    processed: Sequence[Floats]
    """Source rows through, for each pipeline."""


def _least(each: Sequence[Floats]) -> Floats:
    return each[0] if len(each) == 1 else np.asarray(np.min(each, axis=0))


def _running_sums(start: Sequence[float], more: Floats) -> Floats:
    """Of each row: start, start + a, start + a + b, …, added one after the other."""
    first = np.asarray(start)[:, None]
    return np.asarray(np.cumsum(np.concatenate((first, more), axis=1), axis=1))
