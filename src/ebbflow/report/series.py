"""The curves drawn of a run: rates, backlog and freshness, with no more points than a chart can show.

Times are seconds since the start of the run. A micro-batch engine commits in steps, so backlog and freshness are
sawteeth. They are drawn through their peaks, the values just before each commit, which are what the SLO is about.
"""

from __future__ import annotations

import numpy as np

from ebbflow.core.curve import Curve, Floats
from ebbflow.core.run import Run

_MOST_POINTS = 600
"""A panel is about 1,100 pixels wide, so more points would not be visible."""
_NICE_S = (0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0)


def rate_interval_s(span_s: float) -> float:
    """Seconds to average a rate over so that about a hundred points cover a span.

    >>> rate_interval_s(180.0), rate_interval_s(3600.0)
    (2.0, 30.0)
    """
    return next((nice_s for nice_s in _NICE_S if nice_s >= span_s / 120.0), span_s / 120.0)


def arrival_rate(run: Run) -> Curve:
    """Rows per second that arrived; each point is the mean over the interval around it."""
    knots = _thinned(_inside(run, run.arrived), rate_interval_s(run.ended_s - run.started_s))
    middles_s = (knots.times_s[1:] + knots.times_s[:-1]) / 2.0
    return Curve(middles_s, np.diff(knots.values) / np.diff(knots.times_s))


def processed_rate(run: Run) -> Curve:
    """Rows per second that were processed; each point is the mean since the point before (from the start).

    A commit's rows are spread over the time since the commit before, so a steady pipeline is a flat line.
    """
    knots = _thinned(_commits(run), rate_interval_s(run.ended_s - run.started_s))
    rates = np.diff(knots.values) / np.diff(knots.times_s)
    return Curve(knots.times_s, np.concatenate((rates[:1], rates)))


def nodes_held(run: Run) -> Curve:
    """Nodes paid for, as steps from the start to the end of the run."""
    return _steps(run, run.nodes)


def nodes_working(run: Run) -> Curve:
    """Nodes that were working, as steps from the start to the end of the run."""
    return _steps(run, run.nodes_working)


def backlog(run: Run, *, most_points: int = _MOST_POINTS) -> Curve:
    """Rows that had arrived and were not processed, lost ones aside, just before each commit."""
    times_s = _peak_times(run)
    if not len(run.arrived):
        return Curve.of([])
    rows = run.survived.interpolated(times_s + run.started_s) - _processed_before(run, times_s)
    return _peaks(Curve(times_s, np.maximum(rows, 0.0)), most_points)


def freshness(run: Run, *, most_points: int = _MOST_POINTS) -> Curve:
    """Age of the oldest row not yet processed, just before each commit: that row's latency."""
    times_s = _peak_times(run)
    arrived = run.survived
    if not len(arrived):
        return Curve.of([])
    # The oldest unprocessed row is the first one after those processed, not the last of them: after a lull the two
    # are far apart. Fractions of a row left over by floating point are not a row.
    hair = 1e-6 + 1e-9 * float(arrived.values[-1])
    processed = _processed_before(run, times_s) + hair
    index = np.searchsorted(arrived.values, processed, side="right")
    after = np.minimum(index, len(arrived) - 1)
    before = np.maximum(after - 1, 0)
    rows = arrived.values[after] - arrived.values[before]
    share = np.divide(processed - arrived.values[before], rows, out=np.zeros_like(rows), where=rows > 0)
    oldest_s = arrived.times_s[before] + np.clip(share, 0.0, 1.0) * (
        arrived.times_s[after] - arrived.times_s[before]
    )
    age_s = np.where(index < len(arrived), times_s + run.started_s - oldest_s, 0.0)
    return _peaks(Curve(times_s, np.maximum(age_s, 0.0)), most_points)


def above(curve: Curve, limit: float) -> Curve:
    """The part of a curve above a limit, and the limit itself elsewhere, with the crossings inserted.

    >>> above(Curve.of([(0.0, 0.0), (10.0, 20.0)]), 10.0).times_s.tolist()
    [0.0, 5.0, 10.0]
    """
    times_s, values = curve.times_s, curve.values
    crossing = np.flatnonzero((values[:-1] > limit) != (values[1:] > limit))
    share = (limit - values[crossing]) / (values[crossing + 1] - values[crossing])
    crossed_s = times_s[crossing] + share * (times_s[crossing + 1] - times_s[crossing])
    return Curve(
        np.insert(times_s, crossing + 1, crossed_s),
        np.insert(np.maximum(values, limit), crossing + 1, limit),
    )


def _inside(run: Run, curve: Curve) -> Curve:
    """The part of a curve within the run, ends interpolated, times since the start."""
    if not len(curve) or run.ended_s <= run.started_s:
        return Curve.of([])
    within = curve.times_s[(curve.times_s > run.started_s) & (curve.times_s < run.ended_s)]
    edges = np.concatenate(([run.started_s], np.unique(within), [run.ended_s]))
    return Curve(edges - run.started_s, curve.interpolated(edges))


def _steps(run: Run, curve: Curve) -> Curve:
    """The changes of a curve, and points in between, so that there is always one near the pointer."""
    if not len(curve) or run.ended_s <= run.started_s:
        return Curve.of([])
    changes_s = curve.times_s[(curve.times_s > run.started_s) & (curve.times_s < run.ended_s)]
    grid_s = np.arange(run.started_s, run.ended_s, rate_interval_s(run.ended_s - run.started_s))
    times_s = np.unique(np.concatenate((changes_s, grid_s, [run.ended_s])))
    return Curve(times_s - run.started_s, curve.stepped(times_s))


def _commits(run: Run) -> Curve:
    """The rows processed at the start and at each commit that added some."""
    processed = run.processed
    if not len(processed):
        return Curve.of([(0.0, 0.0)])
    within = (processed.times_s > run.started_s) & (processed.times_s <= run.ended_s)
    times_s = processed.times_s[within] - run.started_s
    values = processed.values[within]
    last_of_time = np.append(times_s[1:] > times_s[:-1], True)[: len(times_s)]
    times_s, values = times_s[last_of_time], values[last_of_time]
    before = float(processed.stepped(run.started_s))
    grew = np.diff(values, prepend=before) > 0
    return Curve(np.concatenate(([0.0], times_s[grew])), np.concatenate(([before], values[grew])))


def _processed_before(run: Run, times_s: Floats) -> Floats:
    """Rows processed just before each time; a commit at exactly that time does not count."""
    commits = _commits(run)
    index = np.searchsorted(commits.times_s, times_s, side="left") - 1
    return np.asarray(commits.values[np.maximum(index, 0)])


def _peak_times(run: Run) -> Floats:
    """The start, the end, each commit, and points in between where commits are far apart."""
    span_s = max(run.ended_s - run.started_s, 0.0)
    commits_s = _commits(run).times_s
    usual_gap_s = float(np.median(np.diff(commits_s))) if len(commits_s) > 2 else 0.0
    grid_s = np.arange(0.0, span_s, max(span_s / 120.0, 1e-3))
    since_s = grid_s - commits_s[np.searchsorted(commits_s, grid_s, side="right") - 1]
    waiting_s = grid_s[since_s > 2.0 * usual_gap_s]
    return np.unique(np.concatenate(([0.0], commits_s, waiting_s, [span_s])))


def _thinned(curve: Curve, gap_s: float) -> Curve:
    """A cumulative curve with at least ``gap_s`` between its points; rates between them stay exact means."""
    kept: list[int] = []
    for index, time_s in enumerate(curve.times_s):
        if not kept or time_s - curve.times_s[kept[-1]] >= gap_s * (1 - 1e-9):
            kept.append(index)
    return Curve(curve.times_s[kept], curve.values[kept])


def _peaks(curve: Curve, most_points: int) -> Curve:
    """At most this many points, the highest of each interval, so that no violation is lost."""
    if len(curve) <= most_points:
        return curve
    parts = np.array_split(np.arange(len(curve)), most_points)
    highest = [int(part[np.argmax(curve.values[part])]) for part in parts]
    return Curve(curve.times_s[highest], curve.values[highest])
