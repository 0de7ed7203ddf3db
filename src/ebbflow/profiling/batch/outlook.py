"""How fresh a query will be: simulates its next batches on a number of slots.

The state of a query after its last batch is small: the rows it left behind, when its last offsets were taken, and how
fast rows arrive. From there, each batch starts at its trigger (or at once, if the one before was late), takes the rows
that are there, and takes as long as the batch model says. Slots that join while it runs speed up the rest of it. Rows
are oldest just before their batch commits, so the freshness that counts is

    freshness_k = end of batch k − arrival of its oldest row
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from ebbflow.profiling.batch.model import BatchTime


class QueryState(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The state of a query now. Times are absolute."""

    now_s: float
    offsets_taken_s: float
    """When its last batch took its offsets: later rows are in no finished batch."""
    free_at_s: float
    """When its last batch ended."""
    trigger_interval_s: float
    backlog_rows: float
    """Rows its last batch left behind."""
    rows_per_batch_limit: float
    """Most rows that a batch takes; inf without a read limit."""
    rate_per_s: float
    slope_per_s2: float = 0.0
    """How fast the rate rises; never below 0, as a fall counts only once it has happened."""
    slope_for_s: float = 0.0
    """For how long the slope is trusted."""

    def arrived_between(self, start_s: float, end_s: float) -> float:
        """Rows expected in an interval: ∫ rate + slope·min(t − now, slope_for) dt."""
        if end_s <= start_s:
            return 0.0
        if not self.slope_per_s2:
            return self.rate_per_s * (end_s - start_s)
        middle_s = (start_s + end_s) / 2 - self.now_s
        ahead_s = min(max(middle_s, 0.0), self.slope_for_s)
        return (self.rate_per_s + self.slope_per_s2 * ahead_s) * (end_s - start_s)

    @property
    def rate_ahead_per_s(self) -> float:
        """The rate at the end of the trusted slope."""
        return self.rate_per_s + self.slope_per_s2 * self.slope_for_s


class Outlook(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Worst freshness of the batches that end after a point in time, and that of the last one."""

    worst_freshness_s: float
    final_freshness_s: float
    last_batch_s: float


def simulate_batches(
    state: QueryState,
    phases: Sequence[tuple[float, BatchTime]],
    *,
    judge_from_s: float,
    until_s: float,
    most_batches: int = 200,
) -> Outlook:
    """Simulate the next batches. ``phases``: (from, batch time) pairs, the first of them from the start.

    Only batches that end after ``judge_from_s`` count: no decision can change what happens before.

    >>> fast = BatchTime(fixed_s=0.5, per_row_s=0.001)
    >>> state = QueryState(now_s=10.0, offsets_taken_s=9.0, free_at_s=9.6, trigger_interval_s=1.0,
    ...                    backlog_rows=0.0, rows_per_batch_limit=math.inf, rate_per_s=100.0)
    >>> ahead = simulate_batches(state, [(0.0, fast)], judge_from_s=10.0, until_s=30.0)
    >>> round(ahead.worst_freshness_s, 2)  # a row waits a trigger of 1 s, then a batch of 0.6 s
    1.6
    """
    interval_s = state.trigger_interval_s
    taken_s, free_s = state.offsets_taken_s, state.free_at_s
    left = state.backlog_rows
    # Rows left behind arrived at about the present rate, so the oldest is this much older.
    oldest_s = taken_s - (left / state.rate_per_s if left and state.rate_per_s > 0 else 0.0)
    worst_s = final_s = last_batch_s = 0.0
    phase, last_phase = 0, len(phases) - 1
    now_s, limit, arrived_between = state.now_s, state.rows_per_batch_limit, state.arrived_between
    final = phases[last_phase][1]
    steady_after_s = max(
        phases[last_phase][0], now_s + state.slope_for_s if state.slope_per_s2 else -math.inf
    )
    for _ in range(most_batches):
        start_s = free_s
        if interval_s:
            due_s = (math.floor(taken_s / interval_s) + 1) * interval_s
            start_s = due_s if due_s > free_s else free_s
        there = left + arrived_between(taken_s, start_s)
        take = there if there < limit else limit
        if phase == last_phase:
            done_s = start_s + final.fixed_s + final.per_row_s * take
        else:
            done_s, phase = _end_of_batch(start_s, take, phases, phase)
        # A batch that should have ended by now ends no earlier than now.
        end_s = done_s if done_s > now_s else now_s
        if end_s >= judge_from_s:
            final_s = end_s - oldest_s
            if final_s > worst_s:
                worst_s = final_s
            last_batch_s = done_s - start_s
        left = there - take
        if (
            start_s > steady_after_s
            and phase == last_phase
            and left <= 0
            and oldest_s == taken_s == start_s - interval_s
            and now_s <= done_s <= start_s + interval_s
        ):  # it took the rows of one interval and ends before the next trigger, and so will all that follow
            final_s = end_s - oldest_s
            worst_s, last_batch_s = max(worst_s, final_s), done_s - start_s
            break
        oldest_s = start_s if left <= 0 else oldest_s + (start_s - oldest_s) * take / there
        taken_s, free_s = start_s, (end_s if end_s > start_s else start_s + 0.001)
        if free_s > until_s:
            break
    return Outlook(worst_freshness_s=worst_s, final_freshness_s=final_s, last_batch_s=last_batch_s)


def _end_of_batch(
    start_s: float, rows: float, phases: Sequence[tuple[float, BatchTime]], phase: int
) -> tuple[float, int]:
    """(end, phase then). Slots that join within a batch take over waiting tasks, so that the rest of the batch runs at
    the pace of the new phase."""
    at_s, left = start_s, 1.0
    while True:
        duration_s = phases[phase][1].of(rows)
        if phase + 1 == len(phases) or phases[phase + 1][0] >= at_s + left * duration_s:
            return at_s + left * duration_s, phase
        change_s = max(at_s, phases[phase + 1][0])
        left -= (change_s - at_s) / duration_s if duration_s > 0 else 0.0
        at_s, phase = change_s, phase + 1
