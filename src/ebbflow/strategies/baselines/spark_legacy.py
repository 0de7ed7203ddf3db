"""Spark's legacy streaming allocation (``spark.streaming.dynamicAllocation``), for DStreams.

    ratio = mean batch time of the last 60 s / batch interval
    ratio ≥ 0.9: n + max(round(ratio), 1),   ratio ≤ 0.3: n − 1

Every 60 s. A minute without a batch changes nothing. It does not consider lag. Reference: apache/spark,
streaming/scheduler/ExecutorAllocationManager.

Modelled: the batch interval is the trigger interval, and n the observed layout. Which executor is killed (a random one
in Spark) is left to the target. It cannot decide anything for a query without a trigger interval or an engine without
batches.
"""

from __future__ import annotations

import math
from typing import Annotated

from ebbflow.core.decision import Decision, hold, want
from ebbflow.core.parameters import Duration, Number, check_order
from ebbflow.core.periods import Every
from ebbflow.core.ports import Strategy
from ebbflow.core.snapshot import Snapshot

FORMULA = "ratio = mean batch time / interval; ≥ up: n + max(round(ratio), 1); ≤ down: n − 1"


class SparkLegacy(Strategy):
    """Executors by how full the batch interval is. The module docstring has the rule."""

    name = "spark-legacy"
    brings_own_guards = True

    def __init__(
        self,
        *,
        interval_s: Annotated[float, Duration("Time between two evaluations.", above=0)] = 60.0,
        up_ratio: Annotated[
            float,
            Number("Scale out when batch time / batch interval is at least this.", unit="ratio", above=0),
        ] = 0.9,
        down_ratio: Annotated[
            float, Number("Scale in when batch time / batch interval is at most this.", unit="ratio", above=0)
        ] = 0.3,
    ) -> None:
        check_order("down_ratio", down_ratio, "up_ratio", up_ratio)
        self._every = Every(interval_s, at_once=False)
        self._up_ratio = up_ratio
        self._down_ratio = down_ratio
        self._ratios: list[float] = []

    def decide(self, snapshot: Snapshot) -> Decision:
        """More by the ratio, one fewer, or the same; once a minute."""
        for batch in snapshot.batches:
            if batch.trigger_interval_s > 0:
                self._ratios.append(batch.duration_s / batch.trigger_interval_s)
        if not self._every.due(snapshot.now_s):
            return hold(snapshot, "waiting for the next interval", FORMULA)
        ratios, self._ratios = self._ratios, []
        if not ratios:
            return hold(snapshot, "no data: no batch with an interval finished in this period", FORMULA)
        ratio = sum(ratios) / len(ratios)
        observed = snapshot.observed.main_nodes
        inputs: dict[str, float | str] = {"ratio": round(ratio, 4), "nodes": observed, "batches": len(ratios)}
        if ratio >= self._up_ratio:
            more = max(math.floor(ratio + 0.5), 1)
            reason = f"batches take {ratio:.0%} of their interval: {more} more"
            return want(snapshot, observed + more, reason, FORMULA, inputs)
        if ratio <= self._down_ratio and snapshot.planned.main_nodes > snapshot.limits.min_nodes:
            reason = f"batches take {ratio:.0%} of their interval: one fewer"
            return want(snapshot, snapshot.planned.main_nodes - 1, reason, FORMULA, inputs)
        return hold(snapshot, f"batches take {ratio:.0%} of their interval", FORMULA, inputs)
