"""A scenario: everything a simulated run depends on except the strategy. Immutable, so runs can be repeated."""

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
from ebbflow.targets.simulator.engine import Engine
from ebbflow.targets.simulator.faults import Fault
from ebbflow.targets.simulator.nodes import Cluster, Link, NodeKind
from ebbflow.targets.simulator.target import SimulatorTarget
from ebbflow.workloads.arrival_times import HORIZON_S, Arrivals
from ebbflow.workloads.load import Load

MICRO_BATCH, CONTINUOUS = "micro-batch", "continuous"


def built_in_engine(pipeline: str, engine: str = MICRO_BATCH, *, noise: float = 0.0) -> Engine:
    """A built-in pipeline on an engine, both by name, with default costs.

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
    """Another pipeline on the same nodes, with its own load."""

    engine: Engine
    load: Load


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A pipeline on an engine, its load, nodes, limits, objective and seed.

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
    """Nodes at the start; the minimum of the limits by default."""
    faults: tuple[Fault, ...] = ()
    others: tuple[Tenant, ...] = ()
    """Further pipelines on the same nodes. Operators are then named ``pipeline/operator``."""
    clusters: Mapping[str, Cluster] = field(default_factory=dict, hash=False)
    """Clusters beside the main one."""
    placement: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Operators that start outside the main cluster. A micro-batch query runs in one cluster with all its operators."""
    link: Link = field(default_factory=Link)
    """The network between clusters."""
    seconds: float | None = None
    """The length of the run; by default the duration of the load, or its span if it is endless."""
    cycle_s: float = 10.0
    """The interval between decisions of the loop."""
    seed: int = 1
    begins_at_s: float = 0.0
    """The start in seconds since the epoch, for calendar rules. The default is a Thursday, midnight UTC."""

    def __post_init__(self) -> None:
        if not (self.duration_s > 0 and math.isfinite(self.duration_s)):
            raise InputError(f"a scenario of {self.duration_s:g} s; its length must be above 0 s and finite")
        if self.duration_s > HORIZON_S:
            raise InputError(f"a scenario of {self.duration_s:g} s is too long; the maximum is 5 years")
        if not self.cycle_s > 0:
            raise InputError(f"a cycle of {self.cycle_s:g} s; it must be above 0s")
        first = self.first_nodes
        if self.limits.clamp(first) != first:
            raise InputError(f"{first} initial nodes are outside the limits {self.limits}; start within them")

    @property
    def duration_s(self) -> float:
        """The length of the run."""
        if self.seconds is not None:
            return self.seconds
        ends_s = self.load.duration_s
        return ends_s if math.isfinite(ends_s) else self.load.span_s

    @property
    def first_nodes(self) -> int:
        """Nodes at the start."""
        return self.limits.min_nodes if self.initial_nodes is None else self.initial_nodes

    @property
    def capacity_rows_per_s(self) -> Floats:
        """The highest possible rate of the first pipeline on 0 … max_nodes nodes of its own in the main cluster."""
        return self.engine.capacity_rows_per_s(self.nodes, self.limits.max_nodes)

    @property
    def stages_rows_per_s(self) -> Floats:
        """The same for each of its sequential stages, a row for each, for the oracle."""
        return self.engine.stages_rows_per_s(self.nodes, self.limits.max_nodes)

    def mean_speed_rows_per_s(self, engine: Engine) -> Floats:
        """Like ``capacity_rows_per_s``, but with nodes of all speeds instead of only the fastest.

        >>> from ebbflow.workloads import parse_load
        >>> nodes = NodeKind(speeds=(1.0, 0.5))
        >>> uneven = Scenario(engine=built_in_engine("top-words"), load=parse_load("constant(1)"), nodes=nodes)
        >>> (uneven.mean_speed_rows_per_s(uneven.engine)[:3] / uneven.capacity_rows_per_s[1]).round(2).tolist()
        [0.0, 1.0, 1.49]
        """
        return engine.capacity_rows_per_s(self.nodes, self.limits.max_nodes) * self._speed_shares

    def sustained_rows_per_s(self, engine: Engine) -> Floats:
        """The highest rate that 0 … max_nodes nodes of all speeds sustain within the SLO, with all overheads.

        >>> from ebbflow.workloads import parse_load
        >>> scenario = Scenario(engine=built_in_engine("top-words"), load=parse_load("constant(100)"), seconds=60.0)
        >>> scenario.sustained_rows_per_s(scenario.engine).round().tolist()[:3]
        [0.0, 158.0, 321.0]
        """
        most = self.limits.max_nodes
        return engine.sustained_rows_per_s(self.nodes, most, self.slo.freshness_s) * self._speed_shares

    @property
    def _speed_shares(self) -> Floats:
        """Mean speed of the first 0 … max_nodes nodes ÷ the highest."""
        most, speeds = self.limits.max_nodes, self.nodes.speeds
        share = np.cumsum(np.resize(speeds, most)) / (np.arange(1, most + 1) * max(speeds))
        return np.concatenate(([1.0], share))

    def nodes_for(self, first_s: float, *, busy: float = 1.0) -> int:
        """Nodes of the main cluster that all pipelines keep ``busy`` at their mean rates of the first seconds."""
        needed = 0
        pipelines = [(self.engine, self.arrivals), *((t.engine, Arrivals(t.load)) for t in self.others)]
        for engine, arrivals in pipelines:
            rate_per_s = arrivals.rows_by(first_s) / first_s
            needed += int(np.searchsorted(self.mean_speed_rows_per_s(engine), rate_per_s / busy))
        return self.limits.clamp(needed)

    @property
    def is_single(self) -> bool:
        """Whether it is one pipeline on one cluster, as the oracle requires."""
        return not self.others and not self.clusters

    @cached_property
    def arrivals(self) -> Arrivals:
        """When rows arrive; shared by all runs of the scenario."""
        return Arrivals(self.load)

    def target(self, clock: Clock) -> SimulatorTarget:
        """A simulated target at time 0."""
        return SimulatorTarget(
            self.engine, self.nodes, self.arrivals, clock, self.seed,
            initial_nodes=self.first_nodes,
            faults=self.faults,
            others=[(tenant.engine, Arrivals(tenant.load)) for tenant in self.others],
            clusters=self.clusters,
            placement=self.placement,
            link=self.link,
        )  # fmt: skip
