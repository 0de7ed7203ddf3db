"""Thresholds by Q-learning (Elysium §5.1, Table 1).

A state is a threshold of a grid; an action goes to the next lower one, stays, or goes to the next higher one. Then
there is a trial with the threshold, and

    reward = threshold − throughput degradation
    Q(s, a) ← Q(s, a) + α · (reward + γ · max Q(s′, ·) − Q(s, a))           (Watkins and Dayan)

so a threshold is the better the more of a node it uses, as long as that costs no throughput. Nothing is known at the
start, and all is hoped for: Q begins above what any step can bring. The trial comes as a function: here is no
simulator and no clock.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ebbflow.errors import InputError

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
