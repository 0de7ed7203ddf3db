"""What the engines share: the protocols between target and engine, arrived rows, and random noise."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from ebbflow.core.batches import Batch
from ebbflow.core.curve import Curve, Floats
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.readings import Reading
from ebbflow.core.topology import Topology
from ebbflow.targets.simulator.nodes import Link, NodeKind, NodePool
from ebbflow.workloads.arrival_times import Arrivals

_CHUNK_S = 4096
_NOISE_BLOCK = 4096


class PipelineRows(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The rows of a pipeline, in source rows: arrived = processed + waiting + failed."""

    processed: float
    waiting: float
    failed: float


class PipelineRun(Protocol):
    """A pipeline at work on a cluster."""

    @property
    def parallelism(self) -> Mapping[str, int]:
        """The requested instances of each operator that has its own parallelism."""

    @property
    def placement(self) -> Mapping[str, str]:
        """The cluster of each operator outside the main cluster."""

    def set_parallelism(
        self, now_s: float, parallelism: Mapping[str, int], placement: Mapping[str, str] | None = None
    ) -> str:
        """Change instances, and clusters if a placement is given. Returns a note on what happens, or ""."""

    def stopped_since_s(self) -> float | None:
        """Since when it is stopped for a layout change; None while it runs."""

    def take_batches(self) -> list[Batch]:
        """Batches that finished since the last call."""

    def running(self) -> dict[str, float | None]:
        """The queries, each with the start time of its running batch."""

    def readings(self, now_s: float, batches: Sequence[Batch], /) -> list[Reading]:
        """What a monitor would read now."""

    def work(self, now_s: float) -> PipelineRows:
        """The current row counts."""

    def processed(self) -> Curve:
        """Processed rows, cumulative."""

    def lost(self, arrived: Curve, /) -> Curve:
        """Failed rows, cumulative over their arrival times."""


@dataclass(frozen=True)
class Start:
    """A pipeline to be started: its engine, arriving rows, random generator and initial placement."""

    engine: Any
    inflow: Inflow
    rng: np.random.Generator
    placement: Mapping[str, str] = field(default_factory=dict)


class World(Protocol):
    """Pipelines on one kind of engine that share clusters and time."""

    @property
    def runs(self) -> Sequence[PipelineRun]:
        """The pipelines in the given order."""

    def advance(self, until_s: float) -> None:
        """Simulate all pipelines up to a time."""

    def busy(self, cluster: str) -> bool:
        """Whether nodes of a cluster run work that must end before they can leave."""

    def node_readings(self, now_s: float) -> list[Reading]:
        """What a monitor would read of the nodes now."""

    def topology(self, now_s: float) -> Topology | None:
        """The nodes of a datastore; None for engines whose nodes hold no data."""


class Engine(Protocol):
    """A pipeline on a kind of engine: immutable parameters."""

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline it runs."""

    @property
    def step_s(self) -> float:
        """The time step of an engine that works in steps; else 0."""

    @property
    def read_limited(self) -> bool:
        """Whether its source limits the rows of a batch, so that its backlog is known."""

    @property
    def with_qualified_operators(self) -> Engine:
        """A copy whose operators are named ``pipeline/operator``, for several pipelines side by side."""

    def start_together(self, starts: Sequence[Start], pools: Mapping[str, NodePool], link: Link) -> World:
        """Start this pipeline and any others of the same engine on shared clusters."""

    def stages_rows_per_s(self, kind: NodeKind, max_nodes: int) -> Floats:
        """The highest possible rate of each sequential stage (row) on 0 … max_nodes nodes (column), for the oracle."""

    def capacity_rows_per_s(self, kind: NodeKind, max_nodes: int) -> Floats:
        """The highest possible rate of the whole pipeline on 0 … max_nodes nodes."""

    def sustained_rows_per_s(self, kind: NodeKind, max_nodes: int, freshness_s: float) -> Floats:
        """The highest rate that 0 … max_nodes nodes sustain within an SLO, with all overheads."""


def with_qualified_names(pipeline: Pipeline) -> Pipeline:
    """A pipeline whose operators are named ``pipeline/operator``, so that several can be combined.

    >>> with_qualified_names(Pipeline.chain("p", "read", "count")).order
    ('p/read', 'p/count')
    """
    return replace(
        pipeline,
        operators=tuple(replace(o, name=f"{pipeline.name}/{o.name}") for o in pipeline.operators),
        streams=tuple(
            replace(s, source=f"{pipeline.name}/{s.source}", target=f"{pipeline.name}/{s.target}")
            for s in pipeline.streams
        ),
    )


class Inflow:
    """A fast table of arrived rows at whole seconds, interpolated in between; time 0 is the start of the load.

    rows_by(t) = R(s) + ⌊(R(s+1) − R(s)) · (t − s)⌋ with s = ⌊t⌋ and R(s) from :class:`Arrivals`. It never exceeds
    ``Arrivals``, so no row is seen before it arrives.

    >>> from ebbflow.workloads import parse_load
    >>> inflow = Inflow(Arrivals(parse_load("constant(4)")))
    >>> inflow.rows_by(2.5), inflow.arrival_s(9)
    (10, 2.5)
    """

    def __init__(self, arrivals: Arrivals) -> None:
        self.arrivals = arrivals
        self._rows: list[int] = [0]
        self._array: npt.NDArray[np.int64] = np.zeros(1, dtype=np.int64)

    def rows_by(self, time_s: float) -> int:
        """Rows that have arrived by a time."""
        if time_s <= 0:
            return 0
        second = int(time_s)
        rows = self._rows
        if second + 1 >= len(rows):
            self._extend(second + 1)
        low = rows[second]
        # 1e-7 more, so that a row counts at its own arrival time
        return low + int((rows[second + 1] - low) * (time_s - second) + 1e-7)

    def rows_by_second(self, second: int) -> int:
        """``rows_by`` for a whole second ≥ 0."""
        if second + 1 >= len(self._rows):
            self._extend(second + 1)
        return self._rows[second]

    def rows_by_seconds(self, first: int, count: int) -> npt.NDArray[np.int64]:
        """``rows_by`` for consecutive whole seconds ≥ 0."""
        self._extend(first + count)
        return self._array[first : first + count]

    def rows_by_each(self, times_s: Floats) -> npt.NDArray[np.int64]:
        """``rows_by`` for ascending times ≥ 0: the same arithmetic on arrays."""
        seconds = times_s.astype(np.int64)
        last = int(seconds[-1]) if len(seconds) else 0
        self._extend(last + 1)
        low = self._array[seconds]
        return np.asarray(
            low + ((self._array[seconds + 1] - low) * (times_s - seconds) + 1e-7).astype(np.int64)
        )

    def arrival_s(self, row: int) -> float:
        """The arrival time of a row, counted from 0; infinite if it is beyond the table so far."""
        rows = self._rows
        index = bisect_left(rows, row + 1)
        if index == len(rows):
            return math.inf
        low = rows[index - 1]
        return index - 1 + (row + 1 - low) / (rows[index] - low)

    def curve(self, until_s: float) -> Curve:
        """Arrived rows, cumulative, at every second up to a time."""
        times_s: Floats = np.append(np.arange(math.ceil(until_s), dtype=np.float64), until_s)
        self._extend(math.ceil(until_s) + 1)
        values = np.asarray(self._rows[: len(times_s)], dtype=np.float64)
        values[-1] = self.rows_by(until_s)
        return Curve(times_s, values)

    def _extend(self, second: int) -> None:
        rows = self._rows
        while len(rows) <= second:
            ahead = max(_CHUNK_S, len(rows) // 8)  # grows with the table, to copy the array rarely
            more = self.arrivals.rows_by_each(np.arange(len(rows), len(rows) + ahead, dtype=np.float64))
            rows += more.tolist()
            self._array = np.concatenate((self._array, more))


class NoiseDraws:
    """Lognormal factors with mean 1, exp(σ·z − σ²/2), in a fixed order however they are requested.

    >>> draws, same = NoiseDraws(0.3, np.random.default_rng(1)), NoiseDraws(0.3, np.random.default_rng(1))
    >>> first = draws.peek(2).tolist()
    >>> draws.skip(1)
    >>> [same.next(), same.next()] == first == [first[0], draws.next()]
    True
    """

    def __init__(self, sigma: float, rng: np.random.Generator) -> None:
        self.sigma = sigma
        self._rng = rng
        self._drawn: Floats = np.zeros(0)
        self._drawn_list: list[float] = []
        """The same as a list: indexing an array is slow."""
        self._position = 0

    def peek(self, count: int) -> Floats:
        """The next factors, without consuming them."""
        while len(self._drawn) - self._position < count:
            sigma = self.sigma
            more = np.exp(sigma * self._rng.standard_normal(_NOISE_BLOCK) - sigma * sigma / 2)
            self._drawn, self._position = np.concatenate((self._drawn[self._position :], more)), 0
            self._drawn_list = self._drawn.tolist()
        return self._drawn[self._position : self._position + count]

    def skip(self, count: int) -> None:
        """Consume the next factors."""
        self.peek(count)
        self._position += count

    def next(self) -> float:
        """Consume and return the next factor."""
        if self._position == len(self._drawn_list):
            self.peek(1)
        self._position += 1
        return self._drawn_list[self._position - 1]
