"""Networks and agents: gradients against differences, and a small world that both agents must master."""

from __future__ import annotations

import numpy as np
import pytest

from ebbflow.core.curve import Floats
from ebbflow.errors import InputError
from ebbflow.strategies.deep_learner.agents import AGENTS, Transition
from ebbflow.strategies.deep_learner.network import Layer, Network

SIZES = (3, 5, 4, 2)


def test_descent_follows_the_gradient_of_the_loss() -> None:
    rng = np.random.default_rng(3)
    network = Network.random(SIZES, rng)
    x, wanted = rng.normal(size=(6, 3)), rng.normal(size=(6, 2))

    def loss(layers: list[Layer]) -> float:
        return float(0.5 * ((Network.of(layers, SIZES, "it")(x) - wanted) ** 2).sum() / len(x))

    before = network.layers()
    network.descend(x, network(x) - wanted, rate=1e-4)
    # The first step of Adam is rate · sign(gradient): compare it with differences of the loss, weight by weight.
    for index, (old, new) in enumerate(zip(before, network.layers(), strict=True)):
        for row, column in np.ndindex(np.shape(old.weights)):
            ahead = [Layer(weights=[r[:] for r in each.weights], biases=each.biases) for each in before]
            ahead[index].weights[row][column] += 1e-3
            slope = loss(ahead) - loss(before)
            moved = new.weights[row][column] - old.weights[row][column]
            if abs(slope) > 1e-6:
                assert moved == pytest.approx(-1e-4 * np.sign(slope), rel=0.1), (index, row, column)


def test_stored_layers_of_other_sizes_or_not_finite_are_refused() -> None:
    layers = Network.random(SIZES, np.random.default_rng(1)).layers()
    with pytest.raises(InputError, match="has 2 layers; 3 are needed"):
        Network.of(layers[:2], SIZES, "w.json")
    with pytest.raises(InputError, match="other sizes than 4 × 2"):
        Network.of([*layers[:2], layers[0]], SIZES, "w.json")
    layers[0].biases[0] = float("nan")
    with pytest.raises(InputError, match="not finite"):
        Network.of(layers, SIZES, "w.json")


def corridor(place: int) -> Floats:
    return np.eye(5)[place]


@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_learns_to_walk_against_small_rewards_to_a_large_one(name: str) -> None:
    """Five places in a row. Staying left pays 0.1, each step to the right costs 0.05, and the right end pays 1."""
    agent = AGENTS[name](5, 2, np.random.default_rng(1), stored={}, steps=2000)
    place, rng = 0, np.random.default_rng(2)
    for step in range(2560):
        if step % 20 == 0:
            place = int(rng.integers(5))
        action = agent.explore(corridor(place))
        following = min(4, place + 1) if action else max(0, place - 1)
        reward = 1.0 if following == 4 else -0.05 if action else 0.1 if following == 0 else 0.0
        agent.learn(
            Transition(
                features=corridor(place),
                action=action,
                chosen=action,
                reward=reward,
                following=corridor(following),
            )
        )
        place = following
    assert [agent.best(corridor(place)) for place in range(5)] == [1, 1, 1, 1, 1]
