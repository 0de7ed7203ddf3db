"""The tables of a scenario file: faults, tenants that share the nodes, other clusters, and queue bounds.

::

    node-speeds = [1.0, 1.0, 0.5]       # every third requested node is half as fast

    [[fault]]
    kind = "node-dies"                  # or slow-node, metrics-missing, metrics-late
    at = "20m"

    [[tenant]]                          # another pipeline on the same nodes
    pipeline = "sentiment"
    load = "constant(200)"

    [cluster.west]                      # a second cluster; see also [placement] and [link]
    initial-nodes = 2

    [queues]
    bound = 2000
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

import msgspec

from ebbflow.core.duration import format_duration, parse_duration_s
from ebbflow.core.layout import MAIN
from ebbflow.core.ports import DEFAULT_LEAD_TIME_S
from ebbflow.errors import InputError
from ebbflow.targets.simulator import (
    Cluster,
    Continuous,
    LateMetrics,
    Link,
    MicroBatch,
    MissingMetrics,
    NodeDies,
    NodeKind,
    SlowNode,
)
from ebbflow.targets.simulator.engine import Engine
from ebbflow.targets.simulator.faults import Fault

Duration = str | float
"""``"90s"``, or a number of seconds."""

Rows = int | Literal["none"]
"""A number of rows, or no limit."""


class Table(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    rename=lambda name: name.strip("_").replace("_", "-"),
):
    """A table of a scenario file; its keys are the field names."""


class FaultTable(Table, frozen=True, kw_only=True, tag_field="kind"):
    """A fault; ``kind`` selects the class."""


class NodeDiesTable(FaultTable, frozen=True, kw_only=True, tag="node-dies"):
    """A node dies, and is replaced after a lead time."""

    at: Duration
    node: int = 0
    cluster: str = MAIN

    def build(self) -> Fault:
        """Build the fault."""
        at_s = parse_seconds("at", self.at, least_s=0.0)
        return NodeDies(at_s=at_s, node=self.node, cluster=self.cluster)


class SlowNodeTable(FaultTable, frozen=True, kw_only=True, tag="slow-node"):
    """A node is slower for a while."""

    from_: Duration
    until: Duration
    factor: float = 0.25
    node: int = 0
    cluster: str = MAIN

    def build(self) -> Fault:
        """Build the fault."""
        from_s, until_s = _span_s(self.from_, self.until)
        return SlowNode(
            from_s=from_s, until_s=until_s, factor=self.factor, node=self.node, cluster=self.cluster
        )


class MetricsMissingTable(FaultTable, frozen=True, kw_only=True, tag="metrics-missing"):
    """Metrics are missing for a while."""

    from_: Duration
    until: Duration

    def build(self) -> Fault:
        """Build the fault."""
        from_s, until_s = _span_s(self.from_, self.until)
        return MissingMetrics(from_s=from_s, until_s=until_s)


class MetricsLateTable(FaultTable, frozen=True, kw_only=True, tag="metrics-late"):
    """Metrics are delayed for a while."""

    from_: Duration
    until: Duration
    delay: Duration = "30s"

    def build(self) -> Fault:
        """Build the fault."""
        from_s, until_s = _span_s(self.from_, self.until)
        return LateMetrics(
            from_s=from_s, until_s=until_s, delay_s=parse_seconds("delay", self.delay, least_s=0.0)
        )


AnyFault = NodeDiesTable | SlowNodeTable | MetricsMissingTable | MetricsLateTable

FAULTS: dict[str, type[FaultTable]] = {
    "node-dies": NodeDiesTable,
    "slow-node": SlowNodeTable,
    "metrics-missing": MetricsMissingTable,
    "metrics-late": MetricsLateTable,
}


class TenantTable(Table, frozen=True, kw_only=True):
    """Another pipeline on the same nodes and the same kind of engine, with its own load."""

    load: str
    pipeline: str = "sentiment"
    name: str | None = None
    """Default: the name of the pipeline. Names must be unique."""
    trigger: Duration | None = None


class NodesTable(Table, frozen=True, kw_only=True):
    """Properties of nodes: of the main cluster at the top of the file, of another in its table."""

    slots_per_node: int = 1
    lead_time: Duration = format_duration(DEFAULT_LEAD_TIME_S)
    lead_noise: float = 0.0
    node_speeds: tuple[float, ...] = (1.0,)
    """Relative speeds of the nodes in the order of requests, repeated."""
    drain: Duration = "10s"
    """How long a leaving node accepts tasks of the running batch."""

    @property
    def node_kind(self) -> NodeKind:
        """The node properties."""
        return NodeKind(
            slots=self.slots_per_node,
            lead_time_s=parse_seconds("lead-time", self.lead_time, least_s=0.0),
            lead_noise=check_spread("lead-noise", self.lead_noise),
            speeds=self.node_speeds,
            drain_s=parse_seconds("drain", self.drain, least_s=0.0),
        )


class ClusterTable(NodesTable, frozen=True, kw_only=True):
    """A second cluster."""

    initial_nodes: int = 1

    def build(self) -> Cluster:
        """Build the cluster."""
        return Cluster(nodes=self.node_kind, initial_nodes=self.initial_nodes)


class LinkTable(Table, frozen=True, kw_only=True):
    """The network between clusters."""

    mb_per_s: float = 12.5
    latency: Duration = "0s"

    def build(self) -> Link:
        """Build the link."""
        return Link(mb_per_s=self.mb_per_s, latency_s=parse_seconds("latency", self.latency, least_s=0.0))


class QueuesTable(Table, frozen=True, kw_only=True):
    """Bounds of queues."""

    bound: Rows | None = None
    """Rows per instance of an operator of the continuous engine; more rows fail."""
    pending: Rows | None = None
    """Rows between sources and sinks of the continuous engine; at this bound the sources pause."""
    read_limit: Rows | None = None
    """Rows per batch of the micro-batch engine; the others wait at the source."""

    def applied(self, engine: Engine) -> Engine:
        """The engine with these bounds."""
        if isinstance(engine, Continuous):
            self._check("continuous", ("read-limit",), "micro-batch")
            return replace(
                engine,
                queue_bound_rows=_rows("bound", self.bound, engine.queue_bound_rows),
                max_pending_rows=_rows("pending", self.pending, engine.max_pending_rows),
            )
        assert isinstance(engine, MicroBatch)
        self._check("micro-batch", ("bound", "pending"), "continuous")
        limit = _rows("read-limit", self.read_limit, engine.read_limit_rows)
        return replace(engine, read_limit_rows=None if limit is None else int(limit))

    def _check(self, engine: str, foreign: tuple[str, ...], other: str) -> None:
        for key in foreign:
            if getattr(self, key.replace("-", "_")) is not None:
                raise InputError(f"the {engine} engine has no {key}; remove it, or use {other}")


def parse_seconds(key: str, value: Duration, *, least_s: float) -> float:
    """Parse a duration or a number of seconds.

    >>> parse_seconds("cycle", "1m", least_s=0.1), parse_seconds("cycle", 5, least_s=0.1)
    (60.0, 5.0)
    """
    if isinstance(value, str):
        try:
            seconds = float(value)
        except ValueError:
            seconds = parse_duration_s(value)
    else:
        seconds = float(value)
    if not (least_s <= seconds and math.isfinite(seconds)):
        raise InputError(f"{key} is {value}; it must be a duration of at least {least_s:g}s, like 90s or 6h")
    return seconds


def check_spread(key: str, value: float) -> float:
    """Check a relative spread."""
    if not 0.0 <= value <= 2.0:
        raise InputError(f"{key} is {value:g}; it must be a relative spread from 0 to 2, like 0.1")
    return value


def _span_s(from_: Duration, until: Duration) -> tuple[float, float]:
    return parse_seconds("from", from_, least_s=0.0), parse_seconds("until", until, least_s=0.0)


def _rows(key: str, value: Rows | None, default: float | None) -> float | None:
    if value is None:
        return default
    if value == "none":
        return None
    if not isinstance(value, int) or value < 1:
        raise InputError(f'{key} is {value}; it must be a number of rows, like 5000, or "none"')
    return float(value)
