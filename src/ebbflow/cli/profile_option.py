"""``--profile FILE``, where a command lets a strategy decide that can size by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from ebbflow.errors import InputError
from ebbflow.profiling.estimator import Estimator
from ebbflow.profiling.given_profiles import estimators_for, estimators_on_spark, read_profiles
from ebbflow.profiling.profile import Profile
from ebbflow.strategies import PROFILED
from ebbflow.targets.simulator import MicroBatch, Scenario

ProfileOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--profile",
        help="What a pipeline costs, as `ebbflow profile` wrote it, for symbiotic to size by; repeatable.",
        metavar="FILE",
    ),
]


def profiles_on_spark(files: Sequence[Path] | None, strategy: str) -> list[Profile]:
    """The profiles in the files, sound and of use to the strategy, before anything is started."""
    profiles = read_profiles(files or ())
    if profiles:
        _check_strategy([strategy])
    estimators_on_spark(profiles)
    return list(profiles.values())


def profiles_in_simulation(
    files: Sequence[Path] | None, strategies: Sequence[str], made: Scenario
) -> Mapping[str, Estimator]:
    """The estimators of the profiles in the files, for the pipelines of a scenario."""
    profiles = read_profiles(files or ())
    if profiles:
        _check_strategy(strategies)
    engines = [made.engine, *(tenant.engine for tenant in made.others)]
    return estimators_for(
        profiles,
        [engine.pipeline for engine in engines],
        in_batches=isinstance(made.engine, MicroBatch),
    )


def _check_strategy(strategies: Sequence[str]) -> None:
    if not any(name in PROFILED for name in strategies):
        raise InputError(
            f"--profile is for {' and '.join(PROFILED)}, not for {', '.join(strategies)}; leave one of them out"
        )
