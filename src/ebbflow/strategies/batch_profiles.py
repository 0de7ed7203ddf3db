"""Profiles that were given, on batches: what they say of a query's stages starts its model, and is watched.

The model goes on learning from there (``batch_model``). Where a stage is seen to cost something else (``batch_drift``),
that is said, and the stage is learned anew from the batches that showed it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from msgspec.structs import replace

from ebbflow.core.batches import Batch
from ebbflow.profiling.batch_drift import BatchWatch
from ebbflow.profiling.batch_model import BatchModel
from ebbflow.profiling.costs import batch_costs
from ebbflow.profiling.estimator import Estimator
from ebbflow.strategies.stage_match import StageMatch

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
