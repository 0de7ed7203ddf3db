"""Cuts readings into windows: the samples that a profile is learned from.

In a window of W seconds (10, as in Elysium), operator i with p instances takes in r_i rows, one of its instances uses
k_i CPU seconds, and node n uses u_n of its cores. The samples are

    CPU of an instance:    x = r_i / (W · p)                      y = k_i / W
    CPU of a node:         x = Σ_i p_i · k_i / (W · nodes)        y = mean of u_n
    selectivity of (A, B): rows of the stream / rows into A

Spark and the simulator report the same metrics, so both are sampled alike.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from ebbflow.core.layout import MAIN
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.readings import Reading


class Track:
    """A running total, interpolated between its readings: rows of an operator, CPU seconds of an instance.

    On Spark rates and CPU are read at different times (at the end of a batch, when an agent polls), so windows are cut
    out of the totals. The rows and the CPU of a batch are spread over the same period and keep their ratio.

    >>> rows = Track()
    >>> for time_s, new in ((0.0, 7.0), (10.0, 100.0), (30.0, 400.0)):
    ...     rows.add(time_s, new)
    >>> rows.between(5.0, 20.0)  # half of 100 and half of 400; it is unknown since when the 7 came
    250.0
    """

    def __init__(self) -> None:
        self._times_s: list[float] = []
        self._totals: list[float] = []

    def add(self, time_s: float, new: float) -> None:
        """Add the amount since the last reading. The first reading only sets the start."""
        if not self._times_s:
            self._times_s, self._totals = [time_s], [0.0]
        elif time_s > self._times_s[-1]:
            self._times_s.append(time_s)
            self._totals.append(self._totals[-1] + new)

    def add_mean(self, time_s: float, mean: float) -> None:
        """Add a mean per second since the last reading."""
        self.add(time_s, mean * (time_s - self._times_s[-1]) if self._times_s else 0.0)

    @property
    def first_s(self) -> float | None:
        """Time of the first reading."""
        return self._times_s[0] if self._times_s else None

    def covers(self, start_s: float, end_s: float) -> bool:
        """Whether there are readings on both sides of a period."""
        return bool(self._times_s) and self._times_s[0] <= start_s and self._times_s[-1] >= end_s

    def ended_before(self, time_s: float) -> bool:
        """Whether its last reading was before a time."""
        return bool(self._times_s) and self._times_s[-1] < time_s

    def between(self, start_s: float, end_s: float) -> float:
        """The amount within a period that it covers."""
        return self._at(end_s) - self._at(start_s)

    def forget_before(self, time_s: float) -> None:
        """Drop readings that no later period needs."""
        first = bisect_right(self._times_s, time_s) - 1
        if first > 64:  # rarely: deleting from the front moves all the rest
            del self._times_s[:first], self._totals[:first]

    def _at(self, time_s: float) -> float:
        after = bisect_left(self._times_s, time_s)
        if after == 0:
            return self._totals[0]
        t0, t1 = self._times_s[after - 1], self._times_s[after]
        y0, y1 = self._totals[after - 1], self._totals[after]
        return y0 + (y1 - y0) * (time_s - t0) / (t1 - t0)


class Level:
    """A count that holds until the next reading: instances, nodes.

    >>> instances = Level()
    >>> for time_s, count in ((0.0, 2.0), (10.0, 2.0), (20.0, 3.0)):
    ...     instances.add(time_s, count)
    >>> instances.throughout(0.0, 10.0), instances.throughout(5.0, 15.0)  # at 15 it may have been 3 already
    (2.0, None)
    """

    def __init__(self) -> None:
        self._times_s: list[float] = []
        self._counts: list[float] = []

    def add(self, time_s: float, count: float) -> None:
        """Add a reading."""
        if not self._times_s or time_s > self._times_s[-1]:
            self._times_s.append(time_s)
            self._counts.append(count)

    def throughout(self, start_s: float, end_s: float) -> float | None:
        """The count throughout a period; None if it changed or is unknown."""
        first = max(0, bisect_right(self._times_s, start_s) - 1)
        last = bisect_left(self._times_s, end_s)
        counts = set(self._counts[first : last + 1])
        return counts.pop() if len(counts) == 1 else None

    def forget_before(self, time_s: float) -> None:
        """Drop readings that no later period needs."""
        first = bisect_right(self._times_s, time_s) - 1
        if first > 64:
            del self._times_s[:first], self._counts[:first]


WINDOW_S = 10.0
SILENT_S = 300.0
"""An operator without readings for so long has ended."""
SAME_POLL_S = 0.5
"""Readings of one poll are no further apart."""
FORGET_S = 3600.0
"""Readings are kept for no longer."""


class WindowSample(msgspec.Struct, frozen=True, gc=False):
    """One window of an operator or of the nodes."""

    time_s: float
    """End of the window."""
    x: float
    y: float


class Samples(msgspec.Struct, frozen=True, kw_only=True):
    """Samples of the windows that have ended."""

    cpu: Mapping[str, Sequence[WindowSample]]
    node: Sequence[WindowSample]
    selectivity: Mapping[tuple[str, str], Sequence[WindowSample]]
    """x: rows into the operator that the stream leaves; y: rows of the stream."""


class _Operator:
    def __init__(self) -> None:
        self.rows_in, self.rows_out, self.cpu_s = Track(), Track(), Track()
        self.instances = Level()


class Sampler:
    """Collects readings, and gives samples once their windows have ended.

    >>> sampler = Sampler(window_s=10.0)
    >>> for t in (0.0, 10.0, 20.0):
    ...     sampler.add([Reading(t, "split", Metric.ROWS_IN, 600.0), Reading(t, "split", Metric.INSTANCES, 2.0),
    ...                  Reading(t, "split", Metric.INSTANCE_CPU, 0.3)])
    >>> [(s.time_s, s.x, round(s.y, 6)) for s in sampler.take(Pipeline.chain("p", "split")).cpu["split"]]
    [(10.0, 30.0, 0.3), (20.0, 30.0, 0.3)]
    """

    def __init__(self, *, window_s: float = WINDOW_S) -> None:
        self._window_s = window_s
        self._operators: dict[str, _Operator] = {}
        self._source: dict[str, Track] = {}
        """Rows of finished batches, by query or pipeline."""
        self._nodes: dict[str, Track] = {}
        self._node_count = Level()
        self._next: dict[tuple[str, str, str], int] = {}
        """Number of the next window of each sampled quantity."""
        self.cores = 1
        """Cores of a node, as last read."""
        self._slots = self._node_reading = (-1e9, 0.0)
        """(time, count) of the last reading of slots and of nodes."""
        self._both = (0.0, 0.0)
        self._newest_s = -math.inf

    def add(self, readings: Iterable[Reading]) -> None:
        """Add readings; those of other metrics are ignored."""
        for reading in readings:
            take = _TAKERS.get(reading.metric)
            if take is not None and reading.value == reading.value:
                take(self, reading)
                if reading.time_s > self._newest_s:
                    self._newest_s = reading.time_s

    def take(self, pipeline: Pipeline) -> Samples:
        """Samples of the windows that ended since the last call."""
        found = Samples(
            cpu={name: self._cpu(name, operator) for name, operator in self._operators.items()},
            node=self._node(),
            selectivity={
                ends: self._stream(ends, *tracks) for ends, tracks in self._streams(pipeline).items()
            },
        )
        self._forget()
        return found

    # -- readings --------------------------------------------------------------------------------

    def _operator(self, name: str) -> _Operator:
        operator = self._operators.get(name)
        if operator is None:
            operator = self._operators[name] = _Operator()
        return operator

    def _take_rows_in(self, r: Reading) -> None:
        self._operator(r.subject).rows_in.add(r.time_s, r.value)

    def _take_rows_out(self, r: Reading) -> None:
        self._operator(r.subject).rows_out.add(r.time_s, r.value)

    def _take_instances(self, r: Reading) -> None:
        self._operator(r.subject).instances.add(r.time_s, r.value)

    def _take_instance_cpu(self, r: Reading) -> None:
        self._operator(r.subject).cpu_s.add_mean(r.time_s, r.value)

    def _take_node_cpu(self, r: Reading) -> None:
        self._nodes.setdefault(r.subject, Track()).add_mean(r.time_s, r.value)

    def _take_batch_rows(self, r: Reading) -> None:
        self._source.setdefault(r.subject, Track()).add(r.time_s, r.value)

    def _take_slots(self, r: Reading) -> None:
        if r.subject == MAIN:
            self._slots = (r.time_s, r.value)
            self._note_cores()

    def _take_nodes(self, r: Reading) -> None:
        if r.subject == MAIN:
            self._node_count.add(r.time_s, r.value)
            self._node_reading = (r.time_s, r.value)
            self._note_cores()

    def _note_cores(self) -> None:
        """Slots ÷ nodes, if both are from the same poll (a node that joined in between would make all look smaller) and
        the poll before agrees: the slots of a node that leaves may still be counted."""
        (slots_s, slots), (nodes_s, nodes) = self._slots, self._node_reading
        if abs(slots_s - nodes_s) >= SAME_POLL_S or not nodes or not slots:
            return
        if self._both == (slots, nodes) and slots % nodes == 0:
            self.cores = max(1, round(slots / nodes))
        self._both = (slots, nodes)

    # -- windows -----------------------------------------------------------------------------------

    def _windows(
        self, key: tuple[str, str, str], tracks: Sequence[Track], until_s: float = math.inf
    ) -> Iterable[tuple[float, float]]:
        """The next windows up to a time that all of these tracks cover, each once."""
        since_s = [track.first_s for track in tracks]
        if not tracks or None in since_s:
            return
        first = math.ceil(max(s for s in since_s if s is not None) / self._window_s - 1e-9)
        number = max(self._next.get(key, first), first)
        while True:
            start_s, end_s = number * self._window_s, (number + 1) * self._window_s
            if end_s > until_s or not all(track.covers(start_s, end_s) for track in tracks):
                break
            number += 1
            yield start_s, end_s
        self._next[key] = number

    def _cpu(self, name: str, operator: _Operator) -> list[WindowSample]:
        found = []
        for start_s, end_s in self._windows(("cpu", name, ""), (operator.rows_in, operator.cpu_s)):
            instances = operator.instances.throughout(start_s, end_s)
            rows = operator.rows_in.between(start_s, end_s)
            if instances and rows > 0:
                rate_per_s = rows / (self._window_s * instances)
                found.append(
                    WindowSample(end_s, rate_per_s, operator.cpu_s.between(start_s, end_s) / self._window_s)
                )
        return found

    def _node(self) -> list[WindowSample]:
        """Samples of nodes, while every operator with CPU readings has them: else the sum would lack one. One window
        later than operators, as readings of agents arrive later than those of the target."""
        operators = [
            o
            for o in self._operators.values()
            if o.cpu_s.first_s is not None and not o.cpu_s.ended_before(self._newest_s - SILENT_S)
        ]
        tracks, until_s = [o.cpu_s for o in operators], self._newest_s - self._window_s
        found = []
        for start_s, end_s in self._windows(("node", "", ""), tracks, until_s):
            cores = 0.0
            for operator in operators:
                instances = operator.instances.throughout(start_s, end_s)
                if instances is None:
                    break
                cores += instances * operator.cpu_s.between(start_s, end_s) / self._window_s
            else:
                shares = [
                    node.between(start_s, end_s) / self._window_s
                    for node in self._nodes.values()
                    if node.covers(start_s, end_s)
                ]
                nodes = self._node_count.throughout(start_s, end_s)
                if shares and nodes and cores > 0:
                    found.append(WindowSample(end_s, cores / nodes, sum(shares) / len(shares)))
        return found

    def _streams(self, pipeline: Pipeline) -> dict[tuple[str, str], tuple[Track, Track]]:
        """(rows into the operator that a stream leaves, rows of the stream), where both are known."""
        targets: dict[str, int] = {}
        sources: dict[str, int] = {}
        for stream in pipeline.streams:
            targets[stream.source] = targets.get(stream.source, 0) + 1
            sources[stream.target] = sources.get(stream.target, 0) + 1
        found = {}
        for stream in pipeline.streams:
            a, b = self._operators.get(stream.source), self._operators.get(stream.target)
            if a is None:
                continue
            if b is not None and sources[stream.target] == 1:
                found[stream.source, stream.target] = (a.rows_in, b.rows_in)
            elif targets[stream.source] == 1:
                found[stream.source, stream.target] = (a.rows_in, a.rows_out)
        queries = {operator.name: operator.query for operator in pipeline.operators}
        for name in pipeline.sources:
            rows = self._source.get(queries[name] or pipeline.name) or self._source.get(pipeline.name)
            if rows is not None and name in self._operators:
                found[pipeline.name, name] = (rows, self._operators[name].rows_in)
        return found

    def _stream(self, ends: tuple[str, str], into: Track, along: Track) -> list[WindowSample]:
        found = []
        for start_s, end_s in self._windows(("stream", *ends), (into, along)):
            rows = into.between(start_s, end_s)
            if rows > 0:
                found.append(WindowSample(end_s, rows, along.between(start_s, end_s)))
        return found

    def _forget(self) -> None:
        """Drop what lies before all later windows."""
        if not self._next:
            return
        before_s = max(min(self._next.values()) * self._window_s, self._newest_s - FORGET_S)
        series: list[Track | Level] = [*self._source.values(), *self._nodes.values(), self._node_count]
        for operator in self._operators.values():
            series += [operator.rows_in, operator.rows_out, operator.cpu_s, operator.instances]
        for each in series:
            each.forget_before(before_s)
        silent = [name for name, node in self._nodes.items() if node.ended_before(before_s)]
        for name in silent:
            del self._nodes[name]


_TAKERS = {
    Metric.ROWS_IN: Sampler._take_rows_in,
    Metric.ROWS_OUT: Sampler._take_rows_out,
    Metric.INSTANCES: Sampler._take_instances,
    Metric.INSTANCE_CPU: Sampler._take_instance_cpu,
    Metric.NODE_CPU: Sampler._take_node_cpu,
    Metric.BATCH_ROWS: Sampler._take_batch_rows,
    Metric.SLOTS: Sampler._take_slots,
    Metric.NODES: Sampler._take_nodes,
}
METRICS = tuple(_TAKERS)
"""The metrics that a sampler reads."""
