"""Policies (§5.3.3): greedy after the monotonicity constraint, and two that explore around another policy.

A policy gives each action a probability. ``choose`` draws from them. Exploration is a share ε of the decisions, spread
evenly over the actions that the constraint allows:

    one minus ε               ε is constant
    decreasing one minus ε    ε_t = max(0, ε − t · epsilonStep) at decision t

ε is multiplied by a factor for each region, and is 0 whenever exploring is not allowed (``Situation.may_explore``).

**Ties** go to no action first, because every change costs a reshuffle, then to scale-out, which is the safe side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from ebbflow.strategies.learner.state import Action, Region, State

TIES = (Action.NONE, Action.OUT, Action.IN)
"""The order in which ties are broken: among actions of equal value, the first wins."""

Probabilities = tuple[float, float, float]
"""Probabilities of the actions out, in and none."""


def feasible_actions(
    state: State, last_state: State | None, last_action: Action | None
) -> tuple[Action, ...]:
    """Algorithm 5, the monotonicity constraint.

    No scale-in right after a scale-out that latency rose in spite of; no scale-out right after a scale-in that latency
    fell in spite of.

    >>> from ebbflow.strategies.learner.state import Direction
    >>> low, high = State(3, Direction.RISING), State(5, Direction.RISING)
    >>> [action.label for action in feasible_actions(high, low, Action.OUT)]
    ['none', 'out']
    >>> [action.label for action in feasible_actions(low, high, Action.IN)]
    ['none', 'in']
    """
    if last_state is not None and last_action is Action.OUT and state.latency > last_state.latency:
        return (Action.NONE, Action.OUT)
    if last_state is not None and last_action is Action.IN and state.latency < last_state.latency:
        return (Action.NONE, Action.IN)
    return TIES


@dataclass(frozen=True, kw_only=True, slots=True)
class Situation:
    """What a policy decides on."""

    values: Sequence[float]
    """The values of the actions in this state."""
    feasible: tuple[Action, ...]
    region: Region
    decisions: int = 0
    """Decisions made before this one."""
    may_explore: bool = True


class ActionPolicy(Protocol):
    """Gives each action a probability."""

    def probabilities(self, situation: Situation) -> Probabilities:
        """The probabilities of the actions out, in and none."""
        ...


class Greedy:
    """The feasible action with the largest value.

    >>> situation = Situation(values=(1.0, 2.0, 1.0), feasible=(Action.NONE, Action.OUT), region=Region.ABOVE_RISING)
    >>> Greedy().probabilities(situation)
    (0.0, 0.0, 1.0)
    """

    def probabilities(self, situation: Situation) -> Probabilities:
        """1 for the best action."""
        best = best_action(situation)
        return (float(best is Action.OUT), float(best is Action.IN), float(best is Action.NONE))


class OneMinusEpsilon:
    """With probability ε a random feasible action, else that of another policy. ``step``: by how much ε falls.

    >>> situation = Situation(values=(1.0, 0.0, 0.0), feasible=TIES, region=Region.BELOW_RISING, decisions=1)
    >>> OneMinusEpsilon(Greedy(), 0.3).probabilities(situation)
    (0.8, 0.1, 0.1)
    >>> OneMinusEpsilon(Greedy(), 0.3, step=0.15).probabilities(situation)
    (0.9, 0.05, 0.05)
    """

    def __init__(
        self,
        policy: ActionPolicy,
        epsilon: float,
        *,
        step: float = 0.0,
        factors: Sequence[float] = (1, 1, 1, 1),
    ) -> None:
        self._policy, self._epsilon, self._step, self._factors = policy, epsilon, step, tuple(factors)

    def epsilon(self, situation: Situation) -> float:
        """The probability of a random action."""
        if not situation.may_explore:
            return 0.0
        left = max(0.0, self._epsilon - self._step * situation.decisions)
        return left * self._factors[situation.region - 1]

    def probabilities(self, situation: Situation) -> Probabilities:
        """A mixture of the policy and a random feasible action."""
        epsilon, policy = self.epsilon(situation), self._policy.probabilities(situation)
        if epsilon == 0.0:
            return policy
        each, feasible = epsilon / len(situation.feasible), situation.feasible
        out, scale_in, none = (
            round((1 - epsilon) * policy[action] + (each if action in feasible else 0.0), 12)
            for action in (Action.OUT, Action.IN, Action.NONE)
        )
        return (out, scale_in, none)


def best_action(situation: Situation) -> Action:
    """The feasible action with the largest value; ties by ``TIES``."""
    values = situation.values
    return max(situation.feasible, key=lambda action: values[action])  # max returns the first of equals


def choose(probabilities: Probabilities, rng: Random) -> Action:
    """An action drawn from probabilities. A certain one needs no random number.

    >>> choose((0.0, 1.0, 0.0), Random(1)).label
    'in'
    """
    drawn: float | None = None
    for action in TIES:
        if probabilities[action] >= 1.0:
            return action
        drawn = rng.random() if drawn is None else drawn
        if drawn < probabilities[action]:
            return action
        drawn -= probabilities[action]
    return max(TIES, key=lambda action: probabilities[action])  # a rounding error was drawn


POLICIES = ("greedy", "one-minus-epsilon", "decreasing-one-minus-epsilon")


def make_policy(name: str, *, epsilon: float, step: float, factors: Sequence[float]) -> ActionPolicy:
    """The policy of a name in ``POLICIES``."""
    if name == "greedy":
        return Greedy()
    falls_by = step if name.startswith("decreasing") else 0.0
    return OneMinusEpsilon(Greedy(), epsilon, step=falls_by, factors=factors)
