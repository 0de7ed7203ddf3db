"""The arithmetic of the continuous engine: one second of flow through the operators of all pipelines.

``continuous`` has the formulas. Operators of all pipelines stand in one row, upstream before downstream. Plain
Python on purpose: six operators are too few for numpy to pay. Where nothing waits and there is room for all that
comes, ``stretch`` does many seconds at once on arrays, with the same operations in the same order: the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ebbflow.core.curve import Floats
from ebbflow.targets.simulator.flow_parts import Crowd, Instances, Vertex, Wire, last_operators


class Flow:
    """Rows in, at and through every operator."""

    def __init__(self, vertices: Sequence[Vertex], pending: Sequence[float]) -> None:
        """``pending``: most source rows under way, of each pipeline."""
        count = len(vertices)
        self.vertices = vertices
        self._most_pending = pending
        self._last = last_operators(vertices, len(pending))
        self._source_of = [v.pipeline if not v.streams else -1 for v in vertices]
        self._streams = [v.streams for v in vertices]
        self._rate = [v.per_source_row for v in vertices]
        self._service = [v.service_per_s for v in vertices]
        self.queue = [0.0] * count
        self.done = [0.0] * count
        self.failed = [0.0] * count
        self.lost = [0.0] * count
        """Source rows that operator i will never see or finish, because they failed here or upstream."""
        self._losses: dict[int, list[tuple[float, float]]] = {i: [] for each in self._last for i in each}
        """For each of the last, every loss: (source rows that had come to where it happened, source rows lost)."""
        self.spent_s = [0.0] * count
        self.crowded_s = [0.0] * count
        """Instance-seconds with rows in hand on nodes that had too few cores, and the rows finished there."""
        self.crowded_rows = [0.0] * count
        self.crowds: Sequence[Crowd] = ()
        self.instances = [1] * count
        self.wires: dict[tuple[int, int], Wire] = {}
        """By (upstream, downstream): the streams that leave their cluster."""
        self._capacity = [0.0] * count
        self._bounds = [math.inf] * count
        self._crowds: list[tuple[float, list[tuple[int, float, float, int]]]] = []
        self._tightest: list[tuple[float, list[tuple[int, float]]]] = []
        self.reads = [True] * len(pending)
        """Whether the sources of each pipeline read."""
        self.settled = [0.0] * len(pending)
        """Source rows that are through or lost, at the slowest of the operators of each pipeline."""
        self.processed = self.settled
        """Source rows that are through at all of the operators of each pipeline."""

    @property
    def calm(self) -> bool:
        """Whether nothing waits and all sources read, so that a stretch may be tried."""
        return not any(self.queue) and not self.wires and all(self.reads)

    # -- where instances are -------------------------------------------------------------------

    def place(self, crowds: Sequence[Crowd]) -> None:
        """Instances are on these nodes now."""
        self.crowds = crowds
        self._capacity = [0.0] * len(self.vertices)
        self._bounds = [
            math.inf if v.queue_bound_rows is None else v.queue_bound_rows * n
            for v, n in zip(self.vertices, self.instances, strict=True)
        ]
        for crowd in crowds:
            for i, count in crowd.instances:
                self._capacity[i] += crowd.nodes * count * crowd.speed * self._service[i]
        # CPU wanted on a node of each fullness, per row that each operator finishes
        self._tightest = [
            (cores, [(i, n / self._capacity[i]) for i, n in instances if self._capacity[i] > 0])
            for cores, instances in _fullest(frozenset((crowd.cores, crowd.instances) for crowd in crowds))
        ]
        # for each crowd: the same, the part of each operator's capacity that is there, and its instances there
        self._crowds = [
            (
                crowd.cores,
                [
                    (i, n / most, crowd.nodes * n * crowd.speed * self._service[i] / most, crowd.nodes * n)
                    for i, n in crowd.instances
                    if (most := self._capacity[i]) > 0
                ],
            )
            for crowd in crowds
        ]

    def capacity(self, operator: int) -> float:
        """Rows per second that an operator can finish, with the CPU for itself."""
        return self._capacity[operator]

    # -- a second ------------------------------------------------------------------------------

    def step(self, new_rows: Sequence[float], factors: Sequence[float] | None = None) -> None:
        """One second; a second time with less CPU each where a node has too few cores.

        ``new_rows``: rows that come to each pipeline. ``factors``: noise on the service rates of each.
        """
        capacity = self._capacity
        if factors is not None:
            capacity = [c * factors[v.pipeline] for c, v in zip(capacity, self.vertices, strict=True)]
        outs = self._outs(new_rows, capacity)
        if self._may_be_crowded(outs, factors):
            outs = self._outs(new_rows, self._shared(outs, factors))
        self._settle(new_rows, outs, factors)

    def _outs(self, new_rows: Sequence[float], capacity: Sequence[float]) -> list[float]:
        """Rows that each operator finishes in the step, given how many it can."""
        queue, streams, wires = self.queue, self._streams, self.wires
        outs: list[float] = []
        for i, source in enumerate(self._source_of):
            offered = queue[i]
            if source >= 0:
                offered += new_rows[source]
                if not self.reads[source]:
                    offered = 0.0
                elif (most := self._most_pending[source]) < math.inf:
                    # source rows that it has passed on and the slowest operator has not finished
                    offered = min(offered, max(0.0, most - (self.done[i] - self.settled[source])))
            elif wires:
                for j, selectivity in streams[i]:
                    wire = wires.get((j, i))
                    rows = outs[j] * selectivity
                    offered += rows if wire is None else wire.passed(rows)
            else:
                for j, selectivity in streams[i]:
                    offered += outs[j] * selectivity
            most = capacity[i]
            outs.append(offered if offered < most else most)
        return outs

    def _may_be_crowded(self, outs: Sequence[float], factors: Sequence[float] | None) -> bool:
        for cores, on in self._tightest:
            wanted = 0.0
            if factors is None:
                for i, cpu_s in on:
                    wanted += outs[i] * cpu_s
            else:
                for i, cpu_s in on:
                    wanted += outs[i] * cpu_s / factors[self.vertices[i].pipeline]
            if wanted > cores:
                return True
        return False

    def _shared(self, outs: Sequence[float], factors: Sequence[float] | None) -> list[float]:
        """Rows each operator can finish when crowded nodes share their cores: each part of what it would
        finish, times the share of the nodes it is on."""
        shared = [0.0] * len(outs)
        crowded_s, crowded_rows = self.crowded_s, self.crowded_rows
        for cores, on in self._crowds:
            wanted = 0.0
            if factors is None:
                for i, cpu_s, _, _ in on:
                    wanted += outs[i] * cpu_s
            else:
                for i, cpu_s, _, _ in on:
                    wanted += outs[i] * cpu_s / factors[self.vertices[i].pipeline]
            if wanted <= cores:
                for i, _, part, _ in on:
                    shared[i] += outs[i] * part
                continue
            share = cores / wanted
            for i, _, part, instances in on:
                if rows := outs[i] * part * share:
                    shared[i] += rows
                    crowded_s[i] += instances
                    crowded_rows[i] += rows
        return shared

    def _settle(
        self, new_rows: Sequence[float], outs: Sequence[float], factors: Sequence[float] | None
    ) -> None:
        queue, done, spent_s, wires = self.queue, self.done, self.spent_s, self.wires
        failed: list[tuple[int, float]] = []
        for i, out in enumerate(outs):
            source = self._source_of[i]
            left = queue[i]
            if source >= 0:
                left += new_rows[source]
                left -= out
            else:
                for j, selectivity in self._streams[i]:
                    rows = outs[j] * selectivity
                    wire = wires.get((j, i)) if wires else None
                    left += rows if wire is None else wire.passed(rows)
                    if wire is not None:
                        wire.push(rows)
                left -= out
                if left > self._bounds[i]:
                    over = left - self._bounds[i]
                    left -= over
                    failed.append((i, over))
            queue[i] = left
            done[i] += out
            service = self._service[i]
            if factors is not None:
                service *= factors[self.vertices[i].pipeline]
            spent_s[i] += out / service
        for i, over in failed:
            self._fail(i, over)
        rate, lost = self._rate, self.lost
        self.settled = [
            done[last[0]] / rate[last[0]] + lost[last[0]]
            if len(last) == 1
            else min([done[i] / rate[i] + lost[i] for i in last])
            for last in self._last
        ]
        self.processed = self.settled
        if any(lost):
            self.processed = [min([done[i] / rate[i] for i in last]) for last in self._last]

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

    # -- many seconds --------------------------------------------------------------------------

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
        for cores, on in self._tightest:
            wanted = np.zeros(count)
            for i, cpu_s in on:
                cpu = outs[i] * cpu_s
                wanted = wanted + (cpu if factor is None else cpu / factor[i])
            fits &= wanted <= cores
        done = _running_sums(self.done, outs)
        service = np.asarray(self._service)[:, None]
        settled, processed = [], []
        for pipeline, last in enumerate(self._last):
            through = np.min([done[i] / self._rate[i] + self.lost[i] for i in last], axis=0)
            settled.append(through)
            processed.append(np.min([done[i] / self._rate[i] for i in last], axis=0))
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


def _running_sums(start: Sequence[float], more: Floats) -> Floats:
    """Of each row: start, start + a, start + a + b, …, added one after the other."""
    first = np.asarray(start)[:, None]
    return np.asarray(np.cumsum(np.concatenate((first, more), axis=1), axis=1))


@lru_cache(maxsize=256)
def _fullest(nodes: frozenset[tuple[float, Instances]]) -> list[tuple[float, Instances]]:
    """Those (cores, instances) that no other has at least as full: if none of them is crowded, no node is.

    >>> _fullest(frozenset({(2, ((0, 1), (1, 1))), (2, ((1, 1),)), (1, ((1, 1),))}))
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
