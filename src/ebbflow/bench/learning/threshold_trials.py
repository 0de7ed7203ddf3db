"""Trials for learning thresholds: a simulated run with a threshold, and the throughput it degraded by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ebbflow.bench.score import score
from ebbflow.bench.simulation import simulate
from ebbflow.core.ports import Strategy
from ebbflow.strategies.algorithm_one import Thresholds
from ebbflow.strategies.symbiotic import Symbiotic
from ebbflow.targets.simulator.scenario import Scenario


def with_cpu_max(value: float) -> Strategy:
    """Symbiotic scaling with another threshold for nodes."""
    return Symbiotic(thresholds=replace(Thresholds(), cpu_max=value))


class ThresholdTrials:
    """(threshold, number) → throughput degradation of a scenario. The number picks one of ``seeds`` of luck; what was
    run once is not run again, because the same seed gives the same run."""

    def __init__(
        self, scenario: Scenario, *, seeds: int = 3, make: Callable[[float], Strategy] = with_cpu_max
    ) -> None:
        self._scenario, self._seeds, self._make = scenario, max(1, seeds), make
        self._known: dict[tuple[float, int], float] = {}

    def __call__(self, value: float, number: int) -> float:
        """Degradation in one run."""
        seed = self._scenario.seed + number % self._seeds
        if (value, seed) not in self._known:
            run = simulate(replace(self._scenario, seed=seed), self._make(value))
            found = score(run, oracle_node_seconds=None).throughput_degradation
            self._known[value, seed] = 0.0 if found is None else found
        return self._known[value, seed]
