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
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec

from ebbflow.core.clock import ManualClock
from ebbflow.core.layout import MAIN
from ebbflow.core.limits import Limits
from ebbflow.core.parameters import split_list
from ebbflow.core.slo import DEFAULT_SLO, Slo
from ebbflow.errors import InputError
from ebbflow.runs.spec.tables import (
    AnyFault,
    ClusterTable,
    Duration,
    LinkTable,
    NodesTable,
    QueuesTable,
    TenantTable,
    seconds_of,
    spread_of,
)
from ebbflow.strategies import STRATEGIES, read_strategy
from ebbflow.targets.simulator import Cluster, MicroBatch, Scenario, Tenant, built_in_engine
from ebbflow.targets.simulator.engine import Engine
from ebbflow.workloads import Load, parse_load

USUAL_STRATEGY = "capacity"
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
        written = USUAL_STRATEGY if self.strategy is None else self.strategy
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


def amended(spec: Spec, given: Mapping[str, Any]) -> Spec:
    """A spec with other values for some keys, named as they are written; None is not a value.

    >>> amended(Spec(), {"slots-per-node": 2, "nodes": None}).slots_per_node
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
