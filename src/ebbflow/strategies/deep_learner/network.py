"""A small feed-forward network in numpy: forward, gradients, and Adam.

A network here has 1,600 weights. numpy runs it in 10 µs and updates it from a batch of 64 in 150 µs, so a framework
would add nothing but its size: the libraries with DQN and PPO that are kept up bring PyTorch, several GB from PyPI.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec
import numpy as np

from ebbflow.core.curve import Floats
from ebbflow.errors import InputError

RATES = (0.9, 0.999)
"""Decay of Adam's two means."""


class Layer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The numbers of one layer, as they are stored."""

    weights: list[list[float]]
    """One row per input."""
    biases: list[float]


class Network:
    """Layers with tanh between them and a linear output.

    >>> network = Network.random((2, 8, 1), np.random.default_rng(1))
    >>> x = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> wanted = np.array([[0.0], [1.0], [1.0], [0.0]])
    >>> for _ in range(500):
    ...     network.descend(x, network(x) - wanted, rate=0.02)
    >>> np.abs(network(x)).round(1).ravel().tolist()
    [0.0, 1.0, 1.0, 0.0]
    """

    def __init__(self, weights: Sequence[Floats], biases: Sequence[Floats]) -> None:
        self._weights, self._biases = list(weights), list(biases)
        self._means = [np.zeros_like(each) for each in self._parameters()]
        self._squares = [np.zeros_like(each) for each in self._parameters()]
        self._updates = 0

    @classmethod
    def random(cls, sizes: Sequence[int], rng: np.random.Generator) -> Network:
        """Weights with a variance of 1 / inputs, and 0.01 times that in the output layer."""
        weights = []
        for index, (inputs, outputs) in enumerate(pairwise(sizes)):
            scale = 0.1 if index == len(sizes) - 2 else 1.0
            weights.append(rng.normal(0.0, scale / np.sqrt(inputs), (inputs, outputs)))
        return cls(weights, [np.zeros(outputs) for outputs in sizes[1:]])

    @classmethod
    def of(cls, layers: Sequence[Layer], sizes: Sequence[int], where: str) -> Network:
        """From stored layers. Raises ``InputError`` if they are not of these sizes or not finite."""
        if len(layers) != len(sizes) - 1:
            raise InputError(f"{where} has {len(layers)} layers; {len(sizes) - 1} are needed")
        weights, biases = [], []
        for layer, inputs, outputs in zip(layers, sizes, sizes[1:], strict=False):
            if (
                any(len(row) != outputs for row in (*layer.weights, layer.biases))
                or len(layer.weights) != inputs
            ):
                raise InputError(f"{where} has a layer of other sizes than {inputs} × {outputs}")
            weights.append(np.array(layer.weights, dtype=np.float64))
            biases.append(np.array(layer.biases, dtype=np.float64))
            if not (np.isfinite(weights[-1]).all() and np.isfinite(biases[-1]).all()):
                raise InputError(f"{where} has weights that are not finite")
        return cls(weights, biases)

    def layers(self) -> list[Layer]:
        """To store; rounded to 6 digits, which changes no decision to speak of."""
        return [
            Layer(weights=weights.round(6).tolist(), biases=biases.round(6).tolist())
            for weights, biases in zip(self._weights, self._biases, strict=True)
        ]

    def copy(self) -> Network:
        """Another network with the same numbers."""
        return Network([each.copy() for each in self._weights], [each.copy() for each in self._biases])

    def __call__(self, x: Floats) -> Floats:
        """Outputs for rows of inputs."""
        return self._forward(x)[-1]

    def descend(self, x: Floats, gradient: Floats, rate: float) -> None:
        """One step of Adam, given the gradient of the loss of each row by its outputs."""
        outputs = self._forward(x)
        gradients: list[Floats] = []
        delta = gradient / len(x)
        for index in range(len(self._weights) - 1, -1, -1):
            gradients[:0] = [outputs[index].T @ delta, delta.sum(axis=0)]
            if index:
                delta = (delta @ self._weights[index].T) * (1.0 - outputs[index] ** 2)
        norm = np.sqrt(sum(float((each**2).sum()) for each in gradients))
        shrink = min(1.0, 1.0 / norm) if norm > 0 else 1.0
        self._updates += 1
        first, second = (1.0 - decay**self._updates for decay in RATES)
        for parameter, own, mean, square in zip(
            self._parameters(), gradients, self._means, self._squares, strict=True
        ):
            own = own * shrink
            mean += (1.0 - RATES[0]) * (own - mean)
            square += (1.0 - RATES[1]) * (own**2 - square)
            parameter -= rate * (mean / first) / (np.sqrt(square / second) + 1e-8)

    def _parameters(self) -> list[Floats]:
        return [each for pair in zip(self._weights, self._biases, strict=True) for each in pair]

    def _forward(self, x: Floats) -> list[Floats]:
        """The inputs, and the outputs of every layer."""
        outputs = [x]
        for index, (weights, biases) in enumerate(zip(self._weights, self._biases, strict=True)):
            total = outputs[-1] @ weights + biases
            outputs.append(total if index == len(self._weights) - 1 else np.tanh(total))
        return outputs
