"""Learning (§5.2): temporal differences after each step, and value iteration over counted transitions.

**Temporal differences** (§5.2.1). After reward R and the next state S', the value of (S, A) moves towards R + γ·next:

    Q(S, A) ← (1 − α)·Q(S, A) + α·[R + γ·next]           (Algorithm 3, line 7)

sarsa            next = Q(S', A')               A' is the action that the policy chose in S'. The thesis prints this
                                                under the name of Q-learning
q-learning       next = max_a Q(S', a)          Watkins' rule: what the best action would bring
expected-sarsa   next = Σ_a π(a | S')·Q(S', a)  the mean over the policy, so that its random choices add no noise

**Value iteration** (§5.2.2): a table to start from, after some time of collecting samples.

    P̄[s, a, s'] = P[s, a, s'] / C[s, a]        R̄[s, a] = R[s, a] / C[s, a]                     (5.8)
    V(s) ← max_a R̄[s, a] + γ · Σ_s' P̄[s, a, s'] · V(s')      until no V changes by θ or more      (Algorithm 4, 5.5)
    Q(s, a) = R̄[s, a] + γ · Σ_s' P̄[s, a, s'] · V(s')                                          (5.6)

Only actions that were counted in a state enter its maximum. States in which none was keep the value of their entry, and
so do actions that were never tried.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from ebbflow.strategies.learner.policies import Probabilities
from ebbflow.strategies.learner.q_table import Entry, QTable
from ebbflow.strategies.learner.state import Action, State


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


# -- value iteration ---------------------------------------------------------------------------------------------

THETA = 1e-6
"""The accuracy θ of Algorithm 4."""


@dataclass(frozen=True, kw_only=True)
class Solved:
    """How value iteration ended."""

    sweeps: int
    change: float
    """The largest change in the last sweep; below θ if it converged."""


def iterate_values(table: QTable, discount: float, *, most_sweeps: int, theta: float = THETA) -> Solved:
    """Run Algorithm 4 for at most this many sweeps, then set the values of every counted action."""
    states = [state for state in table if any(table[state].visits)]
    ahead = {
        s: max(table[s].values) for state in states for followed in table[state].followed_by for s in followed
    }
    values: dict[State, float] = {**ahead, **dict.fromkeys(states, 0.0)}
    sweeps, change = 0, float("inf")
    while sweeps < most_sweeps and change >= theta:
        sweeps, change = sweeps + 1, 0.0
        for state in states:
            entry = table[state]
            best = max(_value(entry, action, values, discount) for action in Action if entry.visits[action])
            change = max(change, abs(best - values[state]))
            values[state] = best
    for state in states:
        entry = table[state]
        for action in Action:
            if entry.visits[action]:
                entry.values[action] = _value(entry, action, values, discount)
    return Solved(sweeps=sweeps, change=change)


def _value(entry: Entry, action: Action, values: dict[State, float], discount: float) -> float:
    """R̄ + γ · Σ P̄ · V of an action."""
    ahead = sum(count * values[state] for state, count in entry.followed_by[action].items())
    return (entry.reward_sums[action] + discount * ahead) / entry.visits[action]
