"""Options that several commands share: those of ``ebbflow.options``, and those that describe a simulation."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from ebbflow.core.parameters import Flag
from ebbflow.errors import InputError
from ebbflow.options import GENERAL, Configuration, Option, Several, from_command_line
from ebbflow.profiling.estimator import Estimator, estimators_for, read_profiles
from ebbflow.runs.spec import Spec
from ebbflow.strategies import STRATEGIES, takes_profiles
from ebbflow.targets.simulator import MicroBatch, Scenario

R = TypeVar("R")

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="Configuration file.",
        show_default="ebbflow.toml in the working directory, if there is one",
        metavar="FILE",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Any other option, like guards.cool-down.in=30s; repeatable. See `ebbflow config show`.",
        metavar="KEY=VALUE",
    ),
]


def configuration(
    values: Mapping[str, Any], config: Path | None = None, pairs: Sequence[str] | None = None
) -> Configuration:
    """Command line, environment and file. ``values``: given options by key; ``pairs``: those of --set."""
    return Configuration.read(config).plus(from_command_line(values, pairs or ()))


def takes_configuration(
    without: Sequence[str] = (), defaults: Mapping[str, object] | None = None
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Put the general options, --set and --config in place of a command's parameter ``configured``.

    The command gets a ``Configuration`` there. ``defaults``: defaults of its own to show in the help.
    """
    taken = [option for option in GENERAL if option.key not in without]
    names = {(option.flag or "").removeprefix("--").replace("-", "_"): option for option in taken}

    def decorate(command: Callable[..., R]) -> Callable[..., R]:
        signature = inspect.signature(command, eval_str=True)
        parameters: list[inspect.Parameter] = []
        for parameter in signature.parameters.values():
            if parameter.name != "configured":
                parameters.append(parameter)
                continue
            added = {name: _typed(option, defaults or {}) for name, option in names.items()}
            for name, annotation in {**added, "set": SetOption, "config": ConfigFile}.items():
                parameters.append(
                    inspect.Parameter(
                        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
                    )
                )
        positional = [each for each in parameters if each.kind is not inspect.Parameter.KEYWORD_ONLY]
        shown = signature.replace(parameters=[*positional, *(p for p in parameters if p not in positional)])

        @functools.wraps(command)
        def with_configuration(*arguments: Any, **values: Any) -> R:
            bound = shown.bind(*arguments, **values)
            bound.apply_defaults()
            given = dict(bound.arguments)
            by_key = {option.key: given.pop(name) for name, option in names.items()}
            config, pairs = given.pop("config"), given.pop("set")
            return command(**given, configured=configuration(by_key, config, pairs))

        vars(with_configuration)["__signature__"] = shown
        return with_configuration

    return decorate


def _typed(option: Option, defaults: Mapping[str, object]) -> Any:
    """The annotation from which Typer makes a command-line option."""
    default = option.written(defaults.get(option.key, option.default)) or False
    help_text = option.meaning + (" Repeatable." if isinstance(option.kind, Several) else "")
    if isinstance(option.kind, Flag):
        flags = f"{option.flag}/--no-{(option.flag or '').removeprefix('--')}"
        return Annotated[bool | None, typer.Option(flags, help=help_text, show_default=False)]
    several = isinstance(option.kind, Several)
    kind = option.kind.each if isinstance(option.kind, Several) else option.kind
    shown = typer.Option(option.flag, help=help_text, show_default=default, metavar=kind.type_name.upper())
    return Annotated[list[str] | None, shown] if several else Annotated[str | None, shown]


def spark_conf(pairs: Iterable[str]) -> dict[str, str]:
    """The settings of ``--conf KEY=VALUE``, by key.

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


ProfileOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--profile",
        help="Profile of a pipeline, from `ebbflow profile`, for symbiotic to size by. Repeatable.",
        metavar="FILE",
    ),
]


def profiles_in_simulation(
    files: Sequence[Path] | None, strategies: Sequence[str], made: Scenario
) -> Mapping[str, Estimator]:
    """The estimators of the profiles in the files, for the pipelines of a scenario."""
    profiles = read_profiles(files or ())
    if profiles and not any(map(takes_profiles, strategies)):
        usable = " and ".join(name for name in STRATEGIES.usable() if takes_profiles(name))
        raise InputError(f"--profile is for {usable}, not for {', '.join(strategies)}; leave one of them out")
    engines = [made.engine, *(tenant.engine for tenant in made.others)]
    return estimators_for(
        profiles,
        [engine.pipeline for engine in engines],
        in_batches=isinstance(made.engine, MicroBatch),
    )


_DEFAULTS = Spec()


def _text(help_text: str, default: object, metavar: str | None = None) -> Any:
    return Annotated[str | None, typer.Option(help=help_text, show_default=str(default), metavar=metavar)]


def _number(kind: type[int] | type[float], help_text: str, default: object) -> Any:
    return Annotated[kind | None, typer.Option(help=help_text, show_default=str(default))]


SHARED: dict[str, Any] = {
    "pipeline": _text("Built-in pipeline.", _DEFAULTS.pipeline, "NAME"),
    "engine": _text("micro-batch or continuous.", _DEFAULTS.engine, "NAME"),
    "nodes": _text("Minimum and maximum number of nodes, MIN:MAX.", _DEFAULTS.nodes, "MIN:MAX"),
    "slo": _text("Freshness objective.", _DEFAULTS.slo),
    "at": _text("Start time, for calendars in policies.", "a Thursday, 0:00 UTC", "2026-11-16T08:00"),
    "cycle": _text("Time between two decisions.", _DEFAULTS.cycle, "DURATION"),
    "lead-time": _text("Time from requesting a node to its first work.", _DEFAULTS.lead_time, "DURATION"),
    "lead-noise": _number(float, "Relative spread of the lead time.", _DEFAULTS.lead_noise),
    "trigger": _text("Trigger interval of the micro-batch engine.", "5s", "DURATION"),
    "slots-per-node": _number(int, "Tasks that a node runs at once.", _DEFAULTS.slots_per_node),
    "noise": _number(
        float,
        "Relative spread of task times. Above 0 a lucky run may beat the hindsight schedule, which uses the mean.",
        _DEFAULTS.noise,
    ),
    "initial-nodes": _number(int, "Nodes at the start.", "what the first minute needs"),
}
"""Options that describe a simulation, by their keys in a ``Spec``."""

ScenarioFile = Annotated[
    Path | None,
    typer.Argument(
        help="Scenario file in TOML, with the names of the options and tables for faults and more; options override it."
    ),
]
Policies = Annotated[
    list[Path] | None,
    typer.Option(
        "--policy",
        help="Policy file, TOML or YAML, compared as one more row named after the file. Repeatable.",
        metavar="FILE",
    ),
]
Parquet = Annotated[
    Path | None,
    typer.Option(help="Write one row per run to this file, or to results.parquet in this folder."),
]
Workers = Annotated[
    int | None,
    typer.Option(help="Worker processes.", show_default="one per core; one for a short comparison"),
]


def takes_shared_options(command: Callable[..., None]) -> Callable[..., None]:
    """Put the options of ``SHARED`` in place of a command's parameter ``given``.

    The command gets there the options that were given, by their keys in a ``Spec``.
    """
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
