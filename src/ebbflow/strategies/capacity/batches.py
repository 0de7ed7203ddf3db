"""What the capacity strategy learns of queries that run in batches, and how it sizes them."""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec.structs import replace

from ebbflow.core.batches import Batch
from ebbflow.core.decision import Constraint
from ebbflow.core.signals import is_idle
from ebbflow.core.snapshot import Snapshot
from ebbflow.core.waves import waves
from ebbflow.profiling.batch.model import BatchModel
from ebbflow.profiling.batch.outlook import QueryState
from ebbflow.profiling.batch.profiles import BatchProfiles
from ebbflow.strategies.capacity.sizing import BatchSizing, Rates, Size, settle_s

# Diagnosis first: when more nodes would not help, say what would.


def why_more_cannot_help(
    model: BatchModel, state: QueryState, *, slots: int, most_slots: int, slo_s: float
) -> Constraint | None:
    """The bottleneck that further slots leave as it is; None if slots are what is missing.

    Causes are tried in the order in which a person should mend them: a read limit or a trigger that
    breaks the objective on its own, then the driver, then one long task, then too few tasks.
    """
    interval_s = state.trigger_interval_s
    rows = min(state.rate_ahead_per_s * max(interval_s, 1.0), state.rows_per_batch_limit)
    batch_s = model.on(slots).of(rows)
    if state.backlog_rows > 0 and interval_s and batch_s < interval_s:
        keeps_up = state.rows_per_batch_limit / interval_s
        if keeps_up < state.rate_ahead_per_s:
            return Constraint(
                name="read limit",
                why=f"a batch takes at most {state.rows_per_batch_limit:.0f} rows every {interval_s:g} s, "
                f"fewer than arrive; raise maxOffsetsPerTrigger or its like",
            )
    if interval_s >= slo_s:
        return Constraint(
            name="trigger",
            why=f"the trigger of {interval_s:g} s alone uses up the objective of {slo_s:g} s; "
            "shorten the trigger",
        )
    if model.driver_s > 0.5 * batch_s and model.driver_s > 0.25 * slo_s:
        return Constraint(
            name="driver",
            why=f"{model.driver_s:.1f} s of a {batch_s:.1f} s batch are planning and commits in the driver, "
            "which executors do not share",
        )
    slowest = max(
        model.stages, key=lambda s: s.waves(slots) * (s.costs[0] + s.costs[1] * rows / s.tasks), default=None
    )
    if slowest is None:
        return None
    if slowest.skew > 2.0 and slowest.skew > 0.9 * waves(
        slowest.tasks, slots
    ):  # another slot would cut waves it does not have
        return Constraint(
            name="skew",
            why=f"one task runs {slowest.skew:.1f} times as long as the mean of its stage; "
            "salt the key or split that partition",
        )
    if slots >= slowest.tasks:
        return Constraint(
            name="partitions",
            why=f"the slowest stage has {slowest.tasks} tasks for {slots} slots; "
            "more partitions would let more executors work",
        )
    if slots >= most_slots:
        return Constraint(name="limit", why=f"{slots} slots are all the limits allow")
    return None


DISTURBANCE_S = 4.0
"""Assumed disturbance by a growth until one has been seen."""
WORTH = 6.0
"""A growth is made for so many times as long as it disturbs: few and early ones, rather than many."""


class _Query:
    """What was learned of one query."""

    def __init__(self, window_s: float, model: BatchModel) -> None:
        self.model = model
        self.rates = Rates(window_s=window_s)
        self.last: Batch | None = None
        self.idle = False
        self.overdue_s = 0.0
        """How much longer its running batch has taken than it should."""
        self.rate_by_age_per_s = 0.0
        """Arrivals that would explain how long the running batch has taken; 0 while it is not overdue."""
        self.disturbance_s = DISTURBANCE_S
        """How much longer a batch takes in which nodes come: their first tasks load classes, start Python."""
        self._running_s: float | None = None
        self._fewest_slots = 1
        """Since the running batch began."""

    def learn(self, batch: Batch, patience_s: float) -> None:
        before, self.last = self.last, batch
        # Silence may have been noted while this batch had begun unseen; what it counted is truer than that.
        self.rates.add(max(batch.started_s, self.rates.last_time_s or 0.0), batch.arrival_rate_per_s)
        if batch.rows == 0 or not batch.stages:
            return
        if self.model.ready and not batch.steady:
            # Somewhere in it the slots changed; half of it on either is the fairest guess.
            sizes = (batch.slots, before.slots if before else batch.slots)
            should_s = sum(self.model.on(slots).of(batch.rows) for slots in sizes) / 2
            self.disturbance_s = 0.5 * (self.disturbance_s + max(0.0, batch.duration_s - should_s))
        self.model.learn(batch, patience_s)

    def look(self, running_since_s: float | None, seen_s: float, slots: int, patience_s: float) -> None:
        """Note whether it had nothing to do when it was seen, or had been at one batch for too long."""
        self.idle, self.overdue_s, self.rate_by_age_per_s = False, 0.0, 0.0
        if running_since_s != self._running_s:
            self._running_s, self._fewest_slots = running_since_s, slots
        self._fewest_slots = min(self._fewest_slots, slots)
        last = self.last
        if last is None:
            return
        due_s = max(last.ended_s, last.started_s + last.trigger_interval_s)
        if running_since_s is None:
            if is_idle(last, running_since_s, seen_s):
                self.idle = True
                self.rates.add(seen_s, 0.0)
            return
        if not self.model.ready and seen_s - running_since_s > patience_s:
            self.model.learn(
                last
            )  # it was passed over as the first; there is no time to wait for a better one
        if self.model.ready:
            rows = last.arrival_rate_per_s * max(0.0, due_s - last.started_s)
            # From when it began, where that was later: after a pause without rows it is not late by the pause.
            began_s = max(due_s, running_since_s)
            self.overdue_s = seen_s - began_s - 1.5 * self.model.on(slots).of(rows) - 2.0
            if self.overdue_s > 0:
                self._explain(seen_s - running_since_s, running_since_s - last.started_s)

    def start_over(self, now_s: float, window_s: float) -> None:
        """The clock was set back: what was seen last was seen now, or no silence after it would count."""
        level, self.rates = self.rates.level, Rates(window_s=window_s)
        if self.last is not None:
            self.last = replace(self.last, started_s=min(self.last.started_s, now_s - self.last.duration_s))
            self.rates.add(self.last.started_s, level)
        self.idle, self.overdue_s, self.rate_by_age_per_s = False, 0.0, 0.0
        self._running_s = None

    def _explain(self, running_s: float, gap_s: float) -> None:
        """A batch that has run for so long holds at least the rows that take so long; they came in the gap."""
        time = self.model.on(self._fewest_slots)
        if time.per_row_s > 0 and gap_s > 0:
            self.rate_by_age_per_s = max(0.0, running_s - time.fixed_s) / time.per_row_s / gap_s


class LearnedBatches:
    """The queries of an application: models, rates, and the sizing made of them."""

    hold_s = 0.0
    """Leaving costs a batch-driven query nothing to speak of: it happens between batches."""

    def __init__(self, *, rate_window_s: float, given: BatchProfiles | None = None) -> None:
        """``given``: what is known of queries before their first batch."""
        self._rate_window_s, self._given = rate_window_s, given
        self._queries: dict[str, _Query] = {}
        self._worked_s: dict[str, float] = {}
        """When each query was last seen at work, or first seen at all."""
        self._unlearned: dict[str, float | None] = {}
        self._unjudged = ""
        """A query that may be at work and of which too little is known to say on how many nodes."""

    def learn(self, snapshot: Snapshot) -> None:
        """Take in the batches that finished, and look at those that run."""
        patience_s = snapshot.slo.freshness_s / 2
        for batch in snapshot.batches:
            if batch.query in snapshot.queries:
                query = self._queries.get(batch.query)
                if query is None:
                    model = BatchModel() if self._given is None else self._given.model(batch.query)
                    query = self._queries[batch.query] = _Query(self._rate_window_s, model)
                query.learn(batch, patience_s)
                if self._given is not None:
                    self._given.learned(batch, query.model)
        for gone in [name for name in self._queries if name not in snapshot.queries]:
            if self._given is not None:
                self._given.left(gone, self._queries[gone].model)
            del self._queries[gone]
        slots = max(1, snapshot.observed.main_nodes * snapshot.slots_per_node)
        for name, query in self._queries.items():
            query.look(snapshot.queries[name], snapshot.seen_s, slots, patience_s)
        self._look_at_unlearned(snapshot)

    def start_over(self, now_s: float) -> None:
        """The clock was set back: times of before are later than what comes. What was learned of costs stays."""
        for query in self._queries.values():
            query.start_over(now_s, self._rate_window_s)
        self._worked_s = dict.fromkeys(self._worked_s, now_s)

    def _look_at_unlearned(self, snapshot: Snapshot) -> None:
        seen_s, at_work = snapshot.seen_s, {batch.query for batch in snapshot.batches if batch.rows}
        self._worked_s = {
            name: seen_s if since_s is not None or name in at_work else self._worked_s.get(name, seen_s)
            for name, since_s in snapshot.queries.items()
        }
        ready = {name for name, query in self._queries.items() if query.model.ready}
        self._unlearned = {name: s for name, s in snapshot.queries.items() if name not in ready}
        # Rows that wait are in a batch before the objective is over. Who had none for so long has no rows.
        busy = (name for name in self._unlearned if seen_s - self._worked_s[name] <= snapshot.slo.freshness_s)
        self._unjudged = next(busy, "")

    @property
    def unlearned(self) -> Mapping[str, float | None]:
        """Queries of which too little is known to size for them, by the start of their batch."""
        return self._unlearned

    @property
    def ready(self) -> bool:
        """Whether the batches of some query are known well enough."""
        return any(query.model.ready for query in self._queries.values())

    def known(self) -> dict[str, tuple[BatchModel, float, float]]:
        """Of each query that is known well enough: its model, rows per second, trigger interval in seconds."""
        return {
            name: (query.model, query.rates.level, query.last.trigger_interval_s)
            for name, query in self._queries.items()
            if query.model.ready and query.last is not None
        }

    def held_up(self) -> str:
        """Why nothing may leave now; empty where it may."""
        overdue_s = max(query.overdue_s for query in self._queries.values())
        if overdue_s > 0:
            return f"a batch has taken {overdue_s:.0f} s longer than it should; nothing leaves until it ends"
        if self._unjudged:
            return f"learning {self._unjudged}: what it needs is not known yet; nothing leaves until it is"
        return ""

    def sizing(self, snapshot: Snapshot, *, budget: float, busy_limit: float, shrinking: bool) -> BatchSizing:
        """What sizes would bring, at the rate to grow for (rising on) or the one to shrink for (as it is)."""
        ready = {name: query for name, query in self._queries.items() if query.model.ready}
        return BatchSizing(
            {name: query.model for name, query in ready.items()},
            {name: self._state(query, snapshot, budget, shrinking) for name, query in ready.items()},
            snapshot,
            budget=budget,
            busy_limit=busy_limit,
            reserve_s=0.0 if shrinking else max(query.disturbance_s for query in ready.values()),
        )

    @staticmethod
    def _state(query: _Query, snapshot: Snapshot, budget: float, shrinking: bool) -> QueryState:
        last, now_s = query.last, snapshot.now_s
        assert last is not None
        # Where a source does not tell, none is taken to wait; the guards keep who is there while it may be so.
        backlog_rows = last.backlog_rows or 0.0
        rate = query.rates.level
        # Every growth disturbs a batch. One that is needed is made for the time until its effect can be
        # judged, and for as long after that as makes it worth the disturbance. A rise is believed as far
        # as it is sure, and not to more than three times the load.
        ahead_s = snapshot.lead_time_s + settle_s(last.trigger_interval_s, snapshot.slo)
        ahead_s += WORTH * query.disturbance_s
        if not shrinking:
            wait_s = min(last.trigger_interval_s, snapshot.slo.freshness_s)
            if now_s - last.started_s > wait_s + budget * (snapshot.slo.freshness_s - wait_s):
                # What a finished batch counted is too old to wait for the next: the running one tells, too.
                rate = max(rate, query.rate_by_age_per_s)
        return QueryState(
            now_s=now_s,
            offsets_taken_s=now_s if query.idle else last.started_s,
            free_at_s=now_s if query.idle else last.ended_s,
            trigger_interval_s=last.trigger_interval_s,
            backlog_rows=0.0 if query.idle else backlog_rows,
            rows_per_batch_limit=float(max(last.rows, 1)) if backlog_rows > 0 else math.inf,
            rate_per_s=rate,
            slope_per_s2=0.0 if shrinking else query.rates.rise_per_s(ahead_s),
            slope_for_s=ahead_s,
        )

    # -- saying why ----------------------------------------------------------------------------

    @staticmethod
    def bottleneck(sizing: BatchSizing, size: Size) -> Constraint | None:
        """What keeps more nodes from helping."""
        snapshot = sizing.snapshot
        slots = size.nodes * snapshot.slots_per_node
        name = max(sizing.models, key=lambda n: sizing.models[n].on(slots).of(sizing.states[n].rate_per_s))
        return why_more_cannot_help(
            sizing.models[name],
            sizing.states[name],
            slots=slots,
            most_slots=snapshot.limits.max_nodes * snapshot.slots_per_node,
            slo_s=snapshot.slo.freshness_s,
        )

    def inputs(self, sizing: BatchSizing, size: Size) -> dict[str, float | str]:
        """The numbers behind a decision."""
        told = all(
            q.idle or q.last is None or q.last.backlog_rows is not None for q in self._queries.values()
        )
        snapshot, states = sizing.snapshot, sizing.states.values()
        slots = size.nodes * snapshot.slots_per_node
        model = max(sizing.models.values(), key=lambda m: m.on(slots).per_row_s)
        time = model.on(slots)
        return {
            "slope_per_s2": sum([state.slope_per_s2 for state in states]),
            "backlog_rows": sum([state.backlog_rows for state in states]) if told else "unknown",
            "ahead_s": max([state.slope_for_s for state in states]),
            "driver_s": model.driver_s,
            "batch_fixed_s": time.fixed_s,
            "batch_per_row_ms": time.per_row_s * 1000,
            "reserve_s": size.reserve_s,
        }
