"""Random factors in the order in which they are used, whoever looks when and in whatever portions."""

from __future__ import annotations

import numpy as np

from ebbflow.core.curve import Floats

_BLOCK = 4096


class NoiseDraws:
    """Lognormal factors with mean 1: exp(σ·z − σ²/2).

    >>> draws, same = NoiseDraws(0.3, np.random.default_rng(1)), NoiseDraws(0.3, np.random.default_rng(1))
    >>> first = draws.peek(2).tolist()
    >>> draws.take(1)
    >>> [same.one(), same.one()] == first == [first[0], draws.one()]
    True
    """

    def __init__(self, sigma: float, rng: np.random.Generator) -> None:
        self.sigma = sigma
        self._rng = rng
        self._drawn: Floats = np.zeros(0)
        self._one_by_one: list[float] = []
        """The same: one number of an array takes long."""
        self._next = 0

    def peek(self, count: int) -> Floats:
        """The next factors; they stay the next ones."""
        while len(self._drawn) - self._next < count:
            sigma = self.sigma
            more = np.exp(sigma * self._rng.standard_normal(_BLOCK) - sigma * sigma / 2)
            self._drawn, self._next = np.concatenate((self._drawn[self._next :], more)), 0
            self._one_by_one = self._drawn.tolist()
        return self._drawn[self._next : self._next + count]

    def take(self, count: int) -> None:
        """Use up the next factors."""
        self.peek(count)
        self._next += count

    def one(self) -> float:
        """Use up the next factor."""
        if self._next == len(self._one_by_one):
            self.peek(1)
        self._next += 1
        return self._one_by_one[self._next - 1]
