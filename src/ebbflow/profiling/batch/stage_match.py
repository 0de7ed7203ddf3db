"""Which stage of a query runs which operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# Which stage of a query runs which operator: as batches tell, else the most probable, until batches tell otherwise.
#
# An operator's stage has as many tasks as the operator has instances. Where several have, it is taken to be
# the one whose
# rows cost most: who gives a step a parallelism of its own does so for its work. Operators keep their order, and the
# stage that reads the source, the first, is the last to be thought of. Once only one stage has the number, that is the
# one from then on: so a wrong guess shows in the first batches after the change that was made on it.


@dataclass(frozen=True)
class ObservedStage:
    """A stage as it was seen: its tasks, and what a source row costs it."""

    tasks: int
    per_row_s: float


class StageMatch:
    """What is known of the stages of operators.

    >>> match = StageMatch()
    >>> stages = [ObservedStage(1, 1e-4), ObservedStage(1, 8e-3), ObservedStage(1, 3e-4), ObservedStage(1, 1e-4)]
    >>> match.of("q", stages, {"enrich": 1})
    {1: 'enrich'}
    >>> match.of("q", [stages[0], stages[1], stages[2], ObservedStage(3, 1e-4)], {"enrich": 3})  # it was another one
    {3: 'enrich'}
    >>> match.of("q", stages, {"enrich": 1})
    {3: 'enrich'}
    """

    def __init__(self) -> None:
        self._sure: dict[tuple[str, str], int] = {}

    def tell(self, query: str, operator: str, stage: int) -> None:
        """A batch told it."""
        self._sure[query, operator] = stage

    def operators(self, query: str, stage: int) -> list[str]:
        """Those that are known to run in a stage."""
        return [name for (whose, name), at in self._sure.items() if (whose, at) == (query, stage)]

    def of(self, query: str, stages: Sequence[ObservedStage], instances: Mapping[str, int]) -> dict[int, str]:
        """Operators by their stage; ``instances`` in the order of the operators."""
        fitting = {
            name: [at for at, stage in enumerate(stages) if stage.tasks == count]
            for name, count in instances.items()
        }
        counts = list(instances.values())
        for name, places in fitting.items():
            if len(places) == 1 and counts.count(instances[name]) == 1:
                self._sure[query, name] = places[0]
            elif self._sure.get((query, name)) in places:
                places[:] = [self._sure[query, name]]
        best: dict[int, tuple[tuple[float, ...], tuple[tuple[int, str], ...]]] = {-1: ((0, 0, 0, 0), ())}
        """By the last stage that was given away: how good the best way to that is, and the way."""
        for name, places in fitting.items():
            reached = dict(best)
            for last, (worth, way) in best.items():
                for at in places:
                    if at > last:
                        matched, first, cost_s, late = worth
                        value = (matched + 1, first - (at == 0), cost_s + stages[at].per_row_s, late + at)
                        if at not in reached or value > reached[at][0]:
                            reached[at] = (value, (*way, (at, name)))
            best = reached
        return dict(max(best.values())[1])
