"""The tables of a scenario file: what goes wrong, who shares the nodes, other clusters, and how long queues are.

::

    node-speeds = [1.0, 1.0, 0.5]       # every third node asked for is half as fast

    [[fault]]
    kind = "node-dies"                  # or slow-node, metrics-missing, metrics-late
    at = "20m"

    [[tenant]]                          # one more pipeline on the same nodes
    pipeline = "sentiment"
    load = "constant(200)"

    [cluster.west]                      # beside the main one; [placement] and [link] say who is there and how far it is
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
    """A table of a scenario file; keys are the names of its fields."""


class FaultTable(Table, frozen=True, kw_only=True, tag_field="kind"):
    """Something that goes wrong. ``kind`` says what."""

    def made(self) -> Fault:
        """The fault."""
        raise NotImplementedError


class NodeDiesTable(FaultTable, frozen=True, kw_only=True, tag="node-dies"):
    """A node is gone at once, and replaced after a lead time."""

    at: Duration
    node: int = 0
    cluster: str = MAIN

    def made(self) -> Fault:
        """The fault."""
        at_s = seconds_of("at", self.at, least_s=0.0)
        return NodeDies(at_s=at_s, node=self.node, cluster=self.cluster)


class SlowNodeTable(FaultTable, frozen=True, kw_only=True, tag="slow-node"):
    """A node works at a part of its speed for a while."""

    from_: Duration
    until: Duration
    factor: float = 0.25
    node: int = 0
    cluster: str = MAIN

    def made(self) -> Fault:
        """The fault."""
        from_s, until_s = _span_s(self.from_, self.until)
        return SlowNode(
            from_s=from_s, until_s=until_s, factor=self.factor, node=self.node, cluster=self.cluster
        )


class MetricsMissingTable(FaultTable, frozen=True, kw_only=True, tag="metrics-missing"):
    """Nothing can be seen for a while."""

    from_: Duration
    until: Duration

    def made(self) -> Fault:
        """The fault."""
        from_s, until_s = _span_s(self.from_, self.until)
        return MissingMetrics(from_s=from_s, until_s=until_s)


class MetricsLateTable(FaultTable, frozen=True, kw_only=True, tag="metrics-late"):
    """What is seen is old for a while."""

    from_: Duration
    until: Duration
    delay: Duration = "30s"

    def made(self) -> Fault:
        """The fault."""
        from_s, until_s = _span_s(self.from_, self.until)
        return LateMetrics(
            from_s=from_s, until_s=until_s, delay_s=seconds_of("delay", self.delay, least_s=0.0)
        )


AnyFault = NodeDiesTable | SlowNodeTable | MetricsMissingTable | MetricsLateTable

FAULTS: dict[str, type[FaultTable]] = {
    "node-dies": NodeDiesTable,
    "slow-node": SlowNodeTable,
    "metrics-missing": MetricsMissingTable,
    "metrics-late": MetricsLateTable,
}


class TenantTable(Table, frozen=True, kw_only=True):
    """One more pipeline on the same nodes, on the same kind of engine, with a load of its own."""

    load: str
    pipeline: str = "sentiment"
    name: str | None = None
    """What it goes by; the pipeline's own name if not told. No two may have the same."""
    trigger: Duration | None = None


class NodesTable(Table, frozen=True, kw_only=True):
    """What nodes are like: those of the main cluster at the top of the file, those of another in its table."""

    slots_per_node: int = 1
    lead_time: Duration = format_duration(DEFAULT_LEAD_TIME_S)
    lead_noise: float = 0.0
    node_speeds: tuple[float, ...] = (1.0,)
    """Speeds of the nodes in the order in which they are asked for, round and round."""
    drain: Duration = "10s"
    """How long a leaving node goes on taking tasks of a batch that runs."""

    @property
    def node_kind(self) -> NodeKind:
        """The kind of nodes."""
        return NodeKind(
            slots=self.slots_per_node,
            lead_time_s=seconds_of("lead-time", self.lead_time, least_s=0.0),
            lead_noise=spread_of("lead-noise", self.lead_noise),
            speeds=self.node_speeds,
            drain_s=seconds_of("drain", self.drain, least_s=0.0),
        )


class ClusterTable(NodesTable, frozen=True, kw_only=True):
    """A cluster beside the main one."""

    initial_nodes: int = 1

    def made(self) -> Cluster:
        """The cluster."""
        return Cluster(nodes=self.node_kind, initial_nodes=self.initial_nodes)


class LinkTable(Table, frozen=True, kw_only=True):
    """What lies between clusters."""

    mb_per_s: float = 12.5
    latency: Duration = "0s"

    def made(self) -> Link:
        """The link."""
        return Link(mb_per_s=self.mb_per_s, latency_s=seconds_of("latency", self.latency, least_s=0.0))


class QueuesTable(Table, frozen=True, kw_only=True):
    """How many rows may wait, and where."""

    bound: Rows | None = None
    """Before each instance of an operator of the continuous engine; rows beyond fail."""
    pending: Rows | None = None
    """Between the sources and the sinks of the continuous engine; beyond, the sources hold back."""
    read_limit: Rows | None = None
    """In a batch of the micro-batch engine; the others wait at the source."""

    def applied(self, engine: Engine) -> Engine:
        """An engine with these queues."""
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
                raise InputError(f"the {engine} engine has no {key}; leave it out, or choose {other}")


def seconds_of(key: str, value: Duration, *, least_s: float) -> float:
    """Seconds of a duration, or of a plain number.

    >>> seconds_of("cycle", "1m", least_s=0.1), seconds_of("cycle", 5, least_s=0.1)
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


def spread_of(key: str, value: float) -> float:
    """A share by which something varies."""
    if not 0.0 <= value <= 2.0:
        raise InputError(f"{key} is {value:g}; it must be a spread from 0 to 2, like 0.1")
    return value


def _span_s(from_: Duration, until: Duration) -> tuple[float, float]:
    return seconds_of("from", from_, least_s=0.0), seconds_of("until", until, least_s=0.0)


def _rows(key: str, written: Rows | None, usual: float | None) -> float | None:
    if written is None:
        return usual
    if written == "none":
        return None
    if not isinstance(written, int) or written < 1:
        raise InputError(f'{key} is {written}; it must be rows, like 5000, or "none"')
    return float(written)
