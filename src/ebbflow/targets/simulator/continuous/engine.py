"""The continuous engine: operators with queues between them (Storm, S4, SEEP), as a fluid in steps of 1 s.

In each step, upstream before downstream, operator i with p_i instances on nodes of speed v_n:

    offered_i   = queue_i + Σ over streams (j, i) of out_j · selectivity_ji
    capacity_i  = Σ_n p_in · v_n / cost_i            (an instance has at most one core)
    out_i       = min(offered_i, capacity_i)         queue_i ← offered_i − out_i

Where the instances on a node want more CPU than it has cores, each gets the same share of what it wants:
f_n = min(1, cores / Σ_i p_in · busy_i); how long they have rows in hand then, ``busy_meter`` tells. Cores are
those that the engine leaves them (``overhead``). Rows beyond the bound of a queue fail. The source reads no more than
``max_pending_rows`` ahead of the sinks.

A change of parallelism or of nodes stops the world: the source stops, queues drain (at most
``drain_limit_s``), then everything stands still for 5–8 s (Elysium) and as long as moving state takes.

Several pipelines share the cores of their nodes: the sums over i run over the operators of all of them; each has its
own source, stops and rebalances by itself, and its instances are dealt out where those of the one before ended.

Operators may be in different clusters. A stream between two carries at most what the link does, and its rows are
under way for the link's latency; they then wait before the wire, without a bound. Moving an operator is a
rebalance in which all of its state goes over the link.

Rows are counted in source rows where operators are compared: rows of operator i ÷ its input rate per source
row. So many source rows are through as every operator has done its share of: the least of done_i ÷ rate_i. In a chain
that is the sink; where streams join, it is the slowest branch. Of the rows that wait before a join, those are taken
to be served first that complete a source row, which is a little early where the join itself falls behind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from ebbflow.core.curve import Floats
from ebbflow.core.pipeline import Pipeline
from ebbflow.errors import InputError
from ebbflow.targets.simulator.clusters import Link
from ebbflow.targets.simulator.continuous.run import STEP_S
from ebbflow.targets.simulator.continuous.world import ContinuousWorld
from ebbflow.targets.simulator.engine import Start, named_apart
from ebbflow.targets.simulator.nodes import NodeKind
from ebbflow.targets.simulator.nodes.pool import NodePool


@dataclass(frozen=True, kw_only=True)
class Continuous:
    """A pipeline on a continuous engine.

    >>> from ebbflow.core.clock import ManualClock
    >>> from ebbflow.targets.simulator.target import SimulatorTarget
    >>> from ebbflow.workloads import Arrivals, parse_load
    >>> engine = Continuous(pipeline=Pipeline.chain("p", "slow"), row_cost_s={"slow": 0.2})
    >>> target = SimulatorTarget(engine, NodeKind(), Arrivals(parse_load("constant(10)")), ManualClock(60.0))
    >>> target.work()  # 10 come, 5 are done each second
    Work(processed=300.0, waiting=300.0, failed=0.0)
    """

    pipeline: Pipeline
    row_cost_s: Mapping[str, float]
    """CPU seconds of one input row of each operator; an instance serves 1/cost rows per second."""
    parallelism: Mapping[str, int] = field(default_factory=dict)
    """Instances of each operator at the start; 1 where not told."""
    queue_bound_rows: float | None = None
    """Most rows that wait before one instance; sources have no bound. None: no bound at all."""
    max_pending_rows: float | None = None
    """Most source rows under way between the source and the sinks, and so the most read in a step of 1 s;
    None: no limit."""
    pause_s: tuple[float, float] = (5.0, 8.0)
    drain_limit_s: float = 10.0
    state_mb: Mapping[str, float] = field(default_factory=dict)
    transfer_mb_per_s: float = 50.0
    """Within a cluster; between clusters the link decides."""
    row_kb: float = 1.0
    """Size of a row on a stream between clusters."""
    noise: float = 0.0
    """σ of the lognormal factor (mean 1) on all service rates, drawn each second; a row takes so much less CPU."""

    def __post_init__(self) -> None:
        missing = [name for name in self.pipeline.order if not self.row_cost_s.get(name, 0.0) > 0]
        if missing:
            raise InputError(f"operator '{missing[0]}' has no cost; a row must take some CPU time")

    @cached_property
    def per_source_row(self) -> Mapping[str, float]:
        """Input rows of each operator per source row."""
        return self.pipeline.input_rates(dict.fromkeys(self.pipeline.sources, 1.0))

    def stages_rows_per_s(self, kind: NodeKind, max_nodes: int) -> Floats:
        """One line: its operators work side by side."""
        return self.capacity_rows_per_s(kind, max_nodes)[np.newaxis, :]

    def capacity_rows_per_s(self, kind: NodeKind, max_nodes: int) -> Floats:
        """n · cores left · speed ÷ Σ_i cost_i · (rows of i per source row): all CPU spent on rows."""
        per_row_s = sum(self.row_cost_s[name] * rate for name, rate in self.per_source_row.items())
        return np.arange(max_nodes + 1, dtype=np.float64) * float(
            kind.left_cores * max(kind.speeds) / per_row_s
        )

    @property
    def step_s(self) -> float:
        """It works whole seconds."""
        return STEP_S

    @property
    def operators_named_apart(self) -> Continuous:
        """The same with its operators named ``pipeline/operator``, for where several pipelines are."""
        name = self.pipeline.name
        return replace(
            self,
            pipeline=named_apart(self.pipeline),
            row_cost_s={f"{name}/{operator}": cost_s for operator, cost_s in self.row_cost_s.items()},
            parallelism={f"{name}/{operator}": n for operator, n in self.parallelism.items()},
            state_mb={f"{name}/{operator}": mb for operator, mb in self.state_mb.items()},
        )

    def start_together(
        self, starts: Sequence[Start], pools: Mapping[str, NodePool], link: Link
    ) -> ContinuousWorld:
        """Set it to work on clusters, with others of its kind or alone."""
        return ContinuousWorld(starts, pools, link)
