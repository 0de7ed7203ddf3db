"""The options that say what is simulated: the same words for every command, and in scenario files."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ebbflow.errors import InputError
from ebbflow.policy.files import load_policy
from ebbflow.profiling.estimator import Estimator, estimators_for, estimators_on_spark, read_profiles
from ebbflow.profiling.profile import Profile
from ebbflow.runs.spec import Spec
from ebbflow.strategies import STRATEGIES, make_strategy, takes_profiles
from ebbflow.strategies.rules import Rules
from ebbflow.targets.simulator import MicroBatch, Scenario

# ``--conf spark.some.key=value``, as often as one likes.


def spark_conf(pairs: Iterable[str]) -> dict[str, str]:
    """The settings by their keys.

    >>> spark_conf(["spark.executor.cores=2"])
    {'spark.executor.cores': '2'}
    """
    settings = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.startswith("spark."):
            raise InputError(f"--conf {pair} is not a Spark setting; write --conf spark.some.key=value")
        settings[key] = value
    return settings


# ``--profile FILE``, where a command lets a strategy decide that can size by one.


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
    if not any(takes_profiles(name) for name in strategies):
        usable = [name for name in STRATEGIES if takes_profiles(name)]
        raise InputError(
            f"--profile is for {' and '.join(usable)}, not for {', '.join(strategies)}; leave one of them out"
        )


# ``--policy FILE``, where a command lets a strategy decide.


PolicyOption = Annotated[
    Path | None,
    typer.Option(
        help="A policy in TOML or YAML: its rules decide, and it is followed while it runs.", metavar="FILE"
    ),
]


def chosen_strategy(strategy: str, policy: Path | None) -> str:
    """The name of the strategy that will decide; both must be sound before anything is started."""
    if policy is None:
        return make_strategy(strategy).name
    if strategy not in ("capacity", Rules.name):
        raise InputError(f"--policy is for the strategy rules, not for {strategy}; leave one of them out")
    load_policy(policy)
    return Rules.name


_USUAL = Spec()


def _text(help_text: str, usual: object, metavar: str | None = None) -> Any:
    return Annotated[str | None, typer.Option(help=help_text, show_default=str(usual), metavar=metavar)]


def _number(kind: type[int] | type[float], help_text: str, usual: object) -> Any:
    return Annotated[kind | None, typer.Option(help=help_text, show_default=str(usual))]


SHARED: dict[str, Any] = {
    "pipeline": _text("A built-in pipeline.", _USUAL.pipeline, "NAME"),
    "engine": _text("micro-batch or continuous.", _USUAL.engine, "NAME"),
    "nodes": _text("Fewest and most nodes.", _USUAL.nodes, "MIN:MAX"),
    "slo": _text("The objective.", _USUAL.slo),
    "at": _text("When it begins, for calendars in policies.", "a Thursday, 0:00 UTC", "2026-11-16T08:00"),
    "cycle": _text("How often strategies look and decide.", _USUAL.cycle, "DURATION"),
    "lead-time": _text("From asking for a node to its first work.", _USUAL.lead_time, "DURATION"),
    "lead-noise": _number(float, "Spread of the lead time, as a share.", _USUAL.lead_noise),
    "trigger": _text("Trigger interval of the micro-batch engine.", "5s", "DURATION"),
    "slots-per-node": _number(int, "Tasks a node runs at once.", _USUAL.slots_per_node),
    "noise": _number(
        float,
        "Spread of what tasks take, as a share. Hindsight goes by the mean: only with 0 does no luck beat it.",
        _USUAL.noise,
    ),
    "initial-nodes": _number(int, "Nodes there at the start.", "what the first minute needs"),
}
"""By the keys of a ``Spec``."""

ScenarioFile = Annotated[
    Path | None,
    typer.Argument(
        help="A TOML file with the same names, and tables for faults and more; options come first."
    ),
]
Policies = Annotated[
    list[Path] | None,
    typer.Option(
        "--policy",
        help="A policy in TOML or YAML: one more row, named after the file. May be given several times.",
        metavar="FILE",
    ),
]
Parquet = Annotated[
    Path | None,
    typer.Option(help="Write one row per run there: a file, or a folder for results.parquet."),
]
Workers = Annotated[
    int | None,
    typer.Option(help="Processes to work with.", show_default="one per core; one for a short comparison"),
]


def takes_shared_options(command: Callable[..., None]) -> Callable[..., None]:
    """Put the shared options where a command has its parameter ``given``: it gets there those that were given, by
    their keys in a ``Spec``."""
    signature = inspect.signature(command, eval_str=True)
    parameters: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        if parameter.name != "given":
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        parameters += [
            inspect.Parameter(
                key.replace("-", "_"), inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
            )
            for key, annotation in SHARED.items()
        ]

    @functools.wraps(command)
    def with_options(**values: Any) -> None:
        given = {key: values.pop(key.replace("-", "_")) for key in SHARED}
        command(given={key: value for key, value in given.items() if value is not None}, **values)

    vars(with_options)["__signature__"] = signature.replace(parameters=parameters)
    return with_options
