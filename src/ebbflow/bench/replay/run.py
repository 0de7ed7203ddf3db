"""A recorded run played again: what would these strategies have made of my last week?

A recording gives the load (rows that had come by each trigger), the trigger interval, and the costs of a batch
(``batch_fit``). With them the micro-batch engine plays the same time under any strategy, by the same code as every
simulation, and the scores of the recorded run stand beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ebbflow.bench.replay.plan import Plan
from ebbflow.bench.score import score
from ebbflow.bench.simulation import oracle_of, play
from ebbflow.core.curve import Curve
from ebbflow.core.decision import Decision
from ebbflow.core.duration import format_duration
from ebbflow.core.limits import Limits
from ebbflow.core.run import Run
from ebbflow.core.snapshot import Snapshot
from ebbflow.strategies import make_strategy

RECORDED = "recorded"
_FAR = 0.3
"""A latency that the simulator misses by more than this share, and by some seconds, is not explained."""


@dataclass(frozen=True, kw_only=True)
class Fidelity:
    """The recorded size played again: how near the simulator comes to what was recorded."""

    batch_mean_s: tuple[float, float]
    """(recorded, simulated) mean batch time; the others likewise."""
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


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """One line of the answer: a strategy, or what was recorded."""

    run: Run
    scores: dict[str, Any]


def recorded_result(plan: Plan, oracle_node_seconds: float | None) -> Result:
    """The recorded run, scored as any other; what is not known of it is None."""
    recording, flow = plan.recording, plan.flow
    run = Run(
        strategy=RECORDED,
        pipeline=recording.query,
        slo=plan.scenario.slo,
        limits=plan.scenario.limits,
        started_s=0.0,
        ended_s=flow.end_s,
        arrived=flow.arrived,
        processed=flow.processed,
        nodes=plan.held,
        nodes_working=plan.working,
        reconfigurations=recording.reconfigurations or 0,
        rows_repeated=recording.rows_repeated,
    )
    scores = score(run, oracle_node_seconds=oracle_node_seconds).to_json()
    if not plan.nodes_known:
        scores |= {"node_seconds": None, "cost_ratio": None, "nodes_saved": None}
    if recording.reconfigurations is None:
        scores["reconfigurations"] = None
    return Result(run=run, scores=scores)


def replay(
    plan: Plan, strategies: Sequence[str], *, say: Callable[[str], None] = lambda _: None
) -> list[Result]:
    """The recorded run first, then every strategy."""
    results: list[Result] = []
    cheapest: float | None = None
    for name in strategies:
        say(f"{name} on {format_duration(plan.flow.end_s)} of {plan.recording.query}")
        strategy = make_strategy(name)
        run = play(plan.scenario, strategy).run
        if cheapest is None and (oracle := oracle_of(plan.scenario, run)) is not None:
            cheapest = oracle.node_seconds
        scores = score(run, oracle_node_seconds=cheapest)
        results.append(Result(run=run, scores=scores.to_json()))
    return [recorded_result(plan, cheapest), *results]


class _AsThen:
    """A strategy that has the nodes that there were."""

    name = RECORDED
    own_restraint = True

    def __init__(self, nodes: Curve) -> None:
        self._nodes = nodes

    def decide(self, snapshot: Snapshot) -> Decision:
        """As many as worked at this time."""
        nodes = max(1, int(self._nodes.stepped(snapshot.now_s)))
        return Decision(wanted=snapshot.planned.with_nodes(nodes), reason="as it was")


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
    recorded = recorded_result(plan, None).scores["latency_p95_s"]
    return Fidelity(
        batch_mean_s=(float(np.mean(then)), float(np.mean(now))),
        batch_p95_s=(float(np.quantile(then, 0.95)), float(np.quantile(now, 0.95))),
        latency_p95_s=(recorded, score(run, oracle_node_seconds=None).latency_p95_s),
    )


def kept_up(plan: Plan) -> dict[str, Any]:
    """Whether the recorded run did: batches that outlasted their trigger, and rows that waited at the end."""
    trigger_s = plan.engine.trigger_interval_s
    durations = np.array([batch.duration_s for batch in plan.recording.worked])
    waiting = float(plan.recording.batches[-1].left_rows or 0.0)
    late = float(np.mean(durations > trigger_s)) if trigger_s else None
    return {"batches_longer_than_trigger": late, "rows_left_at_the_end": waiting}
