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

from ebbflow.targets.simulator.continuous_run import STEP_S
from ebbflow.targets.simulator.flow import Crowd, Flow


class BusyMeter:
    """Busy shares of the instances of all operators, from look to look.

    Seconds on crowded nodes are counted one by one; the others by their mean CPU, where instances are at the look.
    """

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._seen_s = 0.0
        self._shares = [0.0] * len(flow.vertices)
        self._then = self._counters()

    def look(self, now_s: float) -> Sequence[float]:
        """Mean busy share of an instance of each operator since the last look; the same at the same time."""
        if now_s > self._seen_s:
            span_s = max(now_s - self._seen_s, STEP_S)
            now = self._counters()
            self._shares = self._since(span_s, *map(_less, now, self._then))
            self._seen_s, self._then = now_s, now
        return self._shares

    def _since(
        self, span_s: float, spent_s: list[float], crowded_s: list[float], crowded_cpu_s: list[float]
    ) -> list[float]:
        flow = self._flow
        in_crowds: list[float] = []
        cpu: list[float] = []
        for i, instances in enumerate(flow.instances):
            share = min(1.0, crowded_s[i] / (instances * span_s))
            in_crowds.append(share)
            # seconds that instances of a mean speed had outside the crowds
            room_s = (1 - share) * instances * span_s * self._speed(i)
            calm_s = max(0.0, spent_s[i] - crowded_cpu_s[i])
            cpu.append(min(1.0, calm_s / room_s) if room_s > 0 else 0.0)
        calm = busy_shares(flow.crowds, cpu)
        return [share + (1 - share) * busy for share, busy in zip(in_crowds, calm, strict=True)]

    def _speed(self, operator: int) -> float:
        """Mean speed of the nodes its instances are on; 1 while it stands."""
        alone = self._flow.instances[operator] * self._flow.vertices[operator].service_per_s
        return self._flow.capacity(operator) / alone or 1.0

    def _counters(self) -> tuple[list[float], list[float], list[float]]:
        flow = self._flow
        return list(flow.spent_s), list(flow.crowded_s), list(flow.crowded_cpu_s)


def busy_shares(crowds: Sequence[Crowd], cpu: Sequence[float]) -> list[float]:
    """Busy share of an instance of each operator, given the CPU one has: the mean over where they are.

    >>> on_one_core = Crowd(nodes=1, cores=1, speed=1.0, instances=((0, 1), (1, 2)))
    >>> busy_shares([on_one_core], [0.25, 0.25])  # each: 0.25 / (1 − 0.5)
    [0.5, 0.5]
    >>> busy_shares([on_one_core], [0.5, 0.25])  # all of the core
    [1.0, 1.0]
    >>> busy_shares([Crowd(nodes=1, cores=2, speed=1.0, instances=((0, 1), (1, 2)))], [0.25, 0.25])
    [0.25, 0.25]
    """
    busy = [0.0] * len(cpu)
    instances = [0] * len(cpu)
    for crowd in crowds:
        total = sum(count * cpu[i] for i, count in crowd.instances)
        for i, count in crowd.instances:
            here = crowd.nodes * count
            instances[i] += here
            if cpu[i] > 0:
                left = min(1.0, crowd.cores - (total - cpu[i]))
                busy[i] += here * (cpu[i] / left if left > cpu[i] else 1.0)
    return [b / n if n else share for b, n, share in zip(busy, instances, cpu, strict=True)]


def _less(now: list[float], then: list[float]) -> list[float]:
    return [a - b for a, b in zip(now, then, strict=True)]
