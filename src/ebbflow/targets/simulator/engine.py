"""What the target asks of an engine, and what an engine is started with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import msgspec
import numpy as np

from ebbflow.core.batches import Batch
from ebbflow.core.curve import Curve, Floats
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.readings import Reading
from ebbflow.targets.simulator.clusters import Link
from ebbflow.targets.simulator.inflow import Inflow
from ebbflow.targets.simulator.nodes import NodeKind
from ebbflow.targets.simulator.nodes.pool import NodePool


class Work(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Rows in and out of a pipeline, in source rows: arrived = processed + waiting + failed."""

    processed: float
    waiting: float
    failed: float


class RunningEngine(Protocol):
    """A pipeline at work on a pool of nodes."""

    @property
    def parallelism(self) -> Mapping[str, int]:
        """Instances of each operator that has some of its own, as wanted last."""
        ...

    @property
    def placement(self) -> Mapping[str, str]:
        """The cluster of each operator that is not in the main one."""
        ...

    def set_parallelism(
        self, now_s: float, parallelism: Mapping[str, int], placement: Mapping[str, str] | None = None
    ) -> str:
        """Change instances, and clusters where a placement is given; what that does to the pipeline, in
        words."""
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

    def processed(self) -> Curve:
        """Rows that are through, cumulative."""
        ...

    def lost(self, arrived: Curve, /) -> Curve:
        """Rows that failed, cumulative, each at the time at which it arrived."""
        ...


@dataclass(frozen=True)
class Start:
    """A pipeline that is to be set to work: its engine, what comes to it, its luck, where its operators are."""

    engine: Any
    inflow: Inflow
    rng: np.random.Generator
    placement: Mapping[str, str] = field(default_factory=dict)


class World(Protocol):
    """Pipelines of one kind of engine at work on the same clusters, in one time."""

    @property
    def runs(self) -> Sequence[RunningEngine]:
        """The pipelines, in the order in which they were given."""
        ...

    def advance(self, until_s: float) -> None:
        """Let time pass for all of them."""
        ...

    def busy(self, cluster: str) -> bool:
        """Whether nodes of a cluster have work on them that must end before they can leave."""
        ...

    def node_readings(self, now_s: float) -> list[Reading]:
        """What a monitor would read of the nodes now."""
        ...


class Engine(Protocol):
    """A kind of engine with a pipeline on it: values only."""

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline it runs."""
        ...

    @property
    def step_s(self) -> float:
        """Where nodes work whole steps, how long one is; else 0."""
        ...

    @property
    def operators_named_apart(self) -> Engine:
        """The same with its operators named ``pipeline/operator``, for where several pipelines are."""
        ...

    def start_together(self, starts: Sequence[Start], pools: Mapping[str, NodePool], link: Link) -> World:
        """Set it to work on clusters, with others of its kind or alone."""
        ...

    def stages_rows_per_s(self, kind: NodeKind, max_nodes: int) -> Floats:
        """The best rate that 0 … max_nodes nodes can ever reach in each of the stages that take turns, a line for each:
        for the oracle."""
        ...

    def capacity_rows_per_s(self, kind: NodeKind, max_nodes: int) -> Floats:
        """The best rate that 0 … max_nodes nodes can ever reach in the whole, while they stay."""
        ...


def named_apart(pipeline: Pipeline) -> Pipeline:
    """A pipeline whose operators carry its name, so that several can stand side by side.

    >>> named_apart(Pipeline.chain("p", "read", "count")).order
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
