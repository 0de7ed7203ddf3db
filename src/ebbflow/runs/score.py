"""Score a run: cost, late rows, latencies. Real and simulated runs are scored the same way.

A run is four curves: rows arrived A(t) and rows lost L(t), both piecewise linear; rows processed P(t), a step at each
commit; and nodes held n(t), a step function. A lost row is counted in L at its arrival, so A − L counts the rows that
will be processed. They are numbered by arrival and processed in that order: row x, committed at e, has waited
e − (A − L)⁻¹(x). A lost row has no latency and is always late.

Late rows are counted in ``_violation``. Between two neighbouring points of A − L and P the wait is linear in x, so a
run consists of a few uniform pieces per commit (``Waits``), on which all scores are exact without an entry per row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ebbflow.core.curve import Curve, Floats
from ebbflow.core.run import Run
from ebbflow.runs.scaling_points import demand_scores

Bools = npt.NDArray[np.bool_]

LATE_TOLERANCE_S = 1e-6
"""A row is late if it waited longer than the SLO plus this; times around 1.7·10⁹ s have no finer resolution."""

_NEGLIGIBLE_ROWS = 1e-6
"""Fewer rows than this are a rounding error of a fluid simulation."""

_MIN_INPUT_SHARE = 0.01
"""A window with less than this share of the mean rate is treated as having no input; see docs/leaderboard.md."""

_ELYSIUM_WINDOW_S = 60.0
_SAMPLES_PER_WINDOW = 6


@dataclass(frozen=True, kw_only=True)
class Scores:
    """The scores of a run. None where a score is undefined (no rows, no time) or unknown."""

    node_seconds: float | None
    """∫ nodes held dt, from the request of each node until its release."""
    cost_ratio: float | None
    """node_seconds ÷ the cheapest schedule with hindsight that keeps the SLO."""
    violation: float | None
    """Share of rows that miss the SLO. Rows still waiting at the end count by their age; lost rows are late."""
    latency_p50_s: float | None
    """Median latency of the processed rows."""
    latency_p95_s: float | None
    latency_max_s: float | None
    throughput_degradation: float | None
    """Mean over time of |in − out| / in, in windows of a minute. Above 1 while a backlog is processed."""
    nodes_saved: float | None
    """1 − node_seconds ÷ (max_nodes × duration)."""
    reconfigurations: int | None
    rows_in: int
    rows_out: int
    """Rows processed: rows_in = rows_out + rows_lost + rows waiting at the end (minus those waiting at the start)."""
    rows_lost: int | None
    rows_repeated: int
    demand_gap_s: float | None
    """Mean over the acts of the seconds between demand and completion, |DP − RP|; see ``runs.scaling_points``."""
    ready_before_demand: float | None
    """Share of the scale-outs whose nodes were ready when the load demanded them."""
    acts_without_demand: int | None
    """Acts that the load never demanded; they are part of neither."""

    def to_json(self) -> dict[str, Any]:
        """Convert to plain values."""
        return asdict(self)


def score(run: Run, *, oracle_node_seconds: float | None) -> Scores:
    """Score a run.

    ``oracle_node_seconds`` comes from :func:`ebbflow.runs.oracle.cheapest_schedule`; without it there is no
    ``cost_ratio``. Rows still waiting at the end are not lost.

    100 rows/s for 10 s, committed at 5 s and at 10 s, on two nodes of at most four:

    >>> from ebbflow.core.limits import Limits
    >>> from ebbflow.core.slo import Slo
    >>> run = Run(
    ...     strategy="static", pipeline="count", slo=Slo(freshness_s=4.0), limits=Limits.parse("1:4"),
    ...     started_s=0.0, ended_s=10.0, arrived=Curve.of([(0, 0), (10, 1000)]),
    ...     processed=Curve.of([(0, 0), (5, 500), (10, 1000)]),
    ...     nodes=Curve.of([(0, 2)]), nodes_working=Curve.of([(0, 2)]),
    ... )
    >>> scores = score(run, oracle_node_seconds=16.0)
    >>> scores.node_seconds, scores.cost_ratio, scores.nodes_saved
    (20.0, 1.25, 0.5)
    >>> scores.latency_p50_s, scores.latency_p95_s, scores.latency_max_s, round(scores.violation, 3)
    (2.5, 4.75, 5.0, 0.2)

    The same run, with 100 of the last 500 rows lost:

    >>> from dataclasses import replace
    >>> lossy = replace(
    ...     run, processed=Curve.of([(0, 0), (5, 500), (10, 900)]), lost=Curve.of([(0, 0), (5, 0), (10, 100)])
    ... )
    >>> scores = score(lossy, oracle_node_seconds=None)
    >>> scores.rows_in, scores.rows_out, scores.rows_lost, round(scores.violation, 3)  # 100 + 80 late, 100 lost
    (1000, 900, 100, 0.28)
    """
    duration_s = run.ended_s - run.started_s
    arrived, survived = _spanning(run.arrived), _spanning(run.survived)
    commits = _commits(run)
    node_seconds = run.nodes.integral(run.started_s, run.ended_s) if len(run.nodes) else None
    used = _ratio(node_seconds, run.limits.max_nodes * duration_s)
    rows_in = float(arrived.interpolated(run.ended_s) - arrived.interpolated(run.started_s))
    rows_out = float(commits.values[-1] - commits.values[0])
    rows_lost = _lost(run)
    waits = Waits.of(survived, commits)
    return Scores(
        node_seconds=node_seconds,
        cost_ratio=_ratio(node_seconds, oracle_node_seconds),
        violation=_violation(run, survived, commits, waits, lost=rows_lost or 0.0),
        latency_p50_s=waits.quantile_s(0.50),
        latency_p95_s=waits.quantile_s(0.95),
        latency_max_s=waits.longest_s,
        throughput_degradation=_throughput_degradation(run, arrived, commits),
        nodes_saved=None if used is None else 1.0 - used,
        reconfigurations=run.reconfigurations,
        rows_in=round(rows_in),
        rows_out=round(rows_out),
        rows_lost=None if rows_lost is None else round(rows_lost),
        rows_repeated=run.rows_repeated,
        **asdict(demand_scores([run])),
    )


def _ratio(cost: float | None, by: float | None) -> float | None:
    return cost / by if cost is not None and by else None


def waits_of(run: Run) -> Waits:
    """The waits of the processed rows of a run."""
    return Waits.of(_spanning(run.survived), _commits(run))


@dataclass(frozen=True, kw_only=True, eq=False)
class Waits:
    """The waits of processed rows, in pieces: ``rows`` spread evenly between the shortest and longest wait.

    >>> waits = Waits.of(Curve.of([(0, 0), (10, 100)]), Curve.of([(0, 0), (12, 100)]))  # all committed at 12 s
    >>> waits.quantile_s(0.5), waits.longest_s, round(waits.rows_within(4.0))
    (7.0, 12.0, 20)
    """

    shortest_s: Floats
    spread_s: Floats
    rows: Floats

    @classmethod
    def of(cls, arrived: Curve, commits: Curve) -> Waits:
        """Cut the rows at every point of both curves; in between, A⁻¹ is linear and e is one commit.

        ``arrived`` excludes lost rows.
        """
        first, last = commits.values[0], commits.values[-1]
        inner = arrived.values[(arrived.values > first) & (arrived.values < last)]
        cuts = np.unique(np.concatenate((commits.values, inner)))
        solid = np.diff(cuts) > _NEGLIGIBLE_ROWS
        low, high = cuts[:-1][solid], cuts[1:][solid]
        middle = 0.5 * (low + high)
        committed_s = commits.times_s[np.searchsorted(commits.values, middle)]
        piece = np.clip(np.searchsorted(arrived.values, middle, side="right") - 1, 0, len(arrived) - 2)
        base, rise = arrived.values[piece], np.diff(arrived.values)[piece]
        run_s = np.diff(arrived.times_s)[piece]
        # Rows outside the arrival curve (a count that lags behind the sink) arrived at its nearest end.
        share_low = np.clip((low - base) / np.where(rise > 0, rise, 1.0), 0.0, 1.0)
        share_high = np.clip((high - base) / np.where(rise > 0, rise, 1.0), 0.0, 1.0)
        longest = np.maximum(committed_s - arrived.times_s[piece] - share_low * run_s, 0.0)
        shortest = np.maximum(committed_s - arrived.times_s[piece] - share_high * run_s, 0.0)
        return cls(shortest_s=shortest, spread_s=longest - shortest, rows=high - low)

    def rows_within(self, wait_s: float) -> float:
        """Rows that waited at most ``wait_s``: Σ rows × share of their piece below it."""
        return float(np.dot(self.rows, self._share_within(wait_s)))

    def rows_beyond(self, wait_s: float) -> float:
        """Rows that waited longer. Exactly 0 if none did; total − rows_within would have a rounding error."""
        return float(np.dot(self.rows, 1.0 - self._share_within(wait_s)))

    def _share_within(self, wait_s: float) -> Floats:
        """The share of each piece that waited at most ``wait_s``."""
        return np.clip((wait_s - self.shortest_s) / np.maximum(self.spread_s, 1e-9), 0.0, 1.0)

    def among(self, chosen: Bools) -> Waits:
        """The chosen pieces."""
        return Waits(
            shortest_s=self.shortest_s[chosen], spread_s=self.spread_s[chosen], rows=self.rows[chosen]
        )

    @property
    def mean_s(self) -> float | None:
        """Mean wait of a row: Σ rows · middle of their piece ÷ Σ rows.

        >>> Waits.of(Curve.of([(0, 0), (10, 100)]), Curve.of([(0, 0), (12, 100)])).mean_s
        7.0
        """
        rows = float(np.sum(self.rows))
        return float(np.dot(self.rows, self.shortest_s + 0.5 * self.spread_s)) / rows if rows else None

    @property
    def longest_s(self) -> float | None:
        """The longest wait, to the microsecond."""
        return round(float(np.max(self.shortest_s + self.spread_s)), 6) if len(self.rows) else None

    def quantile_s(self, quantile: float) -> float | None:
        """The wait that this share of the rows did not exceed, to the microsecond.

        By bisection; pieces entirely outside the remaining range are dropped.
        """
        longest_s = self.longest_s
        if longest_s is None:
            return None
        open_pieces, missing_rows = self, quantile * float(np.sum(self.rows))
        low_s, high_s = 0.0, longest_s
        while high_s - low_s > 2e-7:
            middle_s = 0.5 * (low_s + high_s)
            if open_pieces.rows_within(middle_s) < missing_rows:
                low_s = middle_s
            else:
                high_s = middle_s
            below = open_pieces.shortest_s + open_pieces.spread_s <= low_s - 1e-9
            missing_rows -= float(np.sum(open_pieces.rows[below]))
            open_pieces = open_pieces.among(~below & (open_pieces.shortest_s < high_s))
        return round(high_s, 6)


def _spanning(curve: Curve) -> Curve:
    """A non-decreasing curve with at least two points, so that it can be interpolated."""
    if len(curve) == 0:
        return Curve.of([(0.0, 0.0), (0.0, 0.0)])
    values = np.maximum.accumulate(curve.values)
    if len(curve) == 1:
        return Curve(np.repeat(curve.times_s, 2), np.repeat(values, 2))
    return Curve(curve.times_s, values)


def _commits(run: Run) -> Curve:
    """Rows processed at the start of the run, then every commit with rows."""
    processed = run.processed
    within = (processed.times_s > run.started_s) & (processed.times_s <= run.ended_s)
    before = float(processed.stepped(run.started_s)) if len(processed) else 0.0
    times_s = np.concatenate(([run.started_s], processed.times_s[within]))
    values = np.maximum.accumulate(np.concatenate(([before], processed.values[within])))
    with_rows = np.concatenate(([True], np.diff(values) > 0))
    return Curve(times_s[with_rows], values[with_rows])


def _lost(run: Run) -> float | None:
    """Rows lost among those that arrived in the run."""
    if run.lost is None or not len(run.lost):
        return None if run.lost is None else 0.0
    return float(run.lost.interpolated(run.ended_s) - run.lost.interpolated(run.started_s))


def _violation(run: Run, survived: Curve, commits: Curve, waits: Waits, *, lost: float) -> float | None:
    """The share of late rows: (processed late + still waiting and overdue + lost) ÷ all rows of the run.

    All rows are those that arrived and those that were waiting at the start.
    """
    limit_s = run.slo.freshness_s + LATE_TOLERANCE_S
    done = float(commits.values[-1])
    rows = max(float(survived.interpolated(run.ended_s)), done) - float(commits.values[0]) + lost
    if rows <= 0:
        return None
    late = waits.rows_beyond(limit_s)
    overdue = (
        max(float(survived.interpolated(run.ended_s - limit_s)) - done, 0.0) if len(run.arrived) else 0.0
    )
    rows_late = late + overdue + lost
    # Less is a rounding error, as of a commit that takes every row at its arrival.
    return min(rows_late / rows, 1.0) if rows_late > _NEGLIGIBLE_ROWS else 0.0


def _throughput_degradation(run: Run, arrived: Curve, commits: Curve) -> float | None:
    """Mean of |in − out| / in over sliding windows (Elysium: one minute, sampled every 10 s).

    The window is one minute, or two typical gaps between commits if that is longer, but at most a third of the run. It
    is sampled six times per window. The rows of a commit count as leaving evenly since the previous commit, over at
    most one window: micro-batches at a steady rate score 0, and a stall is visible. While a backlog is processed, a
    window counts more than 1, as in Elysium (§5.1). Windows with under 1 % of the mean rate are left out: the drain
    after the end of a load, divided by its last few rows, would dominate the mean. Sampling ends with the last commit,
    unless the run continued for two typical gaps without one.
    """
    duration_s = run.ended_s - run.started_s
    if duration_s <= 0:
        return None
    gaps_s = np.diff(commits.times_s)
    typical_gap_s = float(np.median(gaps_s)) if len(gaps_s) else duration_s
    window_s = min(max(_ELYSIUM_WINDOW_S, 2.0 * typical_gap_s), duration_s / 3.0)
    last_s = float(commits.times_s[-1])
    until_s = last_s if len(gaps_s) and run.ended_s - last_s < 2.0 * typical_gap_s else run.ended_s
    until_s = max(until_s, run.started_s + window_s)
    step_s = window_s / _SAMPLES_PER_WINDOW
    samples = int((until_s - run.started_s - window_s) / step_s + 1e-9) + 1
    ends_s = run.started_s + window_s + step_s * np.arange(samples, dtype=np.float64)
    leaving = _spread(commits, window_s)
    starts_s = ends_s - window_s
    rows_in = arrived.interpolated(ends_s) - arrived.interpolated(starts_s)
    rows_out = leaving.interpolated(ends_s) - leaving.interpolated(starts_s)
    total = float(arrived.interpolated(run.ended_s) - arrived.interpolated(run.started_s))
    has_input = (rows_in > 0) & (rows_in >= _MIN_INPUT_SHARE * total * window_s / duration_s)
    if not has_input.any():
        return None
    return float(np.mean(np.abs(rows_in[has_input] - rows_out[has_input]) / rows_in[has_input]))


def _spread(commits: Curve, longest_s: float) -> Curve:
    """The commits as a piecewise linear curve: rows leave evenly since the previous commit, over at most ``longest_s``.

    >>> spread = _spread(Curve.of([(0, 0), (5, 50), (100, 60)]), 10.0)
    >>> [(float(t), float(v)) for t, v in zip(spread.times_s, spread.values)]
    [(0.0, 0.0), (5.0, 50.0), (90.0, 50.0), (100.0, 60.0)]
    """
    stalled = np.flatnonzero(np.diff(commits.times_s) > longest_s)
    where = stalled + 1
    return Curve(
        np.insert(commits.times_s, where, commits.times_s[where] - longest_s),
        np.insert(commits.values, where, commits.values[stalled]),
    )


def score_together(runs: Sequence[Run]) -> Scores:
    """Scores over all rows of pipelines that share their nodes.

    Shared nodes are counted once. Latency quantiles are over the rows of all runs; violation and throughput
    degradation are weighted by the rows of each. There is no ``cost_ratio``: the oracle covers one pipeline.

    >>> from ebbflow.core.curve import Curve
    >>> from ebbflow.core.limits import Limits
    >>> from ebbflow.core.slo import Slo
    >>> def run(name, rows, committed_s):
    ...     return Run(
    ...         strategy="static", pipeline=name, slo=Slo(freshness_s=10.0), limits=Limits.parse("1:4"),
    ...         started_s=0.0, ended_s=20.0, arrived=Curve.of([(0, 0), (10, rows), (20, rows)]),
    ...         processed=Curve.of([(0, 0), (committed_s, rows)]),
    ...         nodes=Curve.of([(0, 2)]), nodes_working=Curve.of([(0, 2)]),
    ...     )
    >>> both = score_together([run("a", 300, 10), run("b", 100, 20)])  # waits 0 … 10 s and 10 … 20 s
    >>> both.node_seconds, both.rows_in, round(both.violation, 3), both.latency_p50_s, both.latency_max_s
    (40.0, 400, 0.25, 6.666667, 20.0)
    """
    each = [score(run, oracle_node_seconds=None) for run in runs]
    waits = [waits_of(run) for run in runs]
    pooled = Waits(
        shortest_s=np.concatenate([w.shortest_s for w in waits]),
        spread_s=np.concatenate([w.spread_s for w in waits]),
        rows=np.concatenate([w.rows for w in waits]),
    )
    return Scores(
        node_seconds=each[0].node_seconds,
        cost_ratio=None,
        violation=by_rows([(s.violation, s.rows_in) for s in each]),
        latency_p50_s=pooled.quantile_s(0.50),
        latency_p95_s=pooled.quantile_s(0.95),
        latency_max_s=pooled.longest_s,
        throughput_degradation=by_rows([(s.throughput_degradation, s.rows_in) for s in each]),
        nodes_saved=each[0].nodes_saved,
        reconfigurations=each[0].reconfigurations,
        rows_in=sum(s.rows_in for s in each),
        rows_out=sum(s.rows_out for s in each),
        rows_lost=sum(lost) if (lost := [s.rows_lost for s in each if s.rows_lost is not None]) else None,
        rows_repeated=sum(s.rows_repeated for s in each),
        **asdict(demand_scores(runs)),
    )


def by_rows(values: Sequence[tuple[float | None, int]]) -> float | None:
    """Mean of the known values, weighted by rows."""
    known = [(value, rows) for value, rows in values if value is not None and rows]
    total = sum(rows for _, rows in known)
    return sum(value * rows for value, rows in known) / total if total else None
