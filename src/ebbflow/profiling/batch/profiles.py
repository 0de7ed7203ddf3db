"""Profiles that were given, on batches: what they say of a query's stages starts its model, and is watched.

The model goes on learning from there (``batch_model``). Where a stage is seen to cost something else (``batch_drift``),
that is said, and the stage is learned anew from the batches that showed it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from ebbflow.core.batches import Batch
from ebbflow.profiling.batch.drift import BatchWatch
from ebbflow.profiling.batch.model import BatchModel
from ebbflow.profiling.costs import batch_costs
from ebbflow.profiling.estimator import Estimator

# Which stage of a query runs which operator: as batches tell, else the most probable, until batches tell otherwise.
#
# An operator's stage has as many tasks as the operator has instances. Where several have, it is taken to be
# the one whose
# rows cost most: who gives a step a parallelism of its own does so for its work. Operators keep their order, and the
# stage that reads the source, the first, is the last to be thought of. Once only one stage has the number, that is the
# one from then on: so a wrong guess shows in the first batches after the change that was made on it.


@dataclass(frozen=True)
class Ran:
    """A stage as it was seen: its tasks, and what a source row costs it."""

    tasks: int
    per_row_s: float


class StageMatch:
    """What is known of the stages of operators.

    >>> match = StageMatch()
    >>> stages = [Ran(1, 1e-4), Ran(1, 8e-3), Ran(1, 3e-4), Ran(1, 1e-4)]
    >>> match.of("q", stages, {"enrich": 1})
    {1: 'enrich'}
    >>> match.of("q", [stages[0], stages[1], stages[2], Ran(3, 1e-4)], {"enrich": 3})  # it was another one
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

    def of(self, query: str, stages: Sequence[Ran], instances: Mapping[str, int]) -> dict[int, str]:
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


log = logging.getLogger("ebbflow")


class BatchProfiles:
    """The costs of batches in the profiles that were given, by query, each with what has been learned since."""

    def __init__(self, given: Mapping[str, Estimator], match: StageMatch) -> None:
        """``match`` tells which operators a stage runs, as far as that is known."""
        self._match = match
        costs = {name: estimator.profile.costs for name, estimator in given.items()}
        self._costs = {name: each for name, each in costs.items() if each is not None and each.stages}
        self._watches = {name: BatchWatch(costs) for name, costs in self._costs.items()}
        self._to_look_for = {name: name in self._costs for name in given}
        """Of which profiles nothing was said yet, and whether they have costs of batches."""
        self.drift = ""
        """The last stage noticed to cost what it did not use to; empty where none was."""
        self.unused = ""
        """Why a profile is not used, of the last one that is not; empty where all are."""

    def model(self, query: str) -> BatchModel:
        """A new model of a query, with what is known of it."""
        return BatchModel(self._costs.get(query))

    def learned(self, batch: Batch, model: BatchModel) -> None:
        """The model of its query has taken in a batch: whether it still fits the profile."""
        name = batch.query
        watch = self._watches.get(name)
        if watch is None or not batch.rows or not batch.stages:
            return
        if model.base is None:
            has, runs = len(self._costs[name].stages), len(batch.stages)
            self.unused = (
                f"the profile of '{name}' has {has} stages, and a batch runs {runs}: it is of another plan"
            )
            log.warning("%s, and is not used; learn one with `ebbflow profile`", self.unused)
            del self._watches[name], self._costs[name]
            return
        if len(batch.stages) != len(model.base.stages):
            return
        for found in watch.add(batch):
            model.learn_anew(found.stage, found.runs)
            watch.costs_now(found.stage, model.stages[found.stage].as_costs)
            operators = ", ".join(self._match.operators(name, found.stage))
            stage = f"{found.drift.operator} of {name}{f' ({operators})' if operators else ''}"
            drift = replace(found.drift, operator=stage, unit="task time")
            self.drift = str(drift)
            log.warning("%s; learning it anew", drift)

    def left(self, query: str, model: BatchModel) -> None:
        """A query is gone. When it comes back, as after a restart, it goes on from what was learned."""
        if query in self._watches and model.base is not None:
            self._costs[query] = batch_costs(model)
            self._watches[query].start_over()

    def look_for(self, queries: Collection[str]) -> None:
        """Say, once, which profiles are of no use, or not yet, now that there are queries."""
        if not queries:
            return
        for name, has_costs in self._to_look_for.items():
            if name not in queries:
                # Not for good: a query that starts later is sized by its profile.
                log.warning(
                    "the profile of '%s' is not used yet: there is only %s so far", name, ", ".join(queries)
                )
            elif not has_costs:
                log.warning(
                    "the profile of '%s' has no costs of batches; they are learned from the run", name
                )
        self._to_look_for.clear()
