"""The options of ``ebbflow.options`` on the command line."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from ebbflow.core.parameters import Flag
from ebbflow.errors import InputError
from ebbflow.options import GENERAL, Configuration, Option, Setting, Several, from_command_line

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
_SEED = "Random seed; the same seed gives the same result."
Seed = Annotated[int, typer.Option("--seed", min=0, help=_SEED)]
SeedOfScenario = Annotated[int | None, typer.Option("--seed", min=0, help=_SEED, show_default="1")]
"""Unset, the seed is that of the scenario."""


@dataclass(frozen=True, kw_only=True)
class Taken:
    """The options that a command reads."""

    keys: Sequence[str]
    tables: Sequence[str] | None
    """Tables of which it reads all keys; None for all tables."""
    flags: Mapping[str, str]
    """Command-line options by key; the other options are set with --set."""
    defaults: Mapping[str, object]
    """Defaults of its own, as values or as text."""

    def reads(self, key: str) -> bool:
        """Whether the command reads an option."""
        table, dot, _ = key.partition(".")
        return key in self.keys or (bool(dot) and (self.tables is None or table in self.tables))

    def check(self, line: Mapping[str, Setting]) -> None:
        """Raise ``InputError`` if the command line sets an option that the command does not read."""
        for key, setting in line.items():
            if not self.reads(key):
                usable = [
                    *(each for each in self.keys if each not in (self.tables or ())),
                    *(f"{each}.…" for each in self.tables or ()),
                ]
                raise InputError(
                    f"{setting.where} does not apply here; these options do: {', '.join(usable)}"
                )

    def default_text(self, option: Option) -> str:
        """The default of an option in this command, for people."""
        default = self.defaults.get(option.key, option.default)
        return default if isinstance(default, str) else option.written(default)


def takes_configuration(
    *,
    only: Sequence[str] | None = None,
    without: Sequence[str] = (),
    settable: Sequence[str] = (),
    tables: Sequence[str] | None = None,
    flags: Mapping[str, str] | None = None,
    defaults: Mapping[str, object] | None = None,
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Put general options, --set and --config in place of a command's parameter ``configured``.

    The command gets a ``Configuration`` there: command line, environment and file. ``only``, ``without``: keys of the
    general options it takes; by default all. ``settable``: keys of others that --set takes; ``tables``: tables of which
    it takes the keys, by default all. ``flags``: names of options other than the declared ones. ``defaults``: defaults
    of its own to show in the help, as values or as text.
    """
    keys = [option.key for option in GENERAL] if only is None else only
    taken = [option for option in GENERAL if option.key in keys and option.key not in without]
    called = {option.key: (flags or {}).get(option.key) or option.flag or "" for option in taken}
    read = Taken(keys=(*called, *settable), tables=tables, flags=called, defaults=defaults or {})
    names = {called[option.key].removeprefix("--").replace("-", "_"): option for option in taken}

    def decorate(command: Callable[..., R]) -> Callable[..., R]:
        signature = inspect.signature(command, eval_str=True)
        parameters: list[inspect.Parameter] = []
        for parameter in signature.parameters.values():
            if parameter.name != "configured":
                parameters.append(parameter)
                continue
            added = {
                name: _typed(option, called[option.key], read.default_text(option))
                for name, option in names.items()
            }
            for name, annotation in {**added, "set": _set_option(read), "config": ConfigFile}.items():
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
            config, pairs = given.pop("config"), given.pop("set") or ()
            line = from_command_line(by_key, pairs, called)
            read.check(line.settings)
            return command(**given, configured=Configuration.read(config).plus(line))

        vars(with_configuration).update(__signature__=shown, taken=read)
        return with_configuration

    return decorate


def _set_option(read: Taken) -> Any:
    """``--set``, with a key that the command takes as an example."""
    examples = {
        "guards.cool-down.in": "30s",
        "strategy.capacity.budget_out": "0.5",
        "agents": "tcp://worker-1:7700",
    }
    example = next((f"{key}={value}" for key, value in examples.items() if read.reads(key)), "KEY=VALUE")
    help_text = f"Any other option, like {example}; repeatable. See `ebbflow config show`."
    return Annotated[list[str] | None, typer.Option("--set", help=help_text, metavar="KEY=VALUE")]


def _typed(option: Option, flag: str, default: str) -> Any:
    """The annotation from which Typer makes a command-line option."""
    shown_default = default or False
    several = isinstance(option.kind, Several)
    help_text = option.meaning + (" Repeatable." if several else "")
    if isinstance(option.kind, Flag):
        flags = f"{flag}/--no-{flag.removeprefix('--')}"
        return Annotated[bool | None, typer.Option(flags, help=help_text, show_default=False)]
    kind = option.kind.each if isinstance(option.kind, Several) else option.kind
    shown = typer.Option(flag, help=help_text, show_default=shown_default, metavar=kind.type_name.upper())
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
