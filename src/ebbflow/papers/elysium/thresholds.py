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

from ebbflow.core.machine import cores
from ebbflow.errors import InputError
from ebbflow.papers.elysium.cases import Case
from ebbflow.papers.elysium.kit import Kit
from ebbflow.papers.elysium.published import SYMBIOTIC, T1, THRESHOLDS, Key
from ebbflow.papers.elysium.result import Curves, Measured
from ebbflow.papers.elysium.run import play_case
from ebbflow.runs.workforce import workforce
from ebbflow.strategies.symbiotic import Thresholds
from ebbflow.workloads import parse_load

# Thresholds by Q-learning (Elysium §5.1, Table 1).
#
# A state is a threshold of a grid; an action goes to the next lower one, stays, or goes to the next higher one. Then
# there is a trial with the threshold, and
#
#     reward = threshold − throughput degradation
#     Q(s, a) ← Q(s, a) + α · (reward + γ · max Q(s′, ·) − Q(s, a))           (Watkins and Dayan)
#
# so a threshold is the better the more of a node it uses, as long as that costs no throughput. Nothing is known at the
# start, and all is hoped for: Q begins above what any step can bring. The trial comes as a function: here is no
# simulator and no clock.


TABLE_1 = {0.60: 0.53, 0.65: 0.57, 0.70: 0.62, 0.75: 0.66, 0.80: 0.71, 0.85: 0.65, 0.90: 0.43}
"""Rewards of cpu_max as published."""

Trial = Callable[[float, int], float]
"""(threshold, number of the trial) → throughput degradation; the number is for who wants other luck each time."""


@dataclass(frozen=True, kw_only=True)
class LearnedThreshold:
    """What was learned of one threshold."""

    rewards: Mapping[float, float]
    """Mean reward of each value that was tried: our Table 1."""
    trials: Mapping[float, int]
    ends_at: float
    """Where who follows the learned values comes to rest, from where the last trial was."""

    @property
    def best(self) -> float:
        """The value with the highest mean reward."""
        return max(self.rewards, key=lambda value: self.rewards[value])

    @property
    def inside(self) -> bool:
        """Whether the best is neither the lowest nor the highest that was tried."""
        return min(self.rewards) < self.best < max(self.rewards)


class ThresholdLearner:
    """Walks over a grid of thresholds. ``explore``: how often it goes at random, at first; it fades to a tenth.

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
            raise InputError(
                f"thresholds to try: {list(values)}; there must be three at least, and they must rise"
            )
        if not (0 < learning_rate <= 1 and 0 <= discount < 1 and 0 <= explore <= 1):
            raise InputError("learning_rate must be in (0, 1], discount in [0, 1), explore in [0, 1]")
        self._values, self._trial, self._rng = tuple(values), trial, rng
        self._learning_rate, self._discount, self._explore = learning_rate, discount, explore
        # No reward is above 1, so at first every step looks better than any can be: what was not tried is tried.
        self._q = [[1.0 / (1.0 - discount)] * 3 for _ in values]
        """Of (value, action); actions are −1, 0, +1."""
        self._reward = [0.0] * len(values)
        self._count = [0] * len(values)
        self._at = int(rng.integers(len(values)))

    def learn(self, trials: int) -> LearnedThreshold:
        """So many more trials, and what is known after them."""
        if trials < 1:
            raise InputError(f"{trials} trials teach nothing; there must be one at least")
        for number in range(trials):
            explore = max(0.1 * self._explore, self._explore * (1 - number / trials))
            self._step(sum(self._count), explore)
        tried = [k for k, count in enumerate(self._count) if count]
        return LearnedThreshold(
            rewards={self._values[k]: self._reward[k] / self._count[k] for k in tried},
            trials={self._values[k]: self._count[k] for k in tried},
            ends_at=self._values[self._follow(self._at)],
        )

    def _step(self, number: int, explore: float) -> None:
        at, allowed = self._at, self._allowed(self._at)
        at_random = self._rng.random() < explore
        action = allowed[int(self._rng.integers(len(allowed)))] if at_random else self._greedy(at)
        to = at + action - 1
        reward = self._values[to] - self._trial(self._values[to], number)
        self._reward[to] += reward
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


SEEDS = 3
TRIALS = 1000
"""They draw from the runs, so they take no time; with 300, where over 15 values it came to rest was partly luck."""
COSTLY = 0.5
"""A step from one value to the next is told where it loses more than so much of what the threshold gains by it."""
NODES = "nodes"
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
)
CORE_MAX = Studied(
    name="core_max",
    values=_twentieths(6, 20),
)
"""Every twentieth above the seed's core_min."""
CORE_MIN = Studied(
    name="core_min",
    values=_twentieths(1, 12),
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
    most: Mapping[str, float] = field(default_factory=dict)
    """The most nodes that were held, and the most instances of each operator, in the run of the first seed."""

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
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
    """Every value of one threshold, and where Q-learning came to rest."""

    studied: Studied
    case: Case
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

    @property
    def why(self) -> str:
        """At which steps throughput is lost for the threshold, and with what fewer of, as the runs were."""
        costly = [
            (low, high)
            for low, high in itertools.pairwise(self.tried)
            if high.throughput_degradation - low.throughput_degradation > COSTLY * (high.value - low.value)
        ]
        if not costly:
            return "No step costs as much as half of what it gains."
        steps = (
            f"from {low.value:.2f} to {high.value:.2f} the degradation rises from {low.throughput_degradation:.3f} to "
            f"{high.throughput_degradation:.3f}, with {_fewer(low.most, high.most)}"
            for low, high in costly
        )
        said = "; ".join(steps)
        return f"{said[0].upper()}{said[1:]}."

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
            "why": self.why,
        }


def threshold_runs(studied: Sequence[Studied] = STUDIED, *, seeds: int = SEEDS) -> int:
    """How many runs a study takes.

    >>> threshold_runs()
    102
    """
    return seeds * sum(len(each.values) for each in studied)


def _fewer(before: Mapping[str, float], after: Mapping[str, float]) -> str:
    """What there was most of, where that changed.

    >>> _fewer({"nodes": 3.0, "words": 2.0}, {"nodes": 2.0, "words": 2.0})
    '2 nodes at most in place of 3'
    """
    changed = [
        f"{after[name]:g} {name if name == NODES else f'of the instances of {name}'} at most in place of {most:g}"
        for name, most in before.items()
        if after[name] != most
    ]
    return ", ".join(changed) or "as many nodes and instances at most"


def _most(curves: Curves) -> dict[str, float]:
    held = {NODES: curves.nodes, **curves.parallelism}
    return {name: max(count for _, count in steps) for name, steps in held.items()}


def _one(
    shared: tuple[Kit, Case], item: tuple[Studied, float, int]
) -> tuple[Measured, dict[str, float] | None]:
    (kit, case), (studied, value, seed) = shared, item
    strategy = kit.symbiotic(case, thresholds=studied.thresholds(value))
    measured, curves = play_case(case, strategy, seed, drawn=seed == 1)
    return measured, None if curves is None else _most(curves)


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
    most: dict[tuple[str, float], dict[str, float]] = {}
    for (each, value, _), (measured, held) in zip(items, answers, strict=True):
        runs.setdefault((each.name, value), []).append(measured)
        if held is not None:
            most[each.name, value] = held
    return [
        _studied(
            each,
            case,
            {value: runs[each.name, value] for value in each.values},
            {value: most[each.name, value] for value in each.values},
        )
        for each in studied
    ]


def _studied(
    studied: Studied,
    case: Case,
    runs: Mapping[float, Sequence[Measured]],
    most: Mapping[float, Mapping[str, float]],
) -> ThresholdStudy:
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
                most=most[value],
            )
        )
    lowest = runs[studied.values[0]]
    same = list(itertools.takewhile(lambda value: runs[value] == lowest, studied.values))
    return ThresholdStudy(
        studied=studied, case=case, tried=tried, learned=learner.learn(TRIALS), same_until=same[-1]
    )
