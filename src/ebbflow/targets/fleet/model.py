"""What a fleet file says: applications, streams between operators, and operators.

A query is what runs: an operator without shards is one query of its name; one with three shards is the queries
``name-0``, ``name-1`` and ``name-2``. Each has a checkpoint of its own, and is placed and moved by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from ebbflow.core.layout import Layout
from ebbflow.core.limits import Limits
from ebbflow.core.pipeline import Operator, Pipeline
from ebbflow.core.pipeline import Stream as Edge
from ebbflow.targets.spark.launch.preflight import local_slots

FILES, KAFKA = "files", "kafka"


@dataclass(frozen=True, kw_only=True)
class Application:
    """A Spark application that hosts queries: a cluster of the layout."""

    name: str
    master: str
    executors: Limits
    memory: str = "1g"
    """Memory of its driver, and of each executor."""
    address: str = ""
    """Where its host listens; empty for a socket file that only this user can reach."""
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_local(self) -> bool:
        """Whether it runs in one process, so that it has one node of constant size."""
        return local_slots(self.master) is not None

    @property
    def most_slots(self) -> int:
        """Tasks that it can run at once at most, with one core in an executor."""
        return local_slots(self.master) or self.executors.max_nodes


@dataclass(frozen=True, kw_only=True)
class Stream:
    """A durable stream: a folder of files, or a Kafka topic."""

    name: str
    kind: str = FILES
    folder: Path = Path()
    format: str = "json"
    servers: str = ""
    topic: str = ""


@dataclass(frozen=True, kw_only=True)
class FleetOperator:
    """An operator of a fleet: a streaming query, or one for each shard."""

    name: str
    start: str
    """``module:function``; the function gets a ``context.QueryContext`` and returns the query."""
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    stateful: bool = False
    application: str
    """Where it runs at first."""
    may_move: bool = True
    shards: int | None = None
    checkpoint: Path
    """Of its query; those of shards are folders in it."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Passed to the function."""


@dataclass(frozen=True, kw_only=True)
class Query:
    """What runs: an operator, or one of its shards."""

    name: str
    operator: FleetOperator
    shard: int | None = None

    @property
    def checkpoint(self) -> Path:
        """Its checkpoint."""
        return self.operator.checkpoint if self.shard is None else self.operator.checkpoint / self.name


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """Applications, streams and operators.

    ``folder`` has the store, the logs of hosts, and the streams and checkpoints without a folder of their own.
    """

    path: Path
    name: str
    folder: Path
    coordination: str = ""
    """``zookeeper://HOST:PORT,…/path``; empty for the store in the folder."""
    keys: Path | None = None
    """Folder made by `ebbflow agent keys`, with ``agent`` for hosts and ``collector`` for controllers."""
    applications: Mapping[str, Application]
    streams: Mapping[str, Stream]
    operators: Mapping[str, FleetOperator]

    @property
    def store(self) -> Path:
        """SQLite file with readings, batches and ledger; also with the coordination unless that is in ZooKeeper."""
        return self.folder / "fleet.sqlite"

    @cached_property
    def queries(self) -> Mapping[str, Query]:
        """Queries by name, in the order of their operators."""
        found: dict[str, Query] = {}
        for operator in self.operators.values():
            for query in queries_of(operator):
                found[query.name] = query
        return found

    @cached_property
    def pipeline(self) -> Pipeline:
        """The queries as a pipeline: an edge wherever one reads what another writes."""
        return pipeline_of(self.name, self.operators)

    @cached_property
    def cluster_limits(self) -> Mapping[str, Limits]:
        """Bounds of the executors of each application."""
        return {name: each.executors for name, each in self.applications.items()}

    @property
    def limits(self) -> Limits:
        """Bounds that hold for every application."""
        each = self.cluster_limits.values()
        fewest, most = min(e.min_nodes for e in each), max(e.max_nodes for e in each)
        return Limits(min_nodes=fewest, max_nodes=most)

    @property
    def first_layout(self) -> Layout:
        """Executors and placements before anything has moved."""
        return Layout(
            nodes={name: limits.min_nodes for name, limits in self.cluster_limits.items()},
            placement={name: query.operator.application for name, query in self.queries.items()},
        )


def queries_of(operator: FleetOperator) -> tuple[Query, ...]:
    """The query of an operator, or those of its shards."""
    if operator.shards is None:
        return (Query(name=operator.name, operator=operator),)
    return tuple(
        Query(name=f"{operator.name}-{shard}", operator=operator, shard=shard)
        for shard in range(operator.shards)
    )


def pipeline_of(name: str, operators: Mapping[str, FleetOperator]) -> Pipeline:
    """Operators as a pipeline; raises ``PipelineError`` for a cycle."""
    writers = {stream: operator for operator in operators.values() for stream in operator.writes}
    queries = {each: queries_of(operator) for each, operator in operators.items()}
    return Pipeline(
        name=name,
        operators=tuple(
            Operator(
                name=query.name, stateful=operator.stateful, query=query.name, may_move=operator.may_move
            )
            for each, operator in operators.items()
            for query in queries[each]
        ),
        streams=tuple(
            Edge(source=source.name, target=target.name)
            for reader in operators.values()
            for stream in reader.reads
            if stream in writers
            for source in queries[writers[stream].name]
            for target in queries[reader.name]
        ),
    )
