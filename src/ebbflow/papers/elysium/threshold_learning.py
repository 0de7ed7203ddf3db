"""Q-learning of the three thresholds of symbiotic scaling (§5.1, Table 1, Figure 6a–b).

A state is a threshold on a grid. An action moves to the next lower value, stays, or moves to the next higher value.
Then a trial runs with that threshold, and

    reward = threshold − throughput degradation
    Q(s, a) ← Q(s, a) + α · (reward + γ · max Q(s′, ·) − Q(s, a))           (Watkins and Dayan)

So the best threshold uses as much of a node as costs no throughput. Degradation is unsmoothed. The paper publishes this
reward for ``cpu_max_thr`` and says that the other two thresholds were found "in a similar way". ``ThresholdLearner`` is
the algorithm; ``study_thresholds`` applies it to symbiotic scaling of T1, one threshold at a time with the other two as
published.

The trial is a step of three minutes to 580 rows/s. The backlog from before the scale-out must be processed afterwards:
three nodes can do that, two are 88 % busy with new rows and cannot. So throughput is lost from the ``cpu_max`` at which
two nodes seem to be enough. **This load was picked because it shows the shape of Table 1**: on the loads of Figure 9
the reward of ``cpu_max`` keeps rising up to 0.90, the end of the published grid. It was not picked for the other two
thresholds; docs/elysium.md has the results on other loads.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ebbflow.core.machine import cores
from ebbflow.errors import InputError
from ebbflow.papers.elysium.cases import Case
from ebbflow.papers.elysium.models import Models
from ebbflow.papers.elysium.published import SYMBIOTIC, T1, TABLE_1, THRESHOLDS, Key
from ebbflow.papers.elysium.run import RowMetrics, RunCurves, run_case
from ebbflow.runs.parallel import parallel_map
from ebbflow.strategies.symbiotic import UsageThresholds
from ebbflow.workloads import parse_load

# -- the algorithm -----------------------------------------------------------------------------------------------

Trial = Callable[[float, int], float]
"""(threshold, number of the trial) → throughput degradation."""


@dataclass(frozen=True, kw_only=True)
class LearnedThreshold:
    """The result of learning one threshold."""

    rewards: Mapping[float, float]
    """Mean reward of each value that was tried."""
    trials: Mapping[float, int]
    ends_at: float
    """Where the greedy policy converges, starting from the last trial."""

    @property
    def best(self) -> float:
        """The value with the highest mean reward."""
        return max(self.rewards, key=lambda value: self.rewards[value])

    @property
    def inside(self) -> bool:
        """Whether the best value is neither the lowest nor the highest that was tried."""
        return min(self.rewards) < self.best < max(self.rewards)


class ThresholdLearner:
    """Q-learning over a grid of thresholds. ``explore`` is the initial share of random actions; it decays to a tenth.

    >>> cliff = ThresholdLearner([0.6, 0.7, 0.8, 0.9], lambda value, _: 0.1 if value < 0.85 else 0.5,
    ...                          np.random.default_rng(1))
    >>> found = cliff.learn(200)
    >>> found.best, found.ends_at, found.inside, {v: round(r, 2) for v, r in found.rewards.items()}
    (0.8, 0.8, True, {0.6: 0.5, 0.7: 0.6, 0.8: 0.7, 0.9: 0.4})
    """

    def __init__(
        self,
        values: Sequence[float],
        trial: Trial,
        rng: np.random.Generator,
        *,
        learning_rate: float = 0.3,
        discount: float = 0.5,
        explore: float = 0.5,
    ) -> None:
        if len(values) < 3 or any(b <= a for a, b in itertools.pairwise(values)):
            raise InputError(f"thresholds to try: {list(values)}; give at least three, in ascending order")
        if not (0 < learning_rate <= 1 and 0 <= discount < 1 and 0 <= explore <= 1):
            raise InputError("learning_rate must be in (0, 1], discount in [0, 1), explore in [0, 1]")
        self._values, self._trial, self._rng = tuple(values), trial, rng
        self._learning_rate, self._discount, self._explore = learning_rate, discount, explore
        # Optimistic start: no reward is above 1, so every untried action looks better than any tried one.
        self._q = [[1.0 / (1.0 - discount)] * 3 for _ in values]
        """By value and action; the actions are −1, 0, +1."""
        self._reward_sum = [0.0] * len(values)
        self._count = [0] * len(values)
        self._at = int(rng.integers(len(values)))

    def learn(self, trials: int) -> LearnedThreshold:
        """Run this many more trials and return what is known after them."""
        if trials < 1:
            raise InputError(f"{trials} trials teach nothing; run at least one")
        for number in range(trials):
            explore = max(0.1 * self._explore, self._explore * (1 - number / trials))
            self._step(sum(self._count), explore)
        tried = [k for k, count in enumerate(self._count) if count]
        return LearnedThreshold(
            rewards={self._values[k]: self._reward_sum[k] / self._count[k] for k in tried},
            trials={self._values[k]: self._count[k] for k in tried},
            ends_at=self._values[self._follow(self._at)],
        )

    def _step(self, number: int, explore: float) -> None:
        at, allowed = self._at, self._allowed(self._at)
        at_random = self._rng.random() < explore
        action = allowed[int(self._rng.integers(len(allowed)))] if at_random else self._greedy(at)
        to = at + action - 1
        reward = self._values[to] - self._trial(self._values[to], number)
        self._reward_sum[to] += reward
        self._count[to] += 1
        ahead = max(self._q[to][a] for a in self._allowed(to))
        known = self._q[at]
        known[action] += self._learning_rate * (reward + self._discount * ahead - known[action])
        self._at = to

    def _allowed(self, at: int) -> list[int]:
        return [a for a in (0, 1, 2) if 0 <= at + a - 1 < len(self._values)]

    def _greedy(self, at: int) -> int:
        return max(self._allowed(at), key=lambda action: (self._q[at][action], action == 1))

    def _follow(self, at: int) -> int:
        for _ in self._values:
            at += self._greedy(at) - 1
        return at


# -- the study ---------------------------------------------------------------------------------------------------

SEEDS = 3
TRIALS = 1000
"""Trials draw from the runs, so they take no time. With 300 on 15 values, the end was partly chance."""
COSTLY = 0.5
"""A step between values is reported if it loses more than this share of what the threshold gains by it."""
NODES = "nodes"
TRIAL = Case(
    key=Key(T1, "step", SYMBIOTIC),
    loads=((T1, parse_load("stair(base=150, peak=580, steps=1, hold=3m)")),),
    seconds=720.0,
)


@dataclass(frozen=True, kw_only=True)
class ThresholdGrid:
    """A threshold and the values to try."""

    name: str
    """A field of ``UsageThresholds``."""
    values: tuple[float, ...]
    published_rewards: Mapping[float, float] = field(default_factory=dict)

    def thresholds(self, value: float) -> UsageThresholds:
        """This threshold at a value, the others as published."""
        return UsageThresholds(**{**THRESHOLDS, self.name: value})


def _twentieths(low: int, high: int) -> tuple[float, ...]:
    return tuple(round(0.05 * k, 2) for k in range(low, high + 1))


CPU_MAX = ThresholdGrid(name="cpu_max", values=tuple(TABLE_1), published_rewards=TABLE_1)
CORE_MAX = ThresholdGrid(name="core_max", values=_twentieths(6, 20))
"""Every twentieth above the published core_min."""
CORE_MIN = ThresholdGrid(name="core_min", values=_twentieths(1, 12))
"""Every twentieth below the published core_max."""
GRIDS = (CPU_MAX, CORE_MAX, CORE_MIN)


@dataclass(frozen=True, kw_only=True)
class TriedValue:
    """One value of a threshold: means over the seeds."""

    value: float
    throughput_degradation: float
    nodes_saved: float
    reward: float
    published: float | None
    """The published reward."""
    most: Mapping[str, float] = field(default_factory=dict)
    """The most nodes held and the most instances of each operator, in the run with the first seed."""

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "value": self.value,
            "throughput_degradation": round(self.throughput_degradation, 4),
            "nodes_saved": round(self.nodes_saved, 4),
            "reward": round(self.reward, 4),
            "published": self.published,
            "most": dict(self.most),
        }


@dataclass(frozen=True, kw_only=True)
class ThresholdStudy:
    """Every value of one threshold, and where Q-learning converged."""

    grid: ThresholdGrid
    case: Case
    tried: Sequence[TriedValue]
    learned: LearnedThreshold
    same_until: float
    """Up to this value all runs are identical: the threshold has no effect."""

    @property
    def name(self) -> str:
        """A field of ``UsageThresholds``."""
        return self.grid.name

    @property
    def published(self) -> float:
        """The published value."""
        return THRESHOLDS[self.name]

    @property
    def converged(self) -> TriedValue:
        """The value at which Q-learning converged."""
        return next(each for each in self.tried if each.value == self.learned.ends_at)

    @property
    def found(self) -> str:
        """The result in a sentence or two."""
        lowest, highest = self.tried[0].value, self.tried[-1].value
        if self.learned.inside:
            where = "inside"
        else:
            where = "at the upper end of" if self.learned.best == highest else "at the lower end of"
        text = (
            f"The reward is highest at {self.learned.best:.2f}, {where} the values tried "
            f"({lowest:.2f} to {highest:.2f})."
        )
        if self.same_until > lowest:
            text += f" Up to {self.same_until:.2f} the value makes no difference."
        return text

    @property
    def why(self) -> str:
        """The steps at which throughput is lost, and what the runs had fewer of."""
        costly = [
            (low, high)
            for low, high in itertools.pairwise(self.tried)
            if high.throughput_degradation - low.throughput_degradation > COSTLY * (high.value - low.value)
        ]
        if not costly:
            return "No step costs more than half of what it gains."
        steps = (
            f"from {low.value:.2f} to {high.value:.2f} the degradation rises from {low.throughput_degradation:.3f} to "
            f"{high.throughput_degradation:.3f}, with {_fewer(low.most, high.most)}"
            for low, high in costly
        )
        text = "; ".join(steps)
        return f"{text[0].upper()}{text[1:]}."

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "table": [each.to_json() for each in self.tried],
            "published": self.published,
            "best": self.learned.best,
            "ends_at": self.learned.ends_at,
            "inside": self.learned.inside,
            "same_until": self.same_until,
            "found": self.found,
            "why": self.why,
        }


def _fewer(before: Mapping[str, float], after: Mapping[str, float]) -> str:
    """The maxima that changed.

    >>> _fewer({"nodes": 3.0, "words": 2.0}, {"nodes": 2.0, "words": 1.0})
    'at most 2 nodes instead of 3, at most 1 instance of words instead of 2'
    """
    changed = [
        f"at most {after[name]:g} {_unit(name, after[name])} instead of {most:g}"
        for name, most in before.items()
        if after[name] != most
    ]
    return ", ".join(changed) or "the same maximum of nodes and instances"


def _unit(name: str, count: float) -> str:
    plural = "" if count == 1 else "s"
    return f"node{plural}" if name == NODES else f"instance{plural} of {name}"


def _most(curves: RunCurves) -> dict[str, float]:
    steps_by_name = {NODES: curves.nodes, **curves.parallelism}
    return {name: max(count for _, count in steps) for name, steps in steps_by_name.items()}


def threshold_runs(grids: Sequence[ThresholdGrid] = GRIDS, *, seeds: int = SEEDS) -> int:
    """The number of runs of a study.

    >>> threshold_runs()
    102
    """
    return seeds * sum(len(each.values) for each in grids)


def _run_item(
    shared: tuple[Models, Case], item: tuple[ThresholdGrid, float, int]
) -> tuple[RowMetrics, dict[str, float] | None]:
    (models, case), (grid, value, seed) = shared, item
    strategy = models.symbiotic(case, thresholds=grid.thresholds(value))
    metrics, curves = run_case(case, strategy, seed, with_curves=seed == 1)
    return metrics, None if curves is None else _most(curves)


def study_thresholds(
    models: Models,
    case: Case = TRIAL,
    grids: Sequence[ThresholdGrid] = GRIDS,
    *,
    seeds: int = SEEDS,
    workers: int | None = None,
    on_done: Callable[[], None] = lambda: None,
) -> list[ThresholdStudy]:
    """Run each value of each threshold with each seed, then learn from these runs. Calls ``on_done`` after each run."""
    items = [(grid, value, seed) for grid in grids for value in grid.values for seed in range(1, seeds + 1)]
    with parallel_map((models, case), workers=workers or cores()) as work:
        outcomes = work(_run_item, items, lambda *_: on_done())
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    runs: dict[tuple[str, float], list[RowMetrics]] = {}
    most: dict[tuple[str, float], dict[str, float]] = {}
    for (grid, value, _), (metrics, maxima) in zip(items, outcomes, strict=True):
        runs.setdefault((grid.name, value), []).append(metrics)
        if maxima is not None:
            most[grid.name, value] = maxima
    return [
        _study(
            grid,
            case,
            {value: runs[grid.name, value] for value in grid.values},
            {value: most[grid.name, value] for value in grid.values},
        )
        for grid in grids
    ]


def _study(
    grid: ThresholdGrid,
    case: Case,
    runs: Mapping[float, Sequence[RowMetrics]],
    most: Mapping[float, Mapping[str, float]],
) -> ThresholdStudy:
    def trial(value: float, number: int) -> float:
        drawn = runs[value][number % len(runs[value])]
        return drawn.throughput_degradation_unsmoothed or 0.0

    learner = ThresholdLearner(grid.values, trial, np.random.default_rng(1))
    tried = []
    for value in grid.values:
        mean = RowMetrics.mean(runs[value])
        lost = mean.throughput_degradation_unsmoothed or 0.0
        tried.append(
            TriedValue(
                value=value,
                throughput_degradation=lost,
                nodes_saved=mean.nodes_saved or 0.0,
                reward=value - lost,
                published=grid.published_rewards.get(value),
                most=most[value],
            )
        )
    lowest = runs[grid.values[0]]
    same = list(itertools.takewhile(lambda value: runs[value] == lowest, grid.values))
    return ThresholdStudy(
        grid=grid, case=case, tried=tried, learned=learner.learn(TRIALS), same_until=same[-1]
    )
