"""The strategy deep-learner: safe, repeatable, and useful with the weights that come with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ebbflow.core.metrics import Metric
from ebbflow.core.readings import Reading, Windows
from ebbflow.core.snapshot import Snapshot
from ebbflow.errors import InputError
from ebbflow.runs.score import Scores, score
from ebbflow.runs.simulation import simulate
from ebbflow.runs.spec import Spec
from ebbflow.strategies import make_strategy
from ebbflow.strategies.deep_learner import DeepLearner
from ebbflow.strategies.deep_learner.agents import AGENTS
from ebbflow.testing.snapshots import make_batch, make_snapshot, make_stage
from ebbflow.workloads import parse_load


def seen(now_s: float, nodes: int = 4, freshness_s: float = 10.0) -> Snapshot:
    windows = Windows(3600.0)
    windows.add([Reading(now_s, "words", Metric.FRESHNESS, freshness_s)])
    batch = make_batch(now_s, 5.0, make_stage(12, 20.0), slots=nodes)
    return make_snapshot(now_s, nodes, [batch], windows=windows)


def trained(agent: str, seed: int = 1, steps: int = 300) -> DeepLearner:
    strategy, nodes = DeepLearner(agent=agent, policy="explore", seed=seed), 4
    for k in range(steps):
        nodes = strategy.decide(seen(10.0 * k, nodes)).wanted.main_nodes
    return strategy


@pytest.mark.parametrize("agent", AGENTS)
def test_weights_are_kept_as_text_and_decide_the_same(agent: str, tmp_path: Path) -> None:
    text = trained(agent).state()
    assert text is not None
    assert text == trained(agent).state(), "the same seed learned something else"
    file = tmp_path / "w.json"
    file.write_text(text)
    from_file, restored = DeepLearner(agent=agent, weights=file), DeepLearner(agent=agent)
    restored.restore(text)
    for k in range(20):
        snapshot = seen(10.0 * k, 1 + k)
        assert from_file.decide(snapshot) == restored.decide(snapshot)
    assert from_file.state() is None, "it learned without being asked to"
    assert from_file.state_file is None
    assert DeepLearner(agent=agent, weights=file, policy="explore").state_file == file


def test_late_rows_get_the_largest_step_out_whatever_the_network_says() -> None:
    for policy in ("greedy", "explore"):
        decision = DeepLearner(policy=policy).decide(seen(0.0, freshness_s=31.0))
        assert decision.wanted.main_nodes == 8
        assert "longer than the SLO allows" in decision.reason


def test_weights_that_were_cut_off_edited_or_of_another_agent_are_refused(tmp_path: Path) -> None:
    text, file = trained("dqn", steps=5).state() or "", tmp_path / "w.json"
    edited = json.dumps(json.loads(text) | {"steps": 99})
    for content, message in (
        (text[: len(text) // 2], "is not a whole file with weights"),
        (edited, "was edited or damaged"),
        ('{"format": "other"}', "is not a file with weights of deep-learner"),
    ):
        file.write_text(content)
        with pytest.raises(InputError, match=message):
            DeepLearner(agent="dqn", weights=file)
    file.write_text(text)
    with pytest.raises(InputError, match=r"has weights of dqn; set agent=dqn, or train ppo"):
        DeepLearner(agent="ppo", weights=file)
    with pytest.raises(InputError, match="cannot read the file with weights"):
        DeepLearner(weights=tmp_path / "none.json")


@pytest.mark.parametrize("agent", AGENTS)
def test_the_weights_that_come_with_it_keep_the_slo_on_a_load_they_were_not_trained_on(agent: str) -> None:
    load = parse_load("day(base=150, peak=1400, period=3h)")

    def scores(strategy: str) -> Scores:
        run = simulate(Spec(seconds="3h", seed=5).scenario(load), make_strategy(strategy))
        return score(run, oracle_node_seconds=None)

    deep, capacity = scores(f"deep-learner(agent={agent})"), scores("capacity")
    assert deep.violation <= 0.01
    assert deep.node_seconds <= 1.15 * capacity.node_seconds
