"""Elastic-Scaling of AmadeusITGroup: a query listener that fills the batch interval.

    num ← α·num + usage,  den ← α·den + 1,  mean = num / den      usage = batch time / interval, α = 0.6
    n' = ceil(n × mean), outside the dead band [0.75, 1.0]

At every batch with rows; both sums start at 1. No lag, no cool-down, no memory beyond α. It requests nothing while the
cluster is still scaling. Reference: github.com/AmadeusITGroup/Elastic-Scaling, ElasticScaling.scala and
ElasticConfig.scala.

Modelled: n is the observed number of nodes. "Still scaling" is a grow or shrink under way. With several queries, each
batch of any of them counts, as each would call the one listener. Of several batches between two snapshots the first
that wants another size decides: those after it find the cluster scaling, and so do all but the last if the cluster was
scaling at the previous snapshot.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

from ebbflow.core.batches import Batch
from ebbflow.core.decision import Decision, Effect, hold, want
from ebbflow.core.metrics import Metric
from ebbflow.core.parameters import Number, check_order
from ebbflow.core.plural import counted
from ebbflow.core.ports import Strategy
from ebbflow.core.snapshot import Snapshot

FORMULA = "n' = ceil(n · mean), mean = Σ αᵏ·(batch time / interval) / Σ αᵏ, unless low ≤ mean ≤ high"


class ElasticScaling(Strategy):
    """As many executors as fill the interval. The module docstring has the rule."""

    name = "elastic-scaling"
    brings_own_guards = True

    def __init__(
        self,
        *,
        low: Annotated[
            float, Number("Scale in below this mean of batch time / trigger interval.", unit="ratio", above=0)
        ] = 0.75,
        high: Annotated[
            float,
            Number("Scale out above this mean of batch time / trigger interval.", unit="ratio", above=0),
        ] = 1.0,
        smoothing: Annotated[
            float, Number("Weight of the past in the mean.", unit="share", at_least=0, below=1)
        ] = 0.6,
    ) -> None:
        check_order("low", low, "high", high)
        self._low = low
        self._high = high
        self._smoothing = smoothing
        self._numerator = 1.0
        self._denominator = 1.0
        self._scaling = False
        """Whether the cluster was scaling after the previous snapshot."""

    def decide(self, snapshot: Snapshot) -> Decision:
        """The size that would fill the interval exactly."""
        was_scaling, self._scaling = self._scaling, bool(snapshot.under_way)
        timed = [batch for batch in snapshot.batches if batch.trigger_interval_s > 0 and batch.rows > 0]
        if not timed:
            return hold(snapshot, "no data: no batch with rows and an interval has finished", FORMULA)
        observed = snapshot.observed.main_nodes
        deciding = self._smooth(timed, snapshot, was_scaling)
        mean = self._numerator / self._denominator if deciding is None else deciding
        inputs: dict[str, float | str] = {"mean": round(mean, 4), "nodes": observed, "batches": len(timed)}
        if deciding is None and self._low <= mean <= self._high:
            reason = f"interval {mean:.0%} full, within {self._low:.0%} to {self._high:.0%}"
            return hold(snapshot, reason, FORMULA, inputs)
        if observed == 0:
            return hold(snapshot, "no data: no node has joined", FORMULA, inputs)
        if snapshot.under_way:
            return hold(snapshot, "the cluster is still scaling", FORMULA, inputs)
        self._scaling = deciding is not None
        nodes = math.ceil(observed * mean)
        interval_s = timed[-1].trigger_interval_s
        effect = Effect(
            metric=Metric.BATCH_TIME,
            value=round(mean * interval_s * observed / max(nodes, 1), 3),
            at_s=snapshot.now_s + snapshot.lead_time_s + 2 * interval_s,
        )
        reason = f"interval {mean:.0%} full: {counted(nodes, 'node')} would fill it"
        return want(snapshot, nodes, reason, FORMULA, inputs, expected=effect)

    def _smooth(self, timed: Sequence[Batch], snapshot: Snapshot, was_scaling: bool) -> float | None:
        """Smooth all batches. Returns the mean at the first one that wants another size, if any."""
        observed, deciding = snapshot.observed.main_nodes, None
        for batch in timed:
            usage = batch.duration_s / batch.trigger_interval_s
            self._numerator = self._numerator * self._smoothing + usage
            self._denominator = self._denominator * self._smoothing + 1
            mean = self._numerator / self._denominator
            scaling = bool(snapshot.under_way) or (was_scaling and batch is not timed[-1])
            other = snapshot.limits.clamp(math.ceil(observed * mean)) != observed
            if deciding is None and not scaling and other and not self._low <= mean <= self._high:
                deciding = mean
        return deciding
