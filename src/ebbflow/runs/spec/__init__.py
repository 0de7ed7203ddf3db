"""A scenario the way people write it: on a command line, or in a TOML file with the same names.

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

``spec_tables`` has the tables of such a file, ``spec_file`` reads it.
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
from ebbflow.core.layout import MAIN
from ebbflow.core.limits import Limits
from ebbflow.core.parameters import split_list
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
    seconds_of,
    spread_of,
)
from ebbflow.strategies import STRATEGIES, read_strategy
from ebbflow.targets.simulator import Cluster, MicroBatch, Scenario, Tenant, built_in_engine
from ebbflow.targets.simulator.engine import Engine
from ebbflow.workloads import Constant, Load, parse_load

DEFAULT_STRATEGY = "capacity"
_WARM_SHARE = 0.75
_ENDLESS_S = 3600.0


class Spec(NodesTable, frozen=True, kw_only=True):
    """All that can be said about a simulated run, as it is written. ``scenario`` makes it one.

    >>> Spec(load="constant(300)", seconds="10m", nodes="2:8").scenario().duration_s
    600.0
    """

    pipeline: str = "top-words"
    engine: str = "micro-batch"
    load: str | None = None
    strategy: str | list[str] | None = None
    """``capacity`` if not told; to a leaderboard all."""
    nodes: str = "1:16"
    initial_nodes: int | None = None
    """Nodes there at the start. If not told, what the first minute needs: a recorded load that is high where it
    begins would else be judged by a start that no pipeline had."""
    slo: str = str(DEFAULT_SLO)
    seed: int = 1
    seconds: Duration | None = None
    """How long it lasts. If not told, as long as the load; of one without end its natural span, at least an hour."""
    at: str | None = None
    """When it begins, for the calendar of a policy, like 2026-11-16T08:00; UTC where no zone is told."""
    cycle: Duration = "10s"
    trigger: Duration | None = None
    noise: float = 0.05
    fault: tuple[AnyFault, ...] = ()
    tenant: tuple[TenantTable, ...] = ()
    cluster: Mapping[str, ClusterTable] = {}
    placement: Mapping[str, str] = {}
    """Operators that begin in another cluster; ``pipeline/operator`` where several pipelines share nodes."""
    link: LinkTable = LinkTable()
    queues: QueuesTable = QueuesTable()

    @property
    def strategies(self) -> list[str]:
        """The strategy expressions, each valid and each once."""
        written = DEFAULT_STRATEGY if self.strategy is None else self.strategy
        return strategy_names(written)

    @property
    def limits(self) -> Limits:
        """Fewest and most nodes."""
        return Limits.parse(self.nodes)

    @property
    def objective(self) -> Slo:
        """The SLO."""
        return Slo.parse(self.slo)

    @property
    def duration_s(self) -> float | None:
        """How long it lasts; None if as long as the load."""
        return None if self.seconds is None else seconds_of("seconds", self.seconds, least_s=1.0)

    @property
    def cycle_s(self) -> float:
        """How often the loop looks and decides."""
        return seconds_of("cycle", self.cycle, least_s=0.1)

    @property
    def begins_at_s(self) -> float:
        """When it begins, in seconds since the epoch.

        >>> Spec(at="1970-01-02T01:00").begins_at_s
        90000.0
        """
        if self.at is None:
            return 0.0
        try:
            told = datetime.fromisoformat(self.at)
        except ValueError:
            raise InputError(
                f"at is {self.at}; it must be a day and an hour, like 2026-11-16T08:00"
            ) from None
        return (told if told.tzinfo is not None else told.replace(tzinfo=UTC)).timestamp()

    def scenario(self, load: Load | None = None, engine: Engine | None = None) -> Scenario:
        """The scenario; ``load`` and ``engine`` replace the written ones."""
        played = self.written_load() if load is None else load
        seconds = self.duration_s
        if seconds is None and math.isinf(played.duration_s):
            seconds = max(played.span_s, _ENDLESS_S)
        made = Scenario(
            engine=self.written_engine() if engine is None else engine,
            load=played,
            limits=self.limits,
            slo=self.objective,
            nodes=self.node_kind,
            initial_nodes=self.initial_nodes,
            faults=tuple(fault.made() for fault in self.fault),
            others=tuple(self.neighbour(tenant) for tenant in self.tenant),
            clusters=self.clusters(),
            placement=self.placement,
            link=self.link.made(),
            seconds=seconds,
            cycle_s=self.cycle_s,
            seed=self.checked_seed(),
            begins_at_s=self.begins_at_s,
        )
        if not made.is_single or made.faults or made.placement:
            made.target(ManualClock(0.0))  # says what does not fit together, before anything runs
        return replace(made, initial_nodes=_warm(made)) if self.initial_nodes is None else made

    # -- its parts, for whoever must say which of them is wrong ----------------------------------

    def written_load(self) -> Load:
        """The load; it must be there."""
        if self.load is None:
            raise InputError("no load is given; write one like --load 'sine(base=100, peak=900, period=1h)'")
        return parse_load(self.load)

    def written_engine(self) -> Engine:
        """The engine with the pipeline on it."""
        return self._engine(self.pipeline, self.trigger)

    def neighbour(self, tenant: TenantTable) -> Tenant:
        """A pipeline that shares the nodes."""
        trigger = self.trigger if tenant.trigger is None else tenant.trigger
        engine: Any = self._engine(tenant.pipeline, trigger)
        if tenant.name is not None:
            if not tenant.name:
                raise InputError('name is ""; it must be a name, or leave it out')
            engine = replace(engine, pipeline=replace(engine.pipeline, name=tenant.name))
        return Tenant(engine=engine, load=parse_load(tenant.load))

    def clusters(self) -> dict[str, Cluster]:
        """The clusters beside the main one."""
        if MAIN in self.cluster:
            raise InputError(
                f"'{MAIN}' is the cluster that the keys at the top describe; name another, like [cluster.west]"
            )
        return {name: table.made() for name, table in self.cluster.items()}

    def checked_seed(self) -> int:
        """The seed."""
        if self.seed < 0:
            raise InputError(f"seed {self.seed}; it must be a whole number from 0 up")
        return self.seed

    def _engine(self, pipeline: str, trigger: Duration | None) -> Engine:
        engine = built_in_engine(pipeline, self.engine, noise=spread_of("noise", self.noise))
        engine = self.queues.applied(engine)
        if trigger is None:
            return engine
        interval_s = seconds_of("trigger", trigger, least_s=0.1)
        if not isinstance(engine, MicroBatch):
            raise InputError(f"the {self.engine} engine has no trigger; leave it out, or choose micro-batch")
        return replace(engine, trigger_interval_s=interval_s)


def with_values(spec: Spec, given: Mapping[str, Any]) -> Spec:
    """A spec with other values for some keys, named as they are written; None is not a value.

    >>> with_values(Spec(), {"slots-per-node": 2, "nodes": None}).slots_per_node
    2
    """
    written = msgspec.to_builtins(spec) | {key: value for key, value in given.items() if value is not None}
    return msgspec.convert(written, Spec)


def strategy_names(written: str | list[str]) -> list[str]:
    """Strategy expressions from a list, or from text with commas; each is valid and occurs once.

    >>> strategy_names("capacity( budget_out=0.5), hpa ")
    ['capacity(budget_out=0.5)', 'hpa']
    """
    named = split_list(written) if isinstance(written, str) else written
    names = [str(read_strategy(each)) for each in named]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(
            f"strategy '{twice}' is named twice; once is enough, the same seed gives the same run"
        )
    if not names:
        raise InputError(f"no strategy is named; there are: {', '.join(sorted(STRATEGIES))}")
    return names


def _warm(scenario: Scenario) -> int:
    """Nodes that are three quarters busy with the rows of the first minute.

    >>> Spec(load="constant(300)", seconds="1h").scenario().first_nodes  # 300 / 0.75 = 400; 2 hold 336, 3 hold 502
    3
    """
    return scenario.nodes_for(min(60.0, scenario.duration_s), busy=_WARM_SHARE)


_LISTS = {"fault": 'kind = "node-dies"', "tenant": 'load = "constant(200)"'}
"""Tables of which there may be several, with what one begins with."""
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
"""Of keys that must be there, and of those whose kind says too little."""


def read_spec(path: Path, base: Spec | None = None) -> Spec:
    """Read a scenario file. ``base``: values of keys that it leaves out. Errors name the file and the key."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise InputError(f"there is no scenario file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as a scenario: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f'{path} is not TOML: {error}; write keys like load = "constant(50)"') from None
    _check(str(path), Spec, values)
    spec = with_values(base or Spec(), values)
    for part, look_at in _parts(spec):
        try:
            look_at()
        except InputError as error:
            raise InputError(f"{path}, {part}: {error}") from None
    try:
        spec.scenario(Constant(level_per_s=1.0))
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return spec


def _parts(spec: Spec) -> Iterator[tuple[str, Callable[[], object]]]:
    """What can be wrong, looked at one by one so that the one to blame can be named."""
    yield "pipeline", lambda: built_in_engine(spec.pipeline)
    yield "engine", lambda: built_in_engine(spec.pipeline, spec.engine)
    yield "load", lambda: spec.load is None or spec.written_load()
    yield "strategy", lambda: spec.strategies
    yield "nodes", lambda: spec.limits
    yield "slo", lambda: spec.objective
    yield "seed", spec.checked_seed
    yield "seconds", lambda: spec.duration_s
    yield "cycle", lambda: spec.cycle_s
    yield "lead-time", lambda: seconds_of("lead-time", spec.lead_time, least_s=0.0)
    yield "lead-noise", lambda: spread_of("lead-noise", spec.lead_noise)
    yield "slots-per-node", lambda: msgspec.structs.replace(spec, node_speeds=(1.0,), drain="0s").node_kind
    yield "node-speeds", lambda: msgspec.structs.replace(spec, drain="0s").node_kind
    yield "drain", lambda: spec.node_kind
    yield "noise", lambda: spread_of("noise", spec.noise)
    yield "queues", lambda: spec.queues.applied(built_in_engine(spec.pipeline, spec.engine))
    yield "trigger", spec.written_engine
    for number, fault in enumerate(spec.fault, start=1):
        yield f"fault {number}", fault.made
    for number, tenant in enumerate(spec.tenant, start=1):
        yield f"tenant {number}", partial(spec.neighbour, tenant)
    for name, cluster in spec.cluster.items():
        yield f"cluster {name}", cluster.made
    yield "cluster", spec.clusters
    yield "link", spec.link.made


def _check(where: str, kind: type[Table], values: Any) -> None:
    """Every key of a table must be known and of its kind, and those that it needs be there."""
    if not isinstance(values, dict):
        raise InputError(f"{where} = {_shown(values)}: it must be a table of keys and values")
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
    """Whether a key of a scenario is one of tables; then they have been looked at."""
    if key in _LISTS:
        if not isinstance(value, list):
            raise InputError(f"{where}, {key}: there may be several; write [[{key}]] with {_LISTS[key]}")
        for number, table in enumerate(value, start=1):
            if key == "fault":
                _check_fault(f"{where}, fault {number}", table)
            else:
                _check(f"{where}, tenant {number}", TenantTable, table)
    elif key == "cluster":
        if not isinstance(value, dict) or not all(isinstance(table, dict) for table in value.values()):
            raise InputError(
                f"{where}, cluster: each has a name; write [cluster.west] with initial-nodes = 2"
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
        raise InputError(f"{where} has no 'kind'; write one of {', '.join(FAULTS)}")
    kind = table["kind"]
    if not isinstance(kind, str) or kind not in FAULTS:
        raise UnknownNameError(f"kind in {where}", str(kind), FAULTS)
    _check(where, FAULTS[kind], {key: value for key, value in table.items() if key != "kind"})


def _shown(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)
