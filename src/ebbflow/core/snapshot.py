"""Snapshots: everything a strategy may base a decision on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import msgspec

from ebbflow.core.batches import Batch
from ebbflow.core.layout import MAIN, Layout
from ebbflow.core.limits import Limits
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.readings import Windows
from ebbflow.core.slo import Slo
from ebbflow.core.topology import Topology

STALE_AFTER_S = 15.0
"""Observations older than this are too old to decide on."""


class ActionKind(StrEnum):
    """Kinds of actions that take time."""

    GROW = "grow"
    SHRINK = "shrink"
    RESTART = "restart"


@dataclass(frozen=True, kw_only=True)
class ActionUnderWay:
    """A requested change that is not complete yet."""

    kind: ActionKind
    since_s: float
    nodes: int = 0
    """Nodes still to come (grow) or to leave (shrink)."""
    cluster: str = MAIN
    note: str = ""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a strategy may use for a decision.

    A struct, because a simulated day makes thousands of them. Use ``msgspec.structs.replace`` to change one.
    """

    now_s: float
    """The loop's own time, which never goes backwards. All other times of the snapshot are on it, too."""
    pipeline: Pipeline
    planned: Layout
    requested: Layout
    observed: Layout
    windows: Windows
    batches: Sequence[Batch]
    """Batches that finished since the last decision, oldest first."""
    under_way: Sequence[ActionUnderWay]
    limits: Limits
    slo: Slo
    slots_per_node: int
    lead_time_s: float
    """Time from the request for a node to its first work, as measured so far."""
    data_age_s: float
    """Age of the observation."""
    queries: Mapping[str, float | None] = msgspec.field(default_factory=dict)
    """Running queries, each with the start of its current batch; None between batches."""
    read_limited: frozenset[str] = frozenset()
    """Queries with a read limit, and the pipeline if all have one. Rows they leave behind are their queue."""
    last_out_s: float | None = None
    """Time of the last scale-out."""
    last_in_s: float | None = None
    """Time of the last scale-in."""

    topology: Topology | None = None
    """The nodes of a datastore; None for targets whose nodes hold no data."""

    cluster_limits: Mapping[str, Limits] = msgspec.field(default_factory=dict)
    """Limits of clusters with limits of their own."""
    clock_offset_s: float = 0.0
    """``now_s`` minus the wall time; above 0 once the wall clock was set back."""

    def limits_of(self, cluster: str) -> Limits:
        """Limits of a cluster: its own, or those of all."""
        return self.cluster_limits.get(cluster, self.limits)

    @property
    def wall_s(self) -> float:
        """Wall time, for calendars; seconds since the epoch."""
        return self.now_s - self.clock_offset_s

    @property
    def observed_s(self) -> float:
        """Time of the observation. Later events are not in the snapshot."""
        return self.now_s - self.data_age_s

    @property
    def slots(self) -> int:
        """Slots of the observed nodes; at least 1."""
        return max(1, self.observed.main_nodes * self.slots_per_node)

    @property
    def of_main(self) -> Snapshot:
        """The same without the operators and batches of other clusters, for strategies that size only ``main``."""
        placement = self.planned.placement
        elsewhere = {o.name for o in self.pipeline.operators if placement.get(o.name, MAIN) != MAIN}
        if not elsewhere:
            return self
        here = tuple(o for o in self.pipeline.operators if o.name not in elsewhere)
        queries = {o.query for o in self.pipeline.operators} - {o.query for o in here}
        return msgspec.structs.replace(
            self,
            pipeline=replace(
                self.pipeline,
                operators=here,
                streams=tuple(s for s in self.pipeline.streams if not elsewhere & {s.source, s.target}),
            ),
            batches=[batch for batch in self.batches if batch.query not in queries],
            queries={name: since_s for name, since_s in self.queries.items() if name not in queries},
        )

    @property
    def in_batches(self) -> bool:
        """Whether the target works in batches rather than continuously."""
        return bool(self.batches) or self.windows.of(self.pipeline.name, Metric.BATCH_TIME).last is not None
