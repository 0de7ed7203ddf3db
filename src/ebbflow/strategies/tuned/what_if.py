"""What thresholds would have cost on the recent load.

The model runs batch by batch. A batch takes all rows that have arrived; on S slots its n rows take

    batch(n, S) = fixed(S) + row(S) · n,    busy = batch / max(batch, interval)

with what was learned of the queries (``profiling.batch.model``: waves, overheads, skew). After each batch the rule
decides, and new nodes join after the lead time. A continuous target is a batch per step without overheads. Cost is
latency-aware: nodes held, and a price for rows later than the SLO,

    cost = mean nodes + late_price · max nodes · share of late rows

in nodes. Heinze et al. also simulate scaling on the recent history at a latency-aware cost; this formula is ours. The
engine of ``ebbflow simulate`` does not fit: it needs the true costs of the job, which are learned here, and it takes a
hundred times as long.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec

from ebbflow.core.limits import Limits
from ebbflow.profiling.batch.model import BatchModel
from ebbflow.strategies.baselines.thresholds import Hysteresis, Thresholds

MARGIN = 0.8
"""Rows count as late beyond this share of the SLO: the load ahead is not the load behind."""


class Tuning(msgspec.Struct, frozen=True, kw_only=True):
    """What is optimised: thresholds, and the busy share that a new size aims at."""

    thresholds: Thresholds
    target: float

    def nodes(self, now: int, busy: float, direction: int) -> int:
        """The size to go to: busy as the target, and at least one node more or fewer.

        >>> tuning = tuning_at((0.5,) * 6)
        >>> tuning.nodes(4, 0.9, 1), tuning.nodes(4, 0.1, -1), tuning.nodes(1, 0.0, -1)
        (9, 1, 1)
        """
        aimed = math.ceil(now * busy / self.target - 1e-9)
        return max(aimed, now + 1) if direction > 0 else max(1, min(aimed, now - 1))


Point = tuple[float, ...]


def tuning_at(point: Point) -> Tuning:
    """The parameters at a point of the unit cube: upper, target and lower threshold, their periods, grace period.

    Whatever the point, lower < target < upper: a size that was just reached is kept.

    >>> tuning_at((0.5,) * 6)
    Tuning(thresholds=Thresholds(upper=0.625, below_upper=0.625, lower=0.2188, above_lower=0.2188, upper_s=30.0, \
lower_s=150.0, grace_s=60.0), target=0.4375)
    """
    upper = 0.3 + 0.65 * point[0]
    target = upper * (0.4 + 0.6 * point[1])
    lower = target * (0.1 + 0.8 * point[2])
    return Tuning(
        thresholds=Thresholds(
            upper=round(upper, 4),
            below_upper=round(upper, 4),
            lower=round(lower, 4),
            above_lower=round(lower, 4),
            upper_s=round(60.0 * point[3], 1),
            lower_s=round(300.0 * point[4], 1),
            grace_s=round(120.0 * point[5], 1),
        ),
        target=round(target, 4),
    )


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    """What rows cost."""

    interval_s: float
    """A batch starts this long after the one before, or when that has ended."""
    batch: Callable[[int], tuple[float, float]]
    """Seconds of a batch on a number of slots: fixed, and for each row."""

    @classmethod
    def of_flow(cls, row_s: float, interval_s: float) -> Costs:
        """Rows that flow through operators without batches."""
        return cls(interval_s=interval_s, batch=lambda slots: (0.0, row_s / slots))

    @classmethod
    def of_queries(cls, queries: Sequence[tuple[BatchModel, float, float]]) -> Costs:
        """Queries as (model, share of the rows, trigger interval in seconds).

        Queries on the same slots are taken one after the other. That is a little pessimistic, as their driver work
        overlaps.
        """

        def batch(slots: int) -> tuple[float, float]:
            times = [(model.on(slots), share) for model, share, _ in queries]
            return sum(t.fixed_s for t, _ in times), sum(t.per_row_s * share for t, share in times)

        return cls(interval_s=max(1.0, min(interval_s for _, _, interval_s in queries)), batch=batch)


class RecentLoad(msgspec.Struct, frozen=True, kw_only=True):
    """The load to try thresholds on."""

    step_s: float
    arrived: tuple[float, ...]
    """Rows that had arrived after each step, from 0 at the start."""
    nodes: int
    """Nodes at the start."""

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.step_s * (len(self.arrived) - 1)


class WhatIf(msgspec.Struct, frozen=True, kw_only=True):
    """Everything but the thresholds."""

    load: RecentLoad
    costs: Costs
    limits: Limits
    slots_per_node: int
    lead_time_s: float
    freshness_s: float
    late_price: float

    def cost(self, tuning: Tuning) -> float:
        """The cost of the recent load under these parameters, in nodes."""
        load, costs, limits = self.load, self.costs, self.limits
        arrived, step_s, end_s = load.arrived, load.step_s, load.seconds
        last = len(arrived) - 2
        rule = Hysteresis(tuning.thresholds)
        late_after_s = MARGIN * self.freshness_s
        times: dict[int, tuple[float, float]] = {}
        planned = working = limits.clamp(load.nodes)
        joined_s = math.inf
        now_s = taken = late = node_s = 0.0
        while now_s < end_s:
            if now_s >= joined_s:
                working, joined_s = planned, math.inf
            index = min(int(now_s / step_s), last)
            here = arrived[index] + (arrived[index + 1] - arrived[index]) * (now_s / step_s - index)
            rows, slots = here - taken, working * self.slots_per_node
            busy, span_s = 0.0, costs.interval_s
            if rows > 0:
                if slots not in times:
                    times[slots] = costs.batch(slots)
                fixed_s, per_row_s = times[slots]
                batch_s = fixed_s + per_row_s * rows
                span_s = max(span_s, batch_s)
                busy = batch_s / span_s
                limit_s = now_s + batch_s - late_after_s
                if limit_s >= now_s:
                    late += rows
                elif limit_s > 0:
                    index = min(int(limit_s / step_s), last)
                    before = arrived[index] + (arrived[index + 1] - arrived[index]) * (
                        limit_s / step_s - index
                    )
                    late += max(0.0, before - taken)
                taken = here
            node_s += planned * span_s
            now_s += span_s
            direction = rule.direction(now_s, busy)
            if direction:
                wanted = limits.clamp(tuning.nodes(planned, busy, direction))
                if wanted > working:
                    joined_s = now_s + self.lead_time_s
                else:
                    working, joined_s = wanted, math.inf
                planned = wanted
        total = max(1.0, taken)
        return node_s / now_s + self.late_price * limits.max_nodes * late / total
