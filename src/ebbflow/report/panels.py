"""Curves in panels over one axis: a small picture language for the pages of the seeds' tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ebbflow.report.figures import COLOURS, FAINT, FONT, LOAD_GREY, MUTED

_PANEL_HEIGHT, _GAP, _MARGIN = 170, 46, 84


@dataclass(frozen=True, kw_only=True)
class Line:
    """One curve. Lines of one name have one colour in all panels, and one entry in the legend."""

    name: str
    points: Sequence[tuple[float | str, float]]
    """Across and up; words across are for bars."""
    steps: bool = False
    dots: bool = False
    """Points without a line."""
    bars: bool = False
    behind: bool = False
    """A grey area: what the others are seen against."""
    dashed: bool = False


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Lines with one unit."""

    title: str
    lines: Sequence[Line]
    whole: bool = False
    """Whether its values are small counts."""


@dataclass(frozen=True, kw_only=True)
class Picture:
    """Panels above each other."""

    title: str
    caption: str
    panels: Sequence[Panel]
    x_title: str = "seconds"


def panels_figure(picture: Picture) -> Any:
    """The picture as a ``plotly.graph_objects.Figure``."""
    import plotly.graph_objects as graph

    figure = graph.Figure()
    count = len(picture.panels)
    height = _MARGIN + count * _PANEL_HEIGHT + (count - 1) * _GAP
    inner = height - _MARGIN
    names = list(
        dict.fromkeys(line.name for panel in picture.panels for line in panel.lines if not line.behind)
    )
    shown: set[str] = set()
    layout: dict[str, Any] = {}
    for index, panel in enumerate(picture.panels):
        number = "" if index == 0 else str(index + 1)
        top = 1.0 - index * (_PANEL_HEIGHT + _GAP) / inner
        bottom = max(0.0, top - _PANEL_HEIGHT / inner)
        for line in panel.lines:
            figure.add_trace(_trace(graph, line, f"y{number}", names, first=line.name not in shown))
            shown.add(line.name)
        layout[f"yaxis{number}"] = {
            "domain": [bottom, top], "anchor": "x", "gridcolor": FAINT, "zeroline": False,
            "rangemode": "tozero", "nticks": 5, **({"dtick": 1} if panel.whole else {}),
        }  # fmt: skip
        figure.add_annotation(
            xref="paper", x=0, xanchor="left", yref="paper", y=top, yanchor="bottom", yshift=3, showarrow=False,
            text=panel.title, font={"size": 12.5, "color": MUTED},
        )  # fmt: skip
    last = "" if count == 1 else str(count)
    figure.update_layout(
        height=height, margin={"l": 56, "r": 16, "t": 44, "b": 40}, font={"family": FONT, "size": 13},
        template="none", paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)", hovermode="x unified",
        legend={"orientation": "h", "x": 1, "xanchor": "right", "y": 1.0, "yanchor": "bottom"},
        xaxis={
            "title": picture.x_title, "gridcolor": FAINT, "zeroline": False, "anchor": f"y{last}", "automargin": True,
        },
        **layout,
    )  # fmt: skip
    return figure


def _trace(graph: Any, line: Line, axis: str, names: Sequence[str], *, first: bool) -> Any:
    points: dict[str, Any] = {
        "x": [x for x, _ in line.points], "y": [y for _, y in line.points], "yaxis": axis, "name": line.name,
        "legendgroup": line.name, "showlegend": first,
    }  # fmt: skip
    if line.bars:
        return graph.Bar(marker={"color": COLOURS[names.index(line.name) % len(COLOURS)]}, **points)
    if line.behind:
        look: dict[str, Any] = {
            "mode": "lines",
            "fill": "tozeroy",
            "fillcolor": LOAD_GREY,
            "line": {"width": 0},
        }
    else:
        colour = COLOURS[names.index(line.name) % len(COLOURS)]
        look = (
            {"mode": "markers", "marker": {"color": colour, "size": 4, "opacity": 0.55}}
            if line.dots
            else {
                "mode": "lines",
                "line": {
                    "color": colour, "width": 1.9, "shape": "hv" if line.steps else "linear",
                    "dash": "dash" if line.dashed else "solid",
                },
            }
        )  # fmt: skip
    return graph.Scatter(**points, **look)
