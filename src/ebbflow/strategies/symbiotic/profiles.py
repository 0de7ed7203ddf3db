"""Profiles that were given and go on learning: what they say of CPU holds until the pipeline behaves otherwise.

Selectivities stay as they were profiled: in operation, rows that wait between two operators would be taken for rows
that the first does not pass on.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ebbflow.core.pipeline import Pipeline
from ebbflow.core.snapshot import Snapshot
from ebbflow.profiling.estimator import Estimator
from ebbflow.profiling.learner import ProfileLearner
from ebbflow.profiling.profile import Profile

log = logging.getLogger("ebbflow")


def name_in(estimator: Estimator, part: Pipeline, operator: str) -> str:
    """What an estimator calls an operator: where several applications are, theirs carry the name of their own."""
    return operator if operator in estimator.pipeline.order else operator.removeprefix(f"{part.name}/")


class KeptProfiles:
    """The estimators that were given, each with what has been learned since."""

    def __init__(self, given: Mapping[str, Estimator]) -> None:
        self._given = dict(given)
        self._learner: ProfileLearner | None = None
        self._so_far: Profile | None = None

    def __contains__(self, application: str) -> bool:
        return application in self._given

    def look(self, snapshot: Snapshot, parts: Sequence[Pipeline]) -> None:
        """Take in what was read since the last look."""
        if self._learner is None:
            there = [part.name for part in parts]
            for name in self._given:
                if name not in there:
                    log.warning("the profile of '%s' is not used: there is only %s", name, ", ".join(there))
            base = self._so_far or self._base(snapshot.pipeline.name, parts)
            self._learner = ProfileLearner(snapshot.pipeline, base=base)
        self._learner.look(snapshot)

    def start_over(self) -> None:
        """The clock was set back: readings are new again, on top of what has been learned."""
        if self._learner is not None:
            self._so_far, self._learner = self._learner.profile(), None

    def now(self, parts: Sequence[Pipeline]) -> dict[str, Estimator]:
        """Estimators as of now, by application."""
        if self._learner is None:
            return {}
        learned = self._learner.profile()
        found = {}
        for part in parts:
            given = self._given.get(part.name)
            if given is not None:
                cpu = {**given.profile.cpu}
                for name in part.order:
                    if name in learned.cpu:
                        cpu[name_in(given, part, name)] = learned.cpu[name]
                profile = replace(given.profile, cpu=cpu, node=learned.node, costs=learned.costs)
                found[part.name] = Estimator(given.pipeline, profile, forecast=given.forecast)
        return found

    @property
    def drift(self) -> str:
        """The last thing noticed to cost what it did not use to; empty where nothing was."""
        drifts = self._learner.drifts if self._learner is not None else []
        return str(drifts[-1]) if drifts else ""

    def _base(self, pipeline: str, parts: Sequence[Pipeline]) -> Profile:
        """The profiles as one, in the names of the snapshot; nodes by the one that saw most of them."""
        cpu = {}
        for part in parts:
            given = self._given.get(part.name)
            if given is not None:
                for name in part.order:
                    known = given.profile.cpu.get(name_in(given, part, name))
                    if known is not None:
                        cpu[name] = known
        profiles = [given.profile for given in self._given.values()]
        costs = [profile.costs for profile in profiles if profile.costs is not None]
        return Profile(
            pipeline=pipeline,
            cpu=cpu,
            node=max((profile.node for profile in profiles), key=lambda node: node.samples),
            costs=costs[0] if costs else None,
        )
