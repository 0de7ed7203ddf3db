"""What the commands that simulate share: their options, and what these choose.

They read the SLO, the nodes, the cycle, the guards and the parameters of strategies like ``attach`` and ``submit`` do:
command line, environment, file, default (``ebbflow.options``). A scenario file counts as command line.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from ebbflow.cli.options import takes_configuration
from ebbflow.core.plural import listed
from ebbflow.errors import InputError
from ebbflow.options import GENERAL, Configuration, Rank
from ebbflow.policy.model import Policy
from ebbflow.profiling.estimator import Estimator, estimators_for, read_profiles
from ebbflow.runs.policy_trial import read_policies
from ebbflow.runs.spec import DEFAULT_STRATEGY, Spec, read_spec, strategy_names, with_options, with_values
from ebbflow.strategies import STRATEGIES, make_strategy, read_strategy, takes_profiles
from ebbflow.targets.simulator import MicroBatch, Scenario

log = logging.getLogger(__name__)

R = TypeVar("R")

_DECLARED = {option.key: option for option in GENERAL}
_SPEC_KEYS = {"executors": "nodes", "slo": "slo", "cycle": "cycle"}
"""Options by key, with their keys in a ``Spec``."""
_DEFAULTS = Spec()

Strategies = Annotated[
    str | None,
    typer.Option(
        "--strategy",
        help=f"{_DECLARED['strategy'].meaning} Several with commas.",
        show_default=DEFAULT_STRATEGY,
        metavar="A,B,…",
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
ScenarioFile = Annotated[
    Path | None,
    typer.Argument(
        help="Scenario file in TOML, with the names of the options and tables for faults and more; options override it."
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


def _text(help_text: str, default: object, metavar: str | None = None) -> Any:
    return Annotated[str | None, typer.Option(help=help_text, show_default=str(default), metavar=metavar)]


def _number(kind: type[int] | type[float], help_text: str, default: object) -> Any:
    return Annotated[kind | None, typer.Option(help=help_text, show_default=str(default))]


Load = Annotated[str | None, typer.Option(help="Arrivals, like 'sine(base=100, peak=900, period=1h)'.")]
Pipeline = _text("Built-in pipeline.", _DEFAULTS.pipeline, "NAME")
ENGINE_HELP = "micro-batch or continuous."
StartTime = _text("Start time, for calendars in policies.", "a Thursday, 0:00 UTC", "2026-11-16T08:00")
Seconds = Annotated[
    str | None,
    typer.Option(help="Simulated time.", show_default="as long as the load", metavar="DURATION"),
]


DESCRIBING: dict[str, Any] = {
    "pipeline": Pipeline,
    "engine": _text(ENGINE_HELP, _DEFAULTS.engine, "NAME"),
    "at": StartTime,
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
"""Options that describe a simulation and nothing else, by their keys in a ``Spec``."""


def takes_description(command: Callable[..., None]) -> Callable[..., None]:
    """Put the options of ``DESCRIBING`` in place of a command's parameter ``given``.

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
            for key, annotation in DESCRIBING.items()
        ]

    @functools.wraps(command)
    def with_options(**values: Any) -> None:
        given = {key: values.pop(key.replace("-", "_")) for key in DESCRIBING}
        command(given={key: value for key, value in given.items() if value is not None}, **values)

    vars(with_options)["__signature__"] = signature.replace(parameters=parameters)
    return with_options


def takes_simulated_configuration(
    *more: str,
    settable: Sequence[str] = (),
    tables: Sequence[str] = ("strategy", "guards"),
    defaults: Mapping[str, object] | None = None,
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Like ``takes_configuration``, for a simulation; ``more``: options it takes besides the common ones."""
    own = {"executors": _DEFAULTS.nodes, "cycle": str(_DEFAULTS.cycle)}
    return takes_configuration(
        only=("executors", "slo", "cycle", "guards.add", *more),
        settable=settable,
        tables=tables,
        flags={"executors": "--nodes"},
        defaults={**own, **(defaults or {})},
    )


def simulated_spec(
    configured: Configuration,
    given: Mapping[str, Any],
    scenario: Path | None = None,
    base: Spec = _DEFAULTS,
) -> Spec:
    """What to simulate: options, then the scenario file, then environment and configuration file, then ``base``.

    ``given``: options that are not in the configuration. For strategies see ``choose``.
    """
    strong: dict[str, Any] = {}
    weak: dict[str, Any] = {}
    for key, name in _SPEC_KEYS.items():
        setting = configured.given(key)
        if setting is not None:
            values = strong if setting.rank <= Rank.COMMAND_LINE else weak
            values[name] = _DECLARED[key].written(setting.value)
    strong |= {key: value for key, value in given.items() if value is not None}
    base = with_values(base, weak)
    return with_options(base, strong) if scenario is None else read_spec(scenario, base, strong)


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """The strategies and policies to run."""

    places: Mapping[str, str]
    """Strategy expressions, completed by the parameters that are set, each with where it is set, for errors."""
    policies: Mapping[str, Policy]
    """Policies by name."""

    @property
    def strategies(self) -> list[str]:
        """The strategy expressions."""
        return list(self.places)

    @property
    def names(self) -> list[str]:
        """The names of all rows."""
        return [*self.places, *self.policies]

    def check(self, estimators: Mapping[str, Estimator] | None = None) -> None:
        """Build every strategy once, so that parameters that contradict each other are an error before anything runs.

        Other errors count as a failed run.
        """
        for expression, where in self.places.items():
            try:
                make_strategy(expression, estimators if takes_profiles(expression) else None)
            except InputError as error:
                raise InputError(f"{where}: {error}" if where else str(error)) from error
            except Exception as error:
                log.debug("%s cannot be built: %s", expression, error)


def choose(
    configured: Configuration,
    *,
    option: str | None = None,
    in_scenario: str | list[str] | None = None,
    scenario: Path | None = None,
    files: Sequence[Path] | None = None,
) -> Chosen:
    """The strategies of the option or --set, else of the scenario file, else of environment and file, else the default.

    ``files``: policies to run too. A policy of environment or file runs if it is what decides there and no strategy is
    named.
    """
    setting, policies = configured.setting("strategy"), read_policies(files or ())
    on_line = setting.rank <= Rank.COMMAND_LINE
    strategies, where = str(setting.value), setting.where
    if option is not None:
        if on_line:
            raise InputError(f"{setting.where} and --strategy both set strategy; leave one of them out")
        if (policy := configured.given("policy")) is not None and policy.rank <= Rank.COMMAND_LINE:
            raise InputError(f"{policy.where} and --strategy contradict each other; leave one of them out")
        strategies, where = option, "--strategy"
    elif in_scenario is not None and not on_line:
        return complete_strategies(configured, in_scenario, f"{scenario}, strategy", policies)
    elif (decides := configured.existing_policy()) is not None:
        configured.check_others()
        return Chosen(places={}, policies=policies | read_policies([decides]))
    return complete_strategies(configured, strategies, where, policies)


def complete_strategies(
    configured: Configuration, strategies: str | list[str], where: str, policies: Mapping[str, Policy]
) -> Chosen:
    """The strategies with the parameters that are set."""
    places = {}
    for written in strategy_names(strategies):
        call = read_strategy(written)
        for name in call.arguments:
            setting_of = configured.given(f"strategy.{call.name}.{name}")
            if setting_of is not None and setting_of.rank <= Rank.COMMAND_LINE:
                raise InputError(
                    f"{setting_of.where} and {where} both set strategy.{call.name}.{name}; leave one of them out"
                )
        places[configured.expression_of(written)] = configured.sources_of(written, where)
    configured.check_others(*(read_strategy(each).name for each in places))
    return Chosen(places=places, policies=policies)


def profiles_in_simulation(
    configured: Configuration, strategies: Sequence[str], made: Scenario
) -> Mapping[str, Estimator]:
    """The estimators of the profiles that are set, for the pipelines of a scenario.

    Profiles of environment or file that no strategy uses are left out.
    """
    setting = configured.setting("profiles")
    if not any(map(takes_profiles, strategies)):
        if not setting.value or setting.rank > Rank.COMMAND_LINE:
            return {}
        usable = listed(name for name in STRATEGIES.usable() if takes_profiles(name))
        raise InputError(
            f"{setting.where} is for {usable}, not for {', '.join(strategies)}; leave one of them out"
        )
    engines = [made.engine, *(tenant.engine for tenant in made.others)]
    return estimators_for(
        read_profiles(setting.value),
        [engine.pipeline for engine in engines],
        in_batches=isinstance(made.engine, MicroBatch),
    )
