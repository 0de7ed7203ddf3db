"""``tuned``: thresholds that are optimised online, whenever the load changes.

1. detect     an adaptive window (``adaptive_window``) reports that the mean arrival rate has changed
2. simulate   the recent load is replayed in a model of what was learned (``what_if``), at a latency-aware cost
3. search     recursive random search (``random_search``) over thresholds, periods and target busy share
4. apply      the best parameters replace those in use if the model finds them cheaper by a margin

    busy > upper for upper_s, or busy < lower for lower_s:  n' = ceil(n · busy / target)

The thresholds then decide as in FUGU: above the upper one for a while, or below the lower one, the number of nodes goes
to where they would be as busy as the target. Reference: T. Heinze, L. Roediger, A. Meister, Y. Ji, Z. Jerzak,
C. Fetzer, *Online parameter optimization for elastic data stream processing*, SoCC 2015, pp. 276-287.

Bounded time: a search takes ``trials`` replays of at most a millisecond or two each, and each decision makes at most
``trials_per_decision`` of them. So a decision takes at most some 20 ms, nothing runs beside the loop, and a
simulation makes the same decisions as a live run.

Modelled: busy, for FUGU's CPU of a host, is the share of the time in which a batch runs; of several queries, the
largest. Slots idle in the last wave of a stage, so that their busy share can stay low in an overload. On a continuous
target it is the busy share of the slots. A broken SLO asks for a search as well. FUGU's placement of operators has
no counterpart on Spark. The first search starts after ``least`` of load; until then the parameters are fixed ones.
"""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Annotated

import numpy as np

from ebbflow.core.curve import Curve
from ebbflow.core.decision import Decision, hold, want
from ebbflow.core.metrics import Metric
from ebbflow.core.parameters import Duration, Number, Whole
from ebbflow.core.ports import Strategy
from ebbflow.core.signals import Signals, is_idle
from ebbflow.core.snapshot import Snapshot
from ebbflow.profiling.batch.model import BatchModel
from ebbflow.strategies.baselines.thresholds import Hysteresis
from ebbflow.strategies.tuned.adaptive_window import AdaptiveWindow
from ebbflow.strategies.tuned.random_search import Point, RecursiveRandomSearch
from ebbflow.strategies.tuned.what_if import Costs, RecentLoad, WhatIf, tuning_at

FORMULA = (
    "busy > upper or < lower for its period: n' = ceil(n · busy / target); all by search on the recent load"
)
START: Point = (0.6, 0.7, 0.6, 0.2, 0.4, 0.25)
"""Parameters before the first search: upper 0.69, target 0.57, lower 0.33."""
STEP_S = 10.0
"""Resolution of the load that is replayed."""
BETTER = 0.98
"""New parameters must cost at most this share of those in use."""


class _Search:
    """A search that goes on over several decisions."""

    def __init__(self, what_if: WhatIf, start: Point, trials: int, rng: Random) -> None:
        self._what_if, self._trials_left = what_if, trials
        self._search = RecursiveRandomSearch(start, rng)
        self._cost_before: float | None = None

    def advance(self, trials: int) -> bool:
        """Make some trials. Returns whether all are made."""
        for _ in range(min(trials, self._trials_left)):
            cost = self._what_if.cost(tuning_at(self._search.ask()))
            if self._cost_before is None:
                self._cost_before = cost
            self._search.tell(cost)
            self._trials_left -= 1
        return self._trials_left == 0

    def better(self) -> tuple[Point, str] | None:
        """The parameters found, if they are clearly better than those in use, and by how much."""
        before, found = self._cost_before, self._search.best_cost
        if before is None or found > BETTER * before:
            return None
        return self._search.best, f"cost {before:.2f} → {found:.2f} nodes on the recent load"


class Tuned(Strategy):
    """Thresholds that follow the load. The module docstring has the method."""

    name = "tuned"
    brings_own_guards = True

    def __init__(
        self,
        *,
        window_s: Annotated[float, Duration("Length of the recent load that is replayed.", above=0)] = 3600.0,
        least_s: Annotated[
            float,
            Duration("Load to observe before the first search, and time between two searches.", above=0),
        ] = 600.0,
        late_price: Annotated[
            float,
            Number("Price of late rows: if all are late, this many times the maximum of nodes.", at_least=0),
        ] = 10.0,
        delta: Annotated[
            float, Number("Bound on the chance of a false alarm of the adaptive window.", above=0, below=1)
        ] = 0.002,
        trials: Annotated[int, Whole("Replays in a search.", at_least=1)] = 100,
        trials_per_decision: Annotated[int, Whole("Replays in one decision, at most.", at_least=1)] = 10,
        seed: Annotated[int, Whole("Seed of the search.", at_least=0)] = 1,
    ) -> None:
        self._window_s, self._least_s = window_s, min(least_s, window_s)
        self._late_price = late_price
        self._trials, self._trials_per_decision = trials, trials_per_decision
        self._rng = Random(seed)
        self._signals = Signals()
        self._models: dict[str, BatchModel] = {}
        self._changes = AdaptiveWindow(delta=delta)
        self._load: deque[tuple[float, float, int]] = deque()
        """(time, arrival rate, planned nodes)"""
        self._point: Point = START
        self._rule = Hysteresis(tuning_at(START).thresholds)
        self._search: _Search | None = None
        self._search_due = True
        self._searched_s = float("-inf")
        self._tuned = "not tuned yet"

    def decide(self, snapshot: Snapshot) -> Decision:
        """Observe the load, search for a while if a search is due, and apply the thresholds in use."""
        missing = self._signals.update(snapshot)
        self._learn(snapshot)
        busy = None if missing else self._busy(snapshot)
        if busy is None or snapshot.observed.main_nodes == 0:
            self._rule.interrupt()
            return hold(snapshot, missing or "no data: busy time or nodes unknown", FORMULA)
        self._optimise(snapshot)
        planned = snapshot.planned.main_nodes
        tuning = tuning_at(self._point)
        thresholds = tuning.thresholds
        inputs: dict[str, float | str] = {
            "busy": round(busy, 4),
            "nodes": planned,
            "upper": thresholds.upper,
            "target": tuning.target,
            "lower": thresholds.lower,
            "upper_s": thresholds.upper_s,
            "lower_s": thresholds.lower_s,
            "grace_s": thresholds.grace_s,
            "tuned": self._tuned,
        }
        direction = self._rule.direction(snapshot.now_s, busy)
        band = f"{busy:.0%} busy, thresholds {thresholds.lower:.0%} and {thresholds.upper:.0%}"
        if not direction:
            return hold(snapshot, band, FORMULA, inputs)
        wanted = tuning.nodes(planned, busy, direction)
        if wanted == planned:
            return hold(snapshot, f"{band}: fewer than {planned} is not possible", FORMULA, inputs)
        reason = f"{band}: {planned} → {wanted} for a target of {tuning.target:.0%}"
        return want(snapshot, wanted, reason, FORMULA, inputs)

    def _busy(self, snapshot: Snapshot) -> float | None:
        """The busy share of the time; None if unknown."""
        signals, seen_s = self._signals, snapshot.observed_s
        if not signals.micro_batch:
            slots = signals.busy_slots
            return None if slots is None else min(1.0, slots / snapshot.slots)
        shares = []
        for name, batch in signals.batches.items():
            running_s = snapshot.queries[name]
            longest_s = max(batch.duration_s, batch.trigger_interval_s)
            if running_s is not None and seen_s - running_s > longest_s:
                shares.append(1.0)
            elif is_idle(batch, running_s, seen_s):
                shares.append(0.0)
            else:
                shares.append(batch.duration_s / longest_s if longest_s > 0 else 1.0)
        return max(shares, default=None)

    def _learn(self, snapshot: Snapshot) -> None:
        """What rows cost, and how many arrive."""
        for batch in snapshot.batches:
            if batch.query in snapshot.queries and batch.rows:
                self._models.setdefault(batch.query, BatchModel()).learn(batch)
        for ended in [name for name in self._models if name not in snapshot.queries]:
            del self._models[ended]
        rate_per_s = self._signals.rate_per_s
        if rate_per_s is None:
            return
        now_s = snapshot.observed_s
        if self._load and now_s <= self._load[-1][0]:
            return
        self._load.append((now_s, rate_per_s, snapshot.planned.main_nodes))
        while self._load[0][0] < now_s - self._window_s:
            self._load.popleft()
        waited_s = snapshot.windows.of(snapshot.pipeline.name, Metric.FRESHNESS).last
        late = waited_s is not None and waited_s > snapshot.slo.freshness_s
        if self._changes.update(rate_per_s) or late:
            self._search_due = True

    def _optimise(self, snapshot: Snapshot) -> None:
        """Start a search if one is due, or go on with it."""
        if self._search is None:
            if not self._search_due or snapshot.now_s - self._searched_s < self._least_s:
                return
            what_if = self._what_if(snapshot)
            if what_if is None:
                return
            self._search = _Search(what_if, self._point, self._trials, self._rng)
            self._search_due, self._searched_s = False, snapshot.now_s
        if self._search.advance(self._trials_per_decision):
            found, self._search = self._search.better(), None
            if found is not None:
                self._point, outcome = found
                self._rule.thresholds = tuning_at(self._point).thresholds
                self._tuned = f"at {snapshot.now_s:.0f} s: {outcome}"

    def _what_if(self, snapshot: Snapshot) -> WhatIf | None:
        """The recent load in a model of the target; None if too little is known of either."""
        costs = self._costs()
        if costs is None or self._load[-1][0] - self._load[0][0] < self._least_s - STEP_S:
            return None
        times_s = np.arange(self._load[0][0], self._load[-1][0], STEP_S)
        rates = Curve.of((time_s, rate) for time_s, rate, _ in self._load).stepped(times_s)
        arrived = (0.0, *np.cumsum(rates * STEP_S).tolist())
        return WhatIf(
            load=RecentLoad(step_s=STEP_S, arrived=arrived, nodes=self._load[0][2]),
            costs=costs,
            limits=snapshot.limits,
            slots_per_node=snapshot.slots_per_node,
            lead_time_s=snapshot.lead_time_s,
            freshness_s=snapshot.slo.freshness_s,
            late_price=self._late_price,
        )

    def _costs(self) -> Costs | None:
        """What rows cost; None if unknown."""
        signals = self._signals
        if not signals.micro_batch:
            busy_slots, rows_per_s = signals.done_slots, signals.processed_per_s
            if not busy_slots or not rows_per_s:
                return None
            return Costs.of_flow(busy_slots / rows_per_s, STEP_S)
        ready = {
            name: model for name, model in self._models.items() if model.ready and name in signals.batches
        }
        if not ready:
            return None
        rates = {name: signals.batches[name].arrival_rate_per_s for name in ready}
        total = sum(rates.values())
        return Costs.of_queries(
            [
                (
                    model,
                    rates[name] / total if total > 0 else 1 / len(ready),
                    signals.batches[name].trigger_interval_s,
                )
                for name, model in ready.items()
            ]
        )
