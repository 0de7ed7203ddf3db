"""Policies tried on loads, including the examples."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from ebbflow.errors import InputError
from ebbflow.policy.files import load_policy
from ebbflow.runs.policy_trial import chain, try_policy
from ebbflow.runs.spec import Spec

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_python_example_grows_and_shrinks(capsys) -> None:
    runpy.run_path(str(EXAMPLES / "policy_example.py"), run_name="__main__")
    out = capsys.readouterr().out
    assert "enrich ×1→2 " in out
    assert "enrich ×2→1 " in out


def test_bounds_with_hours_apply_in_a_simulated_day() -> None:
    # simulated time starts on Thursday, 1 January 1970, 00:00 UTC
    policy = load_policy(EXAMPLES / "policies" / "office_hours.yaml")
    spec = Spec(load="constant(20)", seconds="1d", cycle="1m", noise=0.0, initial_nodes=1)
    trial = try_policy(policy, spec.scenario())
    nodes = trial.run.nodes
    assert float(nodes.stepped(6.5 * 3600)) == 1
    assert float(nodes.stepped(7.1 * 3600)) == 4
    assert float(nodes.stepped(18.9 * 3600)) == 4
    assert float(nodes.stepped(23.9 * 3600)) == 2, "after hours it shrinks to the limit of the rule"
    assert trial.counts["Rows hardly wait, and will not soon"] == 2


def test_an_operator_that_the_pipeline_lacks_is_refused_before_the_simulation() -> None:
    policy = load_policy(EXAMPLES / "policies" / "google_cluster.toml")
    with pytest.raises(InputError, match="names operator 'machine', which pipeline top-words does not have"):
        try_policy(policy, Spec(load="constant(20)").scenario())
    spec = Spec(load="constant(20)", seconds=300, cycle="5s", initial_nodes=1)
    trial = try_policy(policy, spec.scenario(engine=chain({"machine": 25.0})))
    assert trial.firings[0].rule == "CPU is above 10% for 30 seconds, scale out by 1"
