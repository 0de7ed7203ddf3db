"""Where the instances of operators are, and so how many rows a second each operator can finish."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ebbflow.targets.simulator.flow_parts import Crowd, Instances, Vertex, alike, fullest

Wants = tuple[float, list[tuple[int, float]]]
"""Cores of a node; CPU seconds of it that are wanted for each row that an operator finishes, on all nodes."""


class PlacedOperators:
    """Operators on nodes. Arithmetic is done when they are put there, so that a second finds it done."""

    def __init__(self, vertices: Sequence[Vertex]) -> None:
        count = len(vertices)
        self.vertices = vertices
        self._service = [v.service_per_s for v in vertices]
        self.instances = [1] * count
        self.crowds: Sequence[Crowd] = ()
        self._capacity = [0.0] * count
        self._bounds = [math.inf] * count
        """Most rows that may wait before each operator."""
        self._bounded = False
        """Whether one of them has a bound."""
        self._placed: tuple[list[Crowd], list[int]] | None = None
        self._wants: list[Wants] = []
        """Of each kind of node."""
        self._places: list[list[tuple[int, float, int]]] = [[] for _ in vertices]
        """Of each operator: (which of ``_wants``, part of its capacity, its instances) on nodes that are alike."""
        self._tightest: list[Wants] = []
        """If none of these nodes has too few cores, no node has."""

    def place(self, crowds: Sequence[Crowd]) -> None:
        """Instances are on these nodes now."""
        placed = (list(crowds), list(self.instances))
        if placed == self._placed:
            return  # nodes have come, say, and nothing was put on them yet
        self._placed = placed
        self.crowds = crowds
        self._capacity = [0.0] * len(self.vertices)
        self._bounds = [
            math.inf if v.queue_bound_rows is None or not v.streams else v.queue_bound_rows * n
            for v, n in zip(self.vertices, self.instances, strict=True)
        ]  # sources have none
        self._bounded = any(most < math.inf for most in self._bounds)
        for crowd in crowds:
            for i, count in crowd.instances:
                self._capacity[i] += crowd.nodes * count * crowd.speed * self._service[i]
        self._tightest = [
            self._wanted_by(cores, instances)
            for cores, instances in fullest(frozenset((crowd.cores, crowd.instances) for crowd in crowds))
        ]
        # What is wanted does not depend on speed: it is counted once for nodes that differ in nothing else.
        kinds = alike(crowds)
        self._wants = [self._wanted_by(cores, instances) for cores, instances in kinds]
        self._places = [[] for _ in self.vertices]
        for crowd in crowds:
            kind = kinds[crowd.cores, crowd.instances]
            for i, n in crowd.instances:
                if (most := self._capacity[i]) > 0:
                    part = crowd.nodes * n * crowd.speed * self._service[i] / most
                    self._places[i].append((kind, part, crowd.nodes * n))

    def _wanted_by(self, cores: float, instances: Instances) -> Wants:
        return cores, [(i, n / self._capacity[i]) for i, n in instances if self._capacity[i] > 0]

    def capacity(self, operator: int) -> float:
        """Rows per second that an operator can finish, with the CPU for itself."""
        return self._capacity[operator]
