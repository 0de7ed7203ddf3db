"""Value iteration over counted transitions (§5.2.2): a table to start from, after some time of collecting samples.

    P̄[s, a, s'] = P[s, a, s'] / C[s, a]        R̄[s, a] = R[s, a] / C[s, a]                     (5.8)
    V(s) ← max_a R̄[s, a] + γ · Σ_s' P̄[s, a, s'] · V(s')      until no V changes by θ or more      (Algorithm 4, 5.5)
    Q(s, a) = R̄[s, a] + γ · Σ_s' P̄[s, a, s'] · V(s')                                          (5.6)

Only actions that were counted in a state enter its maximum. States in which none was keep the value of their entry, and
so do actions that were never tried.
"""

from __future__ import annotations

from dataclasses import dataclass

from ebbflow.strategies.learner.q_table import Entry, QTable
from ebbflow.strategies.learner.state import Action, State

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
