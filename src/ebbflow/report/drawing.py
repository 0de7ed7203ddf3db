"""A run thinned out to what a chart shows: about ten kilobytes for a day, so that a page can hold a hundred.

Made where the run was simulated, possibly on another machine, so it needs numpy and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ebbflow.core.curve import Curve, Floats
from ebbflow.core.decision import LedgerEntry
from ebbflow.core.run import Run
from ebbflow.report import series, wording
from ebbflow.report.wording import bound_by, change, effect
from ebbflow.runs.scaling_points import ScalingPoints, scaling_points

FULL_RUNS = 120
"""Runs that a page holds in full detail; with more runs, each gets less."""
MOST_RUNS = 1_500
"""The most runs that a page can hold."""


@dataclass(frozen=True, kw_only=True)
class Detail:
    """How much of a run is kept."""

    points: int = 300
    """Points of backlog and freshness: the highest of each interval."""
    steps: int = 500
    """Points of the node curves: the highest of each interval."""
    acts: int = 120
    """Acts; the largest changes of a run that has more."""

    @classmethod
    def of_each(cls, runs: int) -> Detail:
        """The detail of each run if a page has this many, so that the page stays below about 15 MB.

        >>> Detail.of_each(100) == Detail(), Detail.of_each(360)
        (True, Detail(points=100, steps=166, acts=40))
        """
        full, share = cls(), min(1.0, FULL_RUNS / max(runs, 1))
        return cls(
            points=max(60, int(full.points * share)),
            steps=max(80, int(full.steps * share)),
            acts=max(20, int(full.acts * share)),
        )


FULL = Detail()


@dataclass(frozen=True, kw_only=True, eq=False)
class Act:
    """A decision that changed the layout, in words."""

    time_s: float
    nodes: int
    growth: int
    change: str
    reason: str
    bound_by: str
    effect: str
    ready_s: float | None
    demand_s: float | None
    points: str
    """When it was complete and when the load demanded it, in words."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Drawing:
    """The curves of a run over the seconds since its start, and its largest changes."""

    span_s: float
    load: Curve
    """Rows per second that arrive."""
    held: Curve
    working: Curve
    hindsight: Curve | None
    """Nodes that the cheapest schedule with hindsight holds, as steps; None if unknown."""
    capacity_rows_per_s: Floats
    """The highest rate of 0, 1, 2 … nodes."""
    backlog: Curve
    freshness: Curve
    acts: tuple[Act, ...]
    acts_in_all: int

    @property
    def acts_left_out(self) -> int:
        """Acts that were left out."""
        return self.acts_in_all - len(self.acts)

    def curves(self) -> dict[str, Any]:
        """The curves of this run as plain numbers: a list of times and a list of values each."""
        digits = 0 if self.span_s > 3600 else 1
        return {
            "held": _lists(self.held, digits, 2),
            "working": _lists(self.working, digits, 2),
            "backlog": _lists(self.backlog, digits, 0),
            "freshness": _lists(self.freshness, digits, 1),
            "acts": [
                [
                    round(a.time_s, digits),
                    a.nodes,
                    a.growth,
                    a.change,
                    a.reason,
                    a.bound_by,
                    a.effect,
                    None if a.ready_s is None else round(a.ready_s, digits),
                    None if a.demand_s is None else round(a.demand_s, digits),
                    a.points,
                ]
                for a in self.acts
            ],
            "actsInAll": self.acts_in_all,
        }

    def shared_curves(self) -> dict[str, Any]:
        """The curves that are the same for every strategy on the same load."""
        digits = 0 if self.span_s > 3600 else 1
        return {
            "span": self.span_s,
            "load": _lists(self.load, digits, 1),
            "hindsight": None if self.hindsight is None else _lists(self.hindsight, digits, 2),
            "capacity": [round(float(rate), 1) for rate in self.capacity_rows_per_s],
        }


def draw_runs(
    runs: Sequence[Run], capacity_rows_per_s: Floats, schedule: Curve | None, *, detail: Detail = FULL
) -> Drawing:
    """What a page shows of a run, given with the rows of each of its pipelines: those of the first."""
    return draw(runs[0], capacity_rows_per_s, schedule, scaling_points(runs), detail=detail)


def draw(
    run: Run,
    capacity_rows_per_s: Floats,
    hindsight: Curve | None,
    points: Sequence[ScalingPoints] = (),
    *,
    detail: Detail = FULL,
) -> Drawing:
    """Thin out a run. ``hindsight`` are the nodes of the cheapest schedule, in the time of the run; ``points`` those of
    its acts."""
    by_id = {each.entry_id: each for each in points}
    acts = [entry for entry in run.decisions if entry.verdict == "act"]
    largest = sorted(acts, key=lambda entry: -abs(_growth(entry)))[: detail.acts]
    return Drawing(
        span_s=run.ended_s - run.started_s,
        load=series.arrival_rate(run),
        held=_steps(run, run.nodes, detail.steps),
        working=_steps(run, run.nodes_working, detail.steps),
        hindsight=None if hindsight is None else _steps(run, hindsight, detail.steps),
        capacity_rows_per_s=capacity_rows_per_s,
        backlog=series.backlog(run, most_points=detail.points),
        freshness=series.freshness(run, most_points=detail.points),
        acts=tuple(
            _act(entry, run.started_s, by_id.get(entry.entry_id))
            for entry in sorted(largest, key=lambda entry: entry.time_s)
        ),
        acts_in_all=len(acts),
    )


def _act(entry: LedgerEntry, started_s: float, points: ScalingPoints | None) -> Act:
    wanted = entry.decision.wanted
    ready_s, demand_s = (None, None) if points is None else (points.ready_s, points.demand_s)
    return Act(
        time_s=entry.time_s - started_s,
        nodes=sum(wanted.nodes.values()),
        growth=_growth(entry),
        change=change(entry.before, wanted),
        reason=entry.decision.reason,
        bound_by=bound_by(entry.decision),
        effect=effect(entry),
        ready_s=None if ready_s is None else ready_s - started_s,
        demand_s=None if demand_s is None else demand_s - started_s,
        points=wording.scaling_points(points),
    )


def _growth(entry: LedgerEntry) -> int:
    return sum(entry.decision.wanted.nodes.values()) - sum(entry.before.nodes.values())


def _steps(run: Run, curve: Curve, most: int) -> Curve:
    """A step curve within the run: exact if it has few changes, else the highest value of each interval."""
    if not len(curve):
        return curve
    inside = curve.times_s[(curve.times_s > run.started_s) & (curve.times_s < run.ended_s)]
    times_s = np.concatenate(([run.started_s], inside, [run.ended_s]))
    values = curve.stepped(times_s)
    if len(times_s) > most:
        edges_s = np.linspace(run.started_s, run.ended_s, most)
        every_s = np.union1d(times_s, edges_s)
        firsts = np.searchsorted(every_s, edges_s[:-1])
        highest = np.maximum.reduceat(curve.stepped(every_s), firsts)
        times_s, values = edges_s, np.append(highest, values[-1])
    return Curve(times_s - run.started_s, values)


def _lists(curve: Curve, time_digits: int, digits: int) -> list[list[float]]:
    return [_plain(curve.times_s, time_digits), _plain(curve.values, digits)]


def _plain(values: Floats, digits: int) -> list[float]:
    """Rounded, whole numbers without a decimal point: half the size."""
    return [int(v) if v == int(v) else v for v in np.round(values, digits).tolist()]
