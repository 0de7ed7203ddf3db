"""What happened in one run of a pipeline under a strategy: real or simulated, scored and drawn alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ebbflow.core.batches import Batch
from ebbflow.core.curve import Curve
from ebbflow.core.decision import LedgerEntry
from ebbflow.core.limits import Limits
from ebbflow.core.slo import Slo


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """The record of a run. Times are seconds since the epoch, or since 0 in a simulation."""

    strategy: str
    pipeline: str
    slo: Slo
    limits: Limits
    started_s: float
    ended_s: float
    arrived: Curve
    """Rows that had arrived at the source, cumulative."""
    processed: Curve
    """Rows whose results were committed, cumulative; a step at each commit. Lost rows are not among them."""
    nodes: Curve
    """Nodes held (paid for), from asking for them until they are gone. Empty where nobody knows them."""
    nodes_working: Curve
    """Nodes that were there and could work."""
    batches: Sequence[Batch] = ()
    decisions: Sequence[LedgerEntry] = ()
    reconfigurations: int | None = 0
    """None is not known."""
    rows_repeated: int = 0
    lost: Curve | None = None
    """Rows that can never be processed, cumulative, each counted at the time of its *arrival*; on straight lines.
    None where nobody looked."""

    @property
    def survived(self) -> Curve:
        """Rows that had arrived and were not lost, cumulative. ``processed`` counts them in the order of arrival."""
        if self.lost is None or not self.lost.values.any():
            return self.arrived
        return self.arrived.minus(self.lost)
