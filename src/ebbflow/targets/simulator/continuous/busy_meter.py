"""How long instances have rows in hand: the CPU they get, and the wait for it.

An instance computes at most on one core, and on what the others on its node leave:

    busy = cpu / min(1, cores − CPU of the others)

On one core that is processor sharing (M/G/1-PS: a row takes cost / (1 − load of the others)); with several, a core
that is free makes waiting unnecessary, so that it is a lower bound. In a second in which a node has too few cores
for all who have rows, whoever has some is busy throughout: that is what a busy time by the wall clock shows (Flink's
busyTimeMsPerSecond), and CPU time does not. A source counts as busy there even where rows under way hold it back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ebbflow.targets.simulator.continuous.flow import Crowd, Flow, Instances, alike
from ebbflow.targets.simulator.continuous.run import STEP_S


class BusyMeter:
    """Busy shares of the instances of all operators, from look to look.

    Seconds on crowded nodes are counted one by one; the others by their mean CPU, where instances are at the look.
    """

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._cost_s = [1 / vertex.service_per_s for vertex in flow.vertices]
        self._seen_s = 0.0
        self._shares = [0.0] * len(flow.vertices)
        self._then = self._counters()
        self._crowds: Sequence[Crowd] | None = None
        self._cores: list[float] = []
        self._weights = weights((), len(flow.vertices))

    def look(self, now_s: float) -> Sequence[float]:
        """Mean busy share of an instance of each operator since the last look; the same at the same time."""
        if now_s > self._seen_s:
            if self._flow.crowds is not self._crowds:
                self._weigh()
            self._shares = self._since_last(max(now_s - self._seen_s, STEP_S))
            self._seen_s = now_s
        return self._shares

    def _since_last(self, span_s: float) -> list[float]:
        (spent_then, in_then, rows_then), self._then = self._then, self._counters()
        spent_now, in_now, rows_now = self._then
        crowded: dict[int, float] = {}
        cpu: list[float] = []
        for i, (spent_s, before_s, cores) in enumerate(zip(spent_now, spent_then, self._cores, strict=True)):
            spent_s -= before_s
            room_s = cores * span_s
            if in_now[i] > in_then[i]:
                share = min(1.0, (in_now[i] - in_then[i]) / (self._flow.instances[i] * span_s))
                crowded[i] = share
                spent_s -= (rows_now[i] - rows_then[i]) * self._cost_s[i]
                room_s *= 1 - share
            if spent_s > 0 and room_s > 0:
                cpu.append(spent_s / room_s if spent_s < room_s else 1.0)
            else:
                cpu.append(0.0)
        busy = busy_shares(self._weights, cpu)
        for i, share in crowded.items():
            busy[i] = share + (1 - share) * busy[i]
        return busy

    def _weigh(self) -> None:
        """Where instances are has changed. An operator that stands counts as on cores of speed 1."""
        flow = self._flow
        self._crowds = flow.crowds
        self._weights = weights(flow.crowds, len(flow.vertices))
        self._cores = [
            flow.capacity(i) * cost_s or float(flow.instances[i]) for i, cost_s in enumerate(self._cost_s)
        ]

    def _counters(self) -> tuple[list[float], list[float], list[float]]:
        flow = self._flow
        return list(flow.spent_s), list(flow.crowded_s), list(flow.crowded_rows)


@dataclass(frozen=True)
class Weights:
    """Where instances are, as far as ``busy_shares`` has to know."""

    nodes: Sequence[tuple[float, Instances]]
    """Each kind of node: cores for instances, and those on it."""
    parts: Sequence[Sequence[tuple[int, float]]]
    """Of each operator: (kind of node, part of all its instances that are on nodes of that kind and one speed)."""


def weights(crowds: Sequence[Crowd], operators: int) -> Weights:
    """Made of where instances are."""
    instances = [0] * operators
    for crowd in crowds:
        for i, count in crowd.instances:
            instances[i] += crowd.nodes * count
    kinds = alike(crowds)
    parts: list[list[tuple[int, float]]] = [[] for _ in range(operators)]
    for crowd in crowds:
        kind = kinds[crowd.cores, crowd.instances]
        for i, count in crowd.instances:
            parts[i].append((kind, crowd.nodes * count / instances[i]))
    return Weights(list(kinds), parts)


def busy_shares(where: Weights, cpu: Sequence[float]) -> list[float]:
    """Busy share of an instance of each operator, given the CPU one has: the mean over where they are.

    >>> on_one_core = weights([Crowd(nodes=1, cores=1, speed=1.0, instances=((0, 1), (1, 2)))], operators=2)
    >>> busy_shares(on_one_core, [0.25, 0.25])  # each: 0.25 / (1 − 0.5)
    [0.5, 0.5]
    >>> busy_shares(on_one_core, [0.5, 0.25])  # all of the core
    [1.0, 1.0]
    >>> two_cores = weights([Crowd(nodes=1, cores=2, speed=1.0, instances=((0, 1), (1, 2)))], operators=2)
    >>> busy_shares(two_cores, [0.25, 0.25])
    [0.25, 0.25]
    """
    lefts = []
    for left, on in where.nodes:
        for i, count in on:
            left -= count * cpu[i]
        lefts.append(left)
    shares = []
    for own, parts in zip(cpu, where.parts, strict=True):
        busy = 0.0
        for kind, part in parts if own > 0 else ():
            left = lefts[kind]
            for_it = left + own
            if for_it >= 1:
                busy += part * own
            else:
                busy += part * (own / for_it if left > 0 else 1.0)
        shares.append(busy)
    return shares
