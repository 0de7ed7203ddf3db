"""The continuous engine of the simulator, set to the testbed of the paper: Storm on four VMs of four cores (§5.1).

The paper gives the nodes, the parallelism (1 to 4 for every operator), the selectivities of T1 (Table 2), the rebalance
(5 to 8 s without input, then draining, no state moved: §4, §5.2), the monitor (the mean of a minute every 10 s) and the
assessment period (a minute). It also says that 200 req/s of T1 fit on one node and that the stop-word filter is the
most significant operator. It gives no CPU costs and no rates of loads. Those below are ours, set once for all
strategies (docs/elysium.md says why):

- T1 takes 7.35 ms of CPU per tweet. 200 tweets/s make a node 63 % busy, and four nodes hold 950/s at 80 %.
- T2 takes 7.2 ms per tweet, most of it in the feature extraction.
- The engine itself takes 0.3 cores of a node, and half a core for each core that instances use (Figure 8 shows this
  curve without numbers; §5.2 counts 2 of 8 cores for "other Storm processes").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ebbflow.core.limits import Limits
from ebbflow.core.pipeline import Pipeline
from ebbflow.papers.elysium.published import T1, T2
from ebbflow.targets.simulator import catalogue
from ebbflow.targets.simulator.catalogue import TOP_WORDS, CostedPipeline
from ebbflow.targets.simulator.continuous import Continuous
from ebbflow.targets.simulator.nodes import EngineOverhead, NodeKind

NODES = NodeKind(slots=4, lead_time_s=0.0, overhead=EngineOverhead(idle_cores=0.3, per_core=0.5))
"""The VMs are always up: a node that joins starts its worker during the rebalance."""
LIMITS = Limits(min_nodes=1, max_nodes=4)
MOST_PARALLEL = 4
ASSESSED_EVERY_S = 60.0
SAMPLED_EVERY_S = 10.0
REBALANCE_S = (5.0, 8.0)
SERVICE_NOISE = 0.05
"""Relative noise of the CPU time per row, second by second. Without it, estimates would be exact."""
ARRIVAL_NOISE = 0.05

STOP_WORDS = "stop-words"
"""The most significant operator of T1 (Figure 10e)."""


def _every_operator_scales(pipeline: Pipeline) -> Pipeline:
    """Storm has no fused operators."""
    return replace(pipeline, operators=tuple(replace(each, boundary=True) for each in pipeline.operators))


TOP_K_WORDS = replace(
    TOP_WORDS,
    pipeline=_every_operator_scales(TOP_WORDS.pipeline),
    row_cost_s={
        "reader": 0.4e-3,
        "words": 1.6e-3,
        "stop-words": 2.8e-3 / 17.86,
        "counter": 2.0e-3 / (17.86 * 0.68),
        "intermediate-ranker": 0.5e-3 / (17.86 * 0.68 * 0.41),
        "final-ranker": 0.05e-3 / (17.86 * 0.68 * 0.41 * 0.01),
    },
)  # fmt: skip
"""CPU time per tweet: 0.4 ms in the reader, then 1.6, 2.8, 2.0, 0.5 and 0.05 ms in the others."""

SENTIMENT = replace(catalogue.SENTIMENT, pipeline=_every_operator_scales(catalogue.SENTIMENT.pipeline))
"""One row per tweet from end to end. The paper gives neither operators nor selectivities of T2."""

COSTED: dict[str, CostedPipeline] = {T1: TOP_K_WORDS, T2: SENTIMENT}


def storm(application: str, parallelism: int | Mapping[str, int] = 1) -> Continuous:
    """An application on the engine, with this parallelism of every operator, except that the final ranker has one.

    >>> storm(T1, 4).parallelism["stop-words"], storm(T1, 4).parallelism["final-ranker"]
    (4, 1)
    >>> storm(T1).capacity_rows_per_s(NODES, 4).round().tolist()
    [0.0, 336.0, 671.0, 1007.0, 1342.0]
    """
    costed = COSTED[application]
    order = costed.pipeline.order
    wanted = dict.fromkeys(order, parallelism) if isinstance(parallelism, int) else dict(parallelism)
    return Continuous(
        pipeline=costed.pipeline,
        row_cost_s=costed.row_cost_s,
        parallelism={name: min(n, costed.max_parallelism.get(name, n)) for name, n in wanted.items()},
        max_pending_rows=5_000.0,  # no row fails: unread rows wait in the message queue before the source
        pause_s=REBALANCE_S,
        noise=SERVICE_NOISE,
    )
