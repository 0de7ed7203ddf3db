"""Steps per second of the learning environment: an hour at a constant size, and one with a change in every step."""

from __future__ import annotations

import time

import numpy as np

from benchmarks.figures import Figure
from ebbflow.runs.environment import ScalingEnv


def measure() -> list[Figure]:
    return [
        Figure(
            what=f"environment, {engine}, {words}",
            value=_steps_per_s(engine, change),
            unit="steps/CPU-s",
            bar=bar,
            at_least=True,
        )
        for engine, words, change, bar in (
            ("micro-batch", "12 nodes", False, 1000.0),
            ("micro-batch", "a new size in each step", True, 300.0),
            ("continuous", "12 nodes", False, 500.0),
            ("continuous", "a new size in each step", True, 200.0),
        )
    ]


def _steps_per_s(engine: str, change: bool) -> float:
    env = ScalingEnv(engine=engine, action="absolute")
    rng = np.random.default_rng(1)
    steps, took_s = 0, 0.0
    for seed in range(3):
        env.reset(seed=seed)
        over = False
        began_s = time.process_time()
        while not over:
            over = env.step(np.int64(rng.integers(10, 16) if change else 11))[3]
            steps += 1
        took_s += time.process_time() - began_s
    return steps / took_s
