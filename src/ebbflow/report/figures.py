"""Plotly figures of runs: the timeline, and bars that compare cost and latency.

Colours are in ``static/colors.css``. Figures have no background of their own, so that a page can be dark.
"""

from __future__ import annotations

import html
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from ebbflow.core.curve import Curve
from ebbflow.core.decision import LedgerEntry
from ebbflow.core.run import Run
from ebbflow.report import series
from ebbflow.report.palette import (
    AREA,
    COLOURS,
    FONT,
    GRID,
    INK,
    MARKER_EDGE,
    MUTED,
    SLO,
    SPIKE,
    TRANSPARENT,
    tint,
)
from ebbflow.report.wording import (
    Scores,
    bound_by,
    change,
    clock,
    effect,
    inputs,
    labels,
    scaling_points,
    seconds,
    whole,
)
from ebbflow.runs.scaling_points import ScalingPoints

_LOAD, _NODES, _BACKLOG, _FRESHNESS = "y", "y2", "y3", "y4"
_DOMAINS = {_LOAD: (0.795, 0.97), _NODES: (0.53, 0.725), _BACKLOG: (0.295, 0.46), _FRESHNESS: (0.0, 0.225)}
_TITLES = {
    _LOAD: ("Load", "area: arriving, line: processed, rows/s"),
    _NODES: ("Executors", "{held}: held, line: working, ▲▼ decisions, ○ complete, × demanded"),
    _BACKLOG: ("Backlog", "rows waiting, just before each commit"),
    _FRESHNESS: ("Freshness", "latency of the oldest row of each commit, s"),
}
_BARE_AXIS = {"showgrid": False, "zeroline": False, "showticklabels": False, "fixedrange": True}


def timeline(runs: Sequence[Run], points: Sequence[Sequence[ScalingPoints]] = ()) -> Any:
    """Load, nodes, backlog and freshness of one or several runs, in panels over one time axis.

    ``points``: those of the acts of each run.
    Returns a ``plotly.graph_objects.Figure``. A click on a run in the legend hides it in all panels.
    """
    graph = _graph_objects()
    figure = graph.Figure()
    unit_s, suffix = _time_unit(runs)
    if runs:
        _add_load(figure, graph, runs, unit_s)
    alone = len(runs) == 1
    for index, (run, label) in enumerate(zip(runs, labels(runs), strict=True)):
        _add_run(
            _Group(figure, graph, index=index, label=_plain_name(label), alone=alone, unit_s=unit_s),
            run,
            points[index] if points else (),
        )
    _add_limits(figure, runs)
    _lay_out(figure, runs, unit_s, suffix)
    return figure


def _time_unit(runs: Sequence[Run]) -> tuple[float, str]:
    """Seconds of the unit of the time axis, and its suffix."""
    span_s = max((run.ended_s - run.started_s for run in runs), default=0.0)
    return (3600.0, " h") if span_s > 10_800 else (60.0, " min") if span_s > 600 else (1.0, " s")


def comparison(runs: Sequence[Run], scores: Sequence[Scores]) -> Any:
    """Bars of the cost of each run (executor-seconds) and its latency (p95), with the SLO.

    Returns a ``plotly.graph_objects.Figure``. An unknown value has no bar.
    """
    graph = _graph_objects()
    figure = graph.Figure()
    names = [_plain_name(label) for label in labels(runs)]
    colours = [COLOURS[index % len(COLOURS)] for index in range(len(runs))]
    panels = (
        ("", "node_seconds", whole, "Executor-seconds"),
        ("2", "latency_p95_s", seconds, "Row latency p95"),
    )
    for axis, key, text, heading in panels:
        values = [score.get(key) for score in scores]
        figure.add_trace(
            graph.Bar(
                x=values, y=names, orientation="h", xaxis=f"x{axis}", yaxis=f"y{axis}", showlegend=False,
                marker={"color": colours, "line": {"width": 0}}, width=0.62,
                text=[text(value) for value in values], textposition="auto", cliponaxis=False,
                insidetextanchor="end", textangle=0, textfont={"size": 12.5},
                hovertemplate="%{y}: %{text}<extra></extra>",
            )
        )  # fmt: skip
        slos_s = [run.slo.freshness_s for run in runs] if key == "latency_p95_s" else []
        top = max([*(value for value in values if value is not None), *slos_s], default=0.0) * 1.08 or 1.0
        domain = (0.57, 0.94) if axis == "" else (0.06, 0.43)
        figure.update_layout({
            f"xaxis{axis}": {**_BARE_AXIS, "range": [0, top], "anchor": f"y{axis}"},
            f"yaxis{axis}": {
                "domain": domain, "anchor": f"x{axis}", "autorange": "reversed", "automargin": True,
                "ticks": "", "ticklabelstandoff": 6, "fixedrange": True, "showgrid": False,
            },
        })  # fmt: skip
        figure.add_annotation(
            xref="paper", yref="paper", x=0, y=domain[1], xanchor="left", yanchor="bottom", yshift=4,
            showarrow=False, text=f"<b>{heading}</b>", font={"size": 13},
        )  # fmt: skip
    for slo_s in sorted({run.slo.freshness_s for run in runs}):
        figure.add_shape(
            type="line", xref="x2", yref="y2 domain", x0=slo_s, x1=slo_s, y0=0, y1=1, name="slo",
            line={"color": SLO, "width": 1.3, "dash": "dash"},
        )  # fmt: skip
        figure.add_annotation(
            xref="x2", yref="y2 domain", x=slo_s, y=0, yanchor="top", showarrow=False,
            text=f"SLO {seconds(slo_s)}", font={"size": 11.5, "color": SLO},
        )  # fmt: skip
    figure.update_layout(
        **_base_layout(), height=120 + 92 * max(len(runs), 1), margin={"l": 4, "r": 4, "t": 4, "b": 4},
        hovermode="closest",
    )  # fmt: skip
    return figure


def _graph_objects() -> Any:
    """Imported when a figure is drawn: it takes a second."""
    import plotly.graph_objects

    return plotly.graph_objects


class _Group:
    """The traces of one run: one colour, one entry in the legend."""

    def __init__(
        self, figure: Any, graph: Any, *, index: int, label: str, alone: bool, unit_s: float
    ) -> None:
        self._figure, self._graph = figure, graph
        self._key, self._label, self.alone, self.unit_s = f"run{index}", label, alone, unit_s
        self.colour = COLOURS[index % len(COLOURS)]
        self._dash = "solid" if index < len(COLOURS) else "dash"

    def add(self, panel: str, curve: Curve, hover: str, **options: Any) -> None:
        """Add a line of the run to a panel; ``hover`` describes y, or is empty for no hover text."""
        prefix = "" if self.alone else f"{self._label} · "
        line = {"color": self.colour, "width": 1.8, "dash": self._dash, **options.pop("line", {})}
        self.add_raw(
            panel, x=_rounded(curve.times_s / self.unit_s), y=_rounded(curve.values), mode="lines", line=line,
            hovertemplate=f"{prefix}{hover}<extra></extra>" if hover else None,
            hoverinfo=None if hover else "skip", **options,
        )  # fmt: skip

    def add_raw(self, panel: str, *, showlegend: bool = False, **options: Any) -> None:
        self._figure.add_trace(
            self._graph.Scatter(
                xaxis="x",
                yaxis=panel,
                legendgroup=self._key,
                showlegend=showlegend,
                **{"name": self._label, **options},
            )
        )


def _add_load(figure: Any, graph: Any, runs: Sequence[Run], unit_s: float) -> None:
    """The load as a grey area if it is the same for all runs, else one area per run."""
    loads = [series.arrival_rate(run) for run in runs]
    same = all(_alike(loads[0], load) for load in loads[1:])
    for index, load in enumerate(loads[:1] if same else loads):
        whose = "" if same else f"{_plain_name(labels(runs)[index])} · "
        figure.add_trace(
            graph.Scatter(
                x=_rounded(load.times_s / unit_s), y=_rounded(load.values), xaxis="x", yaxis=_LOAD, mode="lines",
                line={"width": 0}, fill="tozeroy", name="load",
                fillcolor=AREA if same else tint(COLOURS[index % len(COLOURS)], 0.14),
                legendgroup="load" if same else f"run{index}", showlegend=same,
                hovertemplate=f"{whose}arriving %{{y:,.0f}} rows/s<extra></extra>",
            )
        )  # fmt: skip


def _alike(one: Curve, other: Curve) -> bool:
    if not len(one) or not len(other):
        return len(one) == len(other)
    apart = np.abs(one.values - other.interpolated(one.times_s))
    return bool(np.mean(apart) <= 0.05 * max(float(np.mean(one.values)), 1e-9))


def _add_run(group: _Group, run: Run, points: Sequence[ScalingPoints]) -> None:
    processed = series.processed_rate(run)
    group.add(_LOAD, processed, "processed %{y:,.0f} rows/s", line={"shape": "vh"}, showlegend=True)
    held = series.nodes_held(run)
    if group.alone:
        line = {"shape": "hv", "width": 0}
        group.add(_NODES, held, "held %{y:d}", fill="tozeroy", fillcolor=tint(group.colour, 0.18), line=line)
    else:  # overlapping areas are unreadable
        group.add(_NODES, held, "held %{y:d}", line={"shape": "hv", "width": 1.1, "dash": "dot"})
    group.add(_NODES, series.nodes_working(run), "working %{y:d}", line={"shape": "hv", "width": 2})
    _add_decisions(group, run, points)
    group.add(_BACKLOG, series.backlog(run), "backlog %{y:,.0f} rows", line={"width": 1.6})
    latency = series.freshness(run)
    late = series.above(latency, run.slo.freshness_s)
    if np.any(latency.values > run.slo.freshness_s):
        flat = Curve(late.times_s, np.full_like(late.values, run.slo.freshness_s))
        group.add(_FRESHNESS, flat, "", line={"width": 0})
        late_fill = tint(COLOURS[1], 0.3) if group.alone else tint(group.colour, 0.25)
        group.add(_FRESHNESS, late, "", line={"width": 0}, fill="tonexty", fillcolor=late_fill)
    group.add(_FRESHNESS, latency, "oldest row %{y:,.1f} s", line={"width": 1.8})


def _add_decisions(group: _Group, run: Run, points: Sequence[ScalingPoints]) -> None:
    acts = [entry for entry in run.decisions if entry.verdict == "act"]
    if not acts:
        return
    by_id = {each.entry_id: each for each in points}
    marks = [
        ((at_s - run.started_s) / group.unit_s, each.after, symbol)
        for each in points
        for at_s, symbol in ((each.ready_s, "circle-open"), (each.demand_s, "x-thin-open"))
        if at_s is not None
    ]
    if marks:
        group.add_raw(
            _NODES, mode="markers", x=[round(x, 3) for x, _, _ in marks], y=[y for _, y, _ in marks],
            marker={
                "symbol": [symbol for _, _, symbol in marks], "size": 8, "color": group.colour,
                "line": {"color": group.colour, "width": 1.6},
            },
            name="ready and demand points", hoverinfo="skip", cliponaxis=False,
        )  # fmt: skip
    group.add_raw(
        _NODES, mode="markers", x=[round((entry.time_s - run.started_s) / group.unit_s, 3) for entry in acts],
        y=[sum(entry.decision.wanted.nodes.values()) for entry in acts],
        marker={
            "symbol": [_symbol(entry) for entry in acts], "size": 11, "color": group.colour,
            "line": {"color": MARKER_EDGE, "width": 1.2},
        },
        text=[decision_text(entry, run.started_s, by_id.get(entry.entry_id)) for entry in acts],
        hovertemplate="%{text}<extra></extra>",
        cliponaxis=False,
    )  # fmt: skip


def _symbol(entry: LedgerEntry) -> str:
    growth = sum(entry.decision.wanted.nodes.values()) - sum(entry.before.nodes.values())
    return "triangle-up" if growth > 0 else "triangle-down" if growth < 0 else "diamond"


def decision_text(entry: LedgerEntry, started_s: float, points: ScalingPoints | None = None) -> str:
    """A decision as hover text: the change, reason, inputs, constraints, effect and points."""
    decision = entry.decision
    lines = [f"<b>{clock(entry.time_s - started_s)}  {_escaped(change(entry.before, decision.wanted))}</b>"]
    lines += [_escaped(line) for line in textwrap.wrap(decision.reason, 64)]
    facts = (
        ("", decision.formula),
        ("with", inputs(decision)),
        ("bound by", bound_by(decision)),
        ("expected → achieved:", effect(entry)),
        ("", scaling_points(points)),
    )
    for name, fact in facts:
        if fact:
            words = f"{name} {fact}".strip()
            lines += [f"<i>{_escaped(line)}</i>" for line in textwrap.wrap(words, 68)]
    return "<br>".join(lines)


def _plain_name(label: str) -> str:
    """A name without markup or placeholders for Plotly."""
    return _escaped(label).replace("%{", "% {")


def _escaped(text: str) -> str:
    return html.escape(text, quote=False)


def _add_limits(figure: Any, runs: Sequence[Run]) -> None:
    """The node limits as faint lines and the SLO as a dashed one, labelled in the right margin."""
    faint = {"color": MUTED, "width": 0.8, "dash": "dot"}
    for nodes in sorted({run.limits.min_nodes for run in runs}):
        _add_level(figure, _NODES, nodes, "limit", faint, f"min {nodes}")
    for nodes in sorted({run.limits.max_nodes for run in runs}):
        _add_level(figure, _NODES, nodes, "limit", faint, f"max {nodes}")
    for slo_s in sorted({run.slo.freshness_s for run in runs}):
        line = {"color": SLO, "width": 1.3, "dash": "dash"}
        _add_level(figure, _FRESHNESS, slo_s, "slo", line, f"SLO {seconds(slo_s)}")


def _add_level(figure: Any, panel: str, value: float, name: str, line: dict[str, object], label: str) -> None:
    figure.add_shape(
        type="line", xref="paper", x0=0, x1=1, yref=panel, y0=value, y1=value, line=line, name=name,
        layer="above" if name == "slo" else "below",
    )  # fmt: skip
    figure.add_annotation(
        xref="paper", x=1, xanchor="left", yref=panel, y=value, yanchor="middle", showarrow=False,
        xshift=3, text=label, font={"size": 11.5, "color": line["color"]},
    )  # fmt: skip


def _lay_out(figure: Any, runs: Sequence[Run], unit_s: float, suffix: str) -> None:
    span_s = max((run.ended_s - run.started_s for run in runs), default=1.0)
    most_nodes = max((run.limits.max_nodes for run in runs), default=1)
    ranges: dict[str, dict[str, object]] = {
        _LOAD: {"rangemode": "tozero"},
        _NODES: {"range": [0, most_nodes * 1.12], "nticks": 5, "tickformat": "d"},
        _BACKLOG: {"rangemode": "tozero"},
        _FRESHNESS: {"range": [0, _highest_freshness_s(runs)]},
    }
    for panel, domain in _DOMAINS.items():
        figure.update_layout({
            f"yaxis{panel[1:]}": {
                "domain": domain, "anchor": "x", "showgrid": True, "gridcolor": GRID, "zeroline": False,
                "nticks": 4, "separatethousands": True, "exponentformat": "none",
                "tickfont": {"size": 11.5}, "fixedrange": True, **ranges[panel],
            }
        })  # fmt: skip
        name, subtitle = _TITLES[panel]
        subtitle = subtitle.format(held="area" if len(runs) == 1 else "dotted")
        figure.add_annotation(
            xref="paper", x=0, xanchor="left", yref="paper", y=domain[1], yanchor="bottom", yshift=5,
            showarrow=False, text=f"<b>{name}</b>  <span style='color:{MUTED}'>{subtitle}</span>",
            font={"size": 13},
        )  # fmt: skip
    figure.update_layout(
        **_base_layout(), height=860, margin={"l": 52, "r": 66, "t": 6, "b": 46},
        hovermode="x unified", hoversubplots="axis",
        legend={
            "orientation": "h", "x": 1, "xanchor": "right", "y": 1.0, "yanchor": "bottom",
            "groupclick": "togglegroup", "traceorder": "grouped", "font": {"size": 13},
            "bgcolor": TRANSPARENT,
        },
        xaxis={
            "anchor": _FRESHNESS, "range": [0, max(span_s / unit_s, 1e-3)], "showgrid": True, "gridcolor": GRID,
            "zeroline": False, "title": {"text": "time since start", "font": {"size": 12, "color": MUTED}},
            "showspikes": True, "spikemode": "across", "spikethickness": 1, "spikedash": "solid",
            "spikecolor": SPIKE, "spikesnap": "cursor", "hoverformat": ",.0f" if unit_s == 1.0 else ",.2f",
            "ticksuffix": suffix, "ticklabelstandoff": 4, "tickfont": {"size": 11.5},
        },
    )  # fmt: skip


def _highest_freshness_s(runs: Sequence[Run]) -> float:
    """High enough for the SLO with its label, and for every violation."""
    highest = [run.slo.freshness_s * 1.2 for run in runs]
    highest += [float(np.max(series.freshness(run).values, initial=0.0)) * 1.05 for run in runs]
    return max(highest, default=1.0)


def _base_layout() -> dict[str, Any]:
    return {
        "template": "none",
        "font": {"family": FONT, "size": 13, "color": INK},
        "paper_bgcolor": TRANSPARENT,
        "plot_bgcolor": TRANSPARENT,
        "hoverlabel": {"font": {"size": 12, "family": FONT}, "align": "left", "namelength": -1},
        "dragmode": "zoom",
    }


def _rounded(values: Any) -> list[float]:
    """Three decimals: half the size, no visible difference."""
    return [float(value) for value in np.round(values, 3)]
