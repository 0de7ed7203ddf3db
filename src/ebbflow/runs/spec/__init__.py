"""A scenario as users write it: on the command line, or in a TOML file with the same keys.

::

    # rush.toml: ebbflow simulate rush.toml --strategy capacity,hpa
    pipeline = "top-words"
    engine = "micro-batch"
    load = "square(base=200, peak=1800, period=2h)"
    strategy = ["capacity", "spark-dra"]
    nodes = "1:16"
    slo = "freshness p95 <= 30s"
    seconds = "1d"
    lead-time = "45s"

``tables`` defines the tables of such a file. Errors name the file, the table, the key, and what would be right.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from ebbflow.core.clock import ManualClock
from ebbflow.core.expression import split_list
from ebbflow.core.layout import MAIN
from ebbflow.core.limits import Limits
from ebbflow.core.slo import DEFAULT_SLO, Slo
from ebbflow.errors import InputError, UnknownNameError
from ebbflow.runs.spec.tables import (
    FAULTS,
    AnyFault,
    ClusterTable,
    Duration,
    LinkTable,
    NodesTable,
    QueuesTable,
    Table,
    TenantTable,
    check_spread,
    parse_seconds,
)
from ebbflow.strategies import STRATEGIES, read_strategy
from ebbflow.targets.simulator import Cluster, MicroBatch, Scenario, Tenant, built_in_engine
from ebbflow.targets.simulator.engine import Engine
from ebbflow.workloads import Constant, Load, parse_load

DEFAULT_STRATEGY = "capacity"
_INITIAL_BUSY_SHARE = 0.75
_ENDLESS_S = 3600.0


class Spec(NodesTable, frozen=True, kw_only=True):
    """The keys of a simulated run, as written; ``scenario()`` builds the scenario.

    >>> Spec(load="constant(300)", seconds="10m", nodes="2:8").scenario().duration_s
    600.0
    """

    pipeline: str = "top-words"
    engine: str = "micro-batch"
    load: str | None = None
    strategy: str | list[str] | None = None
    """Default: ``capacity``; for a leaderboard all."""
    nodes: str = "1:16"
    initial_nodes: int | None = None
    """Nodes at the start. Default: what the first minute needs, so that a recorded load that starts high does not begin
    with a backlog."""
    slo: str = str(DEFAULT_SLO)
    seed: int = 1
    seconds: Duration | None = None
    """Length of the run. Default: that of the load; of an endless one its natural span, at least an hour."""
    at: str | None = None
    """Start time for the calendar of a policy, like 2026-11-16T08:00; UTC without a zone."""
    cycle: Duration = "10s"
    trigger: Duration | None = None
    noise: float = 0.05
    fault: tuple[AnyFault, ...] = ()
    tenant: tuple[TenantTable, ...] = ()
    cluster: Mapping[str, ClusterTable] = {}
    placement: Mapping[str, str] = {}
    """Operators that start in another cluster; ``pipeline/operator`` if several pipelines share nodes."""
    link: LinkTable = LinkTable()
    queues: QueuesTable = QueuesTable()

    @property
    def strategies(self) -> list[str]:
        """The strategy expressions, valid and without duplicates."""
        return strategy_names(DEFAULT_STRATEGY if self.strategy is None else self.strategy)

    @property
    def limits(self) -> Limits:
        """Minimum and maximum number of nodes."""
        return Limits.parse(self.nodes)

    @property
    def objective(self) -> Slo:
        """The SLO."""
        return Slo.parse(self.slo)

    @property
    def duration_s(self) -> float | None:
        """Length of the run; None for that of the load."""
        return None if self.seconds is None else parse_seconds("seconds", self.seconds, least_s=1.0)

    @property
    def cycle_s(self) -> float:
        """Time between observations."""
        return parse_seconds("cycle", self.cycle, least_s=0.05)

    @property
    def begins_at_s(self) -> float:
        """The start time, in seconds since the epoch.

        >>> Spec(at="1970-01-02T01:00").begins_at_s
        90000.0
        """
        if self.at is None:
            return 0.0
        try:
            start = datetime.fromisoformat(self.at)
        except ValueError:
            raise InputError(f"at is {self.at}; it must be a date and time, like 2026-11-16T08:00") from None
        return (start if start.tzinfo is not None else start.replace(tzinfo=UTC)).timestamp()

    def scenario(self, load: Load | None = None, engine: Engine | None = None) -> Scenario:
        """Build the scenario; ``load`` and ``engine`` replace those of the spec."""
        used_load = self.parsed_load() if load is None else load
        seconds = self.duration_s
        if seconds is None and math.isinf(used_load.duration_s):
            seconds = max(used_load.span_s, _ENDLESS_S)
        scenario = Scenario(
            engine=self.build_engine() if engine is None else engine,
            load=used_load,
            limits=self.limits,
            slo=self.objective,
            nodes=self.node_kind,
            initial_nodes=self.initial_nodes,
            faults=tuple(fault.build() for fault in self.fault),
            others=tuple(self.build_tenant(tenant) for tenant in self.tenant),
            clusters=self.clusters(),
            placement=self.placement,
            link=self.link.build(),
            seconds=seconds,
            cycle_s=self.cycle_s,
            seed=self.checked_seed(),
            begins_at_s=self.begins_at_s,
        )
        if not scenario.is_single or scenario.faults or scenario.placement:
            scenario.target(ManualClock(0.0))  # raises if the parts do not fit together
        return (
            replace(scenario, initial_nodes=_initial_nodes(scenario))
            if self.initial_nodes is None
            else scenario
        )

    def parsed_load(self) -> Load:
        """The load, which is required."""
        if self.load is None:
            raise InputError("no load is given; add one like --load 'sine(base=100, peak=900, period=1h)'")
        return parse_load(self.load)

    def build_engine(self) -> Engine:
        """The engine with its pipeline."""
        return self._engine(self.pipeline, self.trigger)

    def build_tenant(self, tenant: TenantTable) -> Tenant:
        """A pipeline that shares the nodes."""
        trigger = self.trigger if tenant.trigger is None else tenant.trigger
        engine: Any = self._engine(tenant.pipeline, trigger)
        if tenant.name is not None:
            if not tenant.name:
                raise InputError("name is empty; give a name, or leave the key out")
            engine = replace(engine, pipeline=replace(engine.pipeline, name=tenant.name))
        return Tenant(engine=engine, load=parse_load(tenant.load))

    def clusters(self) -> dict[str, Cluster]:
        """The clusters beside the main one."""
        if MAIN in self.cluster:
            raise InputError(
                f"'{MAIN}' is the cluster of the keys at the top; use another name, like [cluster.west]"
            )
        return {name: table.build() for name, table in self.cluster.items()}

    def checked_seed(self) -> int:
        """The random seed."""
        if self.seed < 0:
            raise InputError(f"seed is {self.seed}; it must be 0 or more")
        return self.seed

    def _engine(self, pipeline: str, trigger: Duration | None) -> Engine:
        engine = built_in_engine(pipeline, self.engine, noise=check_spread("noise", self.noise))
        engine = self.queues.applied(engine)
        if trigger is None:
            return engine
        interval_s = parse_seconds("trigger", trigger, least_s=0.1)
        if not isinstance(engine, MicroBatch):
            raise InputError(f"the {self.engine} engine has no trigger; remove it, or use micro-batch")
        return replace(engine, trigger_interval_s=interval_s)


def with_values(spec: Spec, given: Mapping[str, Any]) -> Spec:
    """A copy of a spec with new values for some keys, named as in a file; None leaves a key unchanged.

    >>> with_values(Spec(), {"slots-per-node": 2, "nodes": None}).slots_per_node
    2
    """
    values = msgspec.to_builtins(spec) | {key: value for key, value in given.items() if value is not None}
    return msgspec.convert(values, Spec)


def with_options(spec: Spec, given: Mapping[str, Any]) -> Spec:
    """Like ``with_values``, for values of command-line options: an error names the option."""
    made = with_values(spec, given)
    _check_values(made, given)
    return made


def _check_values(spec: Spec, given: Mapping[str, Any], path: Path | None = None) -> None:
    """Check the keys that options give, and with a file all others too. An error names the option or file and key."""
    for key, check in _checks(spec):
        if given.get(key) is None and path is None:
            continue
        try:
            check()
        except InputError as error:
            if given.get(key) is None:
                raise InputError(f"{path}, {key}: {error}") from None
            named = str(error).startswith((f"{key} ", f"--{key}"))
            raise InputError(str(error) if named else f"--{key}: {error}") from None


def strategy_names(text: str | list[str]) -> list[str]:
    """Parse strategy expressions from a list or comma-separated text; duplicates are an error.

    >>> strategy_names("capacity( budget_out=0.5), hpa ")
    ['capacity(budget_out=0.5)', 'hpa']
    """
    expressions = split_list(text) if isinstance(text, str) else text
    names = [str(read_strategy(each)) for each in expressions]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(
            f"strategy '{twice}' is named twice; name it once, because the same seed gives the same run"
        )
    if not names:
        raise InputError(f"no strategy is named; choose from: {', '.join(sorted(STRATEGIES))}")
    return names


def _initial_nodes(scenario: Scenario) -> int:
    """Nodes that are 75 % busy with the rows of the first minute.

    >>> Spec(load="constant(300)", seconds="1h").scenario().first_nodes  # for 400 rows/s: 2 process 336, 3 process 502
    3
    """
    return scenario.nodes_for(min(60.0, scenario.duration_s), busy=_INITIAL_BUSY_SHARE)


_LISTS = {"fault": 'kind = "node-dies"', "tenant": 'load = "constant(200)"'}
"""Tables that may occur several times, with an example of their first key."""
_EXAMPLES = {
    "at": '"10m"',
    "from": '"10m"',
    "until": '"20m"',
    "load": '"constant(200)"',
    "node-speeds": "[1.0, 0.5]",
    "nodes": '"1:16"',
    "seconds": '"6h", or 3600',
    "placement": '{ counter = "west" }',
    "bound": '5000, or "none"',
    "pending": '5000, or "none"',
    "read-limit": '20000, or "none"',
}
"""Examples of required keys, and of those whose type is not clear enough."""


def read_spec(path: Path, base: Spec | None = None, given: Mapping[str, Any] | None = None) -> Spec:
    """Read a scenario file. ``base``: values of missing keys; ``given``: options, which override it.

    Errors name the file and the key, or the option.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise InputError(f"there is no scenario file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as a scenario: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f'{path} is not TOML: {error}; write keys like load = "constant(50)"') from None
    _check(str(path), Spec, values)
    spec = with_values(with_values(base or Spec(), values), given or {})
    _check_values(spec, given or {}, path)
    try:
        spec.scenario(Constant(level_per_s=1.0))
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return spec


def _checks(spec: Spec) -> Iterator[tuple[str, Callable[[], object]]]:
    """One check for each key, so that an error can name the key."""
    yield "pipeline", lambda: built_in_engine(spec.pipeline)
    yield "engine", lambda: built_in_engine(spec.pipeline, spec.engine)
    yield "load", lambda: spec.load is None or spec.parsed_load()
    yield "strategy", lambda: spec.strategies
    yield "nodes", lambda: spec.limits
    yield "slo", lambda: spec.objective
    yield "seed", spec.checked_seed
    yield "seconds", lambda: spec.duration_s
    yield "cycle", lambda: spec.cycle_s
    yield "lead-time", lambda: parse_seconds("lead-time", spec.lead_time, least_s=0.0)
    yield "lead-noise", lambda: check_spread("lead-noise", spec.lead_noise)
    yield "slots-per-node", lambda: msgspec.structs.replace(spec, node_speeds=(1.0,), drain="0s").node_kind
    yield "node-speeds", lambda: msgspec.structs.replace(spec, drain="0s").node_kind
    yield "drain", lambda: spec.node_kind
    yield "noise", lambda: check_spread("noise", spec.noise)
    yield "queues", lambda: spec.queues.applied(built_in_engine(spec.pipeline, spec.engine))
    yield "trigger", spec.build_engine
    for number, fault in enumerate(spec.fault, start=1):
        yield f"fault {number}", fault.build
    for number, tenant in enumerate(spec.tenant, start=1):
        yield f"tenant {number}", partial(spec.build_tenant, tenant)
    for name, cluster in spec.cluster.items():
        yield f"cluster {name}", cluster.build
    yield "cluster", spec.clusters
    yield "link", spec.link.build


def _check(where: str, kind: type[Table], values: Any) -> None:
    """Check that all keys of a table are known and of the right type, and that none is missing."""
    if not isinstance(values, dict):
        raise InputError(f"{where} = {_shown(values)}: expected a table of keys and values")
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    for key, value in values.items():
        if key not in fields:
            raise UnknownNameError(f"key of {where}", key, fields)
        if kind is Spec and _check_tables(where, key, value):
            continue
        try:
            msgspec.convert(value, fields[key].type)
        except msgspec.ValidationError as error:
            wanted = str(error).partition(" - at ")[0]
            like = f"; write it like {key} = {_EXAMPLES[key]}" if key in _EXAMPLES else ""
            raise InputError(
                f"{where}, {key} = {_shown(value)}: {wanted[0].lower()}{wanted[1:]}{like}"
            ) from None
    for name, field in fields.items():
        if field.required and name not in values:
            raise InputError(f"{where} has no '{name}'; write it like {name} = {_EXAMPLES[name]}")


def _check_tables(where: str, key: str, value: Any) -> bool:
    """Check the tables under a key; False if the key has none."""
    if key in _LISTS:
        if not isinstance(value, list):
            raise InputError(f"{where}, {key}: this is a list of tables; write [[{key}]] with {_LISTS[key]}")
        for number, table in enumerate(value, start=1):
            if key == "fault":
                _check_fault(f"{where}, fault {number}", table)
            else:
                _check(f"{where}, tenant {number}", TenantTable, table)
    elif key == "cluster":
        if not isinstance(value, dict) or not all(isinstance(table, dict) for table in value.values()):
            raise InputError(
                f"{where}, cluster: each cluster needs a name; write [cluster.west] with initial-nodes = 2"
            )
        for name, table in value.items():
            _check(f"{where}, cluster {name}", ClusterTable, table)
    elif key in ("link", "queues"):
        _check(f"{where}, {key}", LinkTable if key == "link" else QueuesTable, value)
    else:
        return False
    return True


def _check_fault(where: str, table: Any) -> None:
    if not isinstance(table, dict) or "kind" not in table:
        raise InputError(f"{where} has no 'kind'; choose from {', '.join(FAULTS)}")
    kind = table["kind"]
    if not isinstance(kind, str) or kind not in FAULTS:
        raise UnknownNameError(f"kind in {where}", str(kind), FAULTS)
    _check(where, FAULTS[kind], {key: value for key, value in table.items() if key != "kind"})


def _shown(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)
