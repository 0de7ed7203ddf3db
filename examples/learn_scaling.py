"""Train a small policy on ``ebbflow/Scaling-v0`` with the cross-entropy method.

    python examples/learn_scaling.py            # trains for 40 seconds, then runs an unseen load
    python examples/learn_scaling.py 10         # trains for 10

The policy requests the size nearest to  most · (w₀ + w₁·rate + w₂·rise + w₃·backlog + w₄·freshness).
Each generation draws weights around the best so far, simulates twenty minutes with each, and keeps the best quarter
(Rubinstein, "The cross-entropy method for combinatorial and continuous optimization", 1999). numpy only.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

from ebbflow.runs.environment import ScalingEnv, feature_names
from ebbflow.runs.score import score
from ebbflow.runs.simulation import oracle_of, simulate
from ebbflow.strategies import make_strategy

Policy = Callable[[np.ndarray], int]

LEARN_ON = [
    "sine(base=200, peak=1600, period=20m)",
    "square(base=300, peak=1200, period=10m)",
    "sawtooth(base=100, peak=1600, period=15m)",
]
PLAY_ON = "sine(base=150, peak=1000, period=45m) + square(base=0, peak=500, period=17m)"
USED = [feature_names().index(name) for name in ("rate", "rise", "backlog", "freshness")]
REQUESTED = feature_names().index("requested")
MOST = 16


def policy_of(weights: np.ndarray) -> Policy:
    def act(features: np.ndarray) -> int:
        wanted = MOST * (weights[0] + float(weights[1:] @ features[USED]))
        return int(np.clip(round(wanted), 1, MOST)) - 1

    return act


def play(env: ScalingEnv, policy: Policy, seed: int, **options: object) -> tuple[float, dict[str, float]]:
    """Mean reward and scores of one episode."""
    features, info = env.reset(seed=seed, options=options)
    rewards, over = [], False
    while not over:
        features, reward, _, over, info = env.step(np.int64(policy(features)))
        rewards.append(reward)
    return float(np.mean(rewards)), info["scores"]


def learn(env: ScalingEnv, seconds: float, population: int = 16) -> np.ndarray:
    rng = np.random.default_rng(1)
    mean, spread = np.array([0.3, 0.5, 0.0, 0.0, 0.0]), np.array([0.3, 0.6, 0.5, 0.3, 0.3])
    end_s, generation = time.monotonic() + seconds, 0
    while True:
        generation += 1
        drawn = rng.normal(mean, spread, (population, len(mean)))
        rewards = []
        for weights in drawn:
            load = LEARN_ON[generation % len(LEARN_ON)]  # one load per generation: a fair comparison
            rewards.append(play(env, policy_of(weights), seed=generation, load=load)[0])
            if time.monotonic() > end_s:
                return mean
        elite = drawn[np.argsort(rewards)[-population // 4 :]]
        mean, spread = elite.mean(axis=0), elite.std(axis=0) + 0.1 / generation
        print(f"generation {generation:2d}: mean reward {np.mean(rewards):7.3f}, best {max(rewards):7.3f}")


def main(seconds: float = 40.0) -> None:
    env = ScalingEnv(action="absolute", load=LEARN_ON[0], nodes=f"1:{MOST}", seconds=1200.0)
    rng = np.random.default_rng(7)
    weights = learn(env, seconds)
    print("\nweights: " + ", ".join(f"{weight:.2f}" for weight in weights))
    print(f"one hour of an unseen load, {PLAY_ON}:\n")
    row = "{:<10} {:>12} {:>13} {:>10} {:>8} {:>8}"
    print(row.format("policy", "mean reward", "node-seconds", "÷ cheapest", "late", "p95"))
    policies: dict[str, Policy] = {
        "random": lambda _: int(rng.integers(MOST)),
        "maximum": lambda _: MOST - 1,
        "learned": policy_of(weights),
    }
    results = {
        name: play(env, policy, seed=99, load=PLAY_ON, seconds=3600)[1] for name, policy in policies.items()
    }
    run = simulate(env.scenario, make_strategy("capacity"))
    oracle = oracle_of(env.scenario, run)
    cheapest = None if oracle is None else oracle.node_seconds
    results["capacity"] = score(run, oracle_node_seconds=cheapest).to_json()
    for name, s in results.items():
        reward = -((1 - s["nodes_saved"]) + 10 * s["violation"])
        cells = (
            f"{reward:.3f}",
            f"{s['node_seconds']:.0f}",
            f"{s['cost_ratio']:.2f}",
            f"{s['violation']:.2%}",
            f"{s['latency_p95_s']:.1f} s",
        )
        print(row.format(name, *cells))


if __name__ == "__main__":
    main(*(float(argument) for argument in sys.argv[1:2]))
