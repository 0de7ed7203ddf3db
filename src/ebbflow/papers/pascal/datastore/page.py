"""The page of ``bench datastore``: Tables 3 to 5 and Figures 18 to 23, published beside ours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ebbflow.core.metrics import Metric
from ebbflow.core.plural import counted
from ebbflow.papers.page import embedded_data
from ebbflow.papers.pascal.datastore.published import (
    BOUNDED_PER_S,
    CHANGE_S,
    JOINED_S,
    MEAN_DELTA_S,
    MOST_PER_S,
    TABLE_5,
    published_json,
)
from ebbflow.papers.pascal.datastore.results import (
    STATIC_FEW,
    STATIC_MOST,
    Action,
    Benchmark,
    Impact,
    Points,
    StoreResult,
    StoreRun,
)
from ebbflow.profiling.datastore import DatastoreProfile
from ebbflow.report.panels import Panel, PanelLine, Picture
from ebbflow.report.template import render
from ebbflow.report.wording import number, share

MOST_POINTS = 1500
"""Points of a line; more are thinned out."""
RESULT_COLUMNS = (
    ("actions", "changes of the number of nodes"),
    ("unneeded", "actions that the load did not demand"),
    ("missed", "demand points at which too few nodes served, of all"),
    ("mean |Δ|", "mean of |DP − RP| over the actions that have both"),
    ("nodes saved", "1 − node-seconds ÷ (most nodes × duration)"),
    ("answered", "requests answered by the end of the run"),
    ("response", "mean response time"),
    ("response p95", "95th percentile of the mean response times of each observation"),
)


def write_datastore_page(path: Path, done: Benchmark, drawn_s: tuple[float, float]) -> None:
    """Write the page as one HTML file."""
    path.write_text(datastore_page(done, drawn_s), encoding="utf-8")


def datastore_page(done: Benchmark, drawn_s: tuple[float, float]) -> str:
    """The page as HTML text. ``drawn_s``: the part of the runs that is drawn."""
    results = done.results
    pictures = list(_pictures(done, drawn_s))
    return render(
        "page.html.j2",
        folder=Path(__file__).parent,
        title="Pascal's datastore",
        headline=headline(results),
        ok=bool(results) and results[0].ok,
        facts=done.facts,
        table_3=table_3(done.profile),
        table_4=table_4(done.profile),
        result_columns=RESULT_COLUMNS,
        results=[{"name": each.strategy, "cells": result_cells(each)} for each in results],
        tables_5=[
            {"name": each.strategy, "rows": [action_cells(action) for action in each.actions]}
            for each in results
            if each.actions
        ],
        published_5=[
            [
                f"{a.action:+d}",
                *(f"{s:,.0f} s" for s in (a.tp_s, a.rp_s, a.dp_s, a.rp_s - a.tp_s, a.dp_s - a.rp_s)),
            ]
            for a in TABLE_5
        ],
        published_mean=f"{MEAN_DELTA_S:.1f} s",
        pictures=pictures,
        data=embedded_data(pictures, rows=results, comparisons=(), studies=_Studies(done), curves={}),
    )


@dataclass(frozen=True)
class _Studies:
    done: Benchmark

    def to_json(self) -> dict[str, Any]:
        return benchmark_json(self.done)


def benchmark_json(done: Benchmark) -> dict[str, Any]:
    """The whole result as JSON values; actions and scores at the top are those of the first strategy."""
    results = done.results
    first = results[0].to_json() if results else {}
    return {
        "target": done.target,
        "strategy": first.get("strategy"),
        "tables": {
            "3": [
                {
                    "nodes": row.nodes,
                    "most_per_s": round(row.most_per_s, 1),
                    "bounded_per_s": round(done.profile.bounded_per_s(row.nodes), 1),
                    "error": round(row.error, 4),
                }
                for row in done.profile.performance
            ],
            "4": [
                {
                    "before": row.before,
                    "after": row.after,
                    "data_gb": row.data_gb,
                    "seconds": round(row.seconds, 1),
                    "cleanup_s": round(row.cleanup_s, 1),
                }
                for row in done.profile.times
            ],
            "5": first.get("actions", []),
        },
        "bound": round(done.profile.bound, 4),
        "actions": first.get("actions", []),
        "nodes_saved": first.get("nodes_saved"),
        "missed_demand_points": first.get("missed_demand_points"),
        "strategies": {each.strategy: each.to_json() for each in results},
        "impacts": [each.to_json() for each in done.impacts],
        "published": published_json(),
    }


def headline(results: Sequence[StoreResult]) -> str:
    """The result in one sentence."""
    if not results or results[0].mean_delta_s is None:
        return "Pascal's datastore"
    first = results[0]
    return (
        f"Nodes complete {first.mean_delta_s:.0f} s from their demand point on average (the paper: "
        f"{MEAN_DELTA_S:.0f} s), {first.missed_demand_points} of "
        f"{counted(first.demand_points, 'demand point')} missed, "
        f"{share(first.nodes_saved)} of the nodes saved"
    )


# -- tables ------------------------------------------------------------------------------------------------------


def table_3(profile: DatastoreProfile) -> list[list[str]]:
    """Nodes, X_max and X_B, published and ours, and the error."""
    return [
        [
            str(row.nodes),
            _rate(MOST_PER_S.get(row.nodes)),
            f"{row.most_per_s:,.0f}",
            f"{100 * row.error:.1f} %",
            _rate(BOUNDED_PER_S.get(row.nodes)),
            f"{profile.bounded_per_s(row.nodes):,.0f}",
        ]
        for row in profile.performance
    ]


def table_4(profile: DatastoreProfile) -> list[list[str]]:
    """Changes, published and ours: until the node is active or gone, and with the cleanup."""
    rows = []
    for row in profile.times:
        if row.data_gb != profile.data_gb:
            continue
        published = CHANGE_S.get((row.before, row.after))
        rows.append(
            [
                f"{row.before} to {row.after}",
                number(None) if published is None else f"{published:.0f} s",
                f"{row.seconds:.0f} s",
                f"{row.seconds + row.cleanup_s:.0f} s",
            ]
        )
    return rows


def _rate(rate_per_s: float | None) -> str:
    return number(None) if rate_per_s is None else f"{rate_per_s:,.0f}"


def result_cells(result: StoreResult) -> list[str]:
    """The cells of a strategy, after its name."""
    return [
        str(len(result.actions)),
        str(result.unneeded),
        f"{result.missed_demand_points} of {result.demand_points}",
        _seconds(result.mean_delta_s),
        share(result.nodes_saved),
        f"{100 * result.answered:.2f} %",
        _ms(result.response_mean_s),
        _ms(result.response_p95_s),
    ]


def action_cells(action: Action) -> list[str]:
    """Action, TP, RP, DP, duration, Δ."""
    times = (action.tp_s, action.rp_s, action.dp_s, action.duration_s, action.delta_s)
    return [f"{action.change:+d}", *map(_seconds, times)]


def _seconds(seconds: float | None) -> str:
    return number(None) if seconds is None else f"{seconds:,.0f} s"


def _ms(seconds: float | None) -> str:
    return number(None) if seconds is None else f"{1000 * seconds:,.1f} ms"


# -- pictures ----------------------------------------------------------------------------------------------------


def _pictures(done: Benchmark, drawn_s: tuple[float, float]) -> Iterator[Picture]:
    yield from (_impact(each) for each in done.impacts)
    if any(row.steps for row in done.profile.performance):
        yield _performance(done.profile)
    if done.runs:
        yield _decisions(done.runs[0], drawn_s)
        yield _compared(done.runs, drawn_s)


def _impact(impact: Impact) -> Picture:
    joins = impact.after > impact.before
    figure, what = (18, "joins") if joins else (19, "leaves")
    cleanup = "" if impact.cleaned_s is None else f", and cleaned up at {impact.cleaned_s:.0f} s"
    paper = f" In the paper it has joined at {JOINED_S:.0f} s." if joins else ""
    return Picture(
        title=f"A node {what} at {impact.rate_per_s:,.0f} requests/s (Figure {figure})",
        caption=f"{impact.before} nodes; the change begins at {impact.began_s:.0f} s and is complete at "
        f"{impact.ended_s:.0f} s{cleanup}. Throughput changes by {100 * impact.throughput_change:+.1f} %, response "
        f"times by a factor of {impact.response_factor:.2f}.{paper}",
        panels=[
            Panel(
                title="requests/s",
                lines=[
                    PanelLine(name="cluster", points=_thinned(impact.throughput)),
                    PanelLine(name="a node", points=_thinned(impact.per_node)),
                ],
            ),
            Panel(
                title="response time, ms",
                lines=[PanelLine(name="cluster", points=_thinned(impact.response, scale=1000.0))],
            ),
        ],
    )


def _performance(profile: DatastoreProfile) -> Picture:
    return Picture(
        title="Performance model (Figure 21a and b)",
        caption=f"Throughput and mean response time by offered rate. The bound is {profile.bound:.2f} of the highest "
        f"throughput, from a response time of {1000 * profile.wanted_response_s:g} ms.",
        x_title="requests/s offered",
        panels=[
            Panel(
                title="throughput, requests/s",
                lines=[
                    PanelLine(
                        name=f"{row.nodes} nodes",
                        points=[(s.offered_per_s, round(s.throughput_per_s, 1)) for s in row.steps],
                    )
                    for row in profile.performance
                ],
            ),
            Panel(
                title="mean response time, ms",
                lines=[
                    PanelLine(
                        name=f"{row.nodes} nodes",
                        points=[(s.offered_per_s, round(1000 * s.response_mean_s, 3)) for s in row.steps],
                    )
                    for row in profile.performance
                ],
            ),
        ],
    )


def _decisions(first: StoreRun, drawn_s: tuple[float, float]) -> Picture:
    """Figure 21(c): the load against the bounds, and the nodes."""
    start_s, end_s = drawn_s
    bounds = [
        PanelLine(
            name=f"bound of {n} nodes",
            points=[(start_s, first.profile.bounded_per_s(n)), (end_s, first.profile.bounded_per_s(n))],
            dashed=True,
        )
        for n in range(first.profile.replication, first.most_nodes)
    ]
    return Picture(
        title=f"Load, bounds and nodes: {first.strategy} (Figure 21c)",
        caption="Nodes that serve, and nodes that are paid for from the begin of their join until they are gone.",
        panels=[
            Panel(
                title="requests/s",
                lines=[
                    PanelLine(name="load", points=_drawn(first, Metric.ARRIVAL_RATE, drawn_s), behind=True),
                    *bounds,
                ],
            ),
            Panel(
                title="nodes",
                whole=True,
                lines=[
                    PanelLine(name="serving", points=_steps(first.run.nodes_working, drawn_s), steps=True),
                    PanelLine(name="held", points=_steps(first.run.nodes, drawn_s), steps=True, dashed=True),
                ],
            ),
        ],
    )


def _compared(runs: Sequence[StoreRun], drawn_s: tuple[float, float]) -> Picture:
    """Figures 22 and 23: throughput and response time against six nodes and three."""
    shown = [runs[0], *(each for each in runs[1:] if each.strategy in (STATIC_MOST, STATIC_FEW))]
    return Picture(
        title="Throughput and response time against static sizes (Figures 22 and 23)",
        caption="The load is grey.",
        panels=[
            Panel(
                title="throughput, requests/s",
                lines=[
                    PanelLine(name="load", points=_drawn(runs[0], Metric.ARRIVAL_RATE, drawn_s), behind=True),
                    *(
                        PanelLine(name=each.strategy, points=_drawn(each, Metric.THROUGHPUT, drawn_s))
                        for each in shown
                    ),
                ],
            ),
            Panel(
                title="response time, ms",
                lines=[
                    PanelLine(
                        name=each.strategy,
                        points=_drawn(each, Metric.RESPONSE_TIME, drawn_s, scale=1000.0),
                    )
                    for each in shown
                ],
            ),
            Panel(
                title="nodes",
                whole=True,
                lines=[
                    PanelLine(name=each.strategy, points=_steps(each.run.nodes_working, drawn_s), steps=True)
                    for each in shown
                ],
            ),
        ],
    )


def _drawn(run: StoreRun, metric: Metric, drawn_s: tuple[float, float], scale: float = 1.0) -> Points:
    start_s, end_s = drawn_s
    inside = [(t, v) for t, v in run.points.get(metric, ()) if start_s <= t <= end_s]
    return _thinned(inside, scale=scale)


def _thinned(points: Points, *, scale: float = 1.0) -> Points:
    every = max(1, -(-len(points) // MOST_POINTS))
    return [(round(t, 1), round(scale * v, 4)) for t, v in list(points)[::every]]


def _steps(curve: Any, drawn_s: tuple[float, float]) -> Points:
    start_s, end_s = drawn_s
    inside = [
        (float(t), float(v)) for t, v in zip(curve.times_s, curve.values, strict=True) if start_s < t < end_s
    ]
    first, last = float(curve.stepped(start_s)), float(curve.stepped(end_s))
    return [(start_s, first), *inside, (end_s, last)]
