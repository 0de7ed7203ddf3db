"""The record of a run, real or simulated. Scores and reports are made from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ebbflow.core.batches import Batch
from ebbflow.core.curve import Curve, Floats
from ebbflow.core.decision import LedgerEntry
from ebbflow.core.limits import Limits
from ebbflow.core.slo import Slo


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """What happened in a run of a pipeline under a strategy. Times are seconds since the epoch, or since the start of a
    simulation."""

    strategy: str
    pipeline: str
    slo: Slo
    limits: Limits
    started_s: float
    ended_s: float
    arrived: Curve
    """Rows arrived at the source, cumulative."""
    processed: Curve
    """Rows whose results were committed, cumulative, a step at each commit; without lost rows."""
    nodes: Curve
    """Nodes paid for, from the request until they are gone. Empty if unknown."""
    nodes_working: Curve
    """Nodes running and ready to work."""
    batches: Sequence[Batch] = ()
    decisions: Sequence[LedgerEntry] = ()
    reconfigurations: int | None = 0
    """None if unknown."""
    rows_repeated: int = 0
    lost: Curve | None = None
    """Rows that can never be processed, cumulative, counted at their *arrival* and interpolated linearly. None if
    unknown."""
    capacity_rows_per_s: Floats | None = None
    """Rows per second that 0, 1, 2 … nodes can process within the SLO, if the pipeline has them alone. None if
    unknown."""

    @property
    def survived(self) -> Curve:
        """Rows arrived and not lost, cumulative. ``processed`` counts them in order of arrival."""
        if self.lost is None or not self.lost.values.any():
            return self.arrived
        return self.arrived.minus(self.lost)
