"""The simulator: one more target, behind the same port as Spark and driven by the same loop.

====================  =======================================================================
``micro_batch``       Spark's engine: triggers, waves, overheads, restarts. Its parts: ``…_run`` (a query),
                      ``…_world`` (the time of all), ``…_stretch``, ``…_record``, ``slots`` (who gets them)
``continuous``        Storm's engine: queues, shared cores, stop-the-world rebalances. Its parts: ``…_run`` (a
                      pipeline), ``…_world`` (the time of all), ``flow`` (the arithmetic)
``nodes``, ``faults`` nodes that come late, differ, slow down, die; metrics that are missing or late;
                      ``node_pool``: all those of a cluster
``overhead``          what the continuous engine takes of a node for itself
``clusters``          clusters beside the main one, and the link between them
``inflow``            rows that have arrived, looked up fast; ``noise_draws``: random factors
``catalogue``         built-in pipelines with their costs
``scenario``          everything a run depends on but the strategy; ``together``: whether it fits
``target``            all of it behind the port; ``overall``: several pipelines read as one
====================  =======================================================================

``ebbflow.runs.simulation`` runs a strategy on a scenario.
"""

from ebbflow.targets.simulator.clusters import Cluster, Link
from ebbflow.targets.simulator.continuous.engine import Continuous
from ebbflow.targets.simulator.faults import LateMetrics, MissingMetrics, NodeDies, SlowNode
from ebbflow.targets.simulator.micro_batch.engine import MicroBatch, Stage
from ebbflow.targets.simulator.nodes import NodeKind, Overhead
from ebbflow.targets.simulator.scenario import Scenario, Tenant, built_in_engine
from ebbflow.targets.simulator.target import SimulatorTarget

__all__ = [
    "Cluster",
    "Continuous",
    "LateMetrics",
    "Link",
    "MicroBatch",
    "MissingMetrics",
    "NodeDies",
    "NodeKind",
    "Overhead",
    "Scenario",
    "SimulatorTarget",
    "SlowNode",
    "Stage",
    "Tenant",
    "built_in_engine",
]
