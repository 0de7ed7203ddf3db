"""Recursive random search: finds good parameters of a costly function with few evaluations.

*Exploration* samples the whole space at random: after n = ln(1 − p) / ln(1 − r) points, one of them is among the best
share r with probability p. *Exploitation* then samples a neighbourhood of the best one, whose volume is the share ρ of
the space and starts at r. A better point becomes its centre; after l = ln(1 − q) / ln(1 − v) points without one, ρ
shrinks by c, until it is below st. Then exploration goes on, and the first point better than the mean of the best ones
so far is exploited next. Reference: T. Ye, S. Kalyanaraman, *A recursive random search algorithm for large-scale
network parameter configuration*, SIGMETRICS 2003; p, r, q, v, c and st are theirs.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from random import Random

P, R, Q, V, C, ST = 0.99, 0.1, 0.99, 0.8, 0.5, 0.001
EXPLORED = math.ceil(math.log(1 - P) / math.log(1 - R))
"""n: 44 points."""
FAILED = math.ceil(math.log(1 - Q) / math.log(1 - V))
"""l: 3 points."""

Point = tuple[float, ...]


class RecursiveRandomSearch:
    """Minimises a function on the unit cube: ``ask`` for a point, ``tell`` its cost. ``first`` is asked first.

    >>> search = RecursiveRandomSearch((0.9, 0.9), Random(1))
    >>> for _ in range(200):
    ...     x, y = search.ask()
    ...     search.tell((x - 0.3) ** 2 + (y - 0.6) ** 2)
    >>> [round(each, 1) for each in search.best]
    [0.3, 0.6]
    """

    def __init__(self, first: Point, rng: Random) -> None:
        self._rng, self._dimensions = rng, len(first)
        self.best: Point = first
        self.best_cost = math.inf
        self._points = self._search(first)
        self._asked = next(self._points)

    def ask(self) -> Point:
        """The point to evaluate next."""
        return self._asked

    def tell(self, cost: float) -> None:
        """The cost of that point."""
        if cost < self.best_cost:
            self.best, self.best_cost = self._asked, cost
        self._asked = self._points.send(cost)

    def _search(self, first: Point) -> Generator[Point, float, None]:
        centre, cost = first, (yield first)
        for _ in range(EXPLORED - 1):
            point = self._anywhere()
            found = yield point
            if found < cost:
                centre, cost = point, found
        promising: list[float] = []
        while True:
            promising.append(cost)
            yield from self._exploit(centre, cost)
            enough = sum(promising) / len(promising)
            centre, cost = first, math.inf
            for _ in range(EXPLORED):
                point = self._anywhere()
                found = yield point
                if found < cost:
                    centre, cost = point, found
                if cost < enough:
                    break

    def _exploit(self, centre: Point, cost: float) -> Generator[Point, float, None]:
        volume, failed = R, 0
        while volume >= ST:
            point = self._near(centre, volume)
            found = yield point
            if found < cost:
                centre, cost, failed = point, found, 0
                continue
            failed += 1
            if failed == FAILED:
                volume, failed = volume * C, 0

    def _anywhere(self) -> Point:
        return tuple(self._rng.random() for _ in range(self._dimensions))

    def _near(self, centre: Point, volume: float) -> Point:
        """A point of the cube of this volume around the centre, as far as it is within the space."""
        half = volume ** (1 / self._dimensions) / 2
        return tuple(self._rng.uniform(max(0.0, x - half), min(1.0, x + half)) for x in centre)
