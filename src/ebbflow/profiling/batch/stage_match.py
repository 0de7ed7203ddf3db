"""Which stage of a query runs which operator: as batches report it, else the most probable stage.

The stage of an operator has as many tasks as the operator has instances. If several stages have, the one with the most
expensive rows is assumed: a step gets a parallelism of its own for its work. Operators keep their order, and the first
stage, which reads the source, is the last resort. Once only one stage has the number of tasks, it is the operator's
from then on. So a wrong guess shows in the first batches after the change that was made because of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class ObservedStage:
    """The tasks of a stage, and what a source row costs in it."""

    tasks: int
    per_row_s: float


class StageMatch:
    """The stages of operators, as far as they are known.

    >>> match = StageMatch()
    >>> stages = [ObservedStage(1, 1e-4), ObservedStage(1, 8e-3), ObservedStage(1, 3e-4), ObservedStage(1, 1e-4)]
    >>> match.of("q", stages, {"enrich": 1})
    {1: 'enrich'}
    >>> match.of("q", [*stages[:3], ObservedStage(3, 1e-4)], {"enrich": 3})  # the guess was wrong
    {3: 'enrich'}
    >>> match.of("q", stages, {"enrich": 1})
    {3: 'enrich'}
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], int] = {}

    def note(self, query: str, operator: str, stage: int) -> None:
        """A batch reported the stage of an operator."""
        self._known[query, operator] = stage

    def operators(self, query: str, stage: int) -> list[str]:
        """The operators known to run in a stage."""
        return [name for (whose, name), at in self._known.items() if (whose, at) == (query, stage)]

    def of(self, query: str, stages: Sequence[ObservedStage], instances: Mapping[str, int]) -> dict[int, str]:
        """Operators by stage; ``instances`` in the order of the operators."""
        candidates = {
            name: [at for at, stage in enumerate(stages) if stage.tasks == count]
            for name, count in instances.items()
        }
        counts = list(instances.values())
        for name, places in candidates.items():
            if len(places) == 1 and counts.count(instances[name]) == 1:
                self._known[query, name] = places[0]
            elif self._known.get((query, name)) in places:
                places[:] = [self._known[query, name]]
        best: dict[int, tuple[tuple[float, ...], tuple[tuple[int, str], ...]]] = {-1: ((0, 0, 0, 0), ())}
        """By the last stage assigned: the value of the best assignment up to it, and the assignment."""
        for name, places in candidates.items():
            reached = dict(best)
            for last, (worth, assigned) in best.items():
                for at in places:
                    if at > last:
                        matched, first, cost_s, late = worth
                        value = (matched + 1, first - (at == 0), cost_s + stages[at].per_row_s, late + at)
                        if at not in reached or value > reached[at][0]:
                            reached[at] = (value, (*assigned, (at, name)))
            best = reached
        return dict(max(best.values())[1])
