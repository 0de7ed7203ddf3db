"""How fresh a flow will be: arrivals and capacity played forward, exactly and without steps.

a(t) rows arrive after now, at a rate that rises for a while and then stays; q rows wait, the oldest for f
seconds. Over a phase of capacity C that starts with D rows done and ends at t,

    D(t) = min( D + C·L,  min over u of q + a(u) + C·(t − u) )

The second term is where the queue ran empty at u. The rate never falls, so the minimum is where it equals C.
Freshness is t − arrival of row D(t). Its slope is 1 − C / (rate when that row arrived), so within a phase
it is largest at an end, or where the rows that wait today are through.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec


class FlowState(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is known of a flow now."""

    now_s: float
    queue_rows: float
    freshness_s: float
    """Age of the oldest row that waits."""
    rate_per_s: float
    slope_per_s2: float = 0.0
    """How fast the rate rises, never below 0."""
    slope_for_s: float = 0.0
    """How far into the future the slope is trusted."""

    @property
    def rate_ahead_per_s(self) -> float:
        """The rate at the end of the trusted slope."""
        return self.rate_per_s + self.slope_per_s2 * self.slope_for_s

    def rows_after(self, ahead_s: float) -> float:
        """a: rows that arrive within the next seconds."""
        rising_s = ahead_s if ahead_s < self.slope_for_s else self.slope_for_s
        rows = self.rate_per_s * rising_s + self.slope_per_s2 * rising_s * rising_s / 2
        return rows if rising_s == ahead_s else rows + self.rate_ahead_per_s * (ahead_s - rising_s)

    def seconds_until(self, rows: float) -> float:
        """The inverse of ``rows_after``; endless where so many never come."""
        rising_s, slope = self.slope_for_s, self.slope_per_s2
        in_rise = self.rate_per_s * rising_s + slope * rising_s * rising_s / 2
        if rows <= in_rise and slope > 0:
            root = math.sqrt(self.rate_per_s * self.rate_per_s + 2 * slope * rows)
            return 2 * rows / (self.rate_per_s + root) if rows > 0 else 0.0
        if rows <= in_rise:
            return rows / self.rate_per_s if rows > 0 else 0.0
        return rising_s + (rows - in_rise) / self.rate_ahead_per_s if self.rate_ahead_per_s > 0 else math.inf


def play_flow(
    state: FlowState, phases: Sequence[tuple[float, float]], *, judge_from_s: float, until_s: float
) -> tuple[float, float]:
    """(worst between two times, at the end) of freshness; ``phases`` are (from, rows per second), the first from now.

    100 rows/s arrive, a stop of 5 s, then 200 rows/s are done: 10 s later the queue is gone.

    >>> state = FlowState(now_s=0.0, queue_rows=0.0, freshness_s=0.0, rate_per_s=100.0)
    >>> phases = [(0.0, 0.0), (5.0, 200.0)]
    >>> play_flow(state, phases, judge_from_s=0.0, until_s=60.0)
    (5.0, 0.0)
    >>> play_flow(state, phases, judge_from_s=7.0, until_s=60.0)
    (3.0, 0.0)
    """
    now_s, waiting, most_per_s = state.now_s, state.queue_rows, state.rate_ahead_per_s
    if waiting < 1e-6 and min([capacity for _, capacity in phases]) >= most_per_s:
        return 0.0, 0.0  # mostly so: every row is done as it comes
    done = 0.0
    age_s = 0.0 if waiting < 1e-6 else state.freshness_s
    worst_s = age_s if judge_from_s <= now_s else 0.0
    judge_s, last = judge_from_s - now_s, len(phases) - 1
    for index, (from_s, capacity) in enumerate(phases):
        start_s = max(from_s, now_s) - now_s
        end_s = (until_s if index == last else min(max(phases[index + 1][0], now_s), until_s)) - now_s
        if end_s <= start_s:
            continue
        edges_s = [end_s]
        if done < waiting < done + capacity * (end_s - start_s):
            edges_s.insert(0, start_s + (waiting - done) / capacity)
        if start_s < judge_s < end_s:
            edges_s.append(judge_s)
            edges_s.sort()
        at_s = start_s
        for edge_s in edges_s:
            arrived = state.rows_after(edge_s)
            if capacity >= most_per_s:
                here = waiting + arrived
            else:
                empty_s = _empty_s(state, capacity, at_s, edge_s)
                here = waiting + state.rows_after(empty_s) + capacity * (edge_s - empty_s)
            done = min(done + capacity * (edge_s - at_s), here)
            at_s = edge_s
            if edge_s >= judge_s - 1e-9:
                age_s = _age_s(state, done, edge_s, arrived)
                worst_s = max(worst_s, age_s)
    return worst_s, age_s


def _empty_s(state: FlowState, capacity: float, start_s: float, end_s: float) -> float:
    """u: where the queue would run empty last, in a stretch of a capacity that is less than what comes in the end."""
    slope, rate_per_s = state.slope_per_s2, state.rate_per_s
    if slope <= 0 or capacity <= rate_per_s:
        return start_s
    return min(max((capacity - rate_per_s) / slope, start_s), end_s, max(state.slope_for_s, start_s))


def _age_s(state: FlowState, done: float, at_s: float, arrived: float) -> float:
    """Age, at a time from now by which so many rows arrive, of the oldest row that is not done."""
    waiting = state.queue_rows
    if waiting + arrived - done < 1e-6:
        return 0.0
    if done < waiting:
        return at_s + state.freshness_s * (1 - done / waiting)
    return max(0.0, at_s - state.seconds_until(done - waiting))
