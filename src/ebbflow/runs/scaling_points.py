"""Trigger, reconfiguration and demand point of every act (Pascal §3.2 and §3.3), computed afterwards from the load.

TP: when the decision was made. RP: when its nodes were complete, ready to work (scale-out) or gone (scale-in). DP: when
the load demanded the new layout. RP = DP would be ideal, so |DP − RP| is a score. A scale-out with RP > DP is
under-provisioned for RP − DP, one with RP < DP over-provisioned for DP − RP; for a scale-in it is the other way round.

**Demand.** The paper calls a load *sustained* by a configuration that keeps the application's requirements, here the
SLO, freshness ≤ F. Let A_q(t) be the rows of query q that have arrived and c_q(n) the rows per second that n nodes can
process if q has them alone. The backlog of work on n nodes grows by

    X_n(t) = Σ_q A_q(t) / c_q(n) − t    seconds of work

and n nodes are *overloaded* from s to e if X_n rises by more than F in between: the last rows would wait longer than F.
More precisely, the curve is cut at its turning points: an overload starts at the lowest X_n before a rise of more than
F, and ends at the highest X_n before a fall of more than F, or before the end of the run. So jitter and bursts that the
SLO tolerates are no demand, and DP is still the moment at which the load crossed the capacity.

**Scale-out** from n₀ to n₁ nodes. DP = the start of the first overload of n₀ that ends after TP. It may lie before TP:
the act was reactive. An overload that starts after another act took the nodes back (planned ≤ n₀) does not count.

**Scale-in** from n₀ to n₁ nodes. DP = the time from which n₁ nodes suffice: the end of the overload of n₁ that contains
TP, or, if none does, of the last one before TP. It is not before the act that last took the plan above n₁, nor before
the start of the run. If another act plans more than n₁ nodes before that overload ends, n₁ nodes never sufficed.

**Points that do not exist.** The load may never demand an act: it has no DP and is counted in
``acts_without_demand``. A backlog that an earlier, late act left behind is no demand of the load. An act has no RP if
the run ended, or another act took it back, before it was complete. An act that changes parallelism or placement only
has neither, nor has any act where the capacity is unknown. Only acts with both points count in the mean.

Acts may overlap, as each is compared with its own n₀ and n₁. Faults and noise are not part of c_q(n).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ebbflow.core.curve import Curve, Floats
from ebbflow.core.decision import LedgerEntry
from ebbflow.core.layout import Layout
from ebbflow.core.run import Run

_FIRST_CHUNK = 512
_EQUAL = 1e-6
"""Seconds of work that differ less are equal; the sums have rounding errors."""


@dataclass(frozen=True, kw_only=True)
class ScalingPoints:
    """The points in time of one act; None where there is none, and ``note`` says why."""

    entry_id: int
    """The act's id in the ledger."""
    before: int
    after: int
    """Planned nodes of all clusters."""
    trigger_s: float
    ready_s: float | None = None
    demand_s: float | None = None
    demanded: bool | None = None
    """Whether the load demanded the act; None if unknown."""
    note: str = ""

    @property
    def grows(self) -> bool:
        """Whether it is a scale-out."""
        return self.after > self.before

    @property
    def gap_s(self) -> float | None:
        """DP − RP: positive if the nodes were complete before the demand; None unless both are known."""
        if self.ready_s is None or self.demand_s is None:
            return None
        return self.demand_s - self.ready_s

    def to_json(self) -> dict[str, Any]:
        """Convert to plain values."""
        return {
            "trigger_s": self.trigger_s,
            "ready_s": self.ready_s,
            "demand_s": self.demand_s,
            "gap_s": self.gap_s,
            "note": self.note,
        }


@dataclass(frozen=True, kw_only=True)
class DemandScores:
    """The acts of a run compared with the demand."""

    demand_gap_s: float | None
    ready_before_demand: float | None
    acts_without_demand: int | None

    @classmethod
    def of(cls, points: Sequence[ScalingPoints]) -> DemandScores:
        """The scores of some acts.

        >>> early = ScalingPoints(entry_id=1, before=1, after=2, trigger_s=10, ready_s=20, demand_s=50, demanded=True)
        >>> late = ScalingPoints(entry_id=2, before=2, after=3, trigger_s=70, ready_s=80, demand_s=70, demanded=True)
        >>> never = ScalingPoints(entry_id=3, before=3, after=4, trigger_s=90, ready_s=99, demanded=False)
        >>> DemandScores.of([early, late, never])
        DemandScores(demand_gap_s=20.0, ready_before_demand=0.5, acts_without_demand=1)
        """
        gaps = [abs(point.gap_s) for point in points if point.gap_s is not None]
        grown = [point.gap_s >= 0 for point in points if point.grows and point.gap_s is not None]
        return cls(
            demand_gap_s=math.fsum(gaps) / len(gaps) if gaps else None,
            ready_before_demand=sum(grown) / len(grown) if grown else None,
            acts_without_demand=sum(point.demanded is False for point in points),
        )


UNKNOWN = DemandScores(demand_gap_s=None, ready_before_demand=None, acts_without_demand=None)


def demand_scores(runs: Sequence[Run]) -> DemandScores:
    """The scores of a run, given as one run for each of its queries. Unknown without capacity or decisions."""
    if runs[0].reconfigurations is None or any(run.capacity_rows_per_s is None for run in runs):
        return UNKNOWN
    return DemandScores.of(scaling_points(runs))


def scaling_points(runs: Sequence[Run]) -> list[ScalingPoints]:
    """The points of every act that changed the layout, in order. ``runs``: one for each query on the nodes.

    50 rows/s, from 100 s to 400 s 150 rows/s; a node processes 100 rows/s. Growing at 130 s with a lead time of 12 s is
    42 s late; the node is given back 60 s after the peak.

    >>> from ebbflow.core.decision import Decision, Outcome
    >>> from ebbflow.core.limits import Limits
    >>> from ebbflow.core.slo import Slo
    >>> def act(number, time_s, before, after):
    ...     return LedgerEntry(
    ...         entry_id=number, time_s=time_s, strategy="s", verdict="act", before=Layout.of(before),
    ...         decision=Decision(wanted=Layout.of(after), reason=""), outcome=Outcome(requested=Layout.of(after)),
    ...     )
    >>> run = Run(
    ...     strategy="s", pipeline="p", slo=Slo(freshness_s=10.0), limits=Limits.parse("1:4"), started_s=0.0,
    ...     ended_s=600.0, arrived=Curve.of([(0, 0), (100, 5_000), (400, 50_000), (600, 60_000)]),
    ...     processed=Curve.of([]), nodes=Curve.of([(0, 1), (130, 2), (460, 1)]),
    ...     nodes_working=Curve.of([(0, 1), (142, 2), (460, 1)]),
    ...     decisions=[act(1, 130.0, 1, 2), act(2, 460.0, 2, 1)],
    ...     capacity_rows_per_s=np.array([0.0, 100.0, 200.0, 300.0, 400.0]),
    ... )
    >>> [(point.trigger_s, point.ready_s, point.demand_s, point.gap_s) for point in scaling_points([run])]
    [(130.0, 142.0, 100.0, -42.0), (460.0, 460.0, 400.0, -60.0)]
    """
    acts = [_Act.of(entry) for entry in runs[0].decisions if entry.verdict == "act" and entry.changed]
    demand = Demand.of(runs)
    return [_points(runs[0], acts, index, demand) for index in range(len(acts))]


@dataclass(frozen=True, kw_only=True)
class _Act:
    entry_id: int
    time_s: float
    before: int
    after: int

    @classmethod
    def of(cls, entry: LedgerEntry) -> _Act:
        assert entry.outcome is not None  # it changed the layout
        return cls(
            entry_id=entry.entry_id,
            time_s=entry.time_s,
            before=_nodes(entry.before),
            after=_nodes(entry.outcome.requested),
        )


def _nodes(layout: Layout) -> int:
    return sum(layout.nodes.values())


def _points(run: Run, acts: Sequence[_Act], index: int, demand: Demand | None) -> ScalingPoints:
    act = acts[index]
    before, after, trigger_s = act.before, act.after, act.time_s
    if before == after:
        return ScalingPoints(
            entry_id=act.entry_id,
            before=before,
            after=after,
            trigger_s=trigger_s,
            note="same number of nodes",
        )
    grows = after > before
    later, earlier = acts[index + 1 :], acts[:index]
    undone_s = next((a.time_s for a in later if (a.after < after if grows else a.after > after)), None)
    ready_s = _reached_s(run, after, trigger_s, grows=grows)
    notes = []
    if ready_s is not None and undone_s is not None and ready_s > undone_s:
        ready_s = None
    if ready_s is None:
        notes.append(
            "not complete when the run ended" if undone_s is None else "taken back before it was complete"
        )
    demand_s, demanded = None, None
    if demand is None:
        notes.append("no demand point: the capacity of the nodes is unknown")
    else:
        if grows:
            until_s = next((a.time_s for a in later if a.after <= before), math.inf)
            demand_s = demand.of_more_than(before, trigger_s, until_s)
        else:
            above_s = (a.time_s for a in reversed(earlier) if a.before <= after < a.after)
            until_s = next((a.time_s for a in later if a.after > after), math.inf)
            demand_s = demand.of_at_most(after, next(above_s, run.started_s), trigger_s, until_s)
        demanded = demand_s is not None
        if not demanded:
            notes.append(
                f"not demanded: the load stayed within the capacity of {before}"
                if grows
                else f"not demanded: the load stayed above the capacity of {after}"
            )
    return ScalingPoints(
        entry_id=act.entry_id,
        before=before,
        after=after,
        trigger_s=trigger_s,
        ready_s=ready_s,
        demand_s=demand_s,
        demanded=demanded,
        note="; ".join(notes),
    )


def _reached_s(run: Run, nodes: int, since_s: float, *, grows: bool) -> float | None:
    """When this many nodes first worked (``grows``), or no more were held; None if never or unknown."""
    curve = run.nodes_working if grows or not len(run.nodes) else run.nodes
    if not len(curve):
        return None
    first = max(int(np.searchsorted(curve.times_s, since_s, side="right")) - 1, 0)
    values = curve.values[first:]
    reached = np.flatnonzero(values >= nodes if grows else values <= nodes)
    if not len(reached):
        return None
    at_s = max(float(curve.times_s[first + int(reached[0])]), since_s)
    return at_s if at_s <= run.ended_s else None


class Demand:
    """When a load exceeds what n nodes can process, for any n."""

    def __init__(self, load: Sequence[tuple[Curve, Floats]], *, started_s: float, tolerance_s: float) -> None:
        """``load``: for each query its arrived rows, cumulative, and the rows/s of 0, 1, 2 … nodes."""
        self._load = load
        self._started_s = started_s
        self._tolerance_s = tolerance_s
        self._known: dict[int, list[tuple[float, float]]] = {}

    @classmethod
    def of(cls, runs: Sequence[Run]) -> Demand | None:
        """The load of the queries on shared nodes; None if the capacity is unknown."""
        load = []
        for run in runs:
            if run.capacity_rows_per_s is None:
                return None
            if len(run.arrived):
                load.append((_within(run), run.capacity_rows_per_s))
        return cls(load, started_s=runs[0].started_s, tolerance_s=runs[0].slo.freshness_s)

    @cached_property
    def _times_s(self) -> Floats:
        every = [arrived.times_s for arrived, _ in self._load]
        return np.unique(np.concatenate(every)) if len(every) > 1 else every[0]

    def overloads(self, nodes: int) -> list[tuple[float, float]]:
        """(start, end) of every overload of n nodes, in order. The end is infinite if the run ended before it."""
        if nodes not in self._known:
            self._known[nodes] = self._find(nodes)
        return self._known[nodes]

    def _find(self, nodes: int) -> list[tuple[float, float]]:
        if not self._load:
            return []
        times_s = self._times_s
        work_s = self._started_s - times_s
        for arrived, capacity in self._load:
            rate = float(capacity[min(nodes, len(capacity) - 1)])
            rows = arrived.values if arrived.times_s is times_s else arrived.interpolated(times_s)
            if rate > 0:
                work_s = work_s + rows / rate
            elif rows[-1] > rows[0]:  # no node: every row is an overload
                first = int(np.flatnonzero(rows > rows[0])[0])
                return [(float(times_s[max(first - 1, 0)]), math.inf)]
        return [
            (float(times_s[low]), math.inf if high == len(times_s) - 1 else float(times_s[high]))
            for low, high in rises(work_s, self._tolerance_s)
        ]

    def of_more_than(self, nodes: int, trigger_s: float, until_s: float) -> float | None:
        """The start of the first overload of ``nodes`` that ends after the trigger, if it starts before ``until_s``."""
        for start_s, end_s in self.overloads(nodes):
            if end_s > trigger_s:
                return start_s if start_s < until_s else None
        return None

    def of_at_most(self, nodes: int, since_s: float, trigger_s: float, until_s: float) -> float | None:
        """When ``nodes`` began to suffice: at the trigger, or after it and before ``until_s``; at least ``since_s``."""
        suffice_s = since_s
        for start_s, end_s in self.overloads(nodes):
            if start_s > trigger_s:
                break
            suffice_s = max(suffice_s, end_s)
        return suffice_s if suffice_s < until_s and math.isfinite(suffice_s) else None


def _within(run: Run) -> Curve:
    """The arrivals of a run from its start to its end, never decreasing."""
    times_s, values = run.arrived.times_s, np.maximum.accumulate(run.arrived.values)
    if times_s[0] == run.started_s and times_s[-1] == run.ended_s:
        return Curve(times_s, values)
    curve = Curve(times_s, values)
    inside = times_s[(times_s > run.started_s) & (times_s < run.ended_s)]
    edges_s = np.concatenate(([run.started_s], inside, [max(run.ended_s, run.started_s)]))
    return Curve(edges_s, curve.interpolated(edges_s))


def rises(values: Floats, tolerance: float) -> list[tuple[int, int]]:
    """Indices of the lowest and highest value of every rise by more than ``tolerance``.

    A rise lasts until the values fall by more than ``tolerance`` below its highest, or until they end.

    >>> rises(np.array([0.0, 1, 0, 3, 2, 6, 5, 1, 2, 0, 4]), 2.5)
    [(2, 5), (9, 10)]
    """
    found: list[tuple[int, int]] = []
    start = 0
    while True:
        over = _first_rise(values, start, tolerance)
        if over is None:
            return found
        before = values[start : over + 1]
        # of equal values the last is the start of a rise, and the first its end
        low = start + int(np.flatnonzero(before <= np.min(before) + _EQUAL)[-1])
        under = _first_rise(-values, over, tolerance)
        after = values[over : None if under is None else under + 1]
        high = over + int(np.flatnonzero(after >= np.max(after) - _EQUAL)[0])
        found.append((low, high))
        if under is None:
            return found
        start = high


def _first_rise(values: Floats, start: int, tolerance: float) -> int | None:
    """The first index at which a value exceeds the lowest since ``start`` by more than ``tolerance``.

    In growing chunks, so that it costs little where it comes soon.
    """
    lowest, size = math.inf, _FIRST_CHUNK
    while start < len(values):
        chunk = values[start : start + size]
        low = np.minimum.accumulate(np.minimum(chunk, lowest))
        above = np.flatnonzero(chunk - low > tolerance)
        if len(above):
            return start + int(above[0])
        lowest = float(low[-1])
        start += size
        size *= 2
    return None
