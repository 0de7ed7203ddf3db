"""The recorded size played again: how near the simulator comes to what was recorded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ebbflow.core.curve import Curve
from ebbflow.core.decision import Decision
from ebbflow.core.limits import Limits
from ebbflow.core.ports import Strategy
from ebbflow.core.snapshot import Snapshot
from ebbflow.runs.replay.plan import RECORDED, Plan, recorded_run
from ebbflow.runs.score import score
from ebbflow.runs.simulation import play

_FAR = 0.3
"""A latency that the simulator misses by more than this share, and by some seconds, is not explained."""


@dataclass(frozen=True, kw_only=True)
class Fidelity:
    """Batch times and latencies, each (recorded, simulated)."""

    batch_mean_s: tuple[float, float]
    batch_p95_s: tuple[float, float]
    latency_p95_s: tuple[float | None, float | None]

    @property
    def doubt(self) -> str:
        """Why the record is not understood; empty where it is."""
        then_s, now_s = self.latency_p95_s
        if then_s is None or now_s is None or abs(then_s - now_s) <= max(_FAR * then_s, 2.0):
            return ""
        return (
            f"your size played again has a row latency p95 of {now_s:.1f} s, and yours was {then_s:.1f} s: the replay "
            "misses what made it so; are executors then, slots and tasks right?"
        )

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        pairs = {
            "batch_mean_s": self.batch_mean_s,
            "batch_p95_s": self.batch_p95_s,
            "latency_p95_s": self.latency_p95_s,
        }
        return {name: {"recorded": pair[0], "simulated": pair[1]} for name, pair in pairs.items()}


def fidelity_of(plan: Plan) -> Fidelity:
    """Play the nodes that there were, without noise, and compare batch times and latencies."""
    most = max(1, int(plan.working.values.max()))
    scenario = replace(
        plan.scenario,
        engine=replace(plan.engine, noise=0.0),
        limits=Limits(min_nodes=1, max_nodes=max(most, plan.scenario.limits.max_nodes)),
        nodes=replace(plan.scenario.nodes, lead_time_s=0.0),
        initial_nodes=max(1, int(plan.working.values[0])),
        cycle_s=plan.scenario.cycle_s if len(plan.working) > 1 else 60.0,  # nothing to decide: look seldom
    )
    run = play(scenario, _AsThen(plan.working), guards=()).run
    then = np.array([batch.duration_s for batch in plan.recording.worked])
    now = np.array([batch.duration_s for batch in run.batches if batch.rows > 0] or [0.0])
    recorded = score(recorded_run(plan), oracle_node_seconds=None)
    return Fidelity(
        batch_mean_s=(float(np.mean(then)), float(np.mean(now))),
        batch_p95_s=(float(np.quantile(then, 0.95)), float(np.quantile(now, 0.95))),
        latency_p95_s=(recorded.latency_p95_s, score(run, oracle_node_seconds=None).latency_p95_s),
    )


class _AsThen(Strategy):
    """A strategy that has the nodes that there were."""

    name = RECORDED
    brings_own_guards = True

    def __init__(self, nodes: Curve) -> None:
        self._nodes = nodes

    def decide(self, snapshot: Snapshot) -> Decision:
        """As many as worked at this time."""
        nodes = max(1, int(self._nodes.stepped(snapshot.now_s)))
        return Decision(wanted=snapshot.planned.with_nodes(nodes), reason="as it was")
