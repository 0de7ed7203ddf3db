"""What the capacity strategy learns of queries that run in batches."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ebbflow.core.batches import Batch
from ebbflow.core.decision import Decision
from ebbflow.core.signals import is_idle
from ebbflow.core.snapshot import Snapshot
from ebbflow.profiling.batch.model import BatchModel
from ebbflow.profiling.batch.outlook import QueryState
from ebbflow.profiling.batch.profiles import BatchProfiles
from ebbflow.strategies.capacity.sizing import BatchSizing, Rates, settle_s

DISTURBANCE_S = 4.0
"""Assumed disturbance of a batch by growth, until one is observed."""
WORTH = 6.0
"""How many times as long as it disturbs a growth should last: few early growths rather than many."""
OVERDUE_FACTOR, OVERDUE_SLACK_S = 1.5, 2.0
"""A batch is overdue if it has run for this many times its predicted duration, and this much longer."""
FIRST_BATCH_S = 15.0
"""A first batch starts Python and loads classes. Its duration up to here says nothing about the size."""


@dataclass(frozen=True, kw_only=True)
class KnownQuery:
    """A query that is known well enough to size for."""

    model: BatchModel
    rate_per_s: float
    trigger_interval_s: float


@dataclass(frozen=True, kw_only=True)
class ArrivalRate:
    """The arrival rate of a query at a time."""

    query: str
    time_s: float
    rate_per_s: float


class LearnedBatches:
    """The queries of an application: their models, rates and running batches."""

    in_batches = True
    hold_s = 0.0
    """Nodes leave between batches, at no cost to speak of."""

    def __init__(self, *, rate_window_s: float, given: BatchProfiles | None = None) -> None:
        """``given``: profiles of queries, known before their first batch."""
        self._rate_window_s, self._given = rate_window_s, given
        self._queries: dict[str, _TrackedQuery] = {}
        self._active_s: dict[str, float] = {}
        """When each query was last observed at work, or first observed."""
        self._unlearned: dict[str, float | None] = {}
        """Queries that are not known well enough to size for, with the start of their running batch."""
        self._unjudged = ""
        """One of them that may be at work."""
        self._first_batch = FirstBatch()
        self.new_rates: list[ArrivalRate] = []
        """Those of the last snapshot."""

    def learn(self, snapshot: Snapshot) -> None:
        """Learn from finished batches, and check how long running ones take."""
        patience_s = snapshot.slo.freshness_s / 2
        self.new_rates = []
        for batch in snapshot.batches:
            if batch.query in snapshot.queries:
                self._add_rate(batch.query, batch.started_s, batch.arrival_rate_per_s)
                query = self._queries.get(batch.query)
                if query is None:
                    model = BatchModel() if self._given is None else self._given.model(batch.query)
                    query = self._queries[batch.query] = _TrackedQuery(self._rate_window_s, model)
                query.learn(batch, patience_s)
                if self._given is not None:
                    self._given.learned(batch, query.model)
        for ended in [name for name in self._queries if name not in snapshot.queries]:
            if self._given is not None:
                self._given.query_ended(ended, self._queries[ended].model)
            del self._queries[ended]
        for name, query in self._queries.items():
            query.observe(snapshot.queries[name], snapshot.observed_s, snapshot.slots, patience_s)
            if query.idle:
                self._add_rate(name, snapshot.observed_s, 0.0)
        self._observe_unlearned(snapshot)

    def _add_rate(self, query: str, time_s: float, rate_per_s: float) -> None:
        self.new_rates.append(ArrivalRate(query=query, time_s=time_s, rate_per_s=rate_per_s))

    def _observe_unlearned(self, snapshot: Snapshot) -> None:
        seen_s, at_work = snapshot.observed_s, {batch.query for batch in snapshot.batches if batch.rows}
        self._active_s = {
            name: seen_s if since_s is not None or name in at_work else self._active_s.get(name, seen_s)
            for name, since_s in snapshot.queries.items()
        }
        ready = {name for name, query in self._queries.items() if query.model.ready}
        self._unlearned = {name: s for name, s in snapshot.queries.items() if name not in ready}
        # Waiting rows are in a batch before the objective is over. A query without one for so long has no rows.
        busy = (name for name in self._unlearned if seen_s - self._active_s[name] <= snapshot.slo.freshness_s)
        self._unjudged = next(busy, "")

    @property
    def ready(self) -> bool:
        """Whether some query is known well enough to size for."""
        return any(query.model.ready for query in self._queries.values())

    def known(self) -> dict[str, KnownQuery]:
        """The queries that are known well enough."""
        return {
            name: KnownQuery(
                model=query.model,
                rate_per_s=query.rates.level,
                trigger_interval_s=query.last.trigger_interval_s,
            )
            for name, query in self._queries.items()
            if query.model.ready and query.last is not None
        }

    def backlogs(self, seen_s: float) -> dict[str, float]:
        """Rows of each known query that should be processed by now: those that its last batch left behind, and those
        that arrived since the next batch was due."""
        return {
            name: query.backlog_rows(seen_s) for name, query in self._queries.items() if query.model.ready
        }

    def doubled(self, snapshot: Snapshot) -> Decision | None:
        """The decision to double the nodes because the batch of an unknown query takes too long; None if it does
        not."""
        return self._first_batch.doubled(snapshot, self._unlearned)

    def why_no_scale_in(self) -> str:
        """Why no node may be released now; empty if nodes may."""
        overdue_s = max(query.overdue_s for query in self._queries.values())
        if overdue_s > 0:
            return f"a batch is overdue by {overdue_s:.0f} s; no node is released until it ends"
        if self._unjudged:
            return (
                f"learning {self._unjudged}: its needs are not known yet; no node is released until they are"
            )
        return ""

    def sizing(self, snapshot: Snapshot, *, budget: float, busy_limit: float, shrinking: bool) -> BatchSizing:
        """Predictions for each number of nodes, at the rate as it is (shrinking) or as it will have risen (growing)."""
        ready = {name: query for name, query in self._queries.items() if query.model.ready}
        return BatchSizing(
            {name: query.model for name, query in ready.items()},
            {name: query.state(snapshot, budget, shrinking) for name, query in ready.items()},
            snapshot,
            budget=budget,
            busy_limit=busy_limit,
            reserve_s=0.0 if shrinking else max(query.disturbance_s for query in ready.values()),
            backlog_known=all(query.backlog_known for query in self._queries.values()),
        )


class _TrackedQuery:
    """The model, rates and last batch of one query."""

    def __init__(self, window_s: float, model: BatchModel) -> None:
        self.model = model
        self.rates = Rates(window_s=window_s)
        self.last: Batch | None = None
        self.idle = False
        self.overdue_s = 0.0
        """How much longer than predicted its running batch takes."""
        self.rate_by_age_per_s = 0.0
        """Arrival rate that would explain how long the running batch takes; 0 if it is not overdue."""
        self.disturbance_s = DISTURBANCE_S
        """How much longer a batch takes in which nodes join: their first tasks load classes and start Python."""
        self._running_since_s: float | None = None
        self._fewest_slots = 1
        """Since the running batch began."""

    def learn(self, batch: Batch, patience_s: float) -> None:
        """Learn from a finished batch."""
        before, self.last = self.last, batch
        # An idle query may have begun this batch unobserved. Its count replaces the zero noted then.
        self.rates.add(max(batch.started_s, self.rates.last_time_s or 0.0), batch.arrival_rate_per_s)
        if batch.rows == 0 or not batch.stages:
            return
        if self.model.ready and not batch.steady:
            # The slots changed within it. When is unknown: assume half of it on either number.
            sizes = (batch.slots, before.slots if before else batch.slots)
            predicted_s = sum(self.model.on(slots).of(batch.rows) for slots in sizes) / 2
            self.disturbance_s = 0.5 * (self.disturbance_s + max(0.0, batch.duration_s - predicted_s))
        self.model.learn(batch, patience_s)

    def observe(self, running_since_s: float | None, seen_s: float, slots: int, patience_s: float) -> None:
        """Note whether the query is idle, or its running batch overdue."""
        self.idle, self.overdue_s, self.rate_by_age_per_s = False, 0.0, 0.0
        if running_since_s != self._running_since_s:
            self._running_since_s, self._fewest_slots = running_since_s, slots
        self._fewest_slots = min(self._fewest_slots, slots)
        last = self.last
        if last is None:
            return
        if running_since_s is None:
            if is_idle(last, running_since_s, seen_s):
                self.idle = True
                self.rates.add(seen_s, 0.0)
            return
        if not self.model.ready and seen_s - running_since_s > patience_s:
            self.model.learn(
                last
            )  # skipped as the first batch, but there is no time to wait for a better one
        if self.model.ready:
            due_s = max(last.ended_s, last.started_s + last.trigger_interval_s)
            rows = last.arrival_rate_per_s * max(0.0, due_s - last.started_s)
            # After a pause without rows a batch begins late, and is not overdue by the pause.
            began_s = max(due_s, running_since_s)
            predicted_s = OVERDUE_FACTOR * self.model.on(slots).of(rows)
            self.overdue_s = seen_s - began_s - predicted_s - OVERDUE_SLACK_S
            if self.overdue_s > 0:
                self._explain_by_rate(seen_s - running_since_s, running_since_s - last.started_s)

    def _explain_by_rate(self, running_s: float, gap_s: float) -> None:
        """The running batch holds at least the rows that take so long, and they arrived since the last one started."""
        time = self.model.on(self._fewest_slots)
        if time.per_row_s > 0 and gap_s > 0:
            self.rate_by_age_per_s = max(0.0, running_s - time.fixed_s) / time.per_row_s / gap_s

    @property
    def backlog_known(self) -> bool:
        """Whether the source reported how many rows wait."""
        return self.idle or self.last is None or self.last.backlog_rows is not None

    def backlog_rows(self, seen_s: float) -> float:
        """Rows that the last batch left behind, and those that arrived in the time by which a batch is too long."""
        last = self.last
        if last is None or self.idle:
            return 0.0
        interval_s = max(last.trigger_interval_s, 1e-9)
        longest_s = last.duration_s
        if self._running_since_s is not None:
            longest_s = max(longest_s, seen_s - self._running_since_s)
        too_long_s = max(0.0, longest_s - interval_s) if last.trigger_interval_s else 0.0
        return (last.backlog_rows or 0.0) + max(self.rates.level, self.rate_by_age_per_s) * too_long_s

    def state(self, snapshot: Snapshot, budget: float, shrinking: bool) -> QueryState:
        """The state from which the next batches are simulated."""
        last, now_s = self.last, snapshot.now_s
        assert last is not None
        # An unknown backlog counts as none; the guards then keep the nodes while there may be one.
        backlog_rows = last.backlog_rows or 0.0
        rate = self.rates.level
        # Every growth disturbs a batch. So it is made for the time until its effect shows, and for as long after that
        # as makes it worth the disturbance.
        ahead_s = snapshot.lead_time_s + settle_s(last.trigger_interval_s, snapshot.slo)
        ahead_s += WORTH * self.disturbance_s
        if not shrinking:
            wait_s = min(last.trigger_interval_s, snapshot.slo.freshness_s)
            if now_s - last.started_s > wait_s + budget * (snapshot.slo.freshness_s - wait_s):
                # The count of the last batch is too old to wait for the next: use the age of the running one too.
                rate = max(rate, self.rate_by_age_per_s)
        return QueryState(
            now_s=now_s,
            offsets_taken_s=now_s if self.idle else last.started_s,
            free_at_s=now_s if self.idle else last.ended_s,
            trigger_interval_s=last.trigger_interval_s,
            backlog_rows=0.0 if self.idle else backlog_rows,
            rows_per_batch_limit=float(max(last.rows, 1)) if backlog_rows > 0 else math.inf,
            rate_per_s=rate,
            slope_per_s2=0.0 if shrinking else self.rates.rise_per_s(ahead_s),
            slope_for_s=ahead_s,
        )


class FirstBatch:
    """Doubles the nodes while a batch of an unknown query runs on, and again after each step of time.

        n = n₀ · 2^(1 + ⌊(running − max(w, step)) / step⌋),  step = max(SLO / 2, lead)

    A step is half the objective, or the lead time if that is longer: only then can the last doubling have had an
    effect.
    """

    def __init__(self) -> None:
        self._first: tuple[float, int] | None = None
        """(start, nodes planned then) of the batch that has run longest."""

    def doubled(self, snapshot: Snapshot, unlearned: Mapping[str, float | None]) -> Decision | None:
        """The decision to double, if needed. ``unlearned``: unknown queries, with the start of their running batch."""
        running = {name: since_s for name, since_s in unlearned.items() if since_s is not None}
        if not running:
            self._first = None
            return None
        name = min(running, key=lambda each: running[each])
        since_s, now, slo_s = running[name], snapshot.planned.main_nodes, snapshot.slo.freshness_s
        if self._first is None or self._first[0] != since_s:
            self._first = (since_s, now)
        step_s, running_s = max(slo_s / 2, snapshot.lead_time_s), snapshot.now_s - since_s
        doublings = min(int(1 + (running_s - max(FIRST_BATCH_S, step_s)) // step_s), 20)
        wanted = snapshot.limits.clamp(self._first[1] * 2 ** max(0, doublings))
        if wanted <= now or not snapshot.observed.main_nodes:
            return None
        return Decision(
            wanted=snapshot.planned.with_nodes(wanted),
            reason=(
                f"learning: a batch of {name} has run for {running_s:.0f} s, and the objective is {slo_s:g} s; "
                f"doubling the nodes, and again every {step_s:g} s"
            ),
            formula="n = n₀ · 2^(1 + ⌊(running − max(w, step)) / step⌋), step = max(SLO / 2, lead)",
            inputs={"running_s": round(running_s, 1), "w_s": FIRST_BATCH_S, "step_s": round(step_s, 1)},
        )
