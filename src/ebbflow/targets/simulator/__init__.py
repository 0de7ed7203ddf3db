"""The simulator: a target behind the same port as Spark, driven by the same loop.

================  =====================================================================================
``scenario``      everything a run depends on except the strategy
``catalogue``     built-in pipelines with their costs
``target``        simulated pipelines behind the target port
``engine``        what the engines share: protocols, arrived rows, noise
``micro_batch``   Spark's engine: triggers, stages, waves of tasks, restarts
``continuous``    Storm's engine: queues, shared cores, stop-the-world rebalances
``datastore``     a datastore such as Cassandra: throughput by size, nodes that join and leave with their data
``nodes``         clusters of nodes that join late, differ in speed, slow down and die
``faults``        node failures, slow nodes, missing and late metrics
================  =====================================================================================

In each engine package, ``__init__`` has the parameters and formulas, ``world`` the passage of time for all pipelines,
``run`` a single pipeline, and ``slots`` or ``flow`` the arithmetic. ``ebbflow.runs.simulation`` runs a strategy on a
scenario.
"""

from ebbflow.targets.simulator.continuous import Continuous
from ebbflow.targets.simulator.datastore import DataNodes, Datastore
from ebbflow.targets.simulator.faults import LateMetrics, MissingMetrics, NodeDies, SlowNode
from ebbflow.targets.simulator.micro_batch import MicroBatch, Stage
from ebbflow.targets.simulator.nodes import Cluster, EngineOverhead, Link, NodeKind
from ebbflow.targets.simulator.scenario import Scenario, Tenant, built_in_engine
from ebbflow.targets.simulator.target import SimulatorTarget

__all__ = [
    "Cluster",
    "Continuous",
    "DataNodes",
    "Datastore",
    "EngineOverhead",
    "LateMetrics",
    "Link",
    "MicroBatch",
    "MissingMetrics",
    "NodeDies",
    "NodeKind",
    "Scenario",
    "SimulatorTarget",
    "SlowNode",
    "Stage",
    "Tenant",
    "built_in_engine",
]
