"""The cheapest schedule with hindsight that keeps the SLO: what every strategy's cost is divided by.

It must be a lower bound: no strategy, not even one that knows the future, may cost less and be on time. So
every simplification below drops a restriction and adds none.

**Fluid model.** A(t) rows have arrived, S(t) are processed, n(t) nodes work; S is continuous with slope
r ≤ c(n): no batches, no overhead, no resize pause. Whatever rows a batch takes have arrived before it starts
and are committed after it ends, so a real run, with its work spread over its batches, is such an S. ``c(n)``
must be the best rate that n nodes ever reach: rows ÷ batch time of an endless batch, so without d and o.

**SLO.** At most (1−q)·N of the N rows wait longer than F. At any t, rows that arrived by t−F and are not done
are late, whatever the order of processing; so A(t−F) − (1−q)·N ≤ S(t) ≤ A(t). (Loose for q < 1: a
schedule may fall behind by (1−q)·N rows at one peak, recover, and do it again at the next. Exact for q = 1.)

**Price.** Sizes may be shared in time, so c may be replaced by its concave envelope c̄ over the allowed sizes,
and n by the real number n̄(r) = max(min_nodes, c̄⁻¹(r)): convex and non-decreasing. A node is paid from asking
for it: those that work at any time in [t, t+lead] are paid at t, so held(t) ≥ max of n̄(r) over [t, t+lead].

**Theorem.** The taut string r*, the shortest path from (start, 0) to (end, lower edge) within the corridor,
minimises ∫ held dt for every such n̄ and every lead. *Proof.* A maximum is at least any average: for each t
choose the piece of the string where max n̄(r*) over [t, t+lead] is reached (the earliest of equals), and
spread t evenly over that piece. This gives weights w ≥ 0 with ∫ held* = ∫ w·n̄(r*), and ∫ held ≥ ∫ w·n̄(r)
for any other r. By convexity n̄(r) − n̄(r*) ≥ g·(r − r*), g = n̄′(r*). Where the string bends up, g rises,
and so does w (a higher piece is the maximum of more of its windows); there the string touches A, so
S − S* ≤ 0. Where it bends down both fall, it touches the lower edge, and S − S* ≥ 0. Summing by parts,
∫ w·g·(r − r*) = −Σ_bends Δ(w·g)·(S − S*) + (w·g)(end)·(S − S*)(end) ≥ 0. ∎ With lead = 0 this is the
optimality of minimum-energy deadline schedules (Yao, Demers, Shenker).

**Time steps.** The corridor is asked for at the ends of steps only; averages over a step cost no more
(Jensen), so the bound holds for any step, and a coarser step can only lower it.

References: Yao, Demers, Shenker, "A scheduling model for reduced CPU energy" (FOCS 1995); Davies, Kovac,
"Local extremes, runs, strings and multiresolution" (Annals of Statistics, 2001).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ebbflow.core.curve import Curve, Floats
from ebbflow.core.limits import Limits
from ebbflow.core.slo import Slo
from ebbflow.errors import InputError, LimitsError

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Oracle:
    """The bound, and the schedule that reaches it in the fluid model."""

    node_seconds: float
    """∫ schedule dt: no schedule that keeps the SLO costs less."""
    schedule: Curve
    """Nodes held, as steps; real numbers, which stand for sharing the time between two sizes."""
    processed: Curve
    """Rows processed since the start, on straight lines."""
    feasible: bool
    """False if even ``max_nodes`` throughout would break the SLO. Then this is the cheapest best effort:
    never further behind the SLO than ``max_nodes`` throughout would be, and never dearer than that."""


def cheapest_schedule(
    arrived: Curve,
    capacity_rows_per_s: Sequence[float] | Floats,
    *,
    limits: Limits,
    slo: Slo,
    lead_time_s: float = 0.0,
    step_s: float = 1.0,
    started_s: float | None = None,
    ended_s: float | None = None,
) -> Oracle:
    """The lower bound on node-seconds over all schedules that keep the SLO on these arrivals.

    ``capacity_rows_per_s[n]`` is the best rate of n nodes, n = 0 … max_nodes. ``lead_time_s`` should be the
    shortest that a node ever took; 0 is always safe. Nodes there at the start come without a lead time. Rows
    waiting at the start are a jump of the curve there. The run lasts as long as the curve unless told.
    For the price of serving every row in time, give an SLO without a quantile.

    24,000 rows within a minute, each to be done 20 s after it arrived: 300 rows/s for 80 s, so 3 nodes for
    80 s and 1 node for 220 s; two of the three nodes also cost 30 s of starting each.

    >>> pulse = Curve.of([(0, 0), (100, 0), (160, 24_000), (300, 24_000)])
    >>> rules = {"limits": Limits.parse("1:5"), "slo": Slo.parse("freshness <= 20s")}
    >>> cheapest_schedule(pulse, [0, 100, 200, 300, 400, 500], **rules).node_seconds
    460.0
    >>> oracle = cheapest_schedule(pulse, [0, 100, 200, 300, 400, 500], **rules, lead_time_s=30.0)
    >>> oracle.node_seconds, oracle.schedule.stepped(75.0).item()
    (520.0, 3.0)
    """
    sizes, rates = _envelope(capacity_rows_per_s, limits)
    start_s = _given_or_end(started_s, arrived, 0)
    end_s = _given_or_end(ended_s, arrived, -1)
    if not step_s > 0:
        raise InputError(f"a time step of {step_s:g} s never ends; it must be above 0s")
    if not lead_time_s >= 0:
        raise InputError(f"a lead time of {lead_time_s:g} s would be in the past; it must be 0s or more")
    if end_s <= start_s or len(arrived) == 0:
        return _idle(start_s, max(end_s, start_s), limits)

    times_s = _grid(start_s, end_s, step_s)
    upper, wanted = _corridor(arrived, times_s, slo)
    most = _processed_at_most(upper, times_s, float(rates[-1]))
    tolerance_rows = 1e-9 * (1.0 + float(upper[-1]))
    lower = np.minimum(np.minimum(wanted, most), upper)
    lower[0] = upper[0] = 0.0
    upper[-1] = lower[-1]  # work beyond the last deadline only costs
    knots_s, knots_rows = _taut_string(times_s, lower, upper)

    needed = np.interp(np.diff(knots_rows) / np.diff(knots_s), rates, sizes)
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
    """No time, or no rows: the fewest nodes."""
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


def _envelope(capacity_rows_per_s: Sequence[float] | Floats, limits: Limits) -> tuple[Floats, Floats]:
    """Corners (sizes, rates) of the concave envelope of capacity over the allowed sizes, rates ascending.

    A size that cuts no wave (5 of 4, 8) is below the line between its neighbours:

    >>> sizes, rates = _envelope([0, 100, 200, 300, 400, 400, 400, 400, 800], Limits.parse("2:8"))
    >>> sizes.tolist(), rates.tolist()
    ([2.0, 8.0], [200.0, 800.0])
    """
    rates = np.asarray(capacity_rows_per_s, dtype=np.float64)
    if len(rates) <= limits.max_nodes:
        raise LimitsError(
            f"capacity is given for up to {len(rates) - 1} nodes but the limits are {limits}; "
            f"give {limits.max_nodes + 1} values, for 0 to {limits.max_nodes} nodes"
        )
    if not np.all(np.isfinite(rates)) or rates[0] < 0 or np.any(np.diff(rates) < 0):
        raise InputError("capacity must be finite, 0 or more, and never fall with more nodes")
    corners: list[tuple[float, float]] = []
    for size in range(limits.min_nodes, limits.max_nodes + 1):
        rate = float(rates[size])
        if corners and rate <= corners[-1][1]:
            continue  # a larger size that is no faster
        while len(corners) >= 2:
            (size_a, rate_a), (size_b, rate_b) = corners[-2:]
            if (rate_b - rate_a) * (size - size_b) > (rate - rate_b) * (size_b - size_a):
                break
            corners.pop()
        corners.append((float(size), rate))
    return np.array([c[0] for c in corners]), np.array([c[1] for c in corners])


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
    """Rows done by a server that is never idle while rows wait: min over u ≤ t of A(u) + rate·(t − u)."""
    could = rate * (times_s - times_s[0])
    spare = upper - could
    spare[0] = 0.0  # nothing is done yet, even if rows already wait
    return np.asarray(np.minimum.accumulate(spare) + could)


def _taut_string(times_s: Floats, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """Knots of the shortest path through the gates lower ≤ S ≤ upper; first and last gate are points.

    The funnel algorithm: from the last fixed knot (the apex) keep the concave majorant of the lower edge and
    the convex minorant of the upper one. Where a new gate makes them cross, the string is wrapped around the
    first corner of the chain that is in its way, which becomes the apex. Each point enters and leaves each
    chain once: linear in the number of gates.

    >>> times, rows = _taut_string(np.arange(4.0), np.array([0.0, 0, 6, 6]), np.array([0.0, 1, 9, 6]))
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
    """Corners from the apex on, with slopes that fall (side 1, the floor) or rise (side −1, the ceiling)."""

    def __init__(self, apex: tuple[float, float], *, side: float) -> None:
        self._side = side
        self._restart(*apex)

    def _restart(self, time_s: float, rows: float) -> None:
        self._times = [time_s]
        self._rows = [rows]
        self._slopes = [0.0]  # of the line that ends in the corner; the apex has none
        self._head = 0

    def append(self, time_s: float, rows: float) -> bool:
        """Add a gate's edge; True if the chain is now one line from the apex."""
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
        """Move the apex along this chain while the line from it to (time, rows) is on its wrong side."""
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


def _held_ahead(knots_s: Floats, needed: Floats, lead_time_s: float) -> Curve:
    """held(t) = max of what is needed over [t, t + lead]: a node is paid from asking for it.

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
    """max(values[first … last]) for many ranges at once, from the maxima of all runs of 1, 2, 4, 8 … values.

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
