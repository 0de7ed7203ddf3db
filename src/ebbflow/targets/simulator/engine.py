"""What the target asks of an engine, and what an engine is started with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ebbflow.core.batches import Batch
from ebbflow.core.curve import Curve, Floats
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.readings import Reading
from ebbflow.targets.simulator.inflow import Inflow
from ebbflow.targets.simulator.nodes import NodeKind, NodePool


@dataclass(frozen=True, kw_only=True)
class Work:
    """Rows in and out of a pipeline, in source rows: arrived = processed + waiting + failed."""

    processed: float
    waiting: float
    failed: float


class RunningEngine(Protocol):
    """A pipeline at work on a pool of nodes."""

    @property
    def parallelism(self) -> Mapping[str, int]:
        """Instances of each operator that has some of its own."""
        ...

    @property
    def busy(self) -> bool:
        """Whether nodes have work on them that must end before they can leave."""
        ...

    def advance(self, until_s: float) -> None:
        """Let time pass."""
        ...

    def set_parallelism(self, now_s: float, parallelism: Mapping[str, int]) -> str:
        """Change instances; what that does to the pipeline, in words."""
        ...

    def stopped_since_s(self) -> float | None:
        """Since when it stands still for a change of its layout; None while it works."""
        ...

    def take_batches(self) -> list[Batch]:
        """Batches that finished since this was last asked."""
        ...

    def running(self) -> dict[str, float | None]:
        """Queries, each with the start of the batch that runs."""
        ...

    def readings(self, now_s: float, batches: Sequence[Batch], /) -> list[Reading]:
        """What a monitor would read now."""
        ...

    def work(self, now_s: float) -> Work:
        """Where the rows are."""
        ...

    def left(self) -> Curve:
        """Rows that have left the pipeline, processed or failed, cumulative."""
        ...


class Engine(Protocol):
    """A kind of engine with a pipeline on it: values only."""

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline it runs."""
        ...

    def start(self, inflow: Inflow, pool: NodePool, rng: np.random.Generator) -> RunningEngine:
        """Set it to work."""
        ...

    def capacity_rows_per_s(self, kind: NodeKind, max_nodes: int) -> Floats:
        """The best rate that 0 … max_nodes nodes can ever reach: for the oracle."""
        ...
