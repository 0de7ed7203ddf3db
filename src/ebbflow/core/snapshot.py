"""The whole world a strategy may see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from ebbflow.core.batches import Batch
from ebbflow.core.layout import MAIN, Layout
from ebbflow.core.limits import Limits
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.readings import Windows
from ebbflow.core.slo import Slo

STALE_AFTER_S = 15.0
"""What was measured longer ago than this is nothing to decide on."""


class ActionKind(StrEnum):
    """What can be under way."""

    GROW = "grow"
    SHRINK = "shrink"
    RESTART = "restart"


@dataclass(frozen=True, kw_only=True)
class ActionUnderWay:
    """Something asked for that is not there yet."""

    kind: ActionKind
    since_s: float
    nodes: int = 0
    """How many nodes are still to come (grow) or to go (shrink)."""
    cluster: str = MAIN
    note: str = ""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a strategy may use; it gets nothing else, and may keep what it learned from it.

    A struct, as observations are: one is made in every cycle, and a simulated day has thousands. To change one, use
    ``msgspec.structs.replace``.
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
    """How long a node takes from being asked for to its first work, as seen so far."""
    data_age_s: float
    """Seconds since the look was taken on which this stands."""
    queries: Mapping[str, float | None] = msgspec.field(default_factory=dict)
    """The queries that run, each with the time since which its current batch runs; None between batches."""
    read_limited: frozenset[str] = frozenset()
    """Queries with a read limit, and the pipeline if all of its have one: what they left behind is their queue."""
    last_out_s: float | None = None
    """When nodes were last added, and last removed."""
    last_in_s: float | None = None

    clock_offset_s: float = 0.0
    """``now_s`` minus the wall time; above 0 once the wall clock was set back."""

    @property
    def wall_s(self) -> float:
        """Wall time, for calendars; seconds since the epoch."""
        return self.now_s - self.clock_offset_s

    @property
    def seen_s(self) -> float:
        """When the target was looked at: what no look has shown by then may have happened since."""
        return self.now_s - self.data_age_s

    @property
    def slots(self) -> int:
        """Slots of the observed nodes; at least 1."""
        return max(1, self.observed.main_nodes * self.slots_per_node)

    @property
    def in_batches(self) -> bool:
        """Whether the target shows work in batches, rather than operators through which rows flow."""
        return bool(self.batches) or self.windows.of(self.pipeline.name, Metric.BATCH_TIME).last is not None
