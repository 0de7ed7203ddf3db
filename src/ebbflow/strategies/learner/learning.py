"""Temporal differences (§5.2.1): what the value of (S, A) is moved towards after reward R and the next state S'.

Q(S, A) ← (1 − α)·Q(S, A) + α·[R + γ·next]           (Algorithm 3, line 7)

sarsa            next = Q(S', A')               A' is the action that the policy chose in S'. The thesis prints this
                                                under the name of Q-learning
q-learning       next = max_a Q(S', a)          Watkins' rule: what the best action would bring
expected-sarsa   next = Σ_a π(a | S')·Q(S', a)  the mean over the policy, so that its random choices add no noise
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from ebbflow.strategies.learner.policies import Probabilities
from ebbflow.strategies.learner.state import Action


@dataclass(frozen=True, kw_only=True, slots=True)
class Next:
    """The next state, as learning sees it."""

    values: Sequence[float]
    action: Action
    """The action chosen there."""
    probabilities: Probabilities
    """The probability of each action there, under the policy."""
    feasible: tuple[Action, ...]


def sarsa(ahead: Next) -> float:
    """The value of the action that was chosen."""
    return ahead.values[ahead.action]


def q_learning(ahead: Next) -> float:
    """The largest value of the feasible actions."""
    return max(ahead.values[action] for action in ahead.feasible)


def expected_sarsa(ahead: Next) -> float:
    """The mean value under the policy."""
    return sum(p * value for p, value in zip(ahead.probabilities, ahead.values, strict=True))


LEARNING: Mapping[str, Callable[[Next], float]] = MappingProxyType(
    {"sarsa": sarsa, "q-learning": q_learning, "expected-sarsa": expected_sarsa}
)
"""The value of the next state, by the name of the rule."""
