"""The three thresholds by Q-learning (§5.1, Table 1, Figure 6a–b): symbiotic scaling of T1 with each value of one of
them, the other two at the seed's values.

    reward = threshold − throughput degradation

The seed prints this reward for ``cpu_max_thr`` and says that the others were found "in a similar way". Q-learning
(``strategies.learning``) walks over the values, and comes to rest where most is used without costing throughput.
Degradation is the unsmoothed one.

The trial is a step of three minutes to 580 rows/s, for all three. What came before the scale-out has to be worked off
afterwards: three nodes can, two are 88 % busy with what comes and cannot. So from the ``cpu_max`` on at which two are
taken for enough, throughput is lost. **This load was picked because it shows the shape of Table 1**: on the loads of T1
in the table the reward of ``cpu_max`` went on rising up to 0.90, the end of the seed's grid. For the other two it was
not picked; docs/elysium.md tells what comes out on the other loads.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ebbflow.bench.elysium.cases import Case
from ebbflow.bench.elysium.kit import Kit
from ebbflow.bench.elysium.names import SYMBIOTIC, T1, Key
from ebbflow.bench.elysium.published import THRESHOLDS
from ebbflow.bench.elysium.result import Measured
from ebbflow.bench.elysium.run import play_case
from ebbflow.bench.workforce import workforce
from ebbflow.core.machine import cores
from ebbflow.strategies.algorithm_one import Thresholds
from ebbflow.strategies.learning.thresholds import TABLE_1, LearnedThreshold, ThresholdLearner
from ebbflow.workloads import parse_load

SEEDS = 3
TRIALS = 1000
"""They draw from the runs, so they take no time; with 300, where over 15 values it came to rest was partly luck."""
TRIAL = Case(
    key=Key(T1, "step", SYMBIOTIC),
    loads=((T1, parse_load("stair(base=150, peak=580, steps=1, hold=3m)")),),
    seconds=720.0,
)


@dataclass(frozen=True, kw_only=True)
class Studied:
    """A threshold, and the values that are tried."""

    name: str
    """As in ``Thresholds``."""
    values: tuple[float, ...]
    why: str
    """How the threshold works on the trial's load."""
    rewards: Mapping[float, float] = field(default_factory=dict)
    """As published, where they are."""

    def thresholds(self, value: float) -> Thresholds:
        """With this value, and the others as the seed found them."""
        return Thresholds(**{**THRESHOLDS, self.name: value})


def _twentieths(low: int, high: int) -> tuple[float, ...]:
    return tuple(round(0.05 * k, 2) for k in range(low, high + 1))


CPU_MAX = Studied(
    name="cpu_max",
    values=tuple(TABLE_1),
    rewards=TABLE_1,
    why="Nothing is lost before a node is really full. What a high threshold costs is the time to work off what piled "
    "up before: two nodes that are 88 % busy with what comes have next to none. The load, a step to 580 rows/s, was "
    "picked because this shows on it; on the loads of the table the reward rises up to 0.90, its last value.",
)
CORE_MAX = Studied(
    name="core_max",
    values=_twentieths(6, 20),
    why="Nothing is lost before the core of an instance is full. What a high threshold costs is the time to work off "
    "what piled up before: at 580 rows/s the stop-word filter has an instance less from 0.85 on, the splitter of words "
    "from 0.95 on, which is then 93 % busy with what comes. But each of the two costs no more than the threshold gains "
    "in a step or two.",
)
"""Every twentieth above the seed's core_min."""
CORE_MIN = Studied(
    name="core_min",
    values=_twentieths(1, 12),
    why="Algorithm 1 takes instances away while they use less than core_min, and does not look at core_max again: the "
    "one that is left of two uses up to twice core_min, above 0.50 more than a core. Up to core_max ÷ 2 it never takes "
    "one away, since the fewest instances that keep core_max are busier than that where CPU is in proportion to rows. "
    "So there the reward is the threshold less a constant, and cannot be highest at the seed's 0.25.",
)
"""Every twentieth below the seed's core_max."""
STUDIED = (CPU_MAX, CORE_MAX, CORE_MIN)


@dataclass(frozen=True, kw_only=True)
class Tried:
    """One value of a threshold: means over the seeds."""

    value: float
    throughput_degradation: float
    nodes_saved: float
    reward: float
    published: float | None
    """The seed's reward, where it told it."""

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "value": self.value,
            "throughput_degradation": round(self.throughput_degradation, 4),
            "nodes_saved": round(self.nodes_saved, 4),
            "reward": round(self.reward, 4),
            "published": self.published,
        }


@dataclass(frozen=True, kw_only=True)
class ThresholdStudy:
    """Every value of one threshold, and where Q-learning came to rest."""

    studied: Studied
    tried: Sequence[Tried]
    learned: LearnedThreshold
    same_until: float
    """Up to this value every run was, to the last digit, as with the lowest: the threshold did nothing."""

    @property
    def name(self) -> str:
        """As in ``Thresholds``."""
        return self.studied.name

    @property
    def published(self) -> float:
        """What the seed found."""
        return THRESHOLDS[self.name]

    @property
    def at_rest(self) -> Tried:
        """The value that Q-learning came to rest at."""
        return next(each for each in self.tried if each.value == self.learned.ends_at)

    @property
    def found(self) -> str:
        """What came out, in a sentence or two."""
        lowest, highest = self.tried[0].value, self.tried[-1].value
        if self.learned.inside:
            where = "inside"
        else:
            where = "at the upper end of" if self.learned.best == highest else "at the lower end of"
        said = (
            f"The reward is highest at {self.learned.best:.2f}, {where} the values tried "
            f"({lowest:.2f} to {highest:.2f})."
        )
        if self.same_until > lowest:
            said += f" Up to {self.same_until:.2f} the runs are the same whatever the value."
        return said

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "table": [each.to_json() for each in self.tried],
            "published": self.published,
            "best": self.learned.best,
            "ends_at": self.learned.ends_at,
            "inside": self.learned.inside,
            "same_until": self.same_until,
            "found": self.found,
            "why": self.studied.why,
        }


def threshold_runs(studied: Sequence[Studied] = STUDIED, *, seeds: int = SEEDS) -> int:
    """How many runs a study takes.

    >>> threshold_runs()
    102
    """
    return seeds * sum(len(each.values) for each in studied)


def _one(shared: tuple[Kit, Case], item: tuple[Studied, float, int]) -> Measured:
    (kit, case), (studied, value, seed) = shared, item
    return play_case(case, kit.symbiotic(case, thresholds=studied.thresholds(value)), seed)[0]


def study_thresholds(
    kit: Kit,
    case: Case = TRIAL,
    studied: Sequence[Studied] = STUDIED,
    *,
    seeds: int = SEEDS,
    workers: int | None = None,
    on_done: Callable[[], None] = lambda: None,
) -> list[ThresholdStudy]:
    """Run each value of each threshold with each seed; the trials of Q-learning draw from these runs.

    ``on_done`` is called after each run.
    """
    items = [(each, value, seed) for each in studied for value in each.values for seed in range(1, seeds + 1)]
    with workforce((kit, case), workers=workers or cores()) as work:
        answers = work(_one, items, lambda *_: on_done())
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    runs: dict[tuple[str, float], list[Measured]] = {}
    for (each, value, _), answer in zip(items, answers, strict=True):
        runs.setdefault((each.name, value), []).append(answer)
    return [_studied(each, {value: runs[each.name, value] for value in each.values}) for each in studied]


def _studied(studied: Studied, runs: Mapping[float, Sequence[Measured]]) -> ThresholdStudy:
    def trial(value: float, number: int) -> float:
        drawn = runs[value][number % len(runs[value])]
        return drawn.throughput_degradation_unsmoothed or 0.0

    learner = ThresholdLearner(studied.values, trial, np.random.default_rng(1))
    tried = []
    for value in studied.values:
        mean = Measured.mean(runs[value])
        lost = mean.throughput_degradation_unsmoothed or 0.0
        tried.append(
            Tried(
                value=value,
                throughput_degradation=lost,
                nodes_saved=mean.nodes_saved or 0.0,
                reward=value - lost,
                published=studied.rewards.get(value),
            )
        )
    lowest = runs[studied.values[0]]
    same = list(itertools.takewhile(lambda value: runs[value] == lowest, studied.values))
    return ThresholdStudy(studied=studied, tried=tried, learned=learner.learn(TRIALS), same_until=same[-1])
