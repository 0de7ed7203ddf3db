"""Table 1 in the simulator: the reward has its maximum strictly inside the range."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ebbflow.bench.learning.threshold_trials import ThresholdTrials
from ebbflow.core.limits import Limits
from ebbflow.strategies.learning.thresholds import TABLE_1, ThresholdLearner
from ebbflow.targets.simulator.continuous import Continuous
from ebbflow.targets.simulator.nodes import NodeKind
from ebbflow.targets.simulator.scenario import Scenario, built_in_engine
from ebbflow.workloads import parse_load


def test_the_reward_of_cpu_max_rises_and_then_falls() -> None:
    costed = built_in_engine("top-words", "continuous", noise=0.05)
    assert isinstance(costed, Continuous)
    engine = replace(costed, parallelism=dict.fromkeys(costed.pipeline.order, 1), queue_bound_rows=None)
    scenario = Scenario(
        engine=engine,
        load=parse_load("noise(sine(base=200, peak=1400, period=15m), amount=0.1)"),
        limits=Limits(min_nodes=1, max_nodes=4),
        nodes=NodeKind(slots=4, lead_time_s=0.0),
        seconds=1800.0,
    )
    trials = ThresholdTrials(scenario, seeds=2)
    found = ThresholdLearner(list(TABLE_1), trials, np.random.default_rng(1)).learn(150)
    assert found.inside
    assert found.ends_at == found.best
    rewards = [found.rewards[value] for value in sorted(found.rewards)]
    assert rewards[-1] < rewards[-2] < max(rewards)
