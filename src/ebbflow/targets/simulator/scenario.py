"""A scenario: everything a simulated run depends on but the strategy. Values only, so runs can be repeated."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ebbflow.core.clock import Clock
from ebbflow.core.curve import Floats
from ebbflow.core.limits import Limits
from ebbflow.core.slo import DEFAULT_SLO, Slo
from ebbflow.errors import InputError, UnknownNameError
from ebbflow.targets.simulator.catalogue import costed_pipeline
from ebbflow.targets.simulator.clusters import Cluster, Link
from ebbflow.targets.simulator.engine import Engine
from ebbflow.targets.simulator.faults import Fault
from ebbflow.targets.simulator.nodes import NodeKind
from ebbflow.targets.simulator.target import SimulatorTarget
from ebbflow.workloads.arrivals import HORIZON_S, Arrivals
from ebbflow.workloads.load import Load

MICRO_BATCH, CONTINUOUS = "micro-batch", "continuous"


def built_in_engine(pipeline: str, engine: str = MICRO_BATCH, *, noise: float = 0.0) -> Engine:
    """A built-in pipeline on an engine, both by name, with sensible costs.

    >>> built_in_engine("top-words", "micro-bath")
    Traceback (most recent call last):
    ...
    ebbflow.errors.UnknownNameError: unknown engine 'micro-bath': did you mean 'micro-batch'? \
There are: continuous, micro-batch
    """
    costed = costed_pipeline(pipeline)
    if engine == MICRO_BATCH:
        return costed.micro_batch(noise=noise)
    if engine == CONTINUOUS:
        return costed.continuous(noise=noise)
    raise UnknownNameError("engine", engine, (MICRO_BATCH, CONTINUOUS))


@dataclass(frozen=True, kw_only=True)
class Tenant:
    """One more pipeline on the same nodes, with a load of its own."""

    engine: Engine
    load: Load


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A pipeline on an engine, a load, nodes, limits, an objective, a seed.

    >>> from ebbflow.workloads import parse_load
    >>> scenario = Scenario(engine=built_in_engine("top-words"), load=parse_load("constant(100)"), seconds=60.0)
    >>> scenario.capacity_rows_per_s.round().tolist()[:3]
    [0.0, 169.0, 336.0]
    """

    engine: Engine
    load: Load
    limits: Limits = field(default_factory=lambda: Limits(min_nodes=1, max_nodes=16))
    slo: Slo = DEFAULT_SLO
    nodes: NodeKind = field(default_factory=NodeKind)
    initial_nodes: int | None = None
    """Nodes there at the start; the fewest allowed if not told."""
    faults: tuple[Fault, ...] = ()
    others: tuple[Tenant, ...] = ()
    """Pipelines that share the nodes with the first. Operators are then named ``pipeline/operator``."""
    clusters: Mapping[str, Cluster] = field(default_factory=dict, hash=False)
    """Clusters beside the main one."""
    placement: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Operators that begin in another cluster than the main one. A micro-batch query is in one with all of its."""
    link: Link = field(default_factory=Link)
    """What lies between clusters."""
    seconds: float | None = None
    """How long it lasts; as long as the load, or its natural span where that has no end, if not told."""
    cycle_s: float = 10.0
    """How often the loop looks and decides."""
    seed: int = 1
    begins_at_s: float = 0.0
    """When its second 0 is, in seconds since the epoch: only calendars ask. Not told: a Thursday, midnight UTC."""

    def __post_init__(self) -> None:
        if not (self.duration_s > 0 and math.isfinite(self.duration_s)):
            raise InputError(f"a scenario of {self.duration_s:g} s; it must last some seconds, and end")
        if self.duration_s > HORIZON_S:
            raise InputError(f"a scenario of {self.duration_s:g} s is too long; the most is 5 years")
        if not self.cycle_s > 0:
            raise InputError(f"a cycle of {self.cycle_s:g} s never ends; it must be above 0s")
        first = self.first_nodes
        if self.limits.clamp(first) != first:
            raise InputError(
                f"{first} nodes at the start are outside the limits {self.limits}; start within them"
            )

    @property
    def duration_s(self) -> float:
        """How long it lasts."""
        if self.seconds is not None:
            return self.seconds
        ends_s = self.load.duration_s
        return ends_s if math.isfinite(ends_s) else self.load.span_s

    @property
    def first_nodes(self) -> int:
        """Nodes there at the start."""
        return self.limits.min_nodes if self.initial_nodes is None else self.initial_nodes

    @property
    def capacity_rows_per_s(self) -> Floats:
        """The best rate that 0 … max_nodes nodes can ever reach while they stay: of the first pipeline, if it
        has the main cluster for itself."""
        return self.engine.capacity_rows_per_s(self.nodes, self.limits.max_nodes)

    @property
    def stages_rows_per_s(self) -> Floats:
        """The same of each of its stages that take turns, a line for each: for the oracle."""
        return self.engine.stages_rows_per_s(self.nodes, self.limits.max_nodes)

    def usual_rows_per_s(self, engine: Engine) -> Floats:
        """As ``capacity_rows_per_s``, of nodes of all their speeds and not of the fastest alone.

        >>> from ebbflow.workloads import parse_load
        >>> nodes = NodeKind(speeds=(1.0, 0.5))
        >>> uneven = Scenario(engine=built_in_engine("top-words"), load=parse_load("constant(1)"), nodes=nodes)
        >>> (uneven.usual_rows_per_s(uneven.engine)[:3] / uneven.capacity_rows_per_s[1]).round(2).tolist()
        [0.0, 1.0, 1.49]
        """
        most, speeds = self.limits.max_nodes, self.nodes.speeds
        counts = np.arange(1, most + 1)
        share = np.cumsum(np.resize(speeds, most)) / (counts * max(speeds))
        return engine.capacity_rows_per_s(self.nodes, most) * np.concatenate(([1.0], share))

    def nodes_for(self, first_s: float, *, busy: float = 1.0) -> int:
        """Nodes of the main cluster that are ``busy`` with the mean rates of the first seconds, of all pipelines."""
        enough = 0
        pipelines = [(self.engine, self.arrivals), *((t.engine, Arrivals(t.load)) for t in self.others)]
        for engine, arrivals in pipelines:
            rate_per_s = arrivals.rows_by(first_s) / first_s
            enough += int(np.searchsorted(self.usual_rows_per_s(engine), rate_per_s / busy))
        return self.limits.clamp(enough)

    @property
    def alone(self) -> bool:
        """Whether it is one pipeline on one cluster: no other is known to the oracle."""
        return not self.others and not self.clusters

    @cached_property
    def arrivals(self) -> Arrivals:
        """When the rows arrive: counted once for all runs of the scenario."""
        return Arrivals(self.load)

    def target(self, clock: Clock) -> SimulatorTarget:
        """The simulated world at its start."""
        return SimulatorTarget(
            self.engine,
            self.nodes,
            self.arrivals,
            clock,
            self.seed,
            initial_nodes=self.first_nodes,
            faults=self.faults,
            others=[(tenant.engine, Arrivals(tenant.load)) for tenant in self.others],
            clusters=self.clusters,
            placement=self.placement,
            link=self.link,
        )
