"""A case of the seed's tests in the simulator's continuous engine."""

from __future__ import annotations

from ebbflow.core.limits import Limits
from ebbflow.core.pipeline import Pipeline
from ebbflow.papers.rules.cases import Case
from ebbflow.papers.rules.seen import Seen, Watching
from ebbflow.runs.simulation import run_simulation
from ebbflow.strategies.rules import Rules
from ebbflow.targets.simulator import Continuous, NodeKind, Scenario

READING_S = 1.0
"""How far apart its readings are."""


def run_in_simulator(case: Case, *, pause_s: float = 0.0) -> Seen:
    """One node an instance, as in the seed; nodes come at once, so that the times are those of the rules alone.

    A change stops the operators for ``pause_s``.
    """
    engine = Continuous(
        pipeline=Pipeline.chain(case.name, *case.rates_per_s),
        row_cost_s={name: 1.0 / rate for name, rate in case.rates_per_s.items()},
        pause_s=(pause_s, pause_s),
        drain_limit_s=0.0,
    )
    scenario = Scenario(
        engine=engine,
        load=case.load,
        limits=Limits(min_nodes=1, max_nodes=10),
        nodes=NodeKind(lead_time_s=0.0),
        initial_nodes=len(case.rates_per_s),
        seconds=case.lasts_s,
        cycle_s=READING_S,
    )
    watching = Watching(case.policy)
    run_simulation(scenario, Rules(case.policy), on_cycle=watching.take)
    return watching.seen()
