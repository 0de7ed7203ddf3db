"""Small cases and made-up results for the tests of sweeps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ebbflow.runs.score import Scores
from ebbflow.runs.spec import Spec
from ebbflow.runs.sweep import SweepCase, SweepResult, kept_slo

SCORES = Scores(
    node_seconds=100.0, cost_ratio=1.0, violation=0.0, latency_p50_s=1.0, latency_p95_s=2.0, latency_max_s=3.0,
    throughput_degradation=0.0, nodes_saved=0.5, reconfigurations=1, rows_in=10, rows_out=10, rows_lost=0,
    rows_repeated=0, demand_gap_s=20.0, ready_before_demand=0.5, acts_without_demand=0,
)  # fmt: skip


def case(load: str = "constant(300)", *, name: str = "", drawn: bool = False, **more: Any) -> SweepCase:
    spec = Spec(load=load, **{"seconds": 600.0, **more})
    return SweepCase(load=name or load, scenario=spec.scenario(), drawn=drawn)


def result(
    strategy: str,
    node_seconds: float | None,
    violation: float | None = 0.0,
    *,
    load: str = "a",
    seed: int = 1,
    step_s: float = 0.0,
) -> SweepResult:
    scores = replace(SCORES, node_seconds=node_seconds, violation=violation)
    kept = kept_slo(violation, 0.95)
    return SweepResult(load=load, seed=seed, strategy=strategy, scores=scores, slo_kept=kept, step_s=step_s)
