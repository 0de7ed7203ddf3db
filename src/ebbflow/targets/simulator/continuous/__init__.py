"""The continuous engine: operators with queues between them (Storm, S4, SEEP), as a fluid in steps of 1 s.

In each step, upstream before downstream, for operator i with p_in instances on node n of speed v_n:

    offered_i   = queue_i + Σ over streams (j, i) of out_j · selectivity_ji
    capacity_i  = Σ_n p_in · v_n / cost_i            (an instance uses at most one core)
    out_i       = min(offered_i, capacity_i)         queue_i ← offered_i − out_i

If the instances on a node want more CPU than the cores that the engine leaves them (``EngineOverhead``), each gets
the same share of what it wants: f_n = min(1, cores / Σ_i p_in · busy_i). ``BusyMeter`` derives their busy time. Rows
beyond the bound of a queue fail. The source reads at most ``max_pending_rows`` ahead of the sinks.

A change of parallelism or of nodes stops the world: the source stops, queues drain (for at most ``drain_limit_s``),
then everything stands still for 5–8 s (Elysium) plus the transfer of state.

Several pipelines share the cores of their nodes: the sums over i include the operators of all of them. Each has its own
source and rebalances on its own. Instances are assigned round-robin, continuing after those of the previous pipeline.

With ``on_every_node`` an operator has one instance on each node of its cluster, as on S4 (DoDo, §6.2). With
``overload_speed`` v < 1, an operator before which more than a second of work is queued runs at v times its speed until
the queue is gone: S4 lost throughput that way (DoDo, §6.4 and §7.3). Rows that wait for a source wait outside the nodes
and slow nothing down.

Operators may be in different clusters. A stream between two clusters is limited by the link's bandwidth and delayed by
its latency; rows wait before the link without a bound. Moving an operator is a rebalance that transfers all its state.

Operators are compared in source rows: rows of operator i ÷ its input rate per source row. The processed source rows
are the minimum over the operators of done_i ÷ rate_i: in a chain that of the sink, at a join that of the slowest
branch. At a join, rows that complete a source row are assumed to be served first, which is slightly early if the join
itself lags.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from ebbflow.core.curve import Floats
from ebbflow.core.pipeline import Pipeline
from ebbflow.errors import InputError
from ebbflow.targets.simulator.continuous.flow import STEP_S
from ebbflow.targets.simulator.continuous.world import ContinuousWorld
from ebbflow.targets.simulator.engine import Start, with_qualified_names
from ebbflow.targets.simulator.nodes import Link, NodeKind, NodePool


@dataclass(frozen=True, kw_only=True)
class Continuous:
    """A pipeline on the continuous engine.

    >>> from ebbflow.core.clock import ManualClock
    >>> from ebbflow.targets.simulator.target import SimulatorTarget
    >>> from ebbflow.workloads import Arrivals, parse_load
    >>> engine = Continuous(pipeline=Pipeline.chain("p", "slow"), row_cost_s={"slow": 0.2})
    >>> target = SimulatorTarget(engine, NodeKind(), Arrivals(parse_load("constant(10)")), ManualClock(60.0))
    >>> target.work()  # each second 10 rows arrive and 5 are processed
    PipelineRows(processed=300.0, waiting=300.0, failed=0.0)
    """

    pipeline: Pipeline
    row_cost_s: Mapping[str, float]
    """CPU seconds per input row of each operator; an instance serves 1/cost rows per second."""
    parallelism: Mapping[str, int] = field(default_factory=dict)
    """Initial instances of each operator; 1 by default."""
    on_every_node: bool = False
    """Whether each operator has one instance on each node of its cluster, whatever ``parallelism`` says."""
    overload_speed: float = 1.0
    """Share of its speed at which an operator works while more than a second of work is queued before it."""
    queue_bound_rows: float | None = None
    """Maximum rows waiting per instance; sources have no bound. None: no bound at all."""
    max_pending_rows: float | None = None
    """Maximum source rows between the source and the sinks, and so the most read per step of 1 s; None: no limit."""
    pause_s: tuple[float, float] = (5.0, 8.0)
    drain_limit_s: float = 10.0
    state_mb: Mapping[str, float] = field(default_factory=dict)
    transfer_mb_per_s: float = 50.0
    """Within a cluster; between clusters the link's bandwidth applies."""
    row_kb: float = 1.0
    """The size of a row on a stream between clusters."""
    noise: float = 0.0
    """σ of the lognormal factor (mean 1) on all service rates, drawn each second; CPU per row changes inversely."""

    def __post_init__(self) -> None:
        missing = [name for name in self.pipeline.order if not self.row_cost_s.get(name, 0.0) > 0]
        if missing:
            raise InputError(f"operator '{missing[0]}' has no cost; a row must take some CPU time")
        if not 0 < self.overload_speed <= 1:
            raise InputError(
                f"an overload speed of {self.overload_speed:g}; it must be above 0 and at most 1"
            )

    @cached_property
    def per_source_row(self) -> Mapping[str, float]:
        """Input rows of each operator per source row."""
        return self.pipeline.input_rates(dict.fromkeys(self.pipeline.sources, 1.0))

    def stages_rows_per_s(self, kind: NodeKind, max_nodes: int) -> Floats:
        """A single row: all operators work in parallel."""
        return self.capacity_rows_per_s(kind, max_nodes)[np.newaxis, :]

    def capacity_rows_per_s(self, kind: NodeKind, max_nodes: int) -> Floats:
        """n · instance cores · speed ÷ Σ_i cost_i · (rows of i per source row): all CPU is used for rows."""
        per_row_s = sum(self.row_cost_s[name] * rate for name, rate in self.per_source_row.items())
        return np.arange(max_nodes + 1, dtype=np.float64) * float(
            kind.instance_cores * max(kind.speeds) / per_row_s
        )

    def sustained_rows_per_s(self, kind: NodeKind, max_nodes: int, freshness_s: float) -> Floats:  # noqa: ARG002
        """The same: rows have no overhead, whatever the SLO."""
        return self.capacity_rows_per_s(kind, max_nodes)

    @property
    def step_s(self) -> float:
        """The time step, 1 s."""
        return STEP_S

    @property
    def read_limited(self) -> bool:
        """False: there are no batches."""
        return False

    @property
    def with_qualified_operators(self) -> Continuous:
        """A copy whose operators are named ``pipeline/operator``, for several pipelines side by side."""
        name = self.pipeline.name
        return replace(
            self,
            pipeline=with_qualified_names(self.pipeline),
            row_cost_s={f"{name}/{operator}": cost_s for operator, cost_s in self.row_cost_s.items()},
            parallelism={f"{name}/{operator}": n for operator, n in self.parallelism.items()},
            state_mb={f"{name}/{operator}": mb for operator, mb in self.state_mb.items()},
        )

    def start_together(
        self, starts: Sequence[Start], pools: Mapping[str, NodePool], link: Link
    ) -> ContinuousWorld:
        """Start pipelines on shared clusters."""
        return ContinuousWorld(starts, pools, link)
