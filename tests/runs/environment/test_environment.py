"""The environment follows Gymnasium's rules, and its scores are those of every other run."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from ebbflow.core.limits import Limits
from ebbflow.errors import EbbflowError
from ebbflow.guards import Bounds
from ebbflow.runs.environment import ENV_ID, ScalingEnv, feature_names
from ebbflow.runs.environment.features import FEATURES
from ebbflow.runs.score import score
from ebbflow.runs.simulation import oracle_of, run_simulation
from ebbflow.strategies import make_strategy
from ebbflow.targets.simulator import MissingMetrics, Scenario, built_in_engine
from ebbflow.workloads import parse_load

ROOT = Path(__file__).parents[3]
SHORT = {"load": "sine(base=100, peak=900, period=5m)", "nodes": "1:8"}


def played(env: ScalingEnv, actions, seed: int = 1) -> tuple[list[np.ndarray], list[float], dict]:
    features, info = env.reset(seed=seed)
    seen, rewards = [features], []
    for action in actions:
        features, reward, terminated, truncated, info = env.step(np.int64(action))
        assert not terminated
        seen.append(features)
        rewards.append(reward)
        if truncated:
            break
    return seen, rewards, info


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"engine": "continuous", "pipeline": "sentiment"},
        {"action": "absolute", "noise": 0.3, "nodes": "2:5"},
        {"guarded": True, "load": ["constant(100)", "constant(300)"], "seconds": 60.0, "cycle_s": 5.0},
    ],
    ids=str,
)
def test_gymnasium_reports_no_warnings(settings: dict) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make(f"ebbflow.runs.environment:{ENV_ID}", **settings)
        check_env(env.unwrapped)
        env.close()


@pytest.mark.parametrize("engine", ["micro-batch", "continuous"])
def test_static_scores_the_same_through_the_environment(engine: str) -> None:
    env = ScalingEnv(engine=engine, action="absolute", **SHORT)
    _, rewards, info = played(env, [7] * 100)
    whole = run_simulation(env.scenario, make_strategy("static"), guards=(Bounds(),))
    cheapest = oracle_of(env.scenario, whole.run).node_seconds
    assert info["scores"] == score(whole.run, oracle_node_seconds=cheapest).to_json()
    assert env.simulation is not None
    assert len(rewards) == 30


@pytest.mark.parametrize("engine", ["micro-batch", "continuous"])
@pytest.mark.parametrize("penalty", [0.0, 10.0])
def test_the_mean_reward_follows_from_the_scores(engine: str, penalty: float) -> None:
    env = ScalingEnv(engine=engine, late_penalty=penalty, noise=0.2, seconds=404.0, **SHORT)
    rng = np.random.default_rng(0)
    _, rewards, info = played(env, rng.integers(9, size=100))
    scores = info["scores"]
    expected = -((1 - scores["nodes_saved"]) + penalty * scores["violation"])
    assert scores["violation"] > 0
    assert sum(rewards) / (404.0 / 10.0) == pytest.approx(expected)


def test_the_same_seed_gives_the_same_episode_and_another_seed_a_different_one() -> None:
    env = ScalingEnv(noise=0.3, **SHORT)
    actions = np.random.default_rng(3).integers(9, size=20)
    one, same, other = (played(env, actions, seed=seed) for seed in (5, 5, 6))
    assert one[1] == same[1]
    assert all((a == b).all() for a, b in zip(one[0], same[0], strict=True))
    assert one[1] != other[1]
    env.reset(seed=5)
    first = env.step(np.int64(4))[0]
    env.reset()  # goes on with the same generator: another episode
    assert env.np_random is not None
    assert first.shape == (len(FEATURES),)


@pytest.mark.parametrize(("action", "allowed"), [(8, 8), (0, 1)])
def test_no_action_leaves_the_limits_and_the_guard_says_so(action: int, allowed: int) -> None:
    env = ScalingEnv(**SHORT)
    env.reset(seed=1)
    planned = []
    for _ in range(5):
        info = env.step(np.int64(action))[4]
        planned.append(info["planned_nodes"])
    assert planned[-1] == allowed
    assert info["bound_by"] == "bounds"
    assert all(1 <= nodes <= 8 for nodes in planned)


@pytest.mark.parametrize("engine", ["micro-batch", "continuous"])
def test_observations_are_finite_and_within_their_bounds_whatever_happens(engine: str) -> None:
    scenario = Scenario(
        engine=built_in_engine("top-words", engine),
        load=parse_load("square(base=0, peak=100000, period=2m)"),
        limits=Limits.parse("1:3"),
        faults=(MissingMetrics(from_s=0.0, until_s=35.0), MissingMetrics(from_s=100.0, until_s=200.0)),
        seconds=400.0,
    )
    env = ScalingEnv(scenario=scenario)
    seen, rewards, _ = played(env, np.random.default_rng(1).integers(9, size=100))
    assert len(seen) == 41
    assert all(env.observation_space.contains(features) for features in seen)
    assert np.isfinite(rewards).all()
    blind = np.array([features[feature_names().index("blind")] for features in seen])
    assert blind.max() == 1.0
    assert blind[-1] == 0.0


def test_features_match_the_monitor() -> None:
    env = ScalingEnv(load="constant(400)", seconds=300.0, nodes="1:8", action="absolute")
    seen, _, info = played(env, [3] * 100)
    last = dict(zip(feature_names(), seen[-1].tolist(), strict=True))
    capacity_per_s = env.scenario.capacity_rows_per_s
    assert last["rate"] == pytest.approx(400.0 / capacity_per_s[8], rel=0.01)
    assert last["rise"] == pytest.approx(0.0, abs=0.01)
    assert (last["working"], last["requested"], last["held"]) == (0.5, 0.5, 0.5)
    assert 0.5 < last["busy"] < 1.0
    assert last["calm"] == pytest.approx(min(1.0, 290.0 / 300.0), abs=0.04)
    assert last["freshness"] == pytest.approx(info["freshness_s"] / 30.0, rel=1e-4)
    assert last["blind"] == 0.0


def test_an_episode_may_have_another_load_pipeline_engine_or_length() -> None:
    env = ScalingEnv(**SHORT)
    options = {"load": "constant(50)", "pipeline": "sentiment", "engine": "continuous", "seconds": 40}
    env.reset(seed=1, options=options)
    steps = 1
    while not env.step(np.int64(4))[3]:
        steps += 1
    assert steps == 4
    run = env.simulation.run
    assert (run.pipeline, run.arrived.values[-1]) == ("sentiment", 2000.0)
    env.reset(seed=1)  # and the next one is as before
    assert env.scenario.load == parse_load(SHORT["load"])


def test_each_episode_draws_one_of_several_loads() -> None:
    env = ScalingEnv(load=["constant(10)", "constant(20)"], seconds=60.0)
    env.reset(seed=0)
    drawn = set()
    for _ in range(20):
        env.reset()
        drawn.add(str(env.scenario.load))
    assert drawn == {"constant(10)", "constant(20)"}


def test_render_returns_a_line_of_text() -> None:
    env = ScalingEnv(render_mode="ansi", **SHORT)
    env.reset(seed=1)
    env.step(np.int64(6))
    assert "1 node #.." in env.render()
    assert ScalingEnv(**SHORT).render() is None


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"action": "relative"}, "there are: absolute, change"),
        ({"most_change": 0}, "1 or more"),
        ({"late_penalty": -1.0}, "0 or more"),
        ({"load": "sinus(3)"}, "sinus"),
        ({"load": []}, "no load"),
        ({"nodes": "0:0"}, "the minimum is 1"),
        ({"render_mode": "human"}, "there are: ansi"),
    ],
)
def test_bad_settings_say_what_would_be_right(settings: dict, words: str) -> None:
    with pytest.raises(EbbflowError, match=words):
        ScalingEnv(**settings)


def test_bad_use_says_what_would_be_right() -> None:
    env = ScalingEnv(seconds=20.0, **SHORT)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(np.int64(0))
    with pytest.raises(EbbflowError, match="there are: engine, load, pipeline, seconds"):
        env.reset(options={"speed": 2})
    env.reset(seed=1)
    with pytest.raises(gymnasium.error.InvalidAction):
        env.step(np.int64(9))
    env.step(np.int64(4)), env.step(np.int64(4))
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(np.int64(4))


def test_without_gymnasium_one_line_says_what_to_install() -> None:
    code = "import sys; sys.modules['gymnasium'] = None; import ebbflow.runs.environment"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert output.returncode == 1
    assert "pip install 'ebbflow[learning]'" in output.stderr.splitlines()[-1]


def test_every_feature_is_on_the_page() -> None:
    page = (ROOT / "docs" / "environment.md").read_text()
    for feature in FEATURES:
        assert f"| `{feature.name}` | {feature.low:g} … {feature.high:g} | {feature.meaning} |" in page
