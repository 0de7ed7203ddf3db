"""Online parameter optimisation: a changed load starts a search, and its thresholds decide from then on."""

from __future__ import annotations

import pytest

from ebbflow.core.run import Run
from ebbflow.runs.score import score
from ebbflow.runs.simulation import simulate
from ebbflow.runs.spec import Spec
from ebbflow.strategies.tuned import Tuned
from ebbflow.strategies.tuned.what_if import WhatIf
from ebbflow.testing.snapshots import make_batch, make_snapshot, make_stage
from ebbflow.workloads import parse_load


def tunings(run: Run) -> list[str]:
    """What the ledger says of each tuning, in order."""
    said = [str(entry.decision.inputs.get("tuned", "")) for entry in run.decisions]
    return [each for each in dict.fromkeys(said) if each.startswith("at ")]


def run_of(strategy: Tuned, load: str, seconds: str) -> Run:
    return simulate(Spec(seconds=seconds).scenario(parse_load(load)), strategy)


def test_tuned_thresholds_cost_less_than_those_it_starts_with() -> None:
    load = "sine(base=100, peak=1800, period=2h)"
    tuned, fixed = run_of(Tuned(), load, "2h"), run_of(Tuned(trials=1), load, "2h")
    assert len(tunings(tuned)) > 3
    assert tunings(fixed) == []  # one trial is that of the parameters in use
    costs = [score(each, oracle_node_seconds=None) for each in (tuned, fixed)]
    assert costs[0].node_seconds < 0.95 * costs[1].node_seconds
    assert costs[0].violation <= 0.01


def test_a_steady_load_is_searched_for_once_and_a_change_starts_another_search() -> None:
    at_s = [
        float(each.split()[1]) for each in tunings(run_of(Tuned(), "step(base=400, peak=900, at=1h)", "90m"))
    ]
    assert at_s[0] < 900.0
    assert not [each for each in at_s if 900.0 < each < 3600.0]
    assert [each for each in at_s if each > 3600.0]


def test_no_decision_makes_more_replays_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    replays: list[float] = []
    cost = WhatIf.cost
    monkeypatch.setattr(
        WhatIf, "cost", lambda self, tuning: replays.append(cost(self, tuning)) or replays[-1]
    )
    strategy, made = Tuned(least_s=60.0, trials=25, trials_per_decision=7), []
    for k in range(20):
        one = make_batch(10.0 * k, 4.0, make_stage(12, 8.0), rows=1000 + k)
        strategy.decide(make_snapshot(10.0 * k, 4, [one]))
        made.append(len(replays))
        replays.clear()
    assert [each for each in made if each] == [7, 7, 7, 4]


def test_a_batch_that_outlasts_its_trigger_is_an_overload_before_it_ends() -> None:
    strategy = Tuned()
    strategy.decide(make_snapshot(0.0, 4, [make_batch(0.0, 4.0, make_stage(12, 8.0))]))
    decisions = [strategy.decide(make_snapshot(s, 4, queries={"q": 0.0})) for s in (5.0, 11.0, 24.0)]
    assert [d.inputs["busy"] for d in decisions] == [0.4, 1.0, 1.0]
    assert decisions[-1].wanted.main_nodes == 8  # ceil(4 / 0.5658)
