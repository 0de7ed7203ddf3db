"""One second of flow through the operators of all pipelines, and the rows that are lost in it.

``continuous`` has the formulas. Operators of all pipelines stand in one row, upstream before downstream. Plain
Python on purpose: six operators are too few for numpy to pay.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ebbflow.targets.simulator.flow_parts import Vertex, Wire, last_operators
from ebbflow.targets.simulator.flow_places import PlacedOperators


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
