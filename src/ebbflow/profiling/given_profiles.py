"""Profiles that a person gives to be sized by: read from files, and checked against what they are to be used on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ebbflow.core.pipeline import Pipeline
from ebbflow.errors import ProfileError
from ebbflow.profiling.estimator import Estimator
from ebbflow.profiling.profile import Profile

SIMULATOR, SPARK = "simulator", "spark"
"""Where a profile was learned, and what the terms of a store say of its run."""


def read_profiles(files: Iterable[str | Path]) -> dict[str, Profile]:
    """By file."""
    return {str(file): Profile.read(Path(file)) for file in files}


def estimators_for(
    profiles: Mapping[str, Profile], pipelines: Sequence[Pipeline], *, in_batches: bool
) -> dict[str, Estimator]:
    """By pipeline, for pipelines that are known; an error that names the file where one does not fit.

    On batches that takes the costs of batches; without them, the CPU of every operator.
    """
    _check_no_two(profiles)
    by_name = {pipeline.name: pipeline for pipeline in pipelines}
    found = {}
    for file, profile in profiles.items():
        pipeline = by_name.get(profile.pipeline)
        if pipeline is None:
            raise ProfileError(
                f"{file} is a profile of '{profile.pipeline}', and there is {' and '.join(map(repr, by_name))}; "
                f"learn one with `ebbflow profile --pipeline {pipelines[0].name}`"
            )
        _check_operators(file, profile, pipeline)
        if in_batches and (profile.costs is None or not profile.costs.stages):
            raise ProfileError(
                f"{file} has no costs of batches, and the micro-batch engine has nothing else; learn one with "
                "`ebbflow profile --engine micro-batch`, or simulate with --engine continuous"
            )
        if not in_batches and (unknown := [name for name in pipeline.order if name not in profile.cpu]):
            raise ProfileError(
                f"{file} has no CPU of operator '{unknown[0]}', and the continuous engine is sized by it; "
                "learn one with `ebbflow profile --engine continuous`"
            )
        found[pipeline.name] = Estimator(pipeline, profile)
    return found


def estimators_on_spark(profiles: Mapping[str, Profile]) -> dict[str, Estimator]:
    """By query. What operators and streams there are only the job itself will show; until then the profile's own."""
    _check_no_two(profiles)
    for file, profile in profiles.items():
        if profile.target == SIMULATOR:
            raise ProfileError(
                f"{file} was learned in the simulator, whose rows cost something else than yours; learn one with "
                "`ebbflow profile --target spark`, or from the store of a run with `ebbflow profile --store`"
            )
    return {profile.pipeline: Estimator(profile.graph, profile) for profile in profiles.values()}


def _check_no_two(profiles: Mapping[str, Profile]) -> None:
    files: dict[str, str] = {}
    for file, profile in profiles.items():
        if profile.pipeline in files:
            raise ProfileError(
                f"{files[profile.pipeline]} and {file} are both of '{profile.pipeline}'; leave one of them out"
            )
        files[profile.pipeline] = file


def _check_operators(file: str, profile: Profile, pipeline: Pipeline) -> None:
    for name in profile.graph.order:
        if name not in pipeline.order:
            raise ProfileError(
                f"{file} knows operator '{name}', which pipeline {pipeline.name} does not have "
                f"({', '.join(pipeline.order)}); learn one with `ebbflow profile --pipeline {pipeline.name}`"
            )
