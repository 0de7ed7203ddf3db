"""The table: for each state and action a value, its spread, and the counts P, R and C of equation 5.7.

    P[s, a, s'] ← P[s, a, s'] + 1        R[s, a] ← R[s, a] + r        C[s, a] ← C[s, a] + 1

C is the number of visits. States are added when they are first met, with the values of the initialiser.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ebbflow.strategies.learner.state import Action, State

Values = tuple[float, float, float]
"""Values of the actions out, in and none."""


@dataclass(slots=True)
class Entry:
    """What is known of one state. Lists are by action."""

    values: list[float]
    visits: list[int] = field(default_factory=lambda: [0, 0, 0])
    """C[s, a]."""
    variance: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    """Variance of what the values were learned from, weighted as they are."""
    reward_sums: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    """R[s, a]."""
    followed_by: tuple[dict[State, int], dict[State, int], dict[State, int]] = field(
        default_factory=lambda: ({}, {}, {})
    )
    """P[s, a, s']."""

    def learn(self, action: Action, target: float, learning_factor: float) -> None:
        """Q ← (1 − α)·Q + α·target, and the variance with the same weights.

        >>> entry = Entry(values=[1.0, 0.0, 0.0])
        >>> entry.learn(Action.OUT, 2.0, 0.5)
        >>> entry.values[Action.OUT], entry.variance[Action.OUT]
        (1.5, 0.25)
        """
        away = target - self.values[action]
        self.values[action] = (1 - learning_factor) * self.values[action] + learning_factor * target
        self.variance[action] = (1 - learning_factor) * (
            self.variance[action] + learning_factor * away * away
        )

    def standard_error(self, action: Action, learning_factor: float) -> float:
        """√(variance / m), where m = min(visits, (2 − α)/α) values count: an exponential mean forgets older ones."""
        visits = self.visits[action]
        if not visits:
            return math.inf
        return math.sqrt(self.variance[action] / min(visits, (2 - learning_factor) / learning_factor))

    def count(self, action: Action, reward: float, next_state: State) -> None:
        """Equation 5.7."""
        self.visits[action] += 1
        self.reward_sums[action] += reward
        followed = self.followed_by[action]
        followed[next_state] = followed.get(next_state, 0) + 1


class QTable:
    """Entries by state.

    >>> from ebbflow.strategies.learner.state import Direction
    >>> table = QTable(lambda state: (0.0, 0.0, 0.0))
    >>> table[State(3, Direction.RISING)].values
    [0.0, 0.0, 0.0]
    >>> len(table)
    1
    """

    def __init__(self, initial: Callable[[State], Values]) -> None:
        self._initial = initial
        self._entries: dict[State, Entry] = {}

    def __getitem__(self, state: State) -> Entry:
        entry = self._entries.get(state)
        if entry is None:
            entry = self._entries[state] = Entry(values=list(self._initial(state)))
        return entry

    def __setitem__(self, state: State, entry: Entry) -> None:
        self._entries[state] = entry

    def __contains__(self, state: State) -> bool:
        return state in self._entries

    def __iter__(self) -> Iterator[State]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def visits(self) -> int:
        """Transitions counted in all states."""
        return sum(sum(entry.visits) for entry in self._entries.values())
