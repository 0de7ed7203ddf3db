"""Builders of small simulated worlds."""

from __future__ import annotations

from typing import Any

import numpy as np

from ebbflow.core.clock import ManualClock
from ebbflow.core.decision import Decision
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.ports import Strategy
from ebbflow.core.snapshot import Snapshot
from ebbflow.targets.simulator import Continuous, MicroBatch, NodeKind, SimulatorTarget, Stage
from ebbflow.targets.simulator.engine import Inflow
from ebbflow.targets.simulator.nodes import NodePool
from ebbflow.workloads import Arrivals, parse_load


def pool(nodes: int = 1, faults: Any = (), **kind: Any) -> NodePool:
    return NodePool(NodeKind(**kind), nodes, np.random.default_rng(0), faults)


def inflow(load: str) -> Inflow:
    return Inflow(Arrivals(parse_load(load)))


def query(*stages: Stage, **more: Any) -> MicroBatch:
    return MicroBatch(pipeline=Pipeline.chain("q", "read", "count"), stages=stages, **more)


def one_operator(service_per_s: float = 5.0, **more: Any) -> Continuous:
    """The operator of Rules §5.2 with service rate μ, without the pause of a rebalance."""
    more = {"pause_s": (0.0, 0.0), **more}
    return Continuous(pipeline=Pipeline.chain("p", "work"), row_cost_s={"work": 1 / service_per_s}, **more)


def world(engine: Any, load: str, nodes: int = 1, **more: Any) -> tuple[SimulatorTarget, ManualClock]:
    clock = ManualClock()
    kind = more.pop("kind", NodeKind())
    arrivals = Arrivals(parse_load(load))
    return SimulatorTarget(engine, kind, arrivals, clock, 1, initial_nodes=nodes, **more), clock


class Keep(Strategy):
    """A strategy that keeps the planned layout."""

    name = "keep"

    def decide(self, snapshot: Snapshot) -> Decision:
        return Decision(wanted=snapshot.planned, reason="keep")


class ScheduledNodes(Strategy):
    """A strategy that sets given numbers of nodes at given times."""

    name = "scheduled"

    def __init__(self, *plan: tuple[float, int]) -> None:
        self._plan = plan

    def decide(self, snapshot: Snapshot) -> Decision:
        wanted = [nodes for from_s, nodes in self._plan if from_s <= snapshot.now_s]
        nodes = wanted[-1] if wanted else snapshot.planned.main_nodes
        return Decision(wanted=snapshot.planned.with_nodes(nodes), reason="scheduled")


def shared_world(
    *pipelines: tuple[Any, str], nodes: int = 1, **more: Any
) -> tuple[SimulatorTarget, ManualClock]:
    """Several pipelines with their loads on the same nodes."""
    clock = ManualClock()
    kind = more.pop("kind", NodeKind())
    (engine, load), *others = pipelines
    target = SimulatorTarget(
        engine, kind, Arrivals(parse_load(load)), clock, 1, initial_nodes=nodes,
        others=[(other, Arrivals(parse_load(text))) for other, text in others], **more,
    )  # fmt: skip
    return target, clock


def named_query(name: str, *stages: Stage, **more: Any) -> MicroBatch:
    more = {"driver_s": 0.0, **more}
    return MicroBatch(pipeline=Pipeline.chain(name, "read"), stages=stages, **more)


def named_operator(name: str, cost_s: float = 0.1, **more: Any) -> Continuous:
    more = {"pause_s": (0.0, 0.0), **more}
    return Continuous(pipeline=Pipeline.chain(name, "work"), row_cost_s={"work": cost_s}, **more)
