"""Stacked panels over one x axis: the charts of the paper pages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ebbflow.report.palette import AREA, COLOURS, FONT, GRID, MUTED, TRANSPARENT

_PANEL_HEIGHT, _GAP = 170, 46
_TITLE, _BELOW = 26, 40
"""Height of a panel's title above it, and of the axis below all panels."""
_LEGEND_LINE, _NARROW = 20, 560
"""Height of a legend line, and the narrowest window the legend must fit."""


@dataclass(frozen=True, kw_only=True)
class PanelLine:
    """One curve of a panel. Curves of the same name share a colour in all panels and one legend entry."""

    name: str
    points: Sequence[tuple[float | str, float]]
    """(x, y); x may be text for bars."""
    errors: Sequence[float | None] = ()
    """Half the height of an error bar at each point; empty for none."""
    steps: bool = False
    dots: bool = False
    """Points without a line."""
    bars: bool = False
    behind: bool = False
    """A grey area behind the others."""
    dashed: bool = False


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Curves with one unit."""

    title: str
    lines: Sequence[PanelLine]
    whole: bool = False
    """Whether its values are small integers."""
    most: float | None = None
    """The axis ends here if values go beyond; None shows all."""


@dataclass(frozen=True, kw_only=True)
class Picture:
    """Panels stacked above each other."""

    title: str
    caption: str
    panels: Sequence[Panel]
    x_title: str = "seconds"


def panels_figure(picture: Picture) -> Any:
    """The picture as a ``plotly.graph_objects.Figure``."""
    import plotly.graph_objects as graph

    figure = graph.Figure()
    count = len(picture.panels)
    inner = count * _PANEL_HEIGHT + (count - 1) * _GAP
    lines = [line for panel in picture.panels for line in panel.lines]
    names = list(dict.fromkeys(line.name for line in lines if not line.behind))
    above = _TITLE + _LEGEND_LINE * _legend_lines(list(dict.fromkeys(line.name for line in lines)))
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
            "domain": [bottom, top], "anchor": "x", "gridcolor": GRID, "zeroline": False,
            "rangemode": "tozero", "nticks": 5, **(_whole(panel) if panel.whole else {}), **_cut(panel),
        }  # fmt: skip
        figure.add_annotation(
            xref="paper", x=0, xanchor="left", yref="paper", y=top, yanchor="bottom", yshift=3, showarrow=False,
            text=panel.title, font={"size": 12.5, "color": MUTED},
        )  # fmt: skip
    last = "" if count == 1 else str(count)
    figure.update_layout(
        height=above + inner + _BELOW, margin={"l": 56, "r": 16, "t": above, "b": _BELOW},
        font={"family": FONT, "size": 13},
        template="none", paper_bgcolor=TRANSPARENT, plot_bgcolor=TRANSPARENT, hovermode="x unified",
        # above the title of the first panel; in a narrow window it has several lines
        legend={"orientation": "h", "x": 0, "xanchor": "left", "y": 1.0 + _TITLE / inner, "yanchor": "bottom"},
        xaxis={
            "title": {"text": picture.x_title, "font": {"size": 13}}, "gridcolor": GRID,
            "zeroline": False, "anchor": f"y{last}", "automargin": True,
            "showgrid": not any(line.bars for line in lines),
            "ticks": "outside", "ticklen": 6, "tickcolor": TRANSPARENT,  # keeps a distance to the 0 of the y axis
        },
        **layout,
    )  # fmt: skip
    return figure


def _whole(panel: Panel) -> dict[str, Any]:
    """A grid line for each count, and space above the highest so that its curve is not cut off."""
    most = max((y for line in panel.lines for _, y in line.points), default=1.0)
    return {"dtick": 1, "range": [0.0, most + 0.3]}


def _cut(panel: Panel) -> dict[str, Any]:
    """The end of the axis, if values go beyond it."""
    beyond = panel.most is not None and any(y > panel.most for line in panel.lines for _, y in line.points)
    return {"range": [0.0, panel.most]} if beyond else {}


def _legend_lines(names: Sequence[str]) -> int:
    """Number of legend lines in a narrow window; each entry is as wide as the widest.

    >>> _legend_lines(["load", "joint", "symbiotic"]), _legend_lines(["only-resources (parallelism 4)"] * 5)
    (1, 3)
    """
    entry = 45 + 7 * max(len(name) for name in names)
    return math.ceil(len(names) / max(1, _NARROW // entry))


def _trace(graph: Any, line: PanelLine, axis: str, names: Sequence[str], *, first: bool) -> Any:
    points: dict[str, Any] = {
        "x": [x for x, _ in line.points], "y": [y for _, y in line.points], "yaxis": axis, "name": line.name,
        "legendgroup": line.name, "showlegend": first,
    }  # fmt: skip
    if line.errors:
        points["error_y"] = {"array": list(line.errors), "thickness": 1.2, "width": 2, "color": MUTED}
    if line.bars:
        return graph.Bar(marker={"color": COLOURS[names.index(line.name) % len(COLOURS)]}, **points)
    if line.behind:
        style: dict[str, Any] = {
            "mode": "lines",
            "fill": "tozeroy",
            "fillcolor": AREA,
            "line": {"width": 0},
        }
    else:
        colour = COLOURS[names.index(line.name) % len(COLOURS)]
        style = (
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
    return graph.Scatter(**points, **style)
