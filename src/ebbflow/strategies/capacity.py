"""The default strategy: the fewest nodes that keep freshness within the objective.

At every batch it learns what batches cost (``profiling.batch_model``), takes the arrival rate with its
upward slope, the rows left behind and the nodes already under way, and plays the next batches forward
(``profiling.outlook``) for every size that would cut a wave (``profiling.sizing``). It takes the
smallest size whose worst predicted freshness stays within a budget of the objective:

    n* = min { n : worst_freshness(n, rate, backlog, under way) ≤ T + β · (SLO − T)  and  busy(n) ≤ ρ }

with T the trigger interval, which every row may have to wait whatever the size. Where no size keeps the
budget, it is the smallest that does nearly as well as the largest, and the decision says what is in the way.

It spends the objective's slack instead of keeping a fixed head-room: on real traces that was the
biggest lever by far. Shrinking needs more: the same test with a tighter budget, passed by every
decision of ``hold_in_s``.
"""

from __future__ import annotations

import math
from collections import deque

from ebbflow.core.batches import Batch
from ebbflow.core.decision import Constraint, Decision, Effect
from ebbflow.core.metrics import Metric
from ebbflow.core.readings import Window
from ebbflow.core.snapshot import Snapshot
from ebbflow.profiling.batch_model import BatchModel
from ebbflow.profiling.outlook import QueryState
from ebbflow.profiling.sizing import Size, Sizing, settle_s
from ebbflow.strategies.diagnosis import why_more_cannot_help

DISTURBANCE_S = 4.0
"""Assumed disturbance by a growth until one has been seen."""
WORTH = 6.0
"""A growth is made for so many times as long as it disturbs: few and early ones, rather than many."""

FORMULA = "n* = min { n : worst freshness(n) ≤ T + β·(SLO − T) and busy(n) ≤ ρ }"


class _Query:
    """What was learned of one query."""

    def __init__(self, window_s: float) -> None:
        self.model = BatchModel()
        self.rates = Window(span_s=window_s)
        self.last: Batch | None = None
        self.idle = False
        self.overdue_s = 0.0
        """How much longer its running batch has taken than it should."""
        self.disturbance_s = DISTURBANCE_S
        """How much longer a batch takes in which nodes come: their first tasks load classes, start Python."""

    def learn(self, batch: Batch, patience_s: float) -> None:
        self.last = batch
        # Silence may have been noted while this batch had begun unseen; what it counted is truer than that.
        self.rates.add(max(batch.started_s, self.rates.last_time_s or 0.0), batch.arrival_rate_per_s)
        if batch.rows == 0 or not batch.stages:
            return
        if self.model.ready and not batch.steady:
            extra_s = max(0.0, batch.duration_s - self.model.on(batch.slots).of(batch.rows))
            self.disturbance_s = 0.5 * (self.disturbance_s + extra_s)
        self.model.learn(batch, patience_s)

    def look(self, running_since_s: float | None, now_s: float, slots: int) -> None:
        """Note whether it has nothing to do, or has been at one batch for too long."""
        self.idle, self.overdue_s = False, 0.0
        last = self.last
        if last is None:
            return
        due_s = max(last.ended_s, last.started_s + last.trigger_interval_s)
        if running_since_s is None:
            # Well past its trigger and no batch: there are no rows to work on.
            if now_s > due_s + 2.0:
                self.idle = True
                self.rates.add(now_s, 0.0)
        elif self.model.ready:
            rows = last.arrival_rate_per_s * max(0.0, due_s - last.started_s)
            self.overdue_s = now_s - due_s - 1.5 * self.model.on(slots).of(rows) - 2.0


class Capacity:
    """Sized for an objective, by a learned model of the batches. See the module's text for the rule.

    Parameters: ``budget_out`` and ``budget_in`` (β for growing and shrinking), ``busy_limit`` and
    ``busy_limit_in`` (ρ likewise: noise in the load must not carry a size from one to the other),
    ``hold_in_s`` (how long shrinking must have been right), ``rate_window_s`` (over which the slope of
    the rate is taken).
    """

    name = "capacity"

    def __init__(
        self,
        *,
        budget_out: float = 0.4,
        budget_in: float = 0.3,
        busy_limit: float = 0.8,
        busy_limit_in: float = 0.7,
        hold_in_s: float = 10.0,
        rate_window_s: float = 30.0,
    ) -> None:
        self._budget_out = budget_out
        self._budget_in = budget_in
        self._busy_limit = busy_limit
        self._busy_limit_in = busy_limit_in
        self._hold_in_s = hold_in_s
        self._rate_window_s = rate_window_s
        self._queries: dict[str, _Query] = {}
        self._would_do: deque[tuple[float, int]] = deque()
        """(time, nodes) of the decisions in a row that found fewer nodes enough."""

    # -- the decision --------------------------------------------------------------------------

    def decide(self, snapshot: Snapshot) -> Decision:
        """The fewest nodes that keep the objective."""
        self._learn(snapshot)
        if not any(query.model.ready for query in self._queries.values()):
            reason = "learning: no query has shown enough batches with rows yet"
            return Decision(wanted=snapshot.planned, reason=reason, formula=FORMULA)
        now = snapshot.planned.main_nodes
        growing = self._sizing(snapshot, for_shrinking=False)
        sizes = growing.sizes()
        needed = growing.smallest(sizes, growing.budget_s(self._budget_out))
        # What was planned and could not be had does not count as there: it is wanted again, and said so.
        if needed.nodes > min(now, snapshot.requested.main_nodes):
            self._would_do.clear()
            return self._grow(growing, needed, snapshot)
        overdue_s = max(query.overdue_s for query in self._queries.values())
        if needed.nodes < now and overdue_s <= 0:
            shrinking = self._sizing(snapshot, for_shrinking=True)
            enough = shrinking.smallest(sizes, shrinking.budget_s(self._budget_in))
            if enough.nodes < needed.nodes:  # never below what growing would ask for again at once
                enough = shrinking.judge(needed.nodes)
            if enough.nodes < now:
                return self._shrink(shrinking, enough, snapshot)
        self._would_do.clear()
        return self._keep(growing, overdue_s, snapshot)

    def _grow(self, sizing: Sizing, needed: Size, snapshot: Snapshot) -> Decision:
        now = min(snapshot.planned.main_nodes, snapshot.requested.main_nodes)
        here = sizing.judge(now)
        return Decision(
            wanted=snapshot.planned.with_nodes(needed.nodes),
            reason=(
                f"grow {now} → {needed.nodes}: {_rate(sizing):.0f} rows/s would take freshness to "
                f"{_seconds(here.freshness_s)} on {now}, {_seconds(needed.freshness_s)} on {needed.nodes} "
                f"(objective {snapshot.slo.freshness_s:g} s)"
            ),
            formula=FORMULA,
            inputs=self._inputs(sizing, needed, snapshot, self._budget_out),
            bound_by=self._bottleneck(sizing, needed, snapshot),
            expected=_effect(sizing, needed),
            instead=_effects(sizing, now, needed.nodes),
        )

    def _shrink(self, sizing: Sizing, enough: Size, snapshot: Snapshot) -> Decision:
        now, now_s = snapshot.planned.main_nodes, snapshot.now_s
        self._would_do.append((now_s, enough.nodes))
        while len(self._would_do) > 1 and self._would_do[1][0] <= now_s - self._hold_in_s:
            self._would_do.popleft()
        held_s = now_s - self._would_do[0][0]
        nodes = max(nodes for _, nodes in self._would_do)
        inputs = self._inputs(sizing, enough, snapshot, self._budget_in)
        if held_s < self._hold_in_s or nodes >= now:
            return Decision(
                wanted=snapshot.planned,
                reason=f"{enough.nodes} would do; shrinking waits until that held for {self._hold_in_s:g} s",
                formula=FORMULA,
                inputs=inputs,
                bound_by=(
                    Constraint(name="hold", why=f"held for {held_s:.0f} s so far"),
                    *self._bottleneck(sizing, enough, snapshot),
                ),
                expected=_effect(sizing, sizing.judge(now)),
            )
        size, here = sizing.judge(nodes), sizing.judge(now)
        return Decision(
            wanted=snapshot.planned.with_nodes(nodes),
            reason=(
                f"shrink {now} → {nodes}: {_rate(sizing):.0f} rows/s at most; freshness "
                f"{_seconds(size.freshness_s)} on {nodes}, {_seconds(here.freshness_s)} on {now} "
                f"(objective {snapshot.slo.freshness_s:g} s)"
            ),
            formula=FORMULA,
            inputs=inputs,
            bound_by=self._bottleneck(sizing, size, snapshot),
            expected=_effect(sizing, size),
            instead=_effects(sizing, nodes, now),
        )

    def _keep(self, sizing: Sizing, overdue_s: float, snapshot: Snapshot) -> Decision:
        here = sizing.judge(snapshot.planned.main_nodes)
        limit: tuple[Constraint, ...] = ()
        expected = f"{_seconds(here.freshness_s)} expected on {here.nodes} at {_rate(sizing):.0f} rows/s"
        if overdue_s > 0:
            reason = (
                f"a batch has taken {overdue_s:.0f} s longer than it should; nothing leaves until it ends"
            )
        elif sizing.fits(here, sizing.budget_s(self._budget_out)):
            reason = f"right size: {expected}"
        else:
            limit = self._bottleneck(sizing, here, snapshot)
            reason = f"{expected}, and more would not help: {limit[0].why}"
        return Decision(
            wanted=snapshot.planned,
            reason=reason,
            formula=FORMULA,
            inputs=self._inputs(sizing, here, snapshot, self._budget_out),
            bound_by=limit,
            expected=_effect(sizing, here),
        )

    # -- what is known -------------------------------------------------------------------------

    def _learn(self, snapshot: Snapshot) -> None:
        for batch in snapshot.batches:
            if batch.query in snapshot.queries:
                query = self._queries.setdefault(batch.query, _Query(self._rate_window_s))
                query.learn(batch, patience_s=snapshot.slo.freshness_s / 2)
        for gone in [name for name in self._queries if name not in snapshot.queries]:
            del self._queries[gone]
        slots = max(1, snapshot.observed.main_nodes * snapshot.slots_per_node)
        for name, query in self._queries.items():
            query.look(snapshot.queries[name], snapshot.now_s, slots)

    def _sizing(self, snapshot: Snapshot, *, for_shrinking: bool) -> Sizing:
        ready = {name: query for name, query in self._queries.items() if query.model.ready}
        return Sizing(
            {name: query.model for name, query in ready.items()},
            {name: self._state(query, snapshot, for_shrinking) for name, query in ready.items()},
            snapshot,
            busy_limit=self._busy_limit_in if for_shrinking else self._busy_limit,
        )

    def _state(self, query: _Query, snapshot: Snapshot, for_shrinking: bool) -> QueryState:
        """The query now, with the rate to grow for (rising on) or the one to shrink for (as it is)."""
        last, now_s = query.last, snapshot.now_s
        assert last is not None
        points = [rate for _, rate in query.rates]
        rate = max(points[-1], sum(points[-3:]) / len(points[-3:]))
        slope = 0.0
        # Every growth disturbs a batch. One that is needed is made for the time until its effect can be
        # judged, and for as long after that as makes it worth the disturbance. A rise is believed as far
        # as it is sure, and not to more than three times the load.
        ahead_s = snapshot.lead_time_s + settle_s(last.trigger_interval_s, snapshot.slo)
        ahead_s += WORTH * query.disturbance_s
        if not for_shrinking:
            slope = min(query.rates.rise_per_s(), 2 * rate / ahead_s)
        return QueryState(
            now_s=now_s,
            offsets_taken_s=now_s if query.idle else last.started_s,
            free_at_s=now_s if query.idle else last.ended_s,
            trigger_interval_s=last.trigger_interval_s,
            backlog_rows=0.0 if query.idle else last.backlog_rows,
            rows_per_batch_limit=float(max(last.rows, 1)) if last.backlog_rows > 0 else math.inf,
            rate_per_s=rate,
            slope_per_s2=slope,
            slope_for_s=ahead_s,
        )

    # -- saying why ----------------------------------------------------------------------------

    def _bottleneck(self, sizing: Sizing, size: Size, snapshot: Snapshot) -> tuple[Constraint, ...]:
        """What keeps more nodes from helping, where the size misses the budget."""
        if sizing.fits(size, sizing.budget_s(self._budget_out)):
            return ()
        slots = size.nodes * snapshot.slots_per_node
        name = max(sizing.models, key=lambda n: sizing.models[n].on(slots).of(sizing.states[n].rate_per_s))
        found = why_more_cannot_help(
            sizing.models[name],
            sizing.states[name],
            slots=slots,
            most_slots=snapshot.limits.max_nodes * snapshot.slots_per_node,
            slo_s=snapshot.slo.freshness_s,
        )
        if found is None:
            most = snapshot.limits.max_nodes
            why = f"no size up to {most} keeps the objective, and this one does nearly as well as {most}"
            found = Constraint(name="objective", why=why)
        return (found,)

    @staticmethod
    def _inputs(sizing: Sizing, size: Size, snapshot: Snapshot, budget: float) -> dict[str, float | str]:
        slots = size.nodes * snapshot.slots_per_node
        model = max(sizing.models.values(), key=lambda m: m.on(slots).per_row_s)
        time = model.on(slots)
        states = sizing.states.values()
        return {
            "rate_per_s": round(_rate(sizing), 2),
            "slope_per_s2": round(sum(state.slope_per_s2 for state in states), 3),
            "backlog_rows": round(sum(state.backlog_rows for state in states)),
            "lead_time_s": round(snapshot.lead_time_s, 2),
            "ahead_s": round(max(state.slope_for_s for state in states), 1),
            "observed_nodes": snapshot.observed.main_nodes,
            "requested_nodes": snapshot.requested.main_nodes,
            "driver_s": round(model.driver_s, 3),
            "batch_fixed_s": round(time.fixed_s, 3),
            "batch_per_row_ms": round(time.per_row_s * 1000, 4),
            "busy": round(size.busy, 3),
            "predicted_freshness_s": round(size.freshness_s, 2),
            "budget_s": round(sizing.budget_s(budget), 2),
        }


def _effect(sizing: Sizing, size: Size) -> Effect:
    return Effect(metric=Metric.FRESHNESS, value=round(size.freshness_s, 3), at_s=sizing.judge_from_s)


def _effects(sizing: Sizing, fewest: int, most: int) -> dict[int, Effect]:
    """What is expected on the sizes between two, both included; a few of them where there are many."""
    between = [nodes for nodes in sizing.sizes() if fewest < nodes < most]
    chosen = {fewest, most, *between[:: max(1, len(between) // 6)]}
    return {nodes: _effect(sizing, sizing.judge(nodes)) for nodes in sorted(chosen)}


def _rate(sizing: Sizing) -> float:
    return sum(state.rate_per_s for state in sizing.states.values())


def _seconds(value: float) -> str:
    return f"{value:.1f} s" if value < 1000 else "far beyond 1000 s"
