"""Every option: what it means, which values it takes, and where its value comes from.

General options are declared here. Parameters of strategies and guards and the times of a scale-in are declared beside
the arguments they describe (``core.parameters``) and collected here, so each default exists once. From these
declarations come the keyword arguments of ``attach``, the command-line options, the keys of ``ebbflow.toml``, the
``EBBFLOW_*`` variables, the ``spark.ebbflow.*`` settings and docs/options.md.

If several sources set an option, the first of these wins: argument of ``attach``, command line, Spark configuration,
environment, file, default. Added guards (``guards.add``) are the exception: those of all sources apply. An invalid
value is an error in any source, even if another source overrides it.

>>> configuration = Configuration([from_environment({"EBBFLOW_SLO": "freshness p95 <= 10s"})])
>>> str(configuration["slo"]), configuration.setting("slo").where
('freshness p95 <= 10s', 'EBBFLOW_SLO')
"""

from __future__ import annotations

import difflib
import inspect
import logging
import os
import re
import shlex
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path
from typing import Any

from ebbflow.core.expression import split_list
from ebbflow.core.failures import FailureLimits
from ebbflow.core.limits import Limits
from ebbflow.core.parameters import (
    Duration,
    File,
    Flag,
    Kind,
    arguments,
    convert,
    declared,
    meant,
    read_arguments,
)
from ebbflow.core.plugins import make, missing, warn_once
from ebbflow.core.ports import Guard, Strategy
from ebbflow.core.slo import DEFAULT_SLO, Slo
from ebbflow.errors import InputError
from ebbflow.guards import BUILT_IN, guards_for, installed_guards, load_guard, make_guard, read_guard
from ebbflow.monitoring.addresses import is_local
from ebbflow.policy.model import Policy
from ebbflow.profiling.estimator import Estimator
from ebbflow.profiling.profile import Profile
from ebbflow.strategies import STRATEGIES, make_strategy, read_strategy
from ebbflow.targets.spark.act.actuator import GrowTimes
from ebbflow.targets.spark.act.draining import ShrinkTimes

log = logging.getLogger(__name__)

FILE_NAME = "ebbflow.toml"
ENVIRONMENT_PREFIX = "EBBFLOW_"
SPARK_PREFIX = "spark.ebbflow."
CONFIG_VARIABLE = "EBBFLOW_CONFIG"
OTHER_VARIABLES = frozenset(
    {
        CONFIG_VARIABLE,
        "EBBFLOW_BENCH_EVENTS",
        "EBBFLOW_BENCH_SECONDS",
        "EBBFLOW_RANDOM_TESTS",
        "EBBFLOW_SHARED_DATA",
        "EBBFLOW_SOAK_SECONDS",
    }
)
"""Variables with the prefix that are not options."""


# -- kinds of values -------------------------------------------------------------------------------------


class Executors(Kind):
    """Minimum and maximum number of executors: ``1:20``, or ``(1, 20)`` in Python."""

    type_name = "range"
    unit = "executors"
    must = "the fewest and the most executors, like 1:20; in Python also (1, 20)"

    def accept(self, value: Any) -> Limits:
        """The limits."""
        if isinstance(value, Limits):
            return value
        if isinstance(value, str):
            return Limits.parse(value)
        if not isinstance(value, tuple | list) or [type(each) for each in value] != [int, int]:
            raise ValueError(value)
        return Limits(min_nodes=value[0], max_nodes=value[1])


class Objective(Kind):
    """An SLO."""

    type_name = "SLO"
    must = "an SLO, like 'freshness p95 <= 30s'"

    def accept(self, value: Any) -> Slo:
        """The SLO."""
        return value if isinstance(value, Slo) else Slo.parse(super().accept(value))


def _named(value: Strategy | Guard) -> Strategy | Guard:
    """The object, if it has a name; the ledger quotes it."""
    if not isinstance(getattr(value, "name", None), str) or not value.name:
        raise InputError(f'{type(value).__name__} has no name; set the class attribute name = "…"')
    return value


class StrategyChoice(Kind):
    """The name of a strategy, or an expression; in Python also an object."""

    type_name = "strategy"
    must = "a name like 'capacity', an expression like 'capacity(budget_out=0.5)' or a Strategy object"

    def accept(self, value: Any) -> Any:
        """The expression, checked, or the object."""
        if isinstance(value, str):
            return str(read_strategy(value))
        if not isinstance(value, Strategy):
            raise ValueError(value)
        return _named(value)

    def write(self, value: Any) -> str:
        """The expression, or the name of the object."""
        return value if isinstance(value, str) else str(value.name)


class Several(Kind):
    """A list of values; as text with commas."""

    def __init__(self, each: Kind) -> None:
        super().__init__(each.meaning)
        self.each = each
        self.type_name = f"{each.type_name} list"

    @property
    def must(self) -> str:
        """What a value must be."""
        return f"a list, each {self.each.must}"

    def parse(self, text: str) -> tuple[Any, ...]:
        """The parts between commas."""
        return tuple(self.each.parse(part) for part in split_list(text)) if text.strip() else ()

    def accept(self, value: Any) -> tuple[Any, ...]:
        """A list, or one value."""
        values = value if isinstance(value, list | tuple) else [value]
        return tuple(self.each.accept(each) for each in values)

    def in_folder(self, value: Any, folder: Path) -> Any:
        """Relative paths taken from a folder."""
        take = self.each.in_folder if isinstance(self.each, File) else lambda each, _: each
        return tuple(take(each, folder) for each in value)

    def write(self, value: Any) -> str:
        """The values with commas between them."""
        return ",".join(self.each.write(each) for each in value)


class Address(Kind):
    """The address of an agent."""

    type_name = "address"
    must = "an address like tcp://HOST:PORT"

    def accept(self, value: Any) -> str:
        """The address."""
        address = str(super().accept(value))
        is_local(address)  # raises if it is not an address
        return address


class GuardChoice(Kind):
    """The name of an installed guard, or an expression; in Python also an object."""

    type_name = "guard"
    must = "the name of an installed guard or a Guard object"

    def accept(self, value: Any) -> Any:
        """The expression, checked, or the object."""
        if isinstance(value, str):
            return str(read_guard(value))
        if not isinstance(value, Guard):
            raise ValueError(value)
        return _named(value)

    def write(self, value: Any) -> str:
        """The expression, or the name of the object."""
        return value if isinstance(value, str) else str(value.name)


# -- declarations ----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Option:
    """One option."""

    key: str
    """Dotted; tables of ``ebbflow.toml`` before the last dot."""
    kind: Kind
    default: Any
    argument: str | None = None
    """Keyword argument of ``attach``. Options without one go into ``attach(options={key: value})``."""
    flag: str | None = None
    """Command-line option. Options without one are set with ``--set KEY=VALUE``."""
    spark_prefix: str = ""
    """Another prefix under which the Spark configuration may hold it (``Strategy.spark_prefix``)."""
    adds_up: bool = False
    """Whether the values of all sources are in force, those of the strongest source first. For lists."""

    @property
    def meaning(self) -> str:
        """What it does, in one sentence."""
        return self.kind.meaning

    @property
    def environment(self) -> str:
        """Its environment variable.

        >>> options()["strategy.capacity.budget_out"].environment
        'EBBFLOW_STRATEGY_CAPACITY_BUDGET_OUT'
        """
        return ENVIRONMENT_PREFIX + re.sub(r"[.-]", "_", self.key).upper()

    @property
    def spark(self) -> str:
        """Its key in the Spark configuration."""
        return SPARK_PREFIX + self.key

    @property
    def spark_published(self) -> str | None:
        """Its published key in the Spark configuration, read only if its strategy decides; None if it has none.

        >>> options()["strategy.learner.maxLatency"].spark_published
        'spark.streaming.dynamicAllocation.maxLatency'
        """
        return f"{self.spark_prefix}{self.key.rpartition('.')[2]}" if self.spark_prefix else None

    @property
    def toml(self) -> str:
        """Its table and key in ``ebbflow.toml``."""
        table, _, key = self.key.rpartition(".")
        return f"[{table}] {key}" if table else key

    def written(self, value: Any) -> str:
        """A value as text. For None, what applies then; empty if nothing does."""
        return self.kind.unset if value is None else self.kind.write(value)


GENERAL = (
    Option(
        key="executors", argument="executors", flag="--executors", default=Limits(min_nodes=1, max_nodes=10),
        kind=Executors("Minimum and maximum number of executors, MIN:MAX."),
    ),
    Option(
        key="slo", argument="slo", flag="--slo", default=DEFAULT_SLO,
        kind=Objective("Freshness objective that the job is sized for."),
    ),
    Option(
        key="strategy", argument="strategy", flag="--strategy", default="capacity",
        kind=StrategyChoice("Scaling strategy, like capacity or 'capacity(budget_out=0.5)'."),
    ),
    Option(
        key="fallback", argument="fallback", flag="--fallback", default="capacity",
        kind=StrategyChoice("Strategy that decides after repeated failures of the chosen one; static if it is the "
                            "same."),
    ),
    Option(
        key="policy", argument="policy", flag="--policy", default=None,
        kind=File("Policy file, TOML or YAML. Its rules decide in place of a strategy; changes apply while the job "
                  "runs.", Policy),
    ),
    Option(
        key="profiles", argument="profiles", flag="--profile", default=(),
        kind=Several(File("Profile of a pipeline, from `ebbflow profile`, by which proactive, symbiotic and "
                          "symbiotic-proactive size.", Profile)),
    ),
    Option(
        key="store", argument="store", flag="--store", default=None,
        kind=File("SQLite file for readings, batches and ledger; by default a temporary one."),
    ),
    Option(
        key="dry_run", argument="dry_run", flag="--dry-run", default=False,
        kind=Flag("Decide and write the ledger, but change nothing."),
    ),
    Option(
        key="agents", argument="agents", flag="--agent", default=(),
        kind=Several(Address("Agent on a worker host, tcp://HOST:PORT.")),
    ),
    Option(
        key="agent_keys", argument="agent_keys", flag="--agent-keys", default=None,
        kind=File("Folder DIR/collector with keys from `ebbflow agent keys DIR`.", what="folder"),
    ),
    Option(
        key="cycle", argument="cycle_s", flag="--cycle", default=1.0,
        kind=Duration("Time between two observations.", at_least=0.05),
    ),
    Option(
        key="guards.add", argument="guards", flag="--guard", default=(), adds_up=True,
        kind=Several(GuardChoice("Installed guard to apply besides the built-in ones and those of other sources.")),
    ),
)  # fmt: skip
"""Options that are not parameters of something else."""
_ADDS_UP = {option.key: option.adds_up for option in GENERAL}


def options() -> dict[str, Option]:
    """All options by key: general ones, then strategies, guards and scale-in; installed ones included."""
    found = {option.key: option for option in GENERAL}
    for section, factory in sections():
        prefix = factory.spark_prefix if inspect.isclass(factory) and issubclass(factory, Strategy) else ""
        for key, parameter in declared(factory).items():
            option = Option(
                key=f"{section}.{key}",
                kind=parameter.kind,
                default=parameter.default,
                spark_prefix=prefix,
            )
            found[option.key] = option
    return found


def sections() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Tables of the configuration, each with the class whose parameters it holds."""
    yield "decide", FailureLimits
    yield "grow", GrowTimes
    yield "shrink", ShrinkTimes
    for name, kind in BUILT_IN.items():
        yield f"guards.{name}", kind
    for name, entry_point in installed_guards().items():
        try:
            yield f"guards.{name}", load_guard(entry_point)
        except InputError as error:
            warn_once(str(error))
    for name in STRATEGIES.usable():
        yield f"strategy.{name}", STRATEGIES[name]


# -- sources ---------------------------------------------------------------------------------------------


class Rank(IntEnum):
    """Kinds of sources, strongest first."""

    ARGUMENT = 1
    COMMAND_LINE = 2
    SPARK = 3
    ENVIRONMENT = 4
    FILE = 5
    DEFAULT = 6

    @property
    def label(self) -> str:
        """For people."""
        return _LABELS[self]


_LABELS = {
    Rank.ARGUMENT: "argument",
    Rank.COMMAND_LINE: "command line",
    Rank.SPARK: "Spark configuration",
    Rank.ENVIRONMENT: "environment",
    Rank.FILE: "file",
    Rank.DEFAULT: "default",
}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A value and where it comes from."""

    value: Any
    rank: Rank
    where: str
    """As errors name it: ``--slo``, ``EBBFLOW_SLO``, ``ebbflow.toml, slo``; empty for a default."""


class Source:
    """The values that one source sets, each checked."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self.settings: dict[str, Setting] = {}

    def set(
        self,
        key: str,
        value: Any,
        where: str,
        *,
        from_text: bool,
        known: Mapping[str, Option],
        folder: Path | None = None,
    ) -> None:
        """Check and take one value. ``folder``: where relative paths start."""
        if key not in known:
            raise InputError(f"{where}: there is no such option{_hint(key, known)}")
        kind = known[key].kind
        converted = convert(where, kind, value, from_text=from_text)
        if folder is not None and isinstance(kind, File | Several):
            converted = kind.in_folder(converted, folder)
        if key == "strategy" and isinstance(converted, str):
            call = read_strategy(converted)
            values = read_arguments(f"strategy {call.name}", STRATEGIES[call.name], call.arguments)
            for name, each in values.items():
                option = known[f"strategy.{call.name}.{name}"]
                if folder is not None and isinstance(option.kind, File):
                    each = option.kind.in_folder(each, folder)
                self._put(option.key, each, where)
            converted = call.name
        self._put(key, converted, where)

    def _put(self, key: str, value: Any, where: str) -> None:
        if key in self.settings:
            other = self.settings[key].where
            twice = f"{where} is given twice" if other == where else f"{where} and {other} both set {key}"
            raise InputError(f"{twice}; leave one of them out")
        self.settings[key] = Setting(value=value, rank=self.rank, where=where)

    def checked(self) -> Source:
        """The source, once all is set. Raises ``InputError`` if it contradicts itself."""
        policy, strategy = self.settings.get("policy"), self.settings.get("strategy")
        if policy is not None and strategy is not None and strategy.value != "rules":
            raise InputError(
                f"{policy.where} and {strategy.where} contradict each other: with a policy its rules decide; "
                "leave one of them out"
            )
        return self


def _hint(key: str, known: Iterable[str], prefix: str = "") -> str:
    """The option that was probably meant: one of the same table, one with a similar key or a similar last part.

    >>> _hint("shrink.dead_line", options()), _hint("budget_out", options())
    ("; did you mean 'shrink.deadline'?", "; did you mean 'strategy.capacity.budget_out'?")
    >>> _hint("guards.cool-down", options())
    "; it is a table: did you mean 'guards.cool-down.out'?"
    """
    keys = list(known)
    below = [each for each in keys if each.startswith(f"{key}.")]
    if below:
        return f"; it is a table: did you mean '{prefix}{below[0]}'?"
    beside = [each for each in keys if each.rpartition(".")[0] == key.rpartition(".")[0]]
    by_last_part = {each.rpartition(".")[2]: each for each in reversed(keys)}
    close = difflib.get_close_matches(key, beside, n=1) or difflib.get_close_matches(key, keys, n=1)
    if not close:
        last = difflib.get_close_matches(key.rpartition(".")[2], list(by_last_part), n=1, cutoff=0.75)
        close = [by_last_part[each] for each in last]
    return f"; did you mean '{prefix}{close[0]}'?" if close else _LIST


_LIST = "; `ebbflow config show` lists all options"


def from_arguments(values: Mapping[str, Any], more: Mapping[str, Any] | None = None) -> Source:
    """Arguments of ``attach`` that are not None, and its ``options`` by key."""
    source, known = Source(Rank.ARGUMENT), options()
    keys = {option.argument: option.key for option in GENERAL}
    for argument, value in values.items():
        if value is not None:
            source.set(keys[argument], value, f"attach({argument}=…)", from_text=False, known=known)
    for key, value in (more or {}).items():
        source.set(key, value, f"attach(options={{'{key}': …}})", from_text=False, known=known)
    return source.checked()


def from_command_line(
    values: Mapping[str, Any], pairs: Sequence[str] = (), flags: Mapping[str, str] | None = None
) -> Source:
    """Command-line options by key, None where not given, and the pairs of ``--set KEY=VALUE``.

    ``flags``: names of command-line options, by key, where they differ from the declared ones.
    """
    source, known = Source(Rank.COMMAND_LINE), options()
    for key, value in values.items():
        if value is None or value == []:
            continue
        kind, where = known[key].kind, (flags or {}).get(key) or known[key].flag or f"--set {key}"
        if isinstance(value, list) and isinstance(kind, Several):
            value = [convert(where, kind.each, each, from_text=True) for each in value]
        source.set(key, value, where, from_text=isinstance(value, str), known=known, folder=Path.cwd())
    for pair in pairs:
        key, equals, text = (part.strip() for part in pair.partition("="))
        if not equals and key in known:
            example = known[key].written(known[key].default) or "VALUE"
            raise InputError(
                f"--set {pair}: it has no value; write it like --set {key}={shlex.quote(example)}"
            )
        source.set(key, text, f"--set {key}", from_text=True, known=known, folder=Path.cwd())
    return source.checked()


def from_spark(settings: Mapping[str, str], strategy: str | None = None) -> Source:
    """``spark.ebbflow.*`` keys of a Spark configuration, and the published keys of the strategy with this name.

    Other keys are not ours; under the prefix of a strategy's published keys they may be Spark's.
    """
    source, known = Source(Rank.SPARK), options()
    keys = {option.spark: option.key for option in known.values()}
    for option in known.values():
        if option.spark_published and option.key.startswith(f"strategy.{strategy}."):
            keys[option.spark_published] = option.key
    for name, text in settings.items():
        if name in keys:
            source.set(keys[name], text, name, from_text=True, known=known)
        elif name.startswith(SPARK_PREFIX):
            key = name.removeprefix(SPARK_PREFIX)
            raise InputError(f"{name}: there is no such option{_hint(key, known, SPARK_PREFIX)}")
    return source.checked()


def from_environment(environment: Mapping[str, str]) -> Source:
    """``EBBFLOW_*`` variables."""
    source, known = Source(Rank.ENVIRONMENT), options()
    by_name = {option.environment: option for option in known.values()}
    for name, text in environment.items():
        if not name.startswith(ENVIRONMENT_PREFIX) or name in OTHER_VARIABLES:
            continue
        if name not in by_name:
            raise InputError(f"{name}: there is no such option{meant(name, by_name) or _LIST}")
        source.set(by_name[name].key, text, name, from_text=True, known=known, folder=Path.cwd())
    return source.checked()


def from_file(path: Path) -> Source:
    """A TOML file. Relative paths in it start at its folder."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        why = (error.strerror or str(error)).lower() if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InputError(f"cannot read the configuration {path}: {why}") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path} is not TOML: {error}{_both_strategies(path)}") from None
    source, known = Source(Rank.FILE), options()
    for key, value in _flattened(table, known):
        source.set(key, value, f"{path}, {key}", from_text=False, known=known, folder=path.absolute().parent)
    return source.checked()


def _both_strategies(path: Path) -> str:
    """TOML has no name for a value and a table of the same name; ``[strategy] name`` is the way out."""
    text = path.read_text(encoding="utf-8")
    both = re.search(r"^strategy\s*=", text, re.M) and re.search(r"^\[strategy\.", text, re.M)
    return "; beside [strategy.…] write [strategy] with name = …" if both else ""


def _flattened(
    table: Mapping[str, Any], known: Mapping[str, Option], under: str = ""
) -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        key = f"{under}{name}"
        if isinstance(value, dict) and (key == "strategy" or key not in known):
            yield from _flattened(value, known, f"{key}.")
        else:
            yield ("strategy" if key == "strategy.name" else key), value


# -- what is in force ------------------------------------------------------------------------------------


class Configuration:
    """The values in force, from several sources.

    >>> low = from_environment({"EBBFLOW_CYCLE": "5s"})
    >>> Configuration([low, from_command_line({"cycle": "2s"})])["cycle"]
    2.0
    """

    def __init__(self, sources: Iterable[Source] = ()) -> None:
        self._sources = sorted(sources, key=lambda source: source.rank)

    @classmethod
    def read(
        cls, file: str | Path | None = None, environment: Mapping[str, str] | None = None
    ) -> Configuration:
        """The environment, and the file: the one given, that of EBBFLOW_CONFIG, or ebbflow.toml if it exists."""
        variables = os.environ if environment is None else environment
        named = file or variables.get(CONFIG_VARIABLE)
        sources = [from_environment(variables)]
        if named or Path(FILE_NAME).is_file():
            sources.append(from_file(Path(named or FILE_NAME)))
        return cls(sources)

    def plus(self, *sources: Source) -> Configuration:
        """With more sources."""
        return Configuration([*self._sources, *sources])

    def with_spark(self, settings: Mapping[str, str]) -> Configuration:
        """With the Spark configuration of a job; published keys of a strategy count only if that strategy decides.

        >>> settings = {"spark.streaming.dynamicAllocation.maxLatency": "9s"}
        >>> Configuration().with_spark(settings).given("strategy.learner.maxLatency") is None
        True
        >>> settings["spark.ebbflow.strategy"] = "learner"
        >>> Configuration().with_spark(settings)["strategy.learner.maxLatency"]
        9.0
        """
        known = self.plus(from_spark(settings))
        chosen = None if known.policy is not None else known["strategy"]
        return self.plus(from_spark(settings, chosen)) if isinstance(chosen, str) else known

    def given(self, key: str) -> Setting | None:
        """The setting of the strongest source that has one, or of all if they add up; None if there is none.

        >>> low, high = from_environment({"EBBFLOW_SLO": "freshness <= 9s"}), from_command_line({"cycle": "2s"})
        >>> Configuration([low, high]).given("slo").where
        'EBBFLOW_SLO'
        """
        found = [source.settings[key] for source in self._sources if key in source.settings]
        if not found or not _ADDS_UP.get(key):
            return found[0] if found else None
        values: list[Any] = []
        for setting in found:
            values += [each for each in setting.value if each not in values]
        places = " and ".join(setting.where for setting in found)
        return replace(found[0], value=tuple(values), where=places)

    def setting(self, key: str) -> Setting:
        """The value in force and where it comes from."""
        return self._setting(options()[key])

    def _setting(self, option: Option) -> Setting:
        return self.given(option.key) or Setting(value=option.default, rank=Rank.DEFAULT, where="")

    def __getitem__(self, key: str) -> Any:
        return self.setting(key).value

    def section(self, table: str) -> dict[str, Any]:
        """Values that sources set in a table, by the rest of their key."""
        found: dict[str, Any] = {}
        for source in reversed(self._sources):
            for key, setting in source.settings.items():
                if key.startswith(f"{table}."):
                    found[key.removeprefix(f"{table}.")] = setting.value
        return found

    def in_force(self) -> list[tuple[Option, Setting]]:
        """Every option with its setting."""
        return [(option, self._setting(option)) for option in options().values()]

    # -- what follows from it ---------------------------------------------------------------------------

    @property
    def policy(self) -> Any:
        """The policy, if one decides; a strategy from a stronger source takes its place."""
        policy, strategy = self.given("policy"), self.given("strategy")
        if policy is None or (strategy is not None and strategy.rank < policy.rank):
            return None
        return policy.value

    def existing_policy(self) -> Any:
        """The policy, if one decides. A file that is missing is reported with the source that names it."""
        policy = self.policy
        if isinstance(policy, Path) and not policy.exists():
            raise InputError(f"{self.setting('policy').where}: there is no policy file {policy}")
        return policy

    def overridden(self) -> dict[str, str]:
        """Of ``policy`` and ``strategy`` the one that is not in force, with the source that overrides it.

        >>> low = from_environment({"EBBFLOW_POLICY": "night.toml"})
        >>> Configuration([low, from_command_line({"strategy": "hpa"})]).overridden()
        {'policy': '--strategy'}
        """
        policy, strategy = self.given("policy"), self.given("strategy")
        if policy is None:
            return {}
        if strategy is not None and self.policy is None:
            return {"policy": strategy.where}
        return {} if strategy is not None and strategy.value == "rules" else {"strategy": policy.where}

    @property
    def strategy_expression(self) -> str:
        """The strategy with the parameters that are set."""
        return "rules" if self.policy is not None else self.expression_of(str(self["strategy"]))

    def expression_of(self, strategy: str) -> str:
        """A strategy expression, completed by the parameters that are set.

        >>> source = from_environment({"EBBFLOW_STRATEGY_CAPACITY_HOLD_IN": "1m"})
        >>> Configuration([source]).expression_of("capacity(budget_out=0.5)")
        'capacity(budget_out=0.5, hold_in=1m)'
        """
        call, known = read_strategy(strategy), options()
        more = {
            key: known[f"strategy.{call.name}.{key}"].kind.write(value)
            for key, value in self.section(f"strategy.{call.name}").items()
            if key not in call.arguments
        }
        return str(replace(call, arguments={**call.arguments, **more}))

    def make_strategy(self, estimators: Mapping[str, Estimator]) -> Strategy:
        """The strategy, with the parameters that are set. Not for a policy."""
        chosen = self["strategy"]
        if not isinstance(chosen, str):
            if estimators:
                raise InputError("profiles are for a strategy by name; pass estimators to your own strategy")
            made: Strategy = chosen
            return made
        try:
            return make_strategy(self.expression_of(chosen), estimators)
        except InputError as error:
            where = self.sources_of(chosen)
            raise InputError(f"{where}: {error}" if where else str(error)) from error

    def check_others(self, *chosen: str) -> None:
        """Raise ``InputError`` if parameters of a strategy other than the chosen ones are invalid together.

        Their files are not read: the job does not need them.
        """
        known = options()
        for name in STRATEGIES.usable():
            values = {
                key: value
                for key, value in self.section(f"strategy.{name}").items()
                if not isinstance(known[f"strategy.{name}.{key}"].kind, File)
            }
            if not values or name in chosen:
                continue
            factory = STRATEGIES[name]
            if missing(factory, values):
                continue  # it is not complete, and not needed
            try:
                make("strategy", name, factory, Strategy, values)
            except InputError as error:
                raise InputError(f"{self.sources_of(name, '')}: {error}") from error

    def sources_of(self, strategy: str, where: str | None = None) -> str:
        """Where a strategy and its parameters are set, for errors; empty if nowhere.

        ``where``: the source of the expression, if it is not the option ``strategy``.

        >>> source = from_environment({"EBBFLOW_STRATEGY_CAPACITY_HOLD_IN": "1m"})
        >>> Configuration([source]).sources_of("capacity(budget_out=0.5)", "--strategy")
        '--strategy and EBBFLOW_STRATEGY_CAPACITY_HOLD_IN'
        """
        call = read_strategy(strategy)
        table = f"strategy.{call.name}"
        keys = [f"{table}.{key}" for key in self.section(table) if key not in call.arguments]
        places = [setting.where for key in keys if (setting := self.given(key)) is not None]
        if call.arguments or not places:
            places.insert(0, self.setting("strategy").where if where is None else where)
        return " and ".join(dict.fromkeys(filter(None, places)))

    @property
    def guard_settings(self) -> dict[str, dict[str, Any]]:
        """Parameters of guards that are set, by guard."""
        settings: dict[str, dict[str, Any]] = {}
        for key, value in self.section("guards").items():
            guard, dot, name = key.partition(".")
            if dot:
                settings.setdefault(guard, {})[name] = value
        return settings

    def make_guards(self, strategy: Strategy) -> tuple[Guard, ...]:
        """The guards of a strategy, with the parameters and the added guards that are set."""
        settings = self.guard_settings
        chosen = self.setting("guards.add")
        try:
            added = [make_guard(each, settings) if isinstance(each, str) else each for each in chosen.value]
        except InputError as error:
            raise InputError(f"{chosen.where}: {error}") from error
        return guards_for(strategy, settings, added)

    @property
    def failure_limits(self) -> FailureLimits:
        """When the strategy has failed."""
        return FailureLimits(**arguments(FailureLimits, self.section("decide")))

    def make_fallback(self, strategy: Strategy) -> Strategy:
        """The strategy that decides when ``strategy`` keeps failing."""
        chosen = self["fallback"]
        if not isinstance(chosen, str):
            fallback: Strategy = chosen
        else:
            fallback = make_strategy(self.expression_of(chosen))
        return make_strategy("static") if fallback.name == strategy.name else fallback

    @property
    def grow_times(self) -> GrowTimes:
        """The times of a scale-out."""
        return GrowTimes(**arguments(GrowTimes, self.section("grow")))

    @property
    def shrink_times(self) -> ShrinkTimes:
        """The times of a scale-in."""
        return ShrinkTimes(**arguments(ShrinkTimes, self.section("shrink")))
