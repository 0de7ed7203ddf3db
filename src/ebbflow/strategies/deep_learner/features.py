"""What a deep agent sees: measurements relative to limits and SLO, so that they mean the same on another job."""

from __future__ import annotations

from collections import deque

import numpy as np

from ebbflow.core.curve import Floats
from ebbflow.core.metrics import Metric
from ebbflow.core.readings import slope_per_s
from ebbflow.core.signals import Signals
from ebbflow.core.snapshot import Snapshot

FEATURES = ("demand", "rise", "observed", "planned", "use", "busy", "freshness", "batch", "changing", "lead")
"""demand: slots that the arrivals keep busy ÷ slots of the maximum; rise: its change in a minute, from the last minute;
observed, planned: nodes ÷ maximum; use: demand ÷ observed; busy: busy share of the slots; freshness: of the oldest row
÷ SLO; batch: duration of the longest last batch ÷ SLO; changing: whether a change is under way; lead: lead time ÷ SLO.
All are clipped to about 0 to 2."""
RISE_S = 60.0


class FeatureReader:
    """Turns snapshots into features."""

    def __init__(self) -> None:
        self._signals = Signals()
        self._demand: deque[tuple[float, float]] = deque()
        self._slots_per_row: float | None = None
        """Busy slots for each row per second."""
        self.missing = ""
        """What was missing in the last snapshot."""
        self.freshness_s = 0.0
        """How long the oldest row has waited, or did when the last batches ended."""

    def features(self, snapshot: Snapshot) -> Floats | None:
        """The features; None if data is missing."""
        signals = self._signals
        self.missing = signals.update(snapshot)
        waited_s = snapshot.windows.of(snapshot.pipeline.name, Metric.FRESHNESS).last
        if waited_s is None:
            waited_s = max((b.ended_s - b.oldest_arrival_s for b in signals.batches.values()), default=None)
        busy_slots, done, rows_per_s = signals.busy_slots, signals.done_slots, signals.processed_per_s
        if self.missing or busy_slots is None or signals.rate_per_s is None or waited_s is None:
            self.missing = self.missing or "no data: busy time, arrival rate or freshness unknown"
            return None
        self.freshness_s = waited_s
        if done and rows_per_s:
            self._slots_per_row = done / rows_per_s
        most = snapshot.limits.max_nodes
        demand = signals.rate_per_s * (self._slots_per_row or 0.0) / (most * snapshot.slots_per_node)
        now_s = snapshot.observed_s
        self._demand.append((now_s, demand))
        while self._demand[0][0] < now_s - RISE_S:
            self._demand.popleft()
        rise = slope_per_s(self._demand)[0] * 60.0 if len(self._demand) > 2 else 0.0
        observed, slo_s = snapshot.observed.main_nodes / most, snapshot.slo.freshness_s
        batch_s = max((batch.duration_s for batch in signals.batches.values()), default=0.0)
        return np.array(
            [
                min(demand, 2.0),
                float(np.clip(4.0 * rise, -1.0, 1.0)),
                observed,
                snapshot.planned.main_nodes / most,
                min(demand / max(observed, 1.0 / most), 2.0),
                min(busy_slots / snapshot.slots, 1.0),
                min(waited_s / slo_s, 2.0),
                min(batch_s / slo_s, 2.0),
                1.0 if snapshot.under_way else 0.0,
                min(snapshot.lead_time_s / slo_s, 2.0),
            ]
        )
