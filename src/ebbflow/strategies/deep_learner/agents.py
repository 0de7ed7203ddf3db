"""The two agents: DQN, which learns values from a memory of steps, and PPO, which learns a policy from recent ones.

DQN     V. Mnih et al., *Human-level control through deep reinforcement learning*, Nature 2015, with the double
        estimate of H. van Hasselt et al., AAAI 2016: target = r + γ · Q'(s', argmax Q(s', ·))
PPO     J. Schulman et al., *Proximal policy optimization algorithms*, 2017: clipped ratio of the new to the old
        probability, times an advantage by generalised advantage estimation (λ)

Both learn while they act: ``learn`` takes one step at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from ebbflow.core.curve import Floats
from ebbflow.strategies.deep_learner.network import Layer, Network

HIDDEN = (32, 32)
DISCOUNT = 0.95
"""γ: what happens in 20 decisions counts for a third."""


class Transition(NamedTuple):
    """A decision and what followed."""

    features: Floats
    action: int
    """As carried out."""
    chosen: int
    """As chosen by the agent; guards may restrain it."""
    reward: float
    following: Floats


class DeepAgent(Protocol):
    """What the strategy needs of an agent."""

    def best(self, features: Floats) -> int:
        """The action without exploring."""
        ...

    def explore(self, features: Floats) -> int:
        """The action while learning."""
        ...

    def learn(self, step: Transition) -> None:
        """Learn from a step."""
        ...

    def networks(self) -> Mapping[str, Sequence[Layer]]:
        """The numbers to store."""
        ...


class Dqn:
    """Double DQN."""

    MEMORY = 20_000
    WARM_UP = 200
    BATCH = 64
    RATE = 1e-3
    SYNC = 200
    """Steps between two copies to the target network."""
    EXPLORING = (1.0, 0.05, 4_000)
    """ε at first, at last, and the steps in between."""

    def __init__(
        self,
        features: int,
        actions: int,
        rng: np.random.Generator,
        *,
        stored: Mapping[str, Network],
        steps: int,
    ) -> None:
        self._rng, self._actions, self._steps = rng, actions, steps
        self._values = stored.get("values") or Network.random((features, *HIDDEN, actions), rng)
        self._target = self._values.copy()
        self._memory: deque[Transition] = deque(maxlen=self.MEMORY)

    @staticmethod
    def sizes(features: int, actions: int) -> dict[str, tuple[int, ...]]:
        """Sizes of the layers of each network."""
        return {"values": (features, *HIDDEN, actions)}

    def best(self, features: Floats) -> int:
        """The action of the highest value."""
        return int(np.argmax(self._values(features[None, :])[0]))

    def explore(self, features: Floats) -> int:
        """ε-greedy, ε falling linearly."""
        first, last, over = self.EXPLORING
        epsilon = max(last, first - (first - last) * self._steps / over)
        if self._rng.random() < epsilon:
            return int(self._rng.integers(self._actions))
        return self.best(features)

    def learn(self, step: Transition) -> None:
        """Remember the step, and learn from some that are remembered."""
        self._memory.append(step)
        self._steps += 1
        if len(self._memory) < self.WARM_UP:
            return
        chosen = [self._memory[k] for k in self._rng.integers(len(self._memory), size=self.BATCH)]
        now = np.array([each.features for each in chosen])
        after = np.array([each.following for each in chosen])
        actions = np.array([each.action for each in chosen])
        rewards = np.array([each.reward for each in chosen])
        rows = np.arange(len(chosen))
        ahead = self._target(after)[rows, self._values(after).argmax(axis=1)]
        gradient = np.zeros((len(chosen), self._actions))
        off = self._values(now)[rows, actions] - (rewards + DISCOUNT * ahead)
        gradient[rows, actions] = np.clip(off, -1.0, 1.0)  # of the Huber loss
        self._values.descend(now, gradient, self.RATE)
        if self._steps % self.SYNC == 0:
            self._target = self._values.copy()

    def networks(self) -> Mapping[str, Sequence[Layer]]:
        """The network of the values."""
        return {"values": self._values.layers()}


class Ppo:
    """PPO with a network for the policy and one for the value of a state."""

    ROLLOUT = 256
    EPOCHS = 6
    BATCH = 64
    RATE = 1e-3
    CLIP = 0.2
    TRACE = 0.95
    """λ of the advantages."""
    ENTROPY = 0.01

    def __init__(
        self,
        features: int,
        actions: int,
        rng: np.random.Generator,
        *,
        stored: Mapping[str, Network],
        steps: int,
    ) -> None:
        del steps
        self._rng, self._actions = rng, actions
        self._policy = stored.get("policy") or Network.random((features, *HIDDEN, actions), rng)
        self._value = stored.get("value") or Network.random((features, *HIDDEN, 1), rng)
        self._rollout: list[Transition] = []

    @staticmethod
    def sizes(features: int, actions: int) -> dict[str, tuple[int, ...]]:
        """Sizes of the layers of each network."""
        return {"policy": (features, *HIDDEN, actions), "value": (features, *HIDDEN, 1)}

    def best(self, features: Floats) -> int:
        """The most probable action."""
        return int(np.argmax(self._policy(features[None, :])[0]))

    def explore(self, features: Floats) -> int:
        """An action drawn from the policy."""
        return int(self._rng.choice(self._actions, p=_softmax(self._policy(features[None, :]))[0]))

    def learn(self, step: Transition) -> None:
        """Collect a rollout, then improve the policy on it."""
        self._rollout.append(step)
        if len(self._rollout) < self.ROLLOUT:
            return
        now = np.array([each.features for each in self._rollout])
        actions = np.array([each.chosen for each in self._rollout])
        rows = np.arange(len(actions))
        old = _softmax(self._policy(now))[rows, actions]
        advantages, returns = self._advantages(now)
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        for _ in range(self.EPOCHS):
            for some in np.split(self._rng.permutation(len(actions)), len(actions) // self.BATCH):
                self._improve(now[some], actions[some], old[some], advantages[some])
                self._value.descend(now[some], self._value(now[some]) - returns[some, None], self.RATE)
        self._rollout.clear()

    def _advantages(self, now: Floats) -> tuple[Floats, Floats]:
        values = np.append(self._value(now)[:, 0], self._value(self._rollout[-1].following[None, :])[0, 0])
        advantages, ahead = np.zeros(len(now)), 0.0
        for k in range(len(now) - 1, -1, -1):
            surprise = self._rollout[k].reward + DISCOUNT * values[k + 1] - values[k]
            advantages[k] = ahead = surprise + DISCOUNT * self.TRACE * ahead
        return advantages, advantages + values[:-1]

    def _improve(self, now: Floats, actions: Floats, old: Floats, advantages: Floats) -> None:
        """A step against −min(ratio · A, clip(ratio) · A) − entropy."""
        probabilities = _softmax(self._policy(now))
        rows = np.arange(len(actions))
        ratio = probabilities[rows, actions] / old
        clipped = ((ratio > 1 + self.CLIP) & (advantages > 0)) | ((ratio < 1 - self.CLIP) & (advantages < 0))
        pull = np.where(clipped, 0.0, ratio * advantages)
        one_hot = np.zeros_like(probabilities)
        one_hot[rows, actions] = 1.0
        logs = np.log(probabilities + 1e-12)
        entropy = -(probabilities * logs).sum(axis=1, keepdims=True)
        gradient = -pull[:, None] * (one_hot - probabilities)
        gradient += self.ENTROPY * probabilities * (logs + entropy)
        self._policy.descend(now, gradient, self.RATE)

    def networks(self) -> Mapping[str, Sequence[Layer]]:
        """The networks of the policy and of the value."""
        return {"policy": self._policy.layers(), "value": self._value.layers()}


def _softmax(x: Floats) -> Floats:
    raised = np.exp(x - x.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))


AGENTS: Mapping[str, type[Dqn | Ppo]] = {"dqn": Dqn, "ppo": Ppo}
