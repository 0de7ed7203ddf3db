"""The simulator: one more target, behind the same port as Spark and driven by the same loop.

====================  =======================================================================
``micro_batch``       Spark's engine: triggers, waves, overheads, restarts
``continuous``        Storm's engine: queues, shared cores, stop-the-world rebalances
``nodes``, ``faults`` nodes that come late, differ, slow down, die; metrics that are missing or late
``list_scheduling``   tasks on slots that come and go; ``placement``: instances on nodes
``inflow``            rows that have arrived, looked up fast
``catalogue``         built-in pipelines with their costs
``scenario``          everything a run depends on but the strategy
``target``            all of it behind the port
====================  =======================================================================

``ebbflow.bench.simulation`` runs a strategy on a scenario.
"""

from ebbflow.targets.simulator.continuous import Continuous
from ebbflow.targets.simulator.faults import LateMetrics, MissingMetrics, NodeDies, SlowNode
from ebbflow.targets.simulator.micro_batch import MicroBatch, Stage
from ebbflow.targets.simulator.nodes import NodeKind
from ebbflow.targets.simulator.scenario import Scenario, built_in_engine
from ebbflow.targets.simulator.target import SimulatorTarget

__all__ = [
    "Continuous",
    "LateMetrics",
    "MicroBatch",
    "MissingMetrics",
    "NodeDies",
    "NodeKind",
    "Scenario",
    "SimulatorTarget",
    "SlowNode",
    "Stage",
    "built_in_engine",
]
