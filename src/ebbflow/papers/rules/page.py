"""The page of the rules benchmark: for each case the queue length against the size, like the seed's figures."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ebbflow.report.figures import COLOURS, FAINT, FONT
from ebbflow.report.page_assets import SCRIPT
from ebbflow.report.shell import FOOTER, document, script_json


@dataclass(frozen=True, kw_only=True)
class CasePicture:
    """What the page shows of a case."""

    title: str
    expected: str
    measured: str
    ok: bool
    queues: Mapping[str, Sequence[tuple[float, float]]]
    sizes: Mapping[str, Sequence[tuple[float, int]]]


def write_rules_page(path: Path, cases: Sequence[CasePicture]) -> None:
    """One HTML file that needs nothing else."""
    path.write_text(rules_page(cases), encoding="utf-8")


def rules_page(cases: Sequence[CasePicture]) -> str:
    """The page as HTML text."""
    good = sum(case.ok for case in cases)
    title = f"Rules: {good} of {len(cases)} tests show what they must"
    sections: list[str] = []
    data: dict[str, str] = {}
    for index, case in enumerate(cases):
        mark = "✓" if case.ok else "✗"
        sections.append(
            f"<section><h2>{mark} {html.escape(case.title)}</h2>"
            f"<p>Expected: {html.escape(case.expected)}<br>Measured: {html.escape(case.measured)}</p>"
            f'<div class="chart" data-figure="case-{index}"></div></section>'
        )
        data[f"case-{index}"] = script_json(json.loads(case_figure(case).to_json()))
    listed = [
        {
            "title": case.title,
            "ok": case.ok,
            "expected": case.expected,
            "measured": case.measured,
            "queues": {name: [list(p) for p in points] for name, points in case.queues.items()},
            "sizes": {name: [list(p) for p in points] for name, points in case.sizes.items()},
        }
        for case in cases
    ]
    data["ebbflow-data"] = script_json(listed)
    kept = "kept" if good == len(cases) else "missed"
    header = (
        f'<header><p class="eyebrow">Ebbflow: the six tests of the Rules seed</p>'
        f'<h1 class="{kept}"><i class="mark"></i>{html.escape(title)}</h1></header>'
    )
    return document(title=title, body="\n".join((header, *sections, FOOTER)), data=data, script=SCRIPT)


def case_figure(case: CasePicture) -> Any:
    """Queue length (left) and size (right, as steps) over time; one colour for each operator."""
    import plotly.graph_objects as graph

    figure = graph.Figure()
    several = len(case.sizes) > 1
    for index, name in enumerate(case.sizes):
        colour = COLOURS[index % len(COLOURS)]
        of = f" of {name}" if several else ""
        queue, size = case.queues.get(name, ()), case.sizes[name]
        figure.add_trace(
            graph.Scatter(
                x=[round(t, 1) for t, _ in queue], y=[round(v, 1) for _, v in queue], mode="lines",
                name=f"queue length{of}", line={"color": colour, "width": 1.8},
                hovertemplate="%{x} s: %{y} rows<extra></extra>",
            )
        )  # fmt: skip
        figure.add_trace(
            graph.Scatter(
                x=[round(t, 1) for t, _ in size], y=[n for _, n in size], mode="lines", yaxis="y2",
                name=f"size{of}", line={"color": colour, "width": 2.2, "shape": "hv", "dash": "dot"},
                hovertemplate="%{x} s: %{y} instances<extra></extra>",
            )
        )  # fmt: skip
    most = max((n for points in case.sizes.values() for _, n in points), default=1)
    figure.update_layout(
        height=320, margin={"l": 56, "r": 48, "t": 12, "b": 40}, font={"family": FONT, "size": 13},
        paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)", hovermode="x unified",
        legend={"orientation": "h", "y": 1.12},
        xaxis={"title": "seconds", "gridcolor": FAINT, "zeroline": False},
        yaxis={"title": "rows queued", "gridcolor": FAINT, "rangemode": "tozero", "zeroline": False},
        yaxis2={
            "title": "instances", "overlaying": "y", "side": "right", "range": [0, most + 1], "dtick": 1,
            "showgrid": False, "zeroline": False,
        },
    )  # fmt: skip
    return figure
