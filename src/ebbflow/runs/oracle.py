"""The cheapest schedule with hindsight that keeps the SLO: the cost that every strategy's cost is divided by.

It must be a lower bound: no strategy, even one that knows the future, may cost less and be on time. So every
simplification below drops a restriction and adds none.

**Fluid model.** A(t) rows have arrived. A row passes one or more stages that take turns; S_i(t) rows have passed stage
i, at a rate ρ_i; n(t) nodes work, without batches, overhead or resize pauses. While stage i runs, ρ_i ≤ a_i(n), the
best rate of n nodes in it, and the other stages stand still. Sizes may change at any time, even within a batch.

**SLO.** At most (1−q)·N of the N rows wait longer than F. At any t, rows that arrived by t−F and are not done are late,
whatever the order of processing, and a row is done when all stages have processed it. So for each stage
A(t−F) − (1−q)·N ≤ S_i(t) ≤ A(t): the corridor. (Loose for q < 1: a schedule may fall behind by (1−q)·N rows at one
peak, recover, and do so again at the next. Exact for q = 1.)

**Price.** n̄(r), the minimum mean number of nodes for a rate r, is convex (``price_of_rate``). A node is paid from its
request: nodes that work at any time in [t, t+lead] are paid at t, so held(t) ≥ max of n over [t, t+lead].

**Theorem.** Of all runs through the corridor none costs less than ∫ held* dt, where held*(t) is the maximum of n̄(r*)
over [t, t+lead], and r* is the rate of the taut string S*: the shortest path from (start, 0) to (end, lower edge)
within the corridor. *Proof.* A maximum is at least any average: for each t choose the piece of the string where n̄(r*)
is largest over [t, t+lead] (the earliest of equals), and spread the t of a piece evenly over it. This gives weights
w ≥ 0, constant on each piece, with ∫ held* = ∫ w·n̄(r*), and ∫ held ≥ ∫ w·n for any other run. On each piece take the
prices y_i and μ that are optimal at its r*: n̄(r*) = r*·Σ y_i − μ, and at every moment n ≥ Σ y_i·ρ_i − μ, whichever
stage runs. So ∫ w·n ≥ ∫ w·n̄(r*) + Σ_i ∫ w·y_i·(ρ_i − r*). Where the string bends up, every y_i rises, and so does w (a
higher piece is the maximum of more of its windows); there the string touches A, so S_i − S* ≤ 0. Where it bends down
both fall, it touches the lower edge, and S_i − S* ≥ 0. Summing by parts, ∫ w·y_i·(ρ_i − r*) =
−Σ_bends Δ(w·y_i)·(S_i − S*) + (w·y_i·(S_i − S*))(end) ≥ 0. ∎ With one stage and lead = 0 this is the optimality of
minimum-energy deadline schedules (Yao, Demers, Shenker).

**Beyond max_nodes.** Leaving nodes finish their tasks beside new ones, so more than max_nodes may work, all of them
paid. n ≥ Σ y_i·ρ_i − μ holds for them too: the rates of both engines are linear in the nodes up to the number of tasks,
and with several stages μ ≤ 0 (``price_of_rate``). Only ``feasible`` assumes at most max_nodes.

**Time steps.** The corridor is evaluated at the ends of steps only. Averages over a step cost no more (Jensen), so the
bound holds for any step, and a coarser step can only lower it.

References: Yao, Demers, Shenker, "A scheduling model for reduced CPU energy" (FOCS 1995); Davies, Kovac, "Local
extremes, runs, strings and multiresolution" (Annals of Statistics, 2001), for the taut string.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ebbflow.core.curve import Curve, Floats
from ebbflow.core.limits import Limits
from ebbflow.core.slo import Slo
from ebbflow.errors import InputError, LimitsError


def taut_string(times_s: Floats, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """Knots of the shortest path through the gates lower ≤ S ≤ upper; the first and the last gate are points.

    The funnel algorithm: from the last fixed knot (the apex), keep the concave majorant of the lower edge and the
    convex minorant of the upper one. Where a new gate makes them cross, the string wraps around the first corner that
    is in its way, which becomes the apex. Each point enters and leaves each chain once, so this is linear in the
    number of gates.

    >>> times, rows = taut_string(np.arange(4.0), np.array([0.0, 0, 6, 6]), np.array([0.0, 1, 9, 6]))
    >>> times.tolist(), rows.tolist()
    ([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 6.0, 6.0])
    """
    times, lows, highs = times_s.tolist(), lower.tolist(), upper.tolist()
    knots = [(times[0], lows[0])]
    floor, ceiling = _Chain(knots[0], side=1.0), _Chain(knots[0], side=-1.0)
    for time_s, low, high in zip(times[1:], lows[1:], highs[1:], strict=True):
        if ceiling.append(time_s, high):
            floor.wrap(ceiling, time_s, high, knots)
        if floor.append(time_s, low):
            ceiling.wrap(floor, time_s, low, knots)
    knots.append((times[-1], lows[-1]))
    path = np.array(knots)
    return path[:, 0], path[:, 1]


class _Chain:
    """Corners from the apex on, with falling slopes (side 1, the floor) or rising ones (side −1, the ceiling)."""

    def __init__(self, apex: tuple[float, float], *, side: float) -> None:
        self._side = side
        self._restart(*apex)

    def _restart(self, time_s: float, rows: float) -> None:
        self._times = [time_s]
        self._rows = [rows]
        self._slopes = [0.0]  # of the line that ends in the corner; the apex has none
        self._head = 0

    def append(self, time_s: float, rows: float) -> bool:
        """Add the edge of a gate; True if the chain is now one line from the apex."""
        times, heights, slopes, side = self._times, self._rows, self._slopes, self._side
        last = len(times) - 1
        slope = (rows - heights[last]) / (time_s - times[last])
        while last > self._head and (slope - slopes[last]) * side >= 0.0:
            times.pop(), heights.pop(), slopes.pop()
            last -= 1
            slope = (rows - heights[last]) / (time_s - times[last])
        times.append(time_s)
        heights.append(rows)
        slopes.append(slope)
        return last == self._head

    def wrap(self, other: _Chain, time_s: float, rows: float, knots: list[tuple[float, float]]) -> None:
        """Move the apex along this chain while the line from it to (time, rows) is on the wrong side."""
        head = self._head
        apex_s, apex_rows = self._times[head], self._rows[head]
        slope = (rows - apex_rows) / (time_s - apex_s)
        while head + 1 < len(self._times) and (slope - self._slopes[head + 1]) * self._side < 0.0:
            head += 1
            apex_s, apex_rows = self._times[head], self._rows[head]
            knots.append((apex_s, apex_rows))
            slope = (rows - apex_rows) / (time_s - apex_s)
        if head != self._head:
            self._head = head
            other._restart(apex_s, apex_rows)
            other.append(time_s, rows)


Indices = npt.NDArray[np.int64]

Rates = Sequence[float] | Sequence[Sequence[float]] | Floats
"""Rows/s of 0, 1, 2 … nodes; with several stages, one such list for each."""


def price_of_rate(stages_rows_per_s: Rates, limits: Limits) -> tuple[Floats, Floats]:
    """Corners (mean nodes, rate) of n̄(r), both ascending; below the first rate n̄ is min_nodes.

    n̄(r) is the minimum mean number of nodes over time that sustains the rate r. A row passes one or more stages that
    take turns, and n nodes process a_i(n) rows/s while stage i runs. If stage i runs a share τ_in of the time on n
    nodes,

        n̄(r) = min Σ n·τ_in  with  Σ_n τ_in·a_i(n) ≥ r for each stage  and  Σ τ_in = 1,

    where the time that no stage needs is idle, on min_nodes. So each stage may have its own number of nodes. The dual
    has a price y_i for a row in each stage, and a price μ for time:

        n̄(r) = max over μ ≥ −min_nodes of r·Σ y_i(μ) − μ,   y_i(μ) = min over n of (n + μ) / a_i(n).

    n̄ is convex, as a maximum of lines. Every y_i is concave and rises with μ, so the optimal μ, and with it every price
    y_i, rises with r, which the theorem above needs.

    **Corners.** y_i(μ) is attained at the corner of the concave envelope of a_i that the line from (−μ, 0) touches. As
    μ rises from −min_nodes, each stage moves from corner to corner, starting at min_nodes; the stage whose move has the
    lowest μ is next. Between two moves the sizes are n_i, and r = 1 / Σ 1/a_i(n_i) with r·Σ n_i/a_i(n_i) mean nodes is
    a corner of n̄.

    **Beyond max_nodes.** Leaving nodes finish their tasks beside new ones. A run that is short of time in one stage may
    have any number of nodes there and save them in another, so with several stages time has no price: μ ≤ 0. The last
    line is r·Σ y_i(0), up to the highest rate of max_nodes. It holds for any n if n nodes do no more each than
    max_nodes do: (n + μ) / a_i(n) ≥ (1 + μ/n) · max_nodes / a_i(max_nodes) ≥ y_i(μ). With one stage nothing can be
    saved elsewhere, and n̄ is its envelope. For tasks on slots, a_i(n) = min(p_i, S·n)/c_i: with p_i ≥ S·min_nodes in
    each of several stages, n̄ is the work, r·Σ c_i/S, up to the highest rate.

    One stage: a size that saves no wave (5 of 4, 8) lies below the line between its neighbours.

    >>> nodes, rates = price_of_rate([0, 100, 200, 300, 400, 400, 400, 400, 800], Limits.parse("2:8"))
    >>> nodes.tolist(), rates.tolist()
    ([2.0, 8.0], [200.0, 800.0])

    A wide stage on 4 nodes, then a narrow one on 1: 80 rows/s with a fifth of the time on 4 nodes, instead of 4 nodes
    throughout.

    >>> nodes, rates = price_of_rate([[0, 100, 200, 300, 400], [0, 100, 100, 100, 100]], Limits.parse("1:4"))
    >>> nodes.round(3).tolist(), rates.round(3).tolist()
    ([1.0, 1.6], [50.0, 80.0])

    A wide stage, then three tasks on nodes with two slots: 2 nodes throughout sustain 12/7 rows/s. With more of them
    for a while in the wide stage, 1 is enough for the three tasks, at a mean of 12/7 nodes.

    >>> nodes, rates = price_of_rate([[0, 2, 4], [0, 2, 3]], Limits.parse("1:2"))
    >>> nodes.round(3).tolist(), rates.round(3).tolist()
    ([1.0, 1.333, 1.714], [1.0, 1.333, 1.714])
    """
    stages = [_envelope(rates, limits) for rates in np.atleast_2d(np.asarray(stages_rows_per_s, np.float64))]
    at = [corners[0] for corners in stages]
    points = [_together(at)]
    for price, stage, corner in sorted(
        (_price_of_time(before, after), stage, after)
        for stage, corners in enumerate(stages)
        for before, after in pairwise(corners)
    ):
        if price > 0.0 and len(stages) > 1:
            points.append(_faster(points[-1], _together([corners[-1] for corners in stages])))
            break
        at[stage] = corner
        points.append(_together(at))
    nodes, rates = np.array(points).T
    kept = np.append(np.diff(rates) > 0.0, True)  # of several moves at one price, the last
    return nodes[kept], rates[kept]


def _together(at: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """(mean nodes, rate) of stages that take turns, each on its own nodes; 0 rows/s if one of them stands still."""
    if any(rate == 0.0 for _, rate in at):
        return min(nodes for nodes, _ in at), 0.0
    rate = 1.0 / sum(1.0 / own for _, own in at)
    return rate * sum(nodes / own for nodes, own in at), rate


def _faster(at: tuple[float, float], highest: tuple[float, float]) -> tuple[float, float]:
    """The highest rate, with the same nodes per row/s."""
    (nodes, rate), (_, most) = at, highest
    return (nodes * most / rate, most) if rate else at


def _price_of_time(before: tuple[float, float], after: tuple[float, float]) -> float:
    """The μ at which two corners of a stage have the same (n + μ) / a."""
    (nodes_a, rate_a), (nodes_b, rate_b) = before, after
    return (nodes_b * rate_a - nodes_a * rate_b) / (rate_b - rate_a)


def _envelope(rates: Floats, limits: Limits) -> list[tuple[float, float]]:
    """Corners (nodes, rate) of the concave envelope of a stage over the allowed sizes, rates ascending."""
    if len(rates) <= limits.max_nodes:
        raise LimitsError(
            f"capacity is given for up to {len(rates) - 1} nodes but the limits are {limits}; "
            f"pass {limits.max_nodes + 1} values, for 0 to {limits.max_nodes} nodes"
        )
    if not np.all(np.isfinite(rates)) or rates[0] < 0 or np.any(np.diff(rates) < 0):
        raise InputError("capacity must be finite, 0 or more, and must not decrease with more nodes")
    corners: list[tuple[float, float]] = []
    for size in range(limits.min_nodes, limits.max_nodes + 1):
        rate = float(rates[size])
        if corners and rate <= corners[-1][1]:
            continue  # larger but no faster
        while len(corners) >= 2:
            (size_a, rate_a), (size_b, rate_b) = corners[-2:]
            if (rate_b - rate_a) * (size - size_b) > (rate - rate_b) * (size_b - size_a):
                break
            corners.pop()
        corners.append((float(size), rate))
    return corners


@dataclass(frozen=True, kw_only=True, eq=False)
class Oracle:
    """The bound, and the schedule that attains it in the fluid model."""

    node_seconds: float
    """∫ schedule dt: no schedule that keeps the SLO costs less."""
    schedule: Curve
    """Nodes held, as steps; fractions stand for time shared between two sizes."""
    processed: Curve
    """Rows processed since the start, piecewise linear."""
    feasible: bool
    """False if even ``max_nodes`` throughout would break the SLO. Then this is the cheapest best effort: never further
    behind the SLO than ``max_nodes`` throughout, and never more expensive."""


def cheapest_schedule(
    arrived: Curve,
    capacity_rows_per_s: Rates,
    *,
    limits: Limits,
    slo: Slo,
    lead_time_s: float = 0.0,
    step_s: float = 1.0,
    started_s: float | None = None,
    ended_s: float | None = None,
) -> Oracle:
    """The lower bound on node-seconds over all schedules that keep the SLO on these arrivals.

    ``capacity_rows_per_s[n]`` is the best rate of n nodes, n = 0 … max_nodes; with several stages, one list for each.
    ``lead_time_s`` should be the shortest lead time of any node; 0 is always safe. Initial nodes have no lead time.
    Rows waiting at the start are a jump of the curve. The run lasts as long as the curve by default. For the cost of
    processing every row in time, pass an SLO without a quantile.

    24,000 rows within a minute, each due 20 s after its arrival: 300 rows/s for 80 s, so 3 nodes for 80 s and 1 node
    for 220 s; two of the three nodes also cost 30 s of starting.

    >>> pulse = Curve.of([(0, 0), (100, 0), (160, 24_000), (300, 24_000)])
    >>> rules = {"limits": Limits.parse("1:5"), "slo": Slo.parse("freshness <= 20s")}
    >>> cheapest_schedule(pulse, [0, 100, 200, 300, 400, 500], **rules).node_seconds
    460.0
    >>> oracle = cheapest_schedule(pulse, [0, 100, 200, 300, 400, 500], **rules, lead_time_s=30.0)
    >>> oracle.node_seconds, oracle.schedule.stepped(75.0).item()
    (520.0, 3.0)
    """
    nodes, rates = price_of_rate(capacity_rows_per_s, limits)
    start_s = _given_or_end(started_s, arrived, 0)
    end_s = _given_or_end(ended_s, arrived, -1)
    if not step_s > 0:
        raise InputError(f"the time step is {step_s:g} s; it must be above 0 s")
    if not lead_time_s >= 0:
        raise InputError(f"the lead time is {lead_time_s:g} s; it must be 0 s or more")
    if end_s <= start_s or len(arrived) == 0:
        return _idle(start_s, max(end_s, start_s), limits)

    times_s = _grid(start_s, end_s, step_s)
    upper, wanted = _corridor(arrived, times_s, slo)
    most = _processed_at_most(upper, times_s, float(rates[-1]))
    tolerance_rows = 1e-9 * (1.0 + float(upper[-1]))
    lower = np.minimum(np.minimum(wanted, most), upper)
    lower[0] = upper[0] = 0.0
    upper[-1] = lower[-1]  # work beyond the last deadline only costs
    knots_s, knots_rows = taut_string(times_s, lower, upper)

    needed = np.interp(np.diff(knots_rows) / np.diff(knots_s), rates, nodes)
    schedule = _held_ahead(knots_s, needed, lead_time_s)
    return Oracle(
        node_seconds=schedule.integral(start_s, end_s),
        schedule=schedule,
        processed=Curve(knots_s, knots_rows),
        feasible=bool(np.all(wanted <= most + tolerance_rows)),
    )


def _given_or_end(given_s: float | None, arrived: Curve, index: int) -> float:
    if given_s is not None:
        return given_s
    return float(arrived.times_s[index]) if len(arrived) else 0.0


def _idle(start_s: float, end_s: float, limits: Limits) -> Oracle:
    """The minimum of nodes, for a run without time or rows."""
    return Oracle(
        node_seconds=limits.min_nodes * (end_s - start_s),
        schedule=Curve.of([(start_s, limits.min_nodes), (end_s, limits.min_nodes)]),
        processed=Curve.of([(start_s, 0.0), (end_s, 0.0)]),
        feasible=True,
    )


def _grid(start_s: float, end_s: float, step_s: float) -> Floats:
    """Ends of the steps; the last step may be shorter."""
    steps = max(int(np.ceil((end_s - start_s) / step_s - 1e-9)), 1)
    return np.append(start_s + step_s * np.arange(steps), end_s)


def _corridor(arrived: Curve, times_s: Floats, slo: Slo) -> tuple[Floats, Floats]:
    """A(t) and the lower edge A(t−F) − (1−q)·N, both in rows since the start."""
    curve = Curve(arrived.times_s, np.maximum.accumulate(arrived.values))
    starts_with_curve = times_s[0] <= curve.times_s[0]
    before = float(curve.values[0] if starts_with_curve else curve.interpolated(float(times_s[0])))
    upper = curve.interpolated(times_s) - before
    allowed_late = (1.0 - slo.quantile) * float(upper[-1])
    due_s = times_s - slo.freshness_s
    due = np.where(due_s >= times_s[0], curve.interpolated(due_s) - before, 0.0)
    return upper, np.maximum(due - allowed_late, 0.0)


def _processed_at_most(upper: Floats, times_s: Floats, rate: float) -> Floats:
    """Rows processed by a server that is never idle while rows wait: min over u ≤ t of A(u) + rate·(t − u)."""
    could = rate * (times_s - times_s[0])
    spare = upper - could
    spare[0] = 0.0  # nothing is processed yet, even if rows are waiting
    return np.asarray(np.minimum.accumulate(spare) + could)


def _held_ahead(knots_s: Floats, needed: Floats, lead_time_s: float) -> Curve:
    """held(t) = max of ``needed`` over [t, t + lead]: a node is paid from its request.

    >>> held = _held_ahead(np.array([0.0, 100, 120, 200]), np.array([1.0, 3, 2]), 30.0)
    >>> held.times_s.tolist(), held.values.tolist()
    ([0.0, 70.0, 120.0, 200.0], [1.0, 3.0, 2.0, 2.0])
    """
    edges_s = np.unique(np.concatenate((knots_s, knots_s[1:-1] - lead_time_s)))
    edges_s = edges_s[edges_s >= knots_s[0]]
    middles_s = 0.5 * (edges_s[:-1] + edges_s[1:])
    last_piece = len(needed) - 1
    first = np.clip(np.searchsorted(knots_s, middles_s, side="right") - 1, 0, last_piece)
    last = np.clip(np.searchsorted(knots_s, middles_s + lead_time_s, side="right") - 1, first, last_piece)
    held = _largest_between(needed, first, last)
    changed = np.concatenate(([True], np.diff(held) != 0.0))
    return Curve(np.append(edges_s[:-1][changed], knots_s[-1]), np.append(held[changed], held[-1]))


def _largest_between(values: Floats, first: Indices, last: Indices) -> Floats:
    """max(values[first … last]) for many ranges at once, from the maxima over 1, 2, 4, 8 … values.

    >>> _largest_between(np.array([5.0, 1, 4, 2]), np.array([0, 1, 3]), np.array([3, 3, 3])).tolist()
    [5.0, 4.0, 2.0]
    """
    level = np.frexp((last - first + 1).astype(np.float64))[1] - 1
    answer = np.empty(len(first))
    longest = values
    for power in range(int(level.max(initial=0)) + 1):
        width = 1 << power
        if power:
            half = width >> 1
            longest = np.maximum(longest[: len(longest) - half], longest[half:])
        here = level == power
        answer[here] = np.maximum(longest[first[here]], longest[last[here] - width + 1])
    return answer
