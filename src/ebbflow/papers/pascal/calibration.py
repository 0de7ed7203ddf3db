"""The continuous engine of the simulator, set to the testbed of the paper: Storm on four VMs of four cores (§7.1.1).

The topology, the parallelism of 4 and the rebalances are those of the paper. The time-out is Storm's: a tuple that is
not processed within 30 s (``topology.message.timeout.secs``) has failed. Here the time counts from the arrival in the
queue, in Storm from the emission by the spout, so ours is the stricter measure. A failed tuple is still processed, as
the message queue would deliver it again.

CPU costs are not in the paper. It says that one node is enough at 500 events/s, where the sawtooth starts, and that
four nodes are the fewest that hold all loads, up to 1,800 events/s. With half the cost per tweet that
``papers.elysium`` uses for the same topology, 1, 2, 3 and 4 nodes hold 526, 1,052, 1,516 and 2,104 events/s at 80 %.
Three nodes hold less than three times as much as one: four instances of an operator on three nodes make one fuller.
"""

from __future__ import annotations

from dataclasses import replace

from ebbflow.core.slo import Slo
from ebbflow.papers.elysium.calibration import (
    ARRIVAL_NOISE,
    LIMITS,
    NODES,
    REBALANCE_S,
    SAMPLED_EVERY_S,
    SERVICE_NOISE,
    TOP_K_WORDS,
)
from ebbflow.targets.simulator.continuous import Continuous
from ebbflow.targets.simulator.scenario import Scenario
from ebbflow.workloads import Load, Noise

PARALLELISM = 4
TIMEOUT_S = 30.0
TOPOLOGY = replace(
    TOP_K_WORDS, row_cost_s={name: cost_s / 2 for name, cost_s in TOP_K_WORDS.row_cost_s.items()}
)
"""Rolling top-k words: 3.7 ms of CPU per tweet."""
PIPELINE = TOPOLOGY.pipeline


def storm() -> Continuous:
    """The topology with four instances of every operator.

    >>> storm().capacity_rows_per_s(NODES, 4).round().tolist()
    [0.0, 671.0, 1342.0, 2014.0, 2685.0]
    """
    return Continuous(
        pipeline=PIPELINE,
        row_cost_s=TOPOLOGY.row_cost_s,
        parallelism=dict.fromkeys(PIPELINE.order, PARALLELISM),
        max_pending_rows=10_000.0,
        pause_s=REBALANCE_S,
        noise=SERVICE_NOISE,
    )


def scenario(load: Load, seconds: float, *, nodes: int = 1, seed: int = 1) -> Scenario:
    """A load on the testbed. The random seed determines arrivals and service times."""
    return Scenario(
        engine=storm(),
        load=Noise(load=load, amount=ARRIVAL_NOISE, seed=10 * seed),
        limits=LIMITS,
        slo=Slo(freshness_s=TIMEOUT_S, quantile=0.95),
        nodes=NODES,
        initial_nodes=nodes,
        seconds=seconds,
        cycle_s=SAMPLED_EVERY_S,
        seed=seed,
    )
