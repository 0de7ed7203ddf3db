"""A policy tried on a load in the simulator: when which rule fired, and what came of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ebbflow.bench.simulation import play
from ebbflow.core.limits import Limits
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.run import Run
from ebbflow.core.slo import Slo
from ebbflow.errors import InputError
from ebbflow.policy.model import EACH_OPERATOR, NODES, Policy
from ebbflow.strategies.rules import Rules
from ebbflow.targets.simulator import Continuous, Scenario, built_in_engine
from ebbflow.targets.simulator.engine import Engine
from ebbflow.workloads import Load

ENDLESS_S = 3600.0
"""How long a load without an end is played at least."""


@dataclass(frozen=True, kw_only=True)
class Firing:
    """A rule (or none: bounds) changed something."""

    time_s: float
    rule: str
    change: str
    because: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Trial:
    """What came of a policy."""

    run: Run
    firings: tuple[Firing, ...]
    counts: dict[str, int]
    """How often each rule fired."""

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "fired": [
                {"time_s": f.time_s, "rule": f.rule, "change": f.change, "because": f.because}
                for f in self.firings
            ],
            "times": self.counts,
        }


def try_policy(
    policy: Policy,
    *,
    load: Load,
    seconds: float | None = None,
    rates_per_s: dict[str, float] | None = None,
    pipeline: str = "top-words",
    engine: str = "continuous",
    limits: Limits | None = None,
    slo: Slo | None = None,
    cycle_s: float = 5.0,
) -> Trial:
    """Simulate it. ``rates_per_s``: operators in a row, each with what an instance takes, on a continuous engine."""
    simulated: Engine
    if rates_per_s is not None:
        simulated = Continuous(
            pipeline=Pipeline.chain("tried", *rates_per_s),
            row_cost_s={name: 1.0 / rate for name, rate in rates_per_s.items()},
        )
    else:
        simulated = built_in_engine(pipeline, engine)
    _check_operators(policy, simulated.pipeline)
    if seconds is None and math.isinf(load.duration_s):
        seconds = max(load.span_s, ENDLESS_S)
    bounds = limits or Limits(min_nodes=1, max_nodes=16)
    scenario = Scenario(
        engine=simulated,
        load=load,
        limits=bounds,
        slo=slo or Slo(freshness_s=30.0, quantile=0.95),
        initial_nodes=bounds.clamp(len(rates_per_s)) if rates_per_s else None,
        seconds=seconds,
        cycle_s=cycle_s,
    )
    strategy = Rules(policy)
    run = play(scenario, strategy).run
    firings = tuple(
        Firing(
            time_s=entry.time_s,
            rule=str(entry.decision.inputs.get("rule", "")),
            change=str(entry.decision.wanted.difference(entry.before)),
            because="; ".join(
                str(value)
                for name, value in entry.decision.inputs.items()
                if name != "rule" and not name.startswith("readings of ")
            )
            or entry.decision.reason,
        )
        for entry in run.decisions
        if entry.verdict == "act"
    )
    fired = [name for firing in firings for name in firing.rule.split("; ")]
    return Trial(
        run=run,
        firings=firings,
        counts={rule.name: fired.count(rule.name) for rule in policy.rules},
    )


def _check_operators(policy: Policy, pipeline: Pipeline) -> None:
    named = [(rule.name, rule.operator) for rule in policy.rules]
    named += [(bounds.name, bounds.operator) for bounds in policy.bounds]
    for name, operator in named:
        if operator not in (NODES, EACH_OPERATOR, *pipeline.order):
            raise InputError(
                f"'{name}' names operator '{operator}', which pipeline {pipeline.name} does not have "
                f"({', '.join(pipeline.order)}); describe yours with --operators {operator}=RATE,…"
            )
