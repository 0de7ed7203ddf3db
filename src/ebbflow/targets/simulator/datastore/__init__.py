"""The datastore engine: requests against nodes that hold data, as a fluid in steps of 1 s (Pascal §6).

With n active nodes, which answer at most X_max(n) requests per second, and a share u of that lost while data streams:

    capacity = X_max(n) · (1 − u)          served = min(waiting + offered, capacity)
    response = r(n, served ÷ capacity) + waiting ÷ capacity

r comes from a measured performance table, or is

    r(n, ρ) = service · (1 + hop · (1 − α/n)) / (1 − ρ^γ)

with the replication factor α: a request that reaches a node without the row is forwarded to one that has it. Requests
that wait longer than the time-out of the client fail. ``nodes`` has the joining and leaving of nodes, one at a time,
and the cleanup after a join. ``under_load`` offers it to the profiler.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ebbflow.core.curve import Floats
from ebbflow.core.pipeline import Pipeline
from ebbflow.errors import InputError
from ebbflow.profiling.datastore.profile import DatastoreProfile
from ebbflow.profiling.models import Knots
from ebbflow.targets.simulator.datastore.nodes import DataNodes
from ebbflow.targets.simulator.datastore.world import STEP_S, DatastoreWorld
from ebbflow.targets.simulator.engine import Start
from ebbflow.targets.simulator.nodes import Link, NodeKind, NodePool

__all__ = ["DataNodes", "Datastore"]

OPERATOR = "serve"
HIGHEST_BUSY = 0.995
"""r is evaluated up to this share of the capacity; beyond it, requests wait in the queue."""


@dataclass(frozen=True, kw_only=True)
class Datastore:
    """A datastore with a highest throughput for each number of nodes.

    >>> from ebbflow.profiling.datastore.profile import paper_profile
    >>> store = Datastore.of(paper_profile())
    >>> store.capacity_rows_per_s(NodeKind(), 6)[3:].tolist()
    [92476.0, 105869.0, 118036.0, 131406.0]
    >>> [round(1000 * store.response_s(n, 0.7), 1) for n in (3, 6)]  # six nodes forward half of the requests
    [3.9, 4.5]
    """

    name: str = "datastore"
    most_per_s: Mapping[int, float]
    """X_max by number of nodes; interpolated in between, beyond them in proportion to the last difference."""
    replication: int = 3
    data_gb: float = 1.0
    """Data of one replica."""
    responses: Mapping[int, Knots] = field(default_factory=dict)
    """Measured response time by share of X_max, by number of nodes; without it, by formula."""
    service_s: float = 0.00217
    """Response time of an idle cluster if the node has the row."""
    hop: float = 0.3
    """How much longer a forwarded request takes, as a share."""
    bend: float = 2.3
    """γ: how late response times rise. These three give 4.5 ms at 70 % of six nodes, as in §7.2.1."""
    streaming_share: float = 0.05
    """u: capacity lost while a node joins or leaves."""
    cleanup_share: float = 0.02
    """Capacity lost during a cleanup."""
    timeout_s: float = 10.0
    noise: float = 0.0
    """σ of the lognormal factor (mean 1) on the capacity, drawn each second."""

    def __post_init__(self) -> None:
        if not self.most_per_s or not all(n >= 1 and rate > 0 for n, rate in self.most_per_s.items()):
            raise InputError(
                "a datastore needs a highest throughput above 0 for one or more numbers of nodes"
            )
        if min(self.most_per_s) < self.replication:
            raise InputError(
                f"a throughput of {min(self.most_per_s)} nodes, but each row has {self.replication} replicas; "
                f"begin with {self.replication} nodes"
            )

    @classmethod
    def of(cls, profile: DatastoreProfile, *, noise: float = 0.0) -> Datastore:
        """The store that a profile describes. Response times come from the profile if it has any."""
        factors = [row.response_factor for row in profile.times]
        responses = {}
        for row in profile.performance:
            points = {
                round(step.throughput_per_s / row.most_per_s, 6): step.response_mean_s for step in row.steps
            }
            if len(points) > 1:
                busy = sorted(points)
                responses[row.nodes] = Knots(
                    x=tuple(busy), y=tuple(np.maximum.accumulate([points[x] for x in busy]).tolist())
                )
        return cls(
            name=profile.cluster,
            most_per_s={row.nodes: row.most_per_s for row in profile.performance},
            replication=profile.replication,
            data_gb=profile.data_gb,
            responses=responses,
            streaming_share=min(0.5, max(0.05, float(np.mean(factors)) - 1.0)) if factors else 0.05,
            noise=noise,
        )

    def response_s(self, nodes: int, busy: float) -> float:
        """r: the mean response time without a queue, at a share of the capacity."""
        busy = min(max(busy, 0.0), HIGHEST_BUSY)
        if self.responses:
            return self.responses[min(self.responses, key=lambda size: abs(size - nodes))].at(busy)
        forwarded = max(0.0, 1.0 - self.replication / max(1, nodes))
        return self.service_s * (1.0 + self.hop * forwarded) / (1.0 - math.pow(busy, self.bend))

    # -- the engine --------------------------------------------------------------------------------

    @property
    def pipeline(self) -> Pipeline:
        """One operator that serves requests."""
        return Pipeline.chain(self.name, OPERATOR)

    @property
    def step_s(self) -> float:
        """The time step, 1 s."""
        return STEP_S

    @property
    def read_limited(self) -> bool:
        """False: there are no batches."""
        return False

    @property
    def with_qualified_operators(self) -> Datastore:
        """Itself: a cluster serves one datastore."""
        return self

    def stages_rows_per_s(self, kind: NodeKind, max_nodes: int) -> Floats:
        """A single row."""
        return self.capacity_rows_per_s(kind, max_nodes)[np.newaxis, :]

    def capacity_rows_per_s(self, kind: NodeKind, max_nodes: int) -> Floats:  # noqa: ARG002
        """X_max of 0 … max_nodes nodes; 0 below the replication factor."""
        sizes = sorted(self.most_per_s)
        rates = [self.most_per_s[size] for size in sizes]
        slope = (rates[-1] - rates[-2]) / (sizes[-1] - sizes[-2]) if len(sizes) > 1 else rates[-1] / sizes[-1]
        nodes = np.arange(max_nodes + 1, dtype=np.float64)
        inside = np.interp(nodes, sizes, rates)
        beyond = np.maximum(0.0, nodes - sizes[-1]) * max(0.0, slope)
        return np.where(nodes < self.replication, 0.0, inside + beyond)

    def sustained_rows_per_s(self, kind: NodeKind, max_nodes: int, freshness_s: float) -> Floats:  # noqa: ARG002
        """The same, whatever the SLO."""
        return self.capacity_rows_per_s(kind, max_nodes)

    def start_together(
        self, starts: Sequence[Start], pools: Mapping[str, NodePool], link: Link
    ) -> DatastoreWorld:
        """Start the datastore on its cluster."""
        del link
        if len(starts) > 1 or len(pools) > 1:
            raise InputError("a datastore has its cluster alone; leave other pipelines and clusters out")
        return DatastoreWorld(starts[0], pools)
